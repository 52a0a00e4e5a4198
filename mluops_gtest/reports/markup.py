"""Text from outside among rich's markup."""

import re

from mluops_gtest.model.plain_text import plain, plain_line

# As rich reads it: what looks like a tag, with the backslashes before it.
_TAG = re.compile(r"(\\*)(\[[a-z#/@][^[]*?])")
_AT_END = re.compile(r"\\$")


def escape(text: str) -> str:
    """The text as it is, on one line: never a tag, never an end of one of ours, no control character."""
    return _escaped(plain_line(text))


def escape_lines(text: str) -> list[str]:
    """The same line by line."""
    return [_escaped(line) for line in plain(text).splitlines()]


def _escaped(text: str) -> str:
    # A backslash at the end would take the bracket that follows for itself.
    return _AT_END.sub(r"\\x5c", _TAG.sub(r"\1\1\\\2", text))
