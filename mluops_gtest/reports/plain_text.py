"""Text of backends and case files made fit for any file format."""

import re

from mluops_gtest.model.result import CaseResult

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
# What XML 1.0 has no way to write, and lone surrogates, which UTF-8 has none for. Carriage returns would come back
# as line ends.
_UNWRITABLE = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def plain(text: str) -> str:
    """The text without colours, control characters and what is no character at all."""
    return _UNWRITABLE.sub("", _ANSI.sub("", text.replace("\r\n", "\n")))


def details(result: CaseResult) -> str:
    """All that is known of a result that did not pass, one thing a line."""
    lines = [result.reason] if result.reason else []
    if result.status is not result.expected_status:
        named = [status.name if status is not None else "none" for status in (result.status, result.expected_status)]
        lines.append("status {}, expected {}".format(*named))
    if result.worst is not None:
        lines.append(worst_element(result))
    lines += [
        f"{r.output}: {r.criterion} = {r.value:.6g}, threshold {r.threshold:g}" for r in result.readings if not r.within
    ]
    lines += [f"attempt {number}: {a.outcome.value} {a.reason}".rstrip() for number, a in enumerate(result.attempts, 1)]
    lines += result.notes
    if result.fingerprint:
        lines.append(f"fingerprint: {result.fingerprint}")
    if result.repro:
        lines.append(f"repro: {result.repro}")
    return plain("\n".join(lines))


def worst_element(result: CaseResult) -> str:
    """Where the output is furthest from its baseline; empty where nothing was compared."""
    worst = result.worst
    if worst is None:
        return ""
    index = ", ".join(map(str, worst.index))
    ulp = "" if worst.max_ulp is None else f", at most {worst.max_ulp} ulp apart"
    return (
        f"{worst.output}[{index}] = {worst.evaluated}, expected {worst.baseline} "
        f"({worst.unequal} of {worst.compared} elements differ{ulp})"
    )
