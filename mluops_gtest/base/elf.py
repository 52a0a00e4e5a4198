"""Where an instruction of a shared library or program stands: its address there, and the function around it."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from mluops_gtest.base.errors import ContentError
from mluops_gtest.base.typed_files import open_plain_file

_HEAD: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_IDENT: Final = b"\x7fELF\x02\x01"
_LOAD, _SYMTAB, _DYNSYM, _FUNCTION = 1, 2, 11, 2
# A table that is longer was damaged, or is not worth the wait.
_MAX_BYTES: Final = 64 << 20


class CodePlace(NamedTuple):
    """An address as disassemblers and addr2line count it, the function there, and the bytes from its beginning."""

    address: int
    function: str = ""
    distance: int = 0


def find_code(path: Path, offset: int) -> CodePlace | None:
    """What stands at that offset of a 64-bit little-endian ELF file; None where there is no such file or place."""
    try:
        with open_plain_file(path) as file:
            return _find(file, offset)
    except (OSError, ContentError, struct.error, IndexError):
        return None


def _find(file: BinaryIO, offset: int) -> CodePlace | None:
    ident, *_, segments, sections, _, _, _, segment_count, _, section_count, _ = _HEAD.unpack(file.read(_HEAD.size))
    if not ident.startswith(_IDENT):
        return None
    loaded = _rows(file, _SEGMENT, segments, segment_count * _SEGMENT.size)
    there = (
        at + offset - start
        for kind, _, start, at, _, size, *_ in loaded
        if kind == _LOAD and 0 <= offset - start < size
    )
    address = next(there, None)
    if address is None:
        return None
    tables = list(_rows(file, _SECTION, sections, section_count * _SECTION.size))
    # The dynamic symbols are some of the others, where a file has those.
    for wanted in (_SYMTAB, _DYNSYM):
        for table in tables:
            if table[1] == wanted:
                names = tables[table[6]]
                for name, info, _, _, value, size in _rows(file, _SYMBOL, table[4], table[5]):
                    if info & 0xF == _FUNCTION and value <= address < value + size:
                        return CodePlace(address, _text(file, names[4] + name), address - value)
    return CodePlace(address)


def _rows(file: BinaryIO, row: struct.Struct, start: int, size: int) -> Iterator[tuple[int, ...]]:
    file.seek(start)
    data = file.read(min(size, _MAX_BYTES))
    return row.iter_unpack(data[: len(data) // row.size * row.size])


def _text(file: BinaryIO, start: int) -> str:
    file.seek(start)
    return file.read(1024).partition(b"\0")[0].decode(errors="replace")
