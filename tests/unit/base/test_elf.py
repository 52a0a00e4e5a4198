"""The function around an instruction of an ELF file, beside what the linker's own tools say."""

import random
import re
import subprocess

import pytest

from mluops_gtest.base.elf import CodePlace, find_code
from tests.support.native import compile_library, needs_gcc

SOURCE = """
static int hidden(int a) { return a * 3; }
int first(int a) { return a + 1; }
int second(int a) { return first(a) + hidden(a); }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elf")
    (folder / "code.c").write_text(SOURCE)
    # Code at another address than its place in the file.
    return compile_library(folder / "code.so", folder / "code.c", flags=("-O0", "-Wl,-Ttext-segment=0x40000"))


def symbols_of(library):
    """name → (address, size), by nm."""
    lines = subprocess.run(["nm", "-S", library], capture_output=True, text=True, check=True).stdout
    return {
        name: (int(at, 16), int(size, 16)) for at, size, name in re.findall(r"^(\w+) (\w+) [tT] (\w+)$", lines, re.M)
    }


def offset_of(library, address):
    """Where that address stands in the file, by readelf."""
    lines = subprocess.run(["readelf", "-lW", library], capture_output=True, text=True, check=True).stdout
    loaded = re.findall(r"^ +LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", lines, re.M)
    return next(
        address - int(at, 16) + int(start, 16)
        for start, at, size in loaded
        if 0 <= address - int(at, 16) < int(size, 16)
    )


@pytest.mark.slow
@pytest.mark.needs_gcc
class TestWithACompiler:
    pytestmark = needs_gcc

    @pytest.mark.parametrize("name", ["hidden", "first", "second"])
    def test_a_function_is_found_by_each_of_its_bytes(self, library, name):
        address, size = symbols_of(library)[name]
        for distance in (0, 1, size - 1):
            place = find_code(library, offset_of(library, address + distance))
            assert place == CodePlace(address + distance, name, distance)

    def test_without_its_symbol_table_a_library_still_names_what_it_exports(self, library, tmp_path):
        stripped = tmp_path / "stripped.so"
        subprocess.run(["strip", "-o", stripped, library], check=True)
        symbols = symbols_of(library)
        found = {name: find_code(stripped, offset_of(library, symbols[name][0])) for name in ("hidden", "first")}
        assert found == {"hidden": CodePlace(symbols["hidden"][0]), "first": CodePlace(symbols["first"][0], "first", 0)}

    def test_a_damaged_file_is_none_or_names_something(self, library, tmp_path):
        whole, broken = library.read_bytes(), tmp_path / "broken.so"
        draw = random.Random(5)
        for _ in range(300):
            data = bytearray(whole[: draw.choice([len(whole), draw.randrange(len(whole))])])
            for _ in range(3):
                data[draw.randrange(min(len(data), 4096))] = draw.randrange(256) if data else 0
            broken.write_bytes(data)
            place = find_code(broken, draw.randrange(len(whole)))
            assert place is None or isinstance(place, CodePlace)


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"#!/bin/sh\n" * 20, b"\x7fELF\x01\x01" + b"\0" * 100])
def test_what_is_no_such_file_has_no_code(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    assert find_code(tmp_path / "file", 0) is None
    assert find_code(tmp_path / "absent", 0) is None
    assert find_code(tmp_path, 0) is None
