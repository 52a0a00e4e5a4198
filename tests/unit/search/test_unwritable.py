"""Checks that answer no call with an output to write to: what is proved, and what is not.

That no drawn call contradicts a proof is asked where calls are drawn, in tests/content/test_spaces.py.
"""

from dataclasses import replace

import pytest

from mluops_gtest.authoring import checks as common
from mluops_gtest.search.mutants import status_mutants
from mluops_gtest.search.symbolic_call import never_written


def proved(operator):
    return {check.name for check in operator.checks if check.subsumed is None and never_written(operator, check)}


def test_the_only_output_is_missing_empty_or_large(operators):
    grad = ("grad_feats_desc_null", "grad_feats_empty", "grad_feats_ptr_null", "feats_large")
    assert {*grad} <= proved(operators["dynamic_scatter_backward"])


def test_with_two_outputs_the_other_can_be_written(operators):
    assert not {"output_features_desc_null", "pos_memo_ptr_null"} & proved(operators["voxel_pooling_forward"])


def test_lengths_that_earlier_checks_hold_equal_say_more(operators):
    found = proved(operators["ball_query"])
    assert {"new_xyz_empty", "new_xyz_large"} <= found, "idx has a row per centre"
    assert not {"xyz_empty", "xyz_large", "new_xyz_desc_null", "new_xyz_ptr_null"} & found


def test_a_tensor_is_at_most_as_large_as_one_with_longer_axes(operators):
    assert "grad_voxel_feats_large" in proved(operators["dynamic_scatter_backward"]), "M ≤ N"


def test_of_a_product_one_sign_follows_from_the_others(operators):
    found = proved(operators["masked_im2col_forward"])
    assert "kernel_w" in found, "kernel_h was found positive before, and so are the rows of data_col"
    assert "kernel_h" not in found, "both may be negative"


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
