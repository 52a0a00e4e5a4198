"""A short name for a mistake: the same bug on the same case gives the same one, although values vary.

It names no case, so that one bug seen by many cases groups them. Bump the version when the meaning changes: waivers
and baselines hold fingerprints. The words here are hashed and never shown; they stay as they are whatever causes say.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from mluops_gtest.core import cause as c
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult

VERSION: Final = "v1"
_LENGTH: Final = 12
# Upper ends of the classes of the unequal share, with room around the shares that simple mistakes give (half, all).
_SHARES: Final = ((0.01, "few"), (0.3, "some"), (0.7, "half"), (0.95, "many"), (1.0, "all"))
_PARTS: Final = 4

# In text from outside: what names an ending.
_SIGNAL: Final = re.compile(r"\bSIG[A-Z][A-Z0-9]+\b")
_EXIT_CODE: Final = re.compile(r"\bcode (\d+)")
_EXCEPTION: Final = re.compile(r"([A-Za-z_]\w*): ")
# A path or a case id, and a number in any base: these vary from machine to machine and from run to run.
_VARYING: Final = re.compile(r"\S*/\S*|\b0x[0-9a-f]+\b|[-−+]?\b\d[\d.e+-]*\b", re.IGNORECASE)


def with_fingerprint(result: CaseResult) -> CaseResult:
    """The result with its fingerprint, made of its outcome, statuses and causes; none where it is fine."""
    if not result.outcome.blocks or result.fingerprint:
        return result
    marks = sorted(mark for cause in result.causes for mark in _marks(cause))
    words = [result.outcome.value, _name(result.status), _name(result.expected_status), *(marks or [_stable(result)])]
    return replace(result, fingerprint=fingerprint(words))


def fingerprint(words: Iterable[str]) -> str:
    """The version and a short hash of the words."""
    digest = hashlib.sha256("\n".join(words).encode(errors="backslashreplace")).hexdigest()
    return f"{VERSION}:{digest[:_LENGTH]}"


def _name(status: object) -> str:
    return getattr(status, "name", "")


def _marks(cause: c.Cause) -> list[str]:
    """What is wrong with a value, and where in coarse classes; empty for a cause of another kind."""
    match cause:
        case c.ScalarMissing(output=output):
            return [f"{output} missing"]
        case c.ScalarWrong(output=output):
            return [f"{output} wrong"]
        case c.WrittenAnyway(output=output, places=places):
            return [place_mark(f"{output} written", places)]
        case c.Unwritten(output=output, places=places):
            return [place_mark(f"{output} unwritten", places)]
        case c.PreservedChanged(output=output, places=places):
            return [place_mark(f"{output} kept", places)]
        case c.NonFinite(output=output, criteria=names, differing=places):
            return [f"{output} nonfinite", place_mark(f"{output} {'+'.join(names)}", places)]
        case c.Exceeded(finite_only=True):
            return []  # the NonFinite before it has the places
        case c.Exceeded(output=output, criteria=exceeded, differing=places):
            return [place_mark(f"{output} {'+'.join(one.criterion for one in exceeded)}", places)]
        case c.BitsUnequal(output=output):
            return [f"{output} bits"]
        case c.BeyondBound(output=output, places=places):
            return [place_mark(f"{output} beyond its bound", places)]
    return []


def place_mark(what: str, places: c.Places) -> str:
    """Words for where an output is wrong: the share and the ends of the wrong stretch, in coarse classes."""
    if places.first is None or places.last is None:
        return what
    first, last = (_part(place, places.size) for place in (places.first, places.last))
    return f"{what}, {_share(places.count, places.size)} from {first} to {last}"


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
    """What stays the same of all other causes when the same thing happens again."""
    if result.outcome in (Outcome.TIMED_OUT, Outcome.NOT_RUN):
        return ""
    if result.outcome is Outcome.WRONG_STATUS and result.status != result.expected_status:
        return ""  # the two statuses say it all
    if result.outcome in (Outcome.CRASHED, Outcome.ERROR) and not result.content_error:
        return "; ".join(map(_ending, result.causes))
    return _VARYING.sub("#", "; ".join(map(_shape, result.causes)))


def _ending(cause: c.Cause) -> str:
    """How a call ended: the signal, the exit code, the exception's type; else what does not vary."""
    match cause:
        case c.Killed(signal=name) | c.Fault(signal=name) | c.ProgramDied(signal=name) if name:
            return name
        case c.Exited(code=code):
            return f"exit code {code}"
    text = _shape(cause)
    if signal := _SIGNAL.search(text):
        return signal[0]
    if exception := _EXCEPTION.match(text):
        return exception[1]
    if exit_code := _EXIT_CODE.search(text):
        return f"exit code {exit_code[1]}"
    return _VARYING.sub("#", text)


def _shape(cause: c.Cause) -> str:
    """A cause without its figures, in the words that its kind is hashed by."""
    kind = str(cause.__struct_config__.tag)
    words = _HASHED_WORDS.get(kind, kind.title().replace("_", ""))
    return words.format(cause) if isinstance(words, str) else words(cause)


def _overrun(cause: c.Overrun) -> str:
    if cause.side == "behind":
        return f"wrote past the end of {cause.buffer}, first at byte # behind it"
    return f"wrote before the start of {cause.buffer}, first at byte # in front of it"


def _file_size(cause: c.FileSize) -> str:
    content = "was not written (# bytes)" if cause.bytes is None else "holds # bytes"
    return f"{cause.file} {content}; the buffer of {cause.output} has #"


def _disturbed(cause: c.Disturbed) -> str:
    late = "the worker did not answer as agreed: it answered an earlier request once more"
    return f"{late if cause.by == 'late answer' else 'the fork server was lost'} three times while this case ran"


# Kind → what of it is hashed. Never edited: a cause may be reworded and renamed, its fingerprint stays. A kind without
# a row is hashed by its name, so that a new one needs none.
_HASHED_WORDS: Final[dict[str, str | Callable[[Any], str]]] = {
    "content_error": "{0.text}",
    "unreadable": "{0.case}: cannot be read: {0.text}.",
    "too_large": "{0.case}: does not fit into memory.",
    "unwritable": "{0.text}",
    "shortage": "this machine does not give the case what it needs: {0.exception}: {0.text}",
    "bug": "a bug of mluops-test: {0.exception}: {0.text}",
    "disturbed": _disturbed,
    "no_room": "no worker has room for the tensors of this case under the limits of this system",
    "raised": "{0.exception}: {0.text}",
    "supports_raised": "supports({0.operator!r}) raised {0.exception}: {0.text}",
    "bad_answer": "{0.text}",
    "protocol_broken": "the worker did not answer as agreed: {0.text}",
    "killed": "killed by signal #",
    "overrun": _overrun,
    "input_changed": "changed the input {0.input} (element #)",
    "host_array_changed": "changed the host array {0.array}",
    "page_written": "wrote to {0.tensor}, which is a descriptor without data",
    "file_size": _file_size,
    "query_status": "{0.function} answered {0.answered}, expected {0.expected}",
    "refusals": lambda cause: "; ".join(cause.texts),
    "not_reproducible": lambda cause: f"not reproducible: run # differs from run # in {', '.join(cause.outputs)}",
    "still_written": "the call returned while something still wrote to {0.output}",
    "no_criterion": "{0.output} has no criterion for {0.dtype}",
    "not_judged": "{0.output} was compared, but no criterion could be judged on it",
    "constant_baseline": "the baseline of {0.output} is constant, so agreement proves nothing",
    "compared_with_itself": "the reference was compared with itself (device CPU: no stored baseline)",
    "nothing_compared": "nothing was compared",
    "told": "{0.text}",
}
