"""Files: what is let go is read again, folders go whatever their depth, an edit is not taken for its compiled form."""

import mmap
import os
import subprocess
import sys

import numpy as np
import pytest

from mluops_gtest.base import files as mapped_files
from mluops_gtest.base.files import let_go, mapped, pieces, remove_tree, settled_bytecode
from mluops_gtest.catalog.source import array_file, read_array_file
from mluops_gtest.core.buffers import first_difference
from mluops_gtest.core.declaration import Bound
from mluops_gtest.core.tensor import CriterionKind, DType
from mluops_gtest.judging.blocks import profile_of
from mluops_gtest.judging.criteria import compare
from mluops_gtest.judging.elementwise import element_errors
from tests.conftest import ROOT
from tests.support.native_core import NATIVE, NUMPY, going
from tests.support.resident import resident

BYTES = np.arange(1, (1 << 21) + 1, dtype="<f4").view(np.uint8)


drops_pages = pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="the system cannot be told to drop pages")


@pytest.fixture
def array(tmp_path):
    path = tmp_path / "values.bin"
    path.write_bytes(BYTES.tobytes())
    with path.open("rb") as file:
        return np.frombuffer(mapped(file.fileno()), np.uint8)


@drops_pages
def test_what_is_let_go_takes_no_memory_and_is_there_when_asked_for(array):
    assert array.sum(dtype=np.int64) == BYTES.sum(dtype=np.int64)
    assert resident(array) == array.nbytes
    let_go(array[: array.size // 2].view("<f4").reshape(2, -1))
    assert resident(array) == array.nbytes // 2
    # Of a part, whole pages.
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


def test_every_damaged_byte_and_a_cut_is_noticed(tmp_path):
    path = tmp_path / "arrays"
    whole = b"".join(array_file({"values": ARRAYS["one.of"]}))
    length = whole.index(b"\n")
    values = -(-(length + 1) // 64) * 64
    places = *range(length + 1), *range(values, values + 56)
    flipped = [whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :] for place in places]
    for damaged in (*flipped, *(whole[:end] for end in (0, 5, 40, -64))):
        path.write_bytes(damaged)
        with pytest.raises(ValueError):  # noqa: PT011 - each kind of damage has its words
            read_array_file(path)


# Deeper than the recursion limit, and longer than a path may be.
DEPTH = 3000


def test_thousands_of_nested_folders_go(tmp_path, monkeypatch):
    folder = tmp_path / "deep"
    folder.mkdir()
    # From inside: no path could name the innermost.
    monkeypatch.chdir(folder)
    for _ in range(DEPTH):
        os.mkdir("d")
        os.chdir("d")
    open("last", "w").close()
    os.chdir(tmp_path)
    remove_tree(str(folder))
    assert not folder.exists()
    remove_tree(str(folder))


def test_files_wide_folders_and_pipes_go(tmp_path):
    folder = tmp_path / "wide"
    for name in ("a/b/c", "a/d", "e"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text("x")
        os.mkfifo(folder / name / "pipe")
    remove_tree(str(folder))
    assert not folder.exists()


def test_a_link_goes_and_what_it_leads_to_stays(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    folder = tmp_path / "links" / "inner"
    folder.mkdir(parents=True)
    for place in (folder, folder.parent):
        (place / "to_folder").symlink_to(outside)
    (folder.parent / "to_file").symlink_to(outside / "kept")
    remove_tree(str(folder.parent))
    assert not folder.parent.exists()
    assert (outside / "kept").read_text() == "kept"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_locked_folder_goes(tmp_path):
    folder = tmp_path / "locked"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "file").write_text("x")
    (folder / "inner").chmod(0)
    remove_tree(str(folder))
    assert not folder.exists()


@pytest.mark.parametrize(("age", "written"), [(0, False), (-5, False), (60, True)])
def test_compiled_files_are_written_of_settled_sources_alone(tmp_path, monkeypatch, age, written):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for name in ("kernel.py", "beside.py"):
        (tmp_path / name).write_text("")
    status = (tmp_path / "beside.py").stat()
    for name, seconds in (("kernel.py", 60), ("beside.py", age)):
        os.utime(tmp_path / name, (status.st_atime, status.st_mtime - seconds))
    with settled_bytecode(tmp_path / "kernel.py"):
        assert sys.dont_write_bytecode is not written
    assert not sys.dont_write_bytecode


@pytest.mark.slow
def test_an_edit_of_the_same_length_counts_at_once(tmp_path):
    """Both loads in processes that write compiled files, within one second."""
    backend = tmp_path / "mine.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    load = "import sys; from mluops_gtest.backends.registry import _load_file; from pathlib import Path; "
    load += "print(_load_file('mine', Path(sys.argv[1])).VALUE)"
    told = []
    for value in (1, 2):
        backend.write_text(f"VALUE = {value}\n")
        done = subprocess.run(
            [sys.executable, "-c", load, backend], env=environment, capture_output=True, text=True, check=True
        )
        told.append(done.stdout.strip())
    assert told == ["1", "2"]


PASSES = {
    "compare": lambda values, other: compare(other, values, DType.FLOAT, (CriterionKind.DIFF1,)),
    "profile": lambda values, other: profile_of("output", other, values, DType.FLOAT),
    "element-wise check": lambda values, other: element_errors(other, values, DType.FLOAT, Bound(values, 3)),
    "inputs": lambda values, other: first_difference(*(one.reshape(-1).view(np.uint8) for one in (other, values))),
}


@drops_pages
@pytest.mark.parametrize("way", [NUMPY, NATIVE])
@pytest.mark.parametrize("name", PASSES)
def test_what_was_compared_is_let_go(array, name, way):
    """A large baseline lies in a mapped file: whoever has compared a part of it keeps none of it in memory."""
    values = array.view("<f4").reshape(2, -1)
    other = values + np.float32(0.5) if name != "inputs" else values.copy()
    assert resident(values) > values.nbytes // 2
    with going(way):
        PASSES[name](values, other)
    assert resident(values) < values.nbytes // 8
