"""The call that a case makes: its handle, sizes that are counted in it, and remarks on it, which are limited."""

import numpy as np
import pytest

from mluops_gtest.authoring import SizedAxis, call_of
from mluops_gtest.catalog.root import builtin_root
from mluops_gtest.catalog.selection import Catalogue
from mluops_gtest.core.buffers import bind
from mluops_gtest.core.call import DEFAULT_ARCH, DEFAULT_NRAM_BYTES, Notes, OpCall, notes_within_limit
from mluops_gtest.core.case import Case, Expect


@pytest.mark.parametrize(
    ("expect", "arch", "nram_bytes"),
    [
        (Expect(), DEFAULT_ARCH, DEFAULT_NRAM_BYTES),
        (Expect(arch=270), 270, DEFAULT_NRAM_BYTES),
        (Expect(arch=0, nram_bytes=0), 0, 0),
    ],
)
def test_the_handle_is_as_the_case_asks(expect, arch, nram_bytes):
    operator = Catalogue(builtin_root()).operators["voxel_pooling_forward"]
    call = bind(Case("id", operator.name, (), (), {}, (), expect), operator, {}, {})
    assert call.handle is not None
    assert (call.handle.arch, call.handle.nram_bytes) == (arch, nram_bytes)


def test_few_remarks_stay_as_they_are():
    notes = Notes(["a"])
    notes.append("b")
    notes.extend(["c", 4])
    assert notes.within_limit() == ("a", "b", "c", "4")
    assert notes == ["a", "b", "c", "4"]


def test_of_many_the_first_and_the_last_are_kept():
    notes = Notes(most=10_000)
    largest = 0
    for i in range(100_000):
        notes.append(f"note {i}")
        largest = max(largest, len(notes))
    kept = notes.within_limit()
    assert largest < 300  # never more than twice the limit
    assert kept[:2] == ("note 0", "note 1")
    assert kept[-1] == "note 99999"
    (cut,) = [note for note in kept if "cut" in note]
    assert cut == f"[… {100_000 - (len(kept) - 1)} notes cut …]"
    assert sum(map(len, kept)) <= 10_000
    assert notes.within_limit() == kept


@pytest.mark.parametrize("size", [0, 1, 3000, 10**6])
def test_whatever_the_sizes_the_limit_holds(size):
    notes = Notes(("x" * size for _ in range(500)), most=10_000)
    kept = notes.within_limit()
    assert sum(map(len, kept)) <= 10_100
    assert kept[0][:1] == kept[-1][:1] == "x"[:size]


def test_a_list_that_was_filled_behind_our_back_is_cut_in_the_end():
    notes = Notes(most=1000)
    notes[:] = ["x" * 100] * 1000
    assert sum(map(len, notes.within_limit())) <= 1100
    assert len(notes_within_limit(["x" * 100] * 1000, 1000)) < 20


def test_a_call_has_such_notes():
    call = OpCall("op", {}, {}, {})
    for _ in range(100):
        call.notes.append("x" * 100_000)
        call.refusals.append("y" * 100_000)
    assert sum(map(len, notes_within_limit(call.notes))) + sum(map(len, notes_within_limit(call.refusals))) <= 1 << 20


def call():
    inputs = {"x": np.arange(6, dtype="<f4").reshape(2, 3) + 1, "places": np.array([4, 7], "<i4")}
    return call_of("any", {}, inputs, {"y": np.ones((2, 3), "<f4")})


@pytest.mark.parametrize(("axis", "size"), [(0, 2), (1, 3), (-1, 3)])
def test_a_size_is_the_length_of_the_axis(axis, size):
    assert SizedAxis("x", axis).size(call()) == size


def test_a_size_may_be_counted():
    assert SizedAxis("x", count=lambda call: int(call.array("places").max())).size(call()) == 7


def test_an_axis_that_the_tensor_does_not_have_is_named():
    with pytest.raises(ValueError, match=r"x \[2, 3\] has no axis 2"):
        SizedAxis("x", 2).size(call())


def test_a_lost_index_is_0_in_floats_and_minus_1_in_indices_and_nothing_else_changes():
    one = call()
    lost = SizedAxis("x", 1).lost(one, 2)
    assert lost.keys() == {"x"}
    assert lost["x"].tolist() == [[1, 2, 0], [4, 5, 0]]
    assert SizedAxis("places").lost(one, 0)["places"].tolist() == [-1, 7]
    assert one.array("x")[0, 2] == 3
    assert one.array("places")[0] == 4


def test_an_output_loses_no_input():
    assert SizedAxis("y").lost(call(), 1) == {}


def test_an_operator_may_say_what_the_call_is_without_an_index():
    axis = SizedAxis("x", without=lambda call, index: {"places": call.array("places") + index})
    assert axis.lost(call(), 1)["places"].tolist() == [5, 8]
