"""Every error that a user can meet, each with the exit code it causes."""

from collections.abc import Iterable
from enum import IntEnum

_LONGEST_NAME = 200


class ExitCode(IntEnum):
    """What the process answers; when several apply, `worst` decides."""

    OK = 0
    FAILED = 1
    USAGE = 2
    CONTENT = 3
    BACKEND = 4
    EMPTY = 5
    BUG = 70
    UNWRITABLE = 74
    INTERRUPTED = 130

    @classmethod
    def worst(cls, codes: Iterable["ExitCode"]) -> "ExitCode":
        """The one that is reported when several apply (70, 74, 4, 3, 1, 5, then 0)."""
        present = set(codes)
        order = (cls.BUG, cls.UNWRITABLE, cls.BACKEND, cls.CONTENT, cls.FAILED, cls.EMPTY)
        return next((code for code in order if code in present), cls.OK)


class HarnessError(Exception):
    """An error told to the user in one clear message; the base of all others."""

    exit_code: ExitCode = ExitCode.BUG


class HarnessWarning(UserWarning):
    """Something that a user should know, and that stops nothing."""


class UsageError(HarnessError):
    """The command line asks for something that cannot be."""

    exit_code = ExitCode.USAGE


class UnknownNameError(UsageError):
    """A name given by the user is not registered."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        super().__init__(f"Unknown {kind} {name!r}.{suggestion(name, known)}")


class ContentError(HarnessError):
    """A case, a declaration or the lock file is broken; says where."""

    exit_code = ExitCode.CONTENT


class OperatorError(ContentError):
    """The code of an operator is wrong: file, line, what to do."""


class CaseFileError(ContentError):
    """A stored case cannot be read as what it claims to be."""


class UndefinedCallError(CaseFileError):
    """The operator does not define the call of a case, so that no backend can be held to it; `why` says what lacks."""

    def __init__(self, case: str, operator: str, why: str) -> None:
        super().__init__(
            f"{case}: the case is broken, no backend can be held to it: {why}; {operator} does not define that. "
            "Correct the case."
        )
        self.why = why


class DeclarationError(ContentError):
    """A declaration in cases/*.yaml is wrong: file, line, what is allowed."""


class BackendError(HarnessError):
    """The backend cannot be used at all: missing file or symbol, failing import."""

    exit_code = ExitCode.BACKEND


class UnwritableError(HarnessError):
    """Something could not be written: the disk is full, a limit is reached, the folder is gone; says what and why."""

    exit_code = ExitCode.UNWRITABLE

    @staticmethod
    def of(what: object, error: OSError, advice: str = "") -> "UnwritableError":
        """The sentence for what the system refused, and what to do about it."""
        return UnwritableError(f"{what}: cannot be written: {error.strerror or error}.{advice and f' {advice}'}")


class NothingSelectedError(HarnessError):
    """The selection matches no case."""

    exit_code = ExitCode.EMPTY


def repr_short(value: object, most: int = 120) -> str:
    """A value as it is written in Python, cut where a message would drown in it."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python is willing to print
        return f"a value of type {type(value).__name__} that is too long to be shown"
    return text if len(text) <= most else f"{text[:most]}…"


def suggestion(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'? Known: x, y.` for a name that is not among the known ones."""
    import difflib  # late: only a mistyped word pays for it

    names = sorted(known)
    # No name is that long, and comparing a long text with each takes its time.
    close = difflib.get_close_matches(name[:_LONGEST_NAME], names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{hint} Known: {', '.join(names) or 'none'}."
