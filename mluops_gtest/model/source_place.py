"""Where a function of an operator is written, for messages to its author."""

import functools
import inspect


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
