"""Wrong statuses made from ordered checks, wrong outputs from right ones, and the order of trials."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from mluops_gtest.authoring import Check, Status, call_of
from mluops_gtest.authoring import checks as common
from mluops_gtest.core.call import Crashed
from mluops_gtest.core.tensor import DType
from mluops_gtest.search import mutants
from mluops_gtest.search.audit_outputs import faults_of, has_place, untouched_output, wrong_outputs
from mluops_gtest.search.mutants import TrialPlan, status_mutants, trials
from mluops_gtest.search.symbolic_call import never_written


def check(name, status, least, **more):
    return Check(name, status, lambda call: call.array("values").size >= least, "", "", **more)


SMALL = check("small", Status.BAD_PARAM, 2)
SMALLER = check("smaller", Status.NOT_SUPPORTED, 1)
NONE = check("none", Status.SUCCESS, 1)


@pytest.fixture
def mutants_of(operators):
    """The mutants of an operator with these checks, by name."""

    def make(*checks, **changes):
        operator = replace(operators["voxel_pooling_forward"], checks=checks, **changes)
        return {one.mutant.name: one for one in status_mutants(operator)}

    return make


def answer(one, count):
    """What the mutant says of `count` values, and whether it wrote."""
    call = call_of("toy", {}, {"values": np.zeros(count)}, {"output": np.zeros(2)})
    status = one.mutant.run(call)
    return status, bool(call.array("output").any())


def test_each_mutant_is_wrong_where_its_checks_answer(mutants_of):
    found = mutants_of(SMALL, SMALLER)
    assert answer(found["forgets_small"], 1) == (Status.SUCCESS, True)
    assert answer(found["forgets_small"], 0) == (Status.NOT_SUPPORTED, False)
    assert answer(found["not_supported_for_small"], 1) == (Status.NOT_SUPPORTED, False)
    assert answer(found["bad_param_for_smaller"], 0) == (Status.BAD_PARAM, False)
    assert answer(found["smaller_before_small"], 0) == (Status.NOT_SUPPORTED, False)
    assert answer(found["smaller_before_small"], 1) == (Status.BAD_PARAM, False)
    assert answer(found["writes_before_small"], 1) == (Status.BAD_PARAM, True)
    assert answer(found["writes_before_smaller"], 1) == (Status.BAD_PARAM, False)
    assert found["smaller_before_small"].checks == ("small", "smaller")
    assert found["forgets_small"].checks == ("small",)


def test_an_early_success_can_be_forgotten_refused_or_written(mutants_of):
    found = mutants_of(NONE)
    assert answer(found["forgets_none"], 0) == (Status.SUCCESS, True)
    assert answer(found["bad_param_for_none"], 0) == (Status.BAD_PARAM, False)
    assert answer(found["writes_before_none"], 0) == (Status.SUCCESS, True)
    # One that owes its outputs may write.
    assert mutants_of(replace(NONE, writes=True)).keys() == {"forgets_none", "bad_param_for_none"}


def test_what_nobody_could_tell_is_left_out(mutants_of):
    of_the_second = {"forgets_smaller", "bad_param_for_smaller", "writes_before_smaller"}
    assert mutants_of(replace(SMALL, subsumed="another stands before it"), SMALLER).keys() == of_the_second
    assert "forgets_small" not in mutants_of(SMALL, SMALLER, answered_anyway={"small": "why"})
    assert "smaller_before_small" not in mutants_of(SMALL, SMALLER, not_together={"small": ("smaller",)})
    same = replace(SMALLER, status=SMALL.status)
    assert "smaller_before_small" not in mutants_of(SMALL, same)


def test_a_check_that_needs_another_before_it_crashes(mutants_of):
    def raising(call):
        raise ValueError("the descriptor is null")

    found = mutants_of(SMALL, replace(SMALLER, holds=raising))
    with pytest.raises(Crashed, match="descriptor is null"):
        answer(found["forgets_small"], 1)


GRAD = "grad_feats_desc_null grad_feats_empty grad_feats_ptr_null feats_large"


@pytest.mark.parametrize(
    ("name", "never", "perhaps"),
    [
        # The only output is missing, empty or large. M ≤ N: a tensor is at most as large as one with longer axes.
        ("dynamic_scatter_backward", f"{GRAD} grad_voxel_feats_large", ""),
        # With two outputs the other can be written.
        ("voxel_pooling_forward", "", "output_features_desc_null pos_memo_ptr_null"),
        # Lengths that earlier checks hold equal say more: idx has a row per centre.
        ("ball_query", "new_xyz_empty new_xyz_large", "xyz_empty xyz_large new_xyz_desc_null new_xyz_ptr_null"),
        # kernel_h was found positive before, and so are the rows of data_col; before that both may be negative.
        ("masked_im2col_forward", "kernel_w", "kernel_h"),
    ],
)
def test_what_is_never_written_is_proved(operators, name, never, perhaps):
    operator = operators[name]
    proved = {check.name for check in operator.checks if check.subsumed is None and never_written(operator, check)}
    assert set(never.split()) <= proved
    assert not set(perhaps.split()) & proved


@pytest.mark.parametrize(("lost", "check"), [("idx_dim0", "new_xyz_empty"), ("idx_dim1", "new_xyz_large")])
def test_nothing_is_proved_without_the_check_that_it_rests_on(operators, lost, check):
    operator = operators["ball_query"]
    assert never_written(operator, operator.check(check))
    without = replace(operator, checks=tuple(one for one in operator.checks if one.name != lost))
    assert not never_written(without, without.check(check))


def test_whatever_else_a_check_asks_for_is_not_known(operators):
    odd = common.require("odd", lambda call: call.handle is not None or call.outputs["idx"] is not None, "", "")
    operator = replace(operators["ball_query"], checks=(odd,))
    assert not never_written(operator, odd)


def test_what_cannot_show_is_no_mutant(operators):
    names = {one.mutant.name for one in status_mutants(operators["ball_query"])}
    assert "writes_before_idx_ptr_null" not in names
    assert "writes_before_xyz_ptr_null" in names


def test_one_process_finishes_an_operator_before_the_next(monkeypatch):
    """Only one operator's cases are kept: going to and fro would read them all again for every mutant."""
    monkeypatch.setattr(mutants, "_try", lambda _roots, operator, name, _first_kill: (operator, name))
    names = {"few": ["a", "b"], "many": ["a", "b", "c"], "most": ["a", "b", "c", "d"]}
    tried = list(trials(TrialPlan((), names)))
    assert sorted(tried) == [(operator, name) for operator, these in sorted(names.items()) for name in these]
    operators = [operator for operator, _ in tried]
    assert sum(one != other for one, other in pairwise(operators)) == len(names) - 1


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
