"""A short name for a mistake: the same bug on the same case gives the same one, although values vary.

It names no case, so that one bug seen by many cases groups them. Bump the version when the meaning changes: waivers
and baselines hold fingerprints.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from mluops_gtest.model.result import CaseResult, Outcome

VERSION: Final = "v1"
_LENGTH: Final = 12
# Upper ends of the classes of the unequal share, with room around the shares that simple mistakes give (half, all).
_SHARES: Final = ((0.01, "few"), (0.3, "some"), (0.7, "half"), (0.95, "many"), (1.0, "all"))
_PARTS: Final = 4

_SIGNAL: Final = re.compile(r"\bSIG[A-Z][A-Z0-9]+\b")
_EXIT_CODE: Final = re.compile(r"\bcode (\d+)")
_EXCEPTION: Final = re.compile(r"([A-Za-z_]\w*): ")
# A path or a case id, and a number in any base: these vary from machine to machine and from run to run.
_VARYING: Final = re.compile(r"\S*/\S*|\b0x[0-9a-f]+\b|[-−+]?\b\d[\d.e+-]*\b", re.IGNORECASE)


def place_mark(what: str, unequal: int, compared: int, first: int, last: int) -> str:
    """Words for where an output is wrong: the share and the ends of the wrong stretch, in coarse classes."""
    return f"{what}, {_share(unequal, compared)} from {_part(first, compared)} to {_part(last, compared)}"


def fingerprinted(result: CaseResult, marks: Iterable[str] = ()) -> CaseResult:
    """The result with its fingerprint: of its marks, else of the stable part of its reason; none where it is fine."""
    if not result.outcome.blocks or result.fingerprint:
        return result
    words = [result.outcome.value, _name(result.status), _name(result.expected_status)]
    words += sorted(marks) or [_stable(result)]
    return replace(result, fingerprint=fingerprint(words))


def fingerprint(words: Iterable[str]) -> str:
    """The version and a short hash of the words."""
    digest = hashlib.sha256("\n".join(words).encode(errors="backslashreplace")).hexdigest()
    return f"{VERSION}:{digest[:_LENGTH]}"


def _name(status: object) -> str:
    return getattr(status, "name", "")


def _share(unequal: int, compared: int) -> str:
    if unequal == 1:
        return "one"
    share = unequal / compared
    return next(word for end, word in _SHARES if share <= end)


def _part(index: int, compared: int) -> str:
    """The very ends by name, since off-by-one mistakes live there; else the quarter."""
    if index == 0:
        return "start"
    if index == compared - 1:
        return "end"
    return f"part {index * _PARTS // compared}"


def _stable(result: CaseResult) -> str:
    """What stays the same of a reason when the same thing happens again."""
    match result.outcome:
        case Outcome.TIMED_OUT | Outcome.NOT_RUN:
            return ""
        case Outcome.WRONG_STATUS if result.status != result.expected_status:
            return ""  # the two statuses say it all
        case Outcome.CRASHED | Outcome.ERROR if not result.content_error:
            return _ending(result.reason)
    return _VARYING.sub("#", result.reason)


def _ending(reason: str) -> str:
    """How a call ended: the signal, the exit code, the exception's type; else the words without what varies."""
    if signal := _SIGNAL.search(reason):
        return signal[0]
    if exception := _EXCEPTION.match(reason):
        return exception[1]
    if code := _EXIT_CODE.search(reason):
        return f"exit code {code[1]}"
    return _VARYING.sub("#", reason)
