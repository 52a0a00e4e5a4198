"""Results in words for any file format, and text from outside between the marks of rich."""

import re

from mluops_gtest.base.text import strip_controls, strip_to_line
from mluops_gtest.core.result import CaseResult, format_worst

# As rich reads it: what looks like a tag, with the backslashes before it.
_TAG = re.compile(r"(\\*)(\[[a-z#/@][^[]*?])")
_AT_END = re.compile(r"\\$")


def escape(text: str) -> str:
    """The text as it is, on one line: never a tag, never an end of one of ours, no control character."""
    return _escaped(strip_to_line(text))


def escape_lines(text: str) -> list[str]:
    """The same line by line."""
    return [_escaped(line) for line in strip_controls(text).splitlines()]


def _escaped(text: str) -> str:
    # A backslash at the end would take the bracket that follows for itself.
    return _AT_END.sub(r"\\x5c", _TAG.sub(r"\1\1\\\2", text))


def details(result: CaseResult) -> str:
    """All that is known of a result that did not pass, one thing a line."""
    lines = [result.reason] if result.reason else []
    if result.status is not result.expected_status:
        named = [status.name if status is not None else "none" for status in (result.status, result.expected_status)]
        lines.append("status {}, expected {}".format(*named))
    if result.worst is not None:
        lines.append(format_worst(result))
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
    return strip_controls("\n".join(lines))
