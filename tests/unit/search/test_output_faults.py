"""Wrong outputs made from right ones: each is wrong in its way, and never equal to the right one."""

import numpy as np
import pytest

from mluops_gtest.core.tensor import DType
from mluops_gtest.search.audit_outputs import faults_of, has_place, untouched_output, wrong_outputs

FLOATS = np.arange(1, 3 * 700 + 1, dtype="<f4").reshape(3, 700) + np.float32(0.1)
INTEGERS = np.arange(1, 3 * 700 + 1, dtype="<i4").reshape(3, 700)


def wrong_versions(right, dtype):
    untouched = untouched_output(right, dtype, None, None, None)
    return dict(wrong_outputs(right, untouched, list(faults_of(dtype)), dtype))


@pytest.mark.parametrize(("right", "dtype"), [(FLOATS, DType.FLOAT), (INTEGERS, DType.INT32)])
def test_every_fault_changes_an_output_with_room_for_it(right, dtype):
    before = right.copy()
    found = wrong_versions(right, dtype)
    assert found.keys() == faults_of(dtype).keys()
    assert all(wrong.shape == right.shape and wrong.dtype == right.dtype for wrong in found.values())
    assert (right == before).all()


@pytest.mark.parametrize(
    ("fault", "changed"),
    [("one element", 1), ("one ulp", 1), ("NaN in one place", 1), ("last 1 dropped", 1), ("last 64 dropped", 64),
     ("last 1024 dropped", 1024), ("block repeated", 64), ("rows swapped", 1400), ("zero", 2100), ("untouched", 2100),
     ("shifted by one", 2100), ("scaled by 1.002", 2100)],
)  # fmt: skip
def test_so_many_elements_change(fault, changed):
    assert np.count_nonzero(wrong_versions(FLOATS, DType.FLOAT)[fault] != FLOATS) == changed


def test_one_ulp_is_one_ulp():
    wrong = wrong_versions(FLOATS, DType.FLOAT)["one ulp"]
    place = np.flatnonzero(wrong.reshape(-1) != FLOATS.reshape(-1))
    assert wrong.view("<i4").reshape(-1)[place] - FLOATS.view("<i4").reshape(-1)[place] == 1


def test_bfloat16_is_rounded_to_the_nearest():
    values = np.array([1 + 2**-9, 1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-7, np.nan, np.inf, 3.4e38], "<f4")
    wrong = wrong_versions(values, DType.FLOAT)["in bfloat16"]
    assert wrong[:4].tolist() == [1, 1, 1 + 2**-6, -1 - 2**-7]
    assert np.isnan(wrong[4])
    assert wrong[5] == np.inf


def test_what_changes_nothing_is_no_fault():
    ones = np.ones((4, 4), "<f4")
    assert not {"transposed", "rows swapped", "last 64 dropped"} & wrong_versions(ones, DType.FLOAT).keys()
    assert "zero" not in wrong_versions(0 * ones, DType.FLOAT)
    assert "in half" not in faults_of(DType.HALF)
    assert wrong_versions(np.ones(4, "<c8"), DType.COMPLEX_FLOAT) == {}


def test_rows_of_one_batch_are_swapped_along_the_next_axis():
    right = np.arange(6, dtype="<i4").reshape(1, 3, 2)
    assert wrong_versions(right, DType.INT32)["rows swapped"].tolist() == [[[2, 3], [0, 1], [4, 5]]]


def test_rows_that_are_kept_are_as_the_caller_preset_them():
    kept = np.array([[False, True]])
    untouched = untouched_output(np.ones((1, 2, 3), "<i4"), DType.INT32, None, kept, 0)
    assert (untouched[0, 1] == 0).all()
    assert (untouched[0, 0] == -0x5A5A5A5B).all()


def test_a_vector_has_no_transpose_and_one_element_no_order():
    assert not has_place("transposed", "[N]")
    assert has_place("transposed", "[N, C]")
    assert not has_place("rows swapped", "[1]")
    assert has_place("off by one", "[1]")
