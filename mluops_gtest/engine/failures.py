"""Cases that got no verdict: what could not be loaded, what the machine does not give, what is a bug of ours."""

import errno
import traceback
from dataclasses import replace

from mluops_gtest.engine.fingerprint import fingerprinted
from mluops_gtest.errors import ContentError, UnwritableError
from mluops_gtest.model.result import CaseResult, Outcome

_SHORTAGES = (errno.ENOMEM, errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EAGAIN)


def not_loaded(case: str, operator: str, tags: tuple[str, ...], error: Exception) -> CaseResult:
    """Whatever goes wrong while a case is loaded costs that case alone."""
    blank = CaseResult(case, operator, tags, Outcome.ERROR, content_error=True)
    match error:
        case ContentError():
            result = replace(blank, reason=str(error))
        case UnwritableError():
            result = replace(blank, reason=str(error), content_error=False)
        case OSError():
            result = replace(blank, reason=f"{case}: cannot be read: {error.strerror or error}.")
        case MemoryError():
            result = replace(blank, reason=f"{case}: does not fit into memory.")
        case _:
            result = not_judged(replace(blank, content_error=False), error)
    return fingerprinted(result)


def not_judged(blank: CaseResult, error: BaseException) -> CaseResult:
    """Neither the case's doing nor the backend's: the system lacks something, or the harness is wrong."""
    reason, trace = told(error)
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _SHORTAGES):
        # Tensors in shared memory count as files, so that a limit on file sizes is met here as well.
        reason = f"this machine does not give the case what it needs: {reason}"
        return replace(blank, outcome=Outcome.ERROR, reason=reason)
    notes = (*blank.notes, trace)
    return replace(blank, outcome=Outcome.ERROR, reason=f"a bug of mluops-test: {reason}", notes=notes, bug=True)


def told(error: BaseException) -> tuple[str, str]:
    """The error in one line, and its traceback."""
    return f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)).rstrip()
