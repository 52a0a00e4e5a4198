"""A result that did not pass, in words that fit any file format."""

from mluops_gtest.model.plain_text import plain
from mluops_gtest.model.result import CaseResult, worst_words


def details(result: CaseResult) -> str:
    """All that is known of a result that did not pass, one thing a line."""
    lines = [result.reason] if result.reason else []
    if result.status is not result.expected_status:
        named = [status.name if status is not None else "none" for status in (result.status, result.expected_status)]
        lines.append("status {}, expected {}".format(*named))
    if result.worst is not None:
        lines.append(worst_words(result))
    lines += [
        f"{r.output}: {r.criterion} = {r.value:.6g}, threshold {r.threshold:g}" for r in result.readings if not r.within
    ]
    lines += [f"attempt {number}: {a.outcome.value} {a.reason}".rstrip() for number, a in enumerate(result.attempts, 1)]
    lines += result.notes
    if result.fingerprint:
        lines.append(f"fingerprint: {result.fingerprint}")
    if result.repro:
        lines.append(f"repro: {result.repro}")
    if result.debug:
        lines.append(f"debug: {result.debug}")
    return plain("\n".join(lines))
