"""Data inside the page: JSON that shows as itself and cannot end its element, packed where there is much of it."""

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from mluops_gtest.model.plain_text import is_plain, plain_values

# What is larger is packed, so that the page stays small enough to keep, to send and to open.
_MUCH: Final = 3_000_000
_LEVEL: Final = 4
# How JSON writes what is unfit to be shown and yet ASCII.
_UNFIT: Final = (rb"\u00", rb"\r", b"\x7f")


def json_line(record: Any) -> bytes:
    """The record as a line of JSON in which no text can steer what shows it; no `<` is left, so no `</script>`."""
    try:
        line = msgspec.json.encode(record)
        fit = not any(sign in line for sign in _UNFIT) and (line.isascii() or is_plain(line.decode()))
    except UnicodeEncodeError:
        fit = False
    if not fit:
        line = msgspec.json.encode(plain_values(record))
    return line.replace(b"<", b"\\u003c")


def elements_of(parts: Mapping[str, Sequence[bytes]]) -> str:
    """A script element for each part, with its lines as they are; all of them packed where they are long."""
    packed = sum(len(line) for lines in parts.values() for line in lines) > _MUCH
    mark, text = (" data-packed", _packed) if packed else ("", _joined)
    return "\n".join(
        f'<script type="application/json" id="{name}"{mark}>{text(lines)}</script>' for name, lines in parts.items()
    )


def _joined(lines: Sequence[bytes]) -> str:
    return b"\n".join(lines).decode()


def _packed(lines: Sequence[bytes]) -> str:
    squeezed = zlib.compressobj(_LEVEL)
    pieces = [squeezed.compress(line + b"\n") for line in lines]
    return base64.b64encode(b"".join([*pieces, squeezed.flush()])).decode("ascii")
