"""Cases that got no verdict: what could not be loaded, what the machine does not give, what is a bug of ours."""

import errno
import traceback

from msgspec.structs import replace

from mluops_gtest.engine.fingerprint import fingerprinted
from mluops_gtest.errors import ContentError, UnwritableError
from mluops_gtest.model import cause
from mluops_gtest.model.result import CaseResult, Outcome

_SHORTAGES = (errno.ENOMEM, errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EAGAIN)


def not_loaded(case: str, operator: str, tags: tuple[str, ...], error: Exception) -> CaseResult:
    """Whatever goes wrong while a case is loaded costs that case alone."""
    blank = CaseResult(case, operator, tags, Outcome.ERROR, content_error=True)
    match error:
        case ContentError():
            result = replace(blank, causes=(cause.ContentError(str(error)),))
        case UnwritableError():
            result = replace(blank, causes=(cause.Unwritable(str(error)),), content_error=False)
        case OSError():
            result = replace(blank, causes=(cause.Unreadable(case, str(error.strerror or error)),))
        case MemoryError():
            result = replace(blank, causes=(cause.TooLarge(case),))
        case _:
            result = not_judged(replace(blank, content_error=False), error)
    return fingerprinted(result)


def not_judged(blank: CaseResult, error: BaseException) -> CaseResult:
    """Neither the case's doing nor the backend's: the system lacks something, or the harness is wrong."""
    name, text = type(error).__name__, str(error)
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _SHORTAGES):
        # Tensors in shared memory count as files, so that a limit on file sizes is met here as well.
        return replace(blank, outcome=Outcome.ERROR, causes=(cause.Shortage(name, text),))
    notes = (*blank.notes, traceback_of(error))
    return replace(blank, outcome=Outcome.ERROR, causes=(cause.Bug(name, text),), notes=notes, bug=True)


def traceback_of(error: BaseException) -> str:
    """The error's traceback in text."""
    return "".join(traceback.format_exception(error)).rstrip()
