"""Wrong statuses made from ordered checks, what is left out because nobody could tell, and the order of trials."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from mluops_gtest.authoring import Check, Status, call_of
from mluops_gtest.authoring import checks as common
from mluops_gtest.core.call import Crashed
from mluops_gtest.search import mutants
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
