import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from mluops_gtest.base.errors import ContentError
from mluops_gtest.casefiles.lock import LockEntry, lock_path, read_lock, read_locks, write_lock, write_locks
from mluops_gtest.core.tensor import DType, Layout, Tensor, TensorDesc, digest_tensors


def entry(case_id: str) -> LockEntry:
    tensors = {
        "inputs": [{"id": "a", "dtype": "float", "layout": "ARRAY", "dims": [2, 3]}],
        "outputs": [{"id": "b", "dtype": "int32", "layout": "ARRAY", "dims": [2], "strides": [4]}],
    }
    return LockEntry(case_id, "0" * 32, "", "1" * 32, "2" * 32, tensors, {"k": 3, "pad": [1, 2]})


def test_lines_are_sorted_and_survive(tmp_path):
    path = tmp_path / "baselines.lock"
    write_lock(path, [entry("b/x"), entry("a/y")])
    assert read_lock(path) == {"a/y": entry("a/y"), "b/x": entry("b/x")}
    lines = path.read_bytes().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["a/y", "b/x"]
    write_lock(path, reversed(list(read_lock(path).values())))
    assert path.read_bytes().splitlines() == lines
    assert [item.name for item in tmp_path.iterdir()] == ["baselines.lock"]


def test_why_a_baseline_is_constant_stands_in_the_lines_that_have_it(tmp_path):
    path = tmp_path / "baselines.lock"
    remarked = replace(entry("a/x"), degenerate="one element")
    write_lock(path, [remarked, entry("a/y")])
    assert read_lock(path) == {"a/x": remarked, "a/y": entry("a/y")}
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    # As locks of earlier versions are.
    assert "degenerate" in lines[0]
    assert "degenerate" not in lines[1]


def test_a_folded_line_has_digests_and_what_does_not_follow(tmp_path):
    path = tmp_path / "a" / "baselines.lock"
    path.parent.mkdir()
    entries = [entry("a/x").folded({}), entry("a/y").folded({"k": None})]
    write_lock(path, entries)
    assert path.read_text() == f'["x","{"0" * 32}",""]\n["y","{"0" * 32}","",{{"k":null}}]\n'
    assert list(read_lock(path).values()) == entries
    assert all(one.is_folded for one in entries)


def added(line: bytes):
    return lambda good: good + b"\n" + line + b"\n"


def replaced(old: bytes, new: bytes):
    return lambda good: good.replace(old, new, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (added(b"{"), "lock:3: not valid JSON: the file ends too early"),
        (added(b"[]"), r"expected an object, got \[\]"),
        (added(b'{"id": "x"}'), "the key 'declared' is missing"),
        (added(b"\xff"), "lock:3: not valid "),
        (added(b"[" * 100_000), "lock:3: nested too deeply"),
        (replaced(b'"a/x"', b"7"), r"lock:1: \$.id: expected a text, got 7"),
        (replaced(b"[2,3]", b"[2,-3]"), r"lock:1: \$.tensors"),
        (replaced(b"[2,3]", b"[2,3.5]"), r"lock:1: \$.tensors"),
        (replaced(b"[2,3]", b"[2,1" + b"0" * 30 + b"]"), r"lock:1: \$.tensors"),
        (replaced(b"[2,3]", b"{}"), r"lock:1: \$.tensors"),
        (replaced(b'"float"', b'"flout"'), "is not a tensor"),
        (replaced(b'{"id":', b'{"more":1,"id":'), "unknown key 'more'; allowed are id, declared"),
        (replaced(b'"params"', b'"degenerate":1,"params"'), r"\$.degenerate: expected a text, got 1"),
        (added(b'["x","0"]'), r"lock:3: .*expected an object"),
        (added(b'["x","0","1",{},2]'), r"lock:3: .*expected an object"),
        (added(b'["x","0","1",{"k":{}}]'), r"lock:3: .*expected an object"),
        (lambda good: good + good, "lock:2: a/x is locked twice"),
    ],
)
def test_broken_lines_are_told(tmp_path, change, message):
    path = tmp_path / "baselines.lock"
    write_lock(path, [entry("a/x")])
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ContentError, match=message):
        read_lock(path)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(ContentError, match="cannot be read"):
        read_lock(tmp_path / "baselines.lock")


def tensor(data, dtype=DType.FLOAT, name="a", dims=None, strides=None):
    return Tensor(name, TensorDesc(dtype, Layout.ARRAY, dims or (len(data),), strides), data)


def test_the_digest_sees_everything_that_matters():
    ones = np.ones(4, "<f4")
    variants = [
        [tensor(ones)],
        [tensor(ones, name="b")],
        [tensor(ones, dims=(2, 2))],
        [tensor(ones, dims=(2, 2), strides=(2, 1))],
        [tensor(ones.view("<i4"), DType.INT32)],
        [tensor(-ones)],
        [tensor(ones), tensor(ones)],
        [Tensor("a", TensorDesc(DType.FLOAT, Layout.ARRAY, (4,)))],
        [],
    ]
    digests = [digest_tensors(tensors) for tensors in variants]
    assert len(set(digests)) == len(variants)
    assert all(len(digest) == 32 for digest in digests)
    assert digest_tensors([tensor(ones.copy())]) == digests[0]


def test_the_digest_is_fixed():
    assert digest_tensors([tensor(np.arange(3, dtype="<f4"))]) == "26793802b5350fb11affabc0c84e6fde"


def test_each_operator_has_its_own_file_and_keeps_it_while_others_are_written(tmp_path):
    entries = {case_id: entry(case_id) for case_id in ("a/x", "a/y", "b/x")}
    write_locks(tmp_path, entries.values(), {"a", "b"})
    assert read_locks(tmp_path) == entries
    assert read_lock(lock_path(tmp_path, "a")).keys() == {"a/x", "a/y"}
    assert read_lock(lock_path(tmp_path, "b")).keys() == {"b/x"}
    write_locks(tmp_path, [entry("a/z"), entry("b/y")], {"a"})
    assert read_locks(tmp_path).keys() == {"a/z", "b/x"}


def test_an_operator_without_entries_has_no_lock(tmp_path):
    write_locks(tmp_path, [entry("a/x")], {"a"})
    write_locks(tmp_path, [], {"a", "b"})
    assert not list(tmp_path.rglob("*.lock"))
    assert read_locks(tmp_path) == read_locks(tmp_path / "nowhere") == {}


def test_a_line_in_the_folder_of_another_operator(tmp_path):
    lock_path(tmp_path, "a").parent.mkdir()
    write_lock(lock_path(tmp_path, "a"), [entry("b/x")])
    with pytest.raises(ContentError, match=r"a/baselines.lock: b/x is not a case of a"):
        read_locks(tmp_path)


READ_IN_BETWEEN = """
import os, sys
from pathlib import Path
from mluops_gtest.casefiles.lock import read_lock


def reads():
    return [entry.params["k"] for entry in read_lock(Path(sys.argv[1])).values()] == [3]


def pause(frame, *_):
    if frame.f_globals["__name__"].startswith("msgspec"):
        child = os.fork()
        if not child:
            os._exit(not reads())
        assert os.waitpid(child, 0)[1] == 0, frame


sys.settrace(pause)
assert reads()
"""


def test_locks_can_be_read_while_another_thread_is_anywhere_in_reading_one(tmp_path):
    """At each moment at which msgspec would let another thread run; a decoder half made ends the process."""
    write_lock(tmp_path / "baselines.lock", [entry("a/x")])
    command = [sys.executable, "-c", READ_IN_BETWEEN, tmp_path / "baselines.lock"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
