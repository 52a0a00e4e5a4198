"""Text that comes from outside (a backend, a file, a name), made fit to be shown: it cannot steer what shows it."""

import re
from typing import Any

# Colours, which say nothing here.
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
# Controls of both kinds, marks without a width, direction marks and overrides, separators that break lines, lone
# halves of a pair, and what XML has no way to write. Line feeds and tabs stay.
_UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def plain(text: str) -> str:
    """The text without colours; whatever else would not show as itself stands as an escape, \\x1b or \\u202e.

    Applied to JSON it changes only how characters are written, never what they are.
    """
    # Nearly all text, and long listings above all.
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    if text.isascii() and text.isprintable():
        return text
    return _UNFIT.sub(_escaped, _COLOURS.sub("", text.replace("\r\n", "\n")))


def is_plain(text: str) -> bool:
    """`plain` would change nothing."""
    return "\r\n" not in text and not _UNFIT.search(text)


def plain_line(text: str) -> str:
    """The same on one line, so that nothing in it passes for a line of ours or for a command of a CI system."""
    if text.isascii() and text.isprintable():
        return text
    return " ".join(plain(text).split("\n"))


def plain_values(value: Any) -> Any:
    """Every text in a record of lists and dicts."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {plain_values(key): plain_values(item) for key, item in value.items()}
    return [plain_values(item) for item in value] if isinstance(value, list | tuple) else value


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return f"\\x{code:02x}"
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
