"""Where an operator's code is written, for messages to its author."""

import functools
import inspect
import traceback
from pathlib import Path


def source_of(function: object) -> str:
    """`file:line` of a function, method, partial or callable object; its repr where Python does not know."""
    while isinstance(function, functools.partial):
        function = function.func
    plain = inspect.unwrap(function) if callable(function) else function
    # A method passes on what its function is asked for; an object is called by its class.
    for one in (plain, vars(type(plain)).get("__call__")):
        code = getattr(one, "__code__", None)
        if code is not None:
            return f"{code.co_filename}:{code.co_firstlineno}"
    return repr(function)


def raised_at(error: BaseException, folder: Path) -> str | None:
    """`file:line` of the innermost call in a file of that folder; None where there is none."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename is not None:
        frames.append((error.filename, error.lineno or 1))
    return next((f"{file}:{line}" for file, line in reversed(frames) if Path(file).parent == folder), None)


def raised_by(error: BaseException, function: object) -> str:
    """What a function of an operator raised, with the place in the operator's files."""
    own = source_of(function)
    place = raised_at(error, Path(own).parent) or own
    return "; ".join([f"{type(error).__name__}: {error} ({place})", *getattr(error, "__notes__", ())])
