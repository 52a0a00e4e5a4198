"""What a text case is made of between its values: gaps, comments, quoted strings.

No pattern here or in the readers can match one text in two ways, and none repeats a group without a limit: the time is
linear in the text and the memory does not depend on it, for any text. Possessive quantifiers and atomic groups
would promise the same, but CPython before 3.11.5 computes them wrongly.
"""

import re
from typing import Final

GAP: Final = rb"\s*"
# Commas and semicolons may also separate two fields.
FIELD_GAP: Final = rb"[\s,;]*"

_gap = re.compile(GAP).match
_quote_or_comment = re.compile(rb"[\"'#]").search
_escape = re.compile(
    rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
).sub
_ESCAPES: Final = dict(zip(b"abfnrtv\\'\"?", b"\a\b\f\n\r\t\v\\'\"?", strict=True))
# Escapes in one match: the matcher remembers every one of them until it returns.
_ESCAPES_AT_ONCE: Final = 500
_inside = {
    quote: re.compile(rb"[^%b\\\n]*(?:\\[^\n][^%b\\\n]*){0,%d}" % (quote, quote, _ESCAPES_AT_ONCE)).match
    for quote in (b'"', b"'")
}


def without_comments(text: bytes) -> bytes:
    """The text with blanks for its comments: every place stays where it was."""
    at = text.find(b"#")
    if at < 0:
        return text
    clean = bytearray(text)
    while at >= 0:
        # A string ends on its line: whether this is a comment is settled from the line's start on.
        end = text.find(b"\n", at)
        end = end if end >= 0 else len(text)
        comment = _comment(text, text.rfind(b"\n", 0, at) + 1, end)
        clean[comment:end] = b" " * (end - comment)
        at = text.find(b"#", end)
    return bytes(clean)


def _comment(text: bytes, pos: int, end: int) -> int:
    """Where the comment of the line up to `end` starts; `end` where it has none."""
    while (found := _quote_or_comment(text, pos, end)) is not None:
        if found[0] == b"#":
            return found.start()
        pos = string_end(text, found.start())
        if pos < 0:
            # The reader refuses this line where the string starts.
            break
    return end


def string_end(text: bytes, pos: int) -> int:
    """Behind the quoted string that starts at `pos`; -1 where none starts, or where it does not end on its line."""
    quote = text[pos : pos + 1]
    inside = _inside.get(quote)
    if inside is None:
        return -1
    end = pos + 1
    while end != pos:
        pos = end
        end = inside(text, pos).end()  # type: ignore[union-attr]
        if text[end : end + 1] == quote:
            return end + 1
    return -1


def strings_at(text: bytes, pos: int) -> tuple[bytes | None, int]:
    """The value of the quoted strings from `pos` on, adjacent ones as one, and the position behind; None for none."""
    pieces = []
    while (end := string_end(text, pos)) >= 0:
        piece = text[pos + 1 : end - 1]
        pieces.append(_escape(_unescaped, piece) if b"\\" in piece else piece)
        pos = _gap(text, end).end()  # type: ignore[union-attr]
    return b"".join(pieces) if pieces else None, pos


def _unescaped(found: "re.Match[bytes]") -> bytes:
    octal, hexadecimal, short, long, char = found.groups()
    if octal is not None:
        return bytes([int(octal, 8) & 0xFF])
    if hexadecimal is not None:
        return bytes([int(hexadecimal, 16)])
    if short is not None or long is not None:
        return chr(int(short or long, 16)).encode()
    if char[0] not in _ESCAPES:
        raise ValueError(f"unknown escape \\{char.decode(errors='replace')}")
    return bytes([_ESCAPES[char[0]]])
