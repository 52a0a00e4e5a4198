"""The build id of an ELF file, read from hand-made files of both word sizes and byte orders."""

import struct
import subprocess

import pytest

from mluops_gtest.backends.labels import build_id
from tests.support.native import needs_gcc

ID = bytes(range(20))


def note(order, name, kind, content):
    padded = [part + b"\0" * (-len(part) % 4) for part in (name, content)]
    return struct.pack(f"{order}III", len(name), len(content), kind) + b"".join(padded)


def elf(bits=64, order="<", notes=None, count=2):
    """A header and a table of segments: one to load, one of notes."""
    if notes is None:
        notes = note(order, b"GNU\0", 1, b"abi!") + note(order, b"GNU\0", 3, ID)
    identity = b"\x7fELF" + bytes([bits // 32, 1 if order == "<" else 2, 1]) + b"\0" * 9
    word = "Q" if bits == 64 else "I"
    header_size, size = (64, 56) if bits == 64 else (52, 32)
    offset = header_size + 2 * size
    header = struct.pack(
        f"{order}HHI{word * 3}IHHHHHH", 3, 62, 1, 0, header_size, 0, 0, header_size, size, count, 0, 0, 0
    )
    segments = b""
    for kind in (1, 4):
        if bits == 64:
            segments += struct.pack(f"{order}IIQQQQQQ", kind, 4, offset, 0, 0, len(notes), 0, 4)
        else:
            segments += struct.pack(f"{order}IIIIIIII", kind, offset, 0, 0, len(notes), 0, 4, 4)
    return identity + header + segments + notes


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_kind_of_file(tmp_path, bits, order):
    path = tmp_path / "lib.so"
    path.write_bytes(elf(bits, order))
    assert build_id(path) == ID.hex()


def test_files_without_one(tmp_path):
    path = tmp_path / "lib.so"
    other = note("<", b"GNU\0", 1, ID) + note("<", b"Go\0\0", 3, ID)
    for content in (b"", b"\x7fELF", b"#!/bin/sh\n", elf(notes=other), elf(notes=b""), elf(count=1), elf()[:70]):
        path.write_bytes(content)
        assert build_id(path) == ""
    assert build_id(tmp_path / "absent") == ""
    assert build_id(tmp_path) == ""


def test_any_damage_ends(tmp_path):
    path, whole = tmp_path / "lib.so", elf()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        assert isinstance(build_id(path), str)
        path.write_bytes(whole[:place])
        assert build_id(path) == ""


@pytest.mark.needs_gcc
class TestRealLibraries:
    pytestmark = needs_gcc

    def test_it_is_what_the_linker_was_told(self, tmp_path):
        source, library = tmp_path / "k.c", tmp_path / "libk.so"
        source.write_text("int k(void) { return 1; }\n")
        wanted = "0123456789abcdef" * 2
        subprocess.run(
            ["gcc", "-shared", "-fPIC", f"-Wl,--build-id=0x{wanted}", "-o", library, source], check=True, timeout=60
        )
        assert build_id(library) == wanted
