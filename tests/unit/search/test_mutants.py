"""Wrong statuses made from ordered checks, wrong outputs from right ones, and the order of trials."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from mluops_gtest.authoring import Check, DType, Operator, QueryChecks, Status, TensorSpec, call_of
from mluops_gtest.catalog.derived_lock import Derivation, DerivedCase, Unseen
from mluops_gtest.catalog.make import make_case
from mluops_gtest.core.call import Crashed
from mluops_gtest.core.case import Expect
from mluops_gtest.search import mutants
from mluops_gtest.search.audit_declarations import judged
from mluops_gtest.search.audit_outputs import faults_of, has_place, untouched_output, wrong_outputs
from mluops_gtest.search.mutants import TrialPlan, position_mutants, trials
from mluops_gtest.search.status_mutants import RefusedCall, status_mutants


def check(name, status, least, **more):
    return Check(name, status, lambda call: call.array("values").size >= least, "", "", **more)


SMALL = check("small", Status.BAD_PARAM, 2)
SMALLER = check("smaller", Status.NOT_SUPPORTED, 1)
NONE = check("none", Status.SUCCESS, 1)
NOTHING = Derivation("")


@pytest.fixture
def mutants_of(operators):
    """The wrong statuses of an operator with these checks, by name."""

    def make(*checks, derived=NOTHING, **changes):
        operator = replace(operators["voxel_pooling_forward"], checks=checks, **changes)
        return {one.name: one for one in status_mutants(operator, derived)}

    return make


def refused(*holds, written=True, queries=()):
    """A call of which the checks say this."""
    return RefusedCall("call", holds, holds.index(False), written, frozenset(queries))


def names_told_by(mutants, *holds, written=True):
    """The names of the mutants that such a call shows."""
    return {name for name, one in mutants.items() if one.is_told_by(refused(*holds, written=written))}


def test_each_mutant_shows_where_its_checks_answer(mutants_of):
    found = mutants_of(SMALL, SMALLER)
    alone = {"forgets_small", "not_supported_for_small"}
    assert names_told_by(found, False, True) == alone | {"writes_before_small"}
    assert names_told_by(found, False, True, written=False) == alone
    # The other status shows the order of the two.
    assert names_told_by(found, False, False, written=False) == alone | {"small_behind_smaller"}
    assert names_told_by(found, True, False, written=False) == {"forgets_smaller", "bad_param_for_smaller"}


def test_an_early_success_can_be_forgotten_refused_or_written(mutants_of):
    found = mutants_of(NONE)
    assert names_told_by(found, False) == {"forgets_none", "bad_param_for_none", "writes_before_none"}
    assert names_told_by(found, False, written=False) == {"bad_param_for_none"}
    # One that owes its outputs may write.
    assert names_told_by(mutants_of(replace(NONE, writes=True)), False) == {"forgets_none", "bad_param_for_none"}


def test_a_check_that_needs_another_before_it_fails(mutants_of):
    same = replace(SMALLER, status=SMALL.status)
    assert names_told_by(mutants_of(SMALL, same), False, None, written=False) >= {"forgets_small"}
    assert names_told_by(mutants_of(SMALL, same), False, False, written=False) == {"not_supported_for_small"}


def test_whatever_answers_alike_between_hides_a_check_that_is_asked_later(mutants_of):
    checks = SMALL, replace(SMALL, name="other"), SMALLER, NONE
    found = mutants_of(*checks)
    behind = {name for name in found if "_behind_" in name}
    assert behind >= {"small_behind_smaller", "small_behind_none", "other_behind_none", "smaller_behind_none"}
    assert "small_behind_other" not in behind, "both answer alike"
    assert names_told_by(found, False, False, False, True) & behind == set()
    assert names_told_by(found, False, True, False, True) & behind == {"small_behind_smaller", "small_behind_none"}
    assert names_told_by(found, False, True, True, False) & behind == {"small_behind_none"}


def test_a_block_is_asked_behind_a_later_one(mutants_of):
    names = ("geom_xyz_rank", "pos_memo_rank", "geom_xyz_strided", "pos_memo_strided")
    ranks = [replace(SMALL, name=name) for name in names[:2]]
    found = mutants_of(*ranks, *(replace(SMALLER, name=name) for name in names[2:]))
    block = "geom_xyz_rank_to_pos_memo_rank_behind_pos_memo_strided"
    # Whatever else of the block is broken, the block behind it answers first.
    assert block in names_told_by(found, False, False, True, False)
    assert "geom_xyz_rank_behind_pos_memo_strided" not in names_told_by(found, False, False, True, False)
    assert block not in names_told_by(found, True, True, False, True)
    assert found[block].message == "asks geom_xyz_rank … pos_memo_rank behind pos_memo_strided"


def test_a_query_that_refuses_nothing_shows_where_it_owes_a_refusal(mutants_of):
    found = mutants_of(SMALL, queries={"GetWorkspaceSize": QueryChecks(("small",))})
    call = refused(False, queries={"GetWorkspaceSize"})
    assert found["GetWorkspaceSize_checks_nothing"].is_told_by(call)
    assert not found["GetWorkspaceSize_checks_nothing"].is_told_by(refused(False))


def test_what_the_derivation_gave_up_is_excused_and_a_gap_is_not(mutants_of):
    cases = tuple(DerivedCase(one, "valid", "", Expect(), one) for one in ("checks", "order"))
    unseen = (Unseen("small", "smaller", "behind", "same symbol"),)
    found = mutants_of(SMALL, SMALLER, NONE, derived=Derivation("", cases, unseen))
    excused = {name for name, one in found.items() if one.is_excused}
    assert excused == {
        "small_behind_smaller",
        *(f"{word}_{name}" for word in ("forgets", "writes_before") for name in ("small", "smaller", "none")),
    }
    found = mutants_of(SMALL, SMALLER, NONE, derived=Derivation("", (), unseen))
    assert {name for name, one in found.items() if one.is_excused} == {
        "writes_before_small", "writes_before_smaller", "writes_before_none"
    }  # fmt: skip
    assert "forgets_small" not in mutants_of(replace(SMALL, subsumed="another stands before it"), SMALLER)


def test_a_refused_call_says_what_each_check_says_of_it(operators, catalogue):
    name = "get_indice_pairs"
    operator = operators[name]
    case = make_case(next(one for one in catalogue.drafts_of(name).values() if one.expect.check), operator)
    call = RefusedCall.of(case, operator)
    assert operator.checks[call.answer].name == case.expect.check
    assert call.refusing_queries <= operator.queries.keys()


@pytest.fixture
def misreadings():
    """What the mutants of a tensor of positions take its values for, where there are 40 000 places."""

    def find(outside, values):
        seen = {}

        def kernel(call):
            seen["at"] = call.array("index").tolist()
            return Status.SUCCESS

        index = TensorSpec("index", "[N]", (DType.INT32,), names="M", outside=outside)
        operator = Operator(
            name="toy", released_name="toy", op_type=("TOY", 1), summary="", checks=(), reference=kernel, kernel=kernel,
            inputs=(TensorSpec("table", "[M]", (DType.FLOAT,)), index), outputs=(),
        )  # fmt: skip
        call = call_of("toy", {}, {"table": np.zeros(40_000, "<f4"), "index": np.array(values, "<i4")}, {})
        taken = {}
        for mutant in position_mutants(operator):
            mutant.run(call)
            taken[mutant.name] = seen["at"]
        assert call.array("index").tolist() == values, "the caller's values stay"
        return taken

    return find


def test_positions_are_cut_to_16_bits_and_clamped(misreadings):
    assert misreadings("", [5, 39_999]) == {"index_in_uint16": [5, 39_999], "index_in_int16": [5, 0]}
    assert misreadings("skipped", [-3, 65_537, 39_999]) == {
        "index_in_uint16": [65_533, 1, 39_999],
        "index_in_int16": [-3, 1, 39_999 - 65_536],
        "index_clamped": [39_999, 39_999, 39_999],
    }
    assert misreadings("-1", [-1, 7])["index_in_int16"] == [-1, 7]
    assert misreadings("-1", [-1, 7])["index_clamped"] == [39_999, 7]


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


def test_what_the_checks_say_of_a_call_is_what_a_run_shows(operators, catalogue):
    """Mutants are not run: an implementation that forgets a check, run and judged, fails the same cases."""
    operator = operators["masked_col2im_forward"]
    drafts = [draft for draft in catalogue.drafts_of(operator.name).values() if draft.expect.check]
    found = {one.name: one for one in status_mutants(operator, NOTHING)}
    outcomes = set()
    for draft in drafts[::4]:
        case = make_case(draft, operator)
        check = operator.check(case.expect.check)
        forgetful = replace(operator, checks=tuple(one for one in operator.checks if one is not check))
        failed = judged("forgetful", partial(answer_and_write, forgetful), case, operator).outcome.tells_a_mistake
        assert found[f"forgets_{check.name}"].is_told_by(RefusedCall.of(case, operator)) == failed, case.id
        outcomes.add(failed)
    assert outcomes == {True, False}


def answer_and_write(operator, call):
    try:
        status = operator.early_answer(call)
    except Exception as error:
        raise Crashed("it looks at what another check should have refused") from error
    for output in call.outputs.values() if status is None else ():
        if output is not None and output.array is not None:
            output.array[...] = 1
    return Status.SUCCESS if status is None else status
