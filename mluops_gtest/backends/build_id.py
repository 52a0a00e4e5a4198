"""The build id that the linker leaves in an ELF file: it names one build, whatever the file is called."""

import struct
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

_MAGIC: Final = b"\x7fELF"
_PT_NOTE: Final = 4
_NT_GNU_BUILD_ID: Final = 3
_OWNER: Final = b"GNU\0"
# More is neither a table of segments nor a note that a linker writes.
_MAX_SEGMENTS: Final = 4096
_MAX_NOTES: Final = 1 << 16


class _Form(NamedTuple):
    """Where a file of one word size has its numbers: the header behind the first 16 bytes, and one segment."""

    header: str
    segment: str
    # Places of type, offset and size among the numbers of a segment.
    places: tuple[int, int, int]


_FORMS: Final = {
    1: _Form("HHIIIIIHHHHHH", "IIIIIIII", (0, 1, 4)),
    2: _Form("HHIQQQIHHHHHH", "IIQQQQQQ", (0, 2, 5)),
}


def build_id(path: Path) -> str:
    """The GNU build id in hexadecimal; empty where the file is no ELF file, has none or is damaged."""
    try:
        with path.open("rb") as file:
            return _build_id(file)
    except (OSError, struct.error, OverflowError, ValueError):
        return ""


def _build_id(file: BinaryIO) -> str:
    identity = file.read(16)
    form = _FORMS.get(identity[4]) if identity[:4] == _MAGIC and len(identity) == 16 else None
    if form is None:
        return ""
    order = ">" if identity[5] == 2 else "<"
    header = struct.Struct(order + form.header)
    numbers = header.unpack(file.read(header.size))
    table, size, count = numbers[4], numbers[8], numbers[9]
    segment = struct.Struct(order + form.segment)
    if size < segment.size:
        return ""
    for index in range(min(count, _MAX_SEGMENTS)):
        file.seek(table + index * size)
        fields = segment.unpack(file.read(segment.size))
        kind, offset, length = (fields[place] for place in form.places)
        if kind == _PT_NOTE and length <= _MAX_NOTES:
            file.seek(offset)
            found = _within(file.read(length), order)
            if found:
                return found
    return ""


def _within(notes: bytes, order: str) -> str:
    """The build id among the notes of one segment; every part of a note fills whole words of 4 bytes."""
    at = 0
    while at + 12 <= len(notes):
        name, size, kind = struct.unpack_from(f"{order}III", notes, at)
        begin = at + 12 + -(-name // 4) * 4
        if kind == _NT_GNU_BUILD_ID and notes[at + 12 : at + 12 + name] == _OWNER:
            found = notes[begin : begin + size]
            return found.hex() if len(found) == size else ""
        at = begin + -(-size // 4) * 4
    return ""
