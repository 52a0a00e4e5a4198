"""Mapped files: what is let go is read again, and nothing else is lost; arrays in one file, whole or an error."""

import mmap

import numpy as np
import pytest

from mluops_gtest.base import files as mapped_files
from mluops_gtest.base.files import let_go, mapped, pieces
from mluops_gtest.catalog.source import array_file, read_array_file
from tests.support.resident import resident

BYTES = np.arange(1 << 20, dtype=np.uint32).view(np.uint8)


@pytest.fixture
def array(tmp_path):
    path = tmp_path / "values.bin"
    path.write_bytes(BYTES.tobytes())
    with path.open("rb") as file:
        return np.frombuffer(mapped(file.fileno()), np.uint8)


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="the system cannot be told to drop pages")
def test_what_is_let_go_takes_no_memory_and_is_there_when_asked_for(array):
    assert array.sum(dtype=np.int64) == BYTES.sum(dtype=np.int64)
    assert resident(array) == array.nbytes
    let_go(array[: array.size // 2].view("<f4").reshape(2, -1))
    assert resident(array) == array.nbytes // 2
    assert np.array_equal(array, BYTES)


def test_a_part_is_let_go_by_whole_pages(array):
    assert array[0] == BYTES[0]
    let_go(array[100 : -mmap.PAGESIZE // 2])
    assert np.array_equal(array, BYTES)


def test_other_arrays_keep_their_values():
    memory = mmap.mmap(-1, 1 << 20)
    private = np.frombuffer(memory, np.uint8)
    private[:] = 7
    own = np.full(1 << 20, 7, np.uint8)
    for one in (private, own):
        let_go(one)
        assert (one == 7).all()


def test_pieces_cover_an_array_once_and_let_it_go(array, monkeypatch):
    monkeypatch.setattr(mapped_files, "PIECE", 1 << 19)
    copy = np.zeros_like(array)
    for place, piece in pieces(array):
        assert piece.size <= 1 << 19
        copy[place] += piece
    assert np.array_equal(copy, BYTES)
    assert list(pieces(np.zeros(0))) == []


ARRAYS = {"one.of": np.arange(7.0).reshape(7, 1), "two": np.array(3), "three": np.zeros((0, 4), "<f4")}


def test_arrays_come_back_as_they_were(tmp_path):
    path = tmp_path / "arrays"
    path.write_bytes(b"".join(array_file(ARRAYS)))
    found = read_array_file(path)
    assert list(found) == list(ARRAYS)
    for name, wanted in ARRAYS.items():
        assert (found[name].dtype, found[name].shape) == (wanted.dtype, wanted.shape)
        assert np.array_equal(found[name], wanted)
        assert found[name].flags.aligned


def test_every_damaged_byte_is_noticed(tmp_path):
    path = tmp_path / "arrays"
    whole = b"".join(array_file({"values": ARRAYS["one.of"]}))
    length = whole.index(b"\n")
    values = -(-(length + 1) // 64) * 64
    for place in (*range(length + 1), *range(values, values + 56)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError):  # noqa: PT011 - each kind of damage has its words
            read_array_file(path)


@pytest.mark.parametrize("end", [0, 5, 40, -64])
def test_a_file_that_was_cut_is_an_error(tmp_path, end):
    path = tmp_path / "arrays"
    path.write_bytes(b"".join(array_file(ARRAYS))[:end])
    with pytest.raises(ValueError):  # noqa: PT011
        read_array_file(path)
