"""Every cause in English."""

from typing import Final

from mluops_gtest.core import cause as c
from mluops_gtest.core.outcome import SIZELESS
from mluops_gtest.core.reasons.notation import Words


def share_words(beyond: int | None, unequal: int, bits_unequal: int | None, compared: int, *, equality: bool) -> str:
    """`12 of 640 elements beyond tolerance (640 unequal in their bits)`, or how many are unequal where that is asked.

    `beyond` is None where nobody counted: in outputs within their criteria, and in results of earlier versions.
    """
    if equality or beyond is None:
        more = bits_unequal is not None and bits_unequal > unequal
        return f"{unequal} of {compared} elements unequal" + (f" ({bits_unequal} in their bits)" if more else "")
    bits = unequal if bits_unequal is None else bits_unequal
    return f"{beyond} of {compared} elements beyond tolerance ({bits} unequal in their bits)"


def _under_stress(cause: c.UnderStress) -> str:
    count = f"{cause.outcome.words['en']} in {cause.failed} of {cause.repetitions} repetitions"
    return f"{count}, first with OMP_NUM_THREADS={cause.threads}"


def _device_lost(cause: c.DeviceLost) -> str:
    device = "" if cause.device is None else f" on device {cause.device}"
    return f"backend {cause.backend}{device} failed its health check three times in a row: {cause.text}"


def _baseline_wrong(cause: c.BaselineWrong) -> str:
    whose = "the reference is wrong" if cause.ours else "the baseline in the file is wrong"
    place = f"{cause.output}{list(cause.index)}" if cause.index else cause.output
    share = f"{cause.elements} of {cause.examined} disputed elements"
    return f"{whose}: {place} is exactly {cause.exact}, and the baseline says {cause.baseline} ({share})"


def _disturbed(cause: c.Disturbed) -> str:
    return f"{DISTURBANCES[cause.by]} three times while this case ran"


def _killed(cause: c.Killed) -> str:
    return f"killed by {cause.signal or f'signal {cause.number}'}"


def _fault(cause: c.Fault) -> str:
    if not cause.address:
        return (
            f"{cause.signal} without an address: a wild pointer, or an instruction that needs alignment; those "
            "fault here too, where a buffer is aligned to its element only"
        )
    return f"{cause.signal}, {cause.access} {_FAULT_PLACES[cause.place].format(cause, s='s' * (cause.distance != 1))}"


def _file_size(cause: c.FileSize) -> str:
    found = "was not written (0 bytes)" if cause.bytes is None else f"holds {cause.bytes} bytes"
    return f"{cause.file} {found}; the buffer of {cause.output} has {cause.wanted}"


def _overrun(cause: c.Overrun) -> str:
    where = "past the end" if cause.side == "behind" else "before the start"
    end = "behind it" if cause.side == "behind" else "in front of it"
    return f"wrote {where} of {cause.buffer}, first at byte {cause.distance} {end}"


def _wrong_status(cause: c.WrongStatus) -> str:
    remarks = f" ({cause.remarks})" if cause.remarks else ""
    check = f" (check {cause.check}: {cause.message})" if cause.check else ""
    return f"answered {cause.answered}{remarks}, expected {cause.expected}{check}"


def _unwritten(cause: c.Unwritten) -> str:
    places = cause.places
    counts = f"{places.count} of {places.size} elements were never written"
    return f"{cause.output}: {counts}, first at {list(cause.index)}"


def _non_finite(cause: c.NonFinite) -> str:
    elements = f"{_elements(cause.elements)} differ{'s' * (cause.elements == 1)}"
    return f"{cause.output}: {elements} in being NaN or infinite, first at flat index {cause.first}"


def _exceeded(cause: c.Exceeded) -> str:
    figures = ", ".join(
        f"{one.criterion} = {one.value:.6g}{' (one-sided)' if one.criterion == SIZELESS else f' > {one.threshold:g}'}"
        for one in cause.criteria
    )
    where = " over the finite elements" if cause.finite_only else ""
    differing = cause.differing
    share = share_words(cause.beyond, differing.count, cause.bits_unequal, differing.size, equality=cause.equality)
    return f"{cause.output}: {figures}{where}; {share}"


def _written_anyway(cause: c.WrittenAnyway) -> str:
    found = f"{_elements(cause.places.count)}, first at {cause.places.first}"
    return f"{cause.output} was written ({found}) although the call answers {cause.status} ({cause.check})"


def _bits_unequal(cause: c.BitsUnequal) -> str:
    are = "is" if cause.elements == 1 else "are"
    return f"{cause.output}: {_elements(cause.elements)} {are} equal but not bit for bit (−0, NaN payloads)"


def _elements(count: int) -> str:
    return f"{count} element{'s' * (count != 1)}"


def _beyond_bound(cause: c.BeyondBound) -> str:
    are = "is" if cause.places.count == 1 else "are"
    which = f"{_elements(cause.places.count)} {are}"
    return f"{cause.output}: {which} further off than any order of {cause.precision} operations explains"


def _not_reproducible(cause: c.NotReproducible) -> str:
    return f"not reproducible: run {cause.run} differs from run 1 in {', '.join(cause.outputs)}"


DISTURBANCES: Final = {
    "late answer": "the worker did not answer as agreed: it answered an earlier request once more",
    "fork server": "the fork server was lost",
}
_FAULT_PLACES: Final = {
    "inside": "byte {0.distance} of {0.buffer}",
    "behind": "{0.distance} byte{s} past the end of {0.buffer}",
    "in front": "{0.distance} byte{s} before the start of {0.buffer}",
    "null": "at address {0.address}, a null pointer",
    "far": "at address {0.address}, far from every buffer",
}
# What has no text stands as a pattern of its fields.
WORDS: Final[Words] = {
    c.PassedAtTry: "passed at try {0.tries} after {0.after.value}",
    c.AfterTimedCalls: "after {0.calls} timed calls",
    c.UnderStress: _under_stress,
    c.OnlyAfter: "only after {0.case}, not alone",
    c.UnknownOperator: "operator {0.operator!r} is not supported",
    c.Unsupported: "backend {0.backend} does not support {0.operator}",
    c.Declined: "declined: {0.text}",
    c.UndefinedCall: "{0.operator} does not define this call: {0.text}",
    c.Interrupted: "interrupted",
    c.StoppedAtFailure: "stopped at the first failure",
    c.DeviceLost: _device_lost,
    c.RunLost: "the run cannot go on: {0.text}",
    c.WorkerLost: "the worker was lost {0.times} times while it ran this case, last on {0.host}",
    c.ContentError: "{0.text}",
    c.BaselineWrong: _baseline_wrong,
    c.Unreadable: "{0.case}: cannot be read: {0.text}.",
    c.TooLarge: "{0.case}: does not fit into memory.",
    c.Unwritable: "{0.text}",
    c.Shortage: "this machine does not give the case what it needs: {0.exception}: {0.text}",
    c.Bug: "a bug of mluops-test: {0.exception}: {0.text}",
    c.Disturbed: _disturbed,
    c.NoRoom: "no worker can hold the tensors of this case under the limits of this system",
    c.Raised: "{0.exception}: {0.text}",
    c.SupportsRaised: "supports({0.operator!r}) raised {0.exception}: {0.text}",
    c.BadAnswer: "{0.text}",
    c.ProtocolBroken: "the worker did not answer as agreed: {0.text}",
    c.StillWritten: "the call returned while something still wrote to {0.output}",
    c.TimedOut: "no answer within {0.seconds:g} s; the worker and all it started were killed",
    c.Exited: "the process exited with code {0.code}",
    c.Killed: _killed,
    c.Fault: _fault,
    c.ProgramDied: "{0.program} died by {0.signal}{0.printed}",
    c.Overrun: _overrun,
    c.InputChanged: "changed the input {0.input} (element {0.element})",
    c.HostArrayChanged: "changed the host array {0.array}",
    c.PageWritten: "wrote to {0.tensor}, which is a descriptor without data",
    c.FileSize: _file_size,
    c.Leak: lambda cause: f"leaks {cause.bytes / 1e6:.1f} MB per call ({cause.calls} calls in a fresh worker)",
    c.WrongStatus: _wrong_status,
    c.QueryStatus: lambda cause: f"{cause.function} {_wrong_status(cause)}",
    c.Refusals: lambda cause: "; ".join(cause.texts),
    c.WrittenAnyway: _written_anyway,
    c.ScalarMissing: "{0.output} was not reported; expected {0.expected}",
    c.ScalarWrong: "{0.output} is {0.got}, expected {0.expected}",
    c.Unwritten: _unwritten,
    c.NonFinite: _non_finite,
    c.Exceeded: _exceeded,
    c.BitsUnequal: _bits_unequal,
    c.BeyondBound: _beyond_bound,
    c.NotReproducible: _not_reproducible,
    c.NoCriterion: "{0.output} has no criterion for {0.dtype}",
    c.NotJudged: "{0.output} was compared, but no criterion could be judged on it",
    c.ConstantBaseline: "the baseline of {0.output} is constant, so agreement proves nothing",
    c.ComparedWithItself: "the reference was compared with itself (device CPU: no stored baseline)",
    c.NothingCompared: "nothing was compared",
    c.Told: "{0.text}",
}
