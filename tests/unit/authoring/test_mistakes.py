"""Mistakes and roundings of any operator: each is wrong where its message says so, and right everywhere else."""

from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import replace

from mluops_gtest.authoring import Baseline, CheckVerdict, Status, call_of
from mluops_gtest.authoring.mistakes import (
    cached_by_shape,
    first_length_kept,
    first_param_kept,
    input_cleared,
    part_left,
    spoilt,
    sum_goes_on,
    suspected,
    tails_left,
)
from mluops_gtest.authoring.narrowing import NARROW
from mluops_gtest.authoring.roundings import WRONG_COPIES, flushed, rounded_up_to_half, truncated_to_half
from mluops_gtest.authoring.suspects import as_read, misread

BEFORE = -7


def doubled(call):
    call.array("output")[...] = call.array("values") * call.param("factor")
    return Status.SUCCESS


def tried(run, values, factor=2):
    values = np.array(values, np.float32)
    call = call_of("toy", {"factor": factor}, {"values": values}, {"output": np.full_like(values, BEFORE)})
    assert run(call) is Status.SUCCESS
    return call.array("output").tolist()


@pytest.mark.parametrize(("check", "written"), [(None, [3, 3]), ("rows_empty", [1, 2])])
def test_an_operators_suspects_become_implementations(check, written):
    operator = SimpleNamespace(
        reference=lambda call: Baseline({"output": call.array("values")}),
        suspects={"all rows are 3": lambda call: {"output": np.full_like(call.array("values"), 3)}},
        answer=lambda _: CheckVerdict(Status.SUCCESS, check, writes=True),
    )
    (mutant,) = suspected(operator, {"threes": "all rows are 3"})
    assert (mutant.name, mutant.message) == ("threes", "as if all rows are 3")
    assert tried(mutant.run, [1, 2]) == written


def test_all_suspects_are_named_by_their_words_where_no_names_are_given():
    """Two of one name stay two: the catalogue refuses them."""
    operator = SimpleNamespace(suspects=dict.fromkeys(["0^0 is NaN (−0, too)", "x is |y|", "x is y"]))
    assert [one.name for one in suspected(operator)] == ["0_0_is_nan_0_too", "x_is_y", "x_is_y"]
    assert next(suspected(operator)).message == "as if 0^0 is NaN (−0, too)"


def test_a_suspect_is_not_asked_about_data_that_are_null():
    operator = SimpleNamespace(
        reference=lambda call: Baseline({"output": np.zeros(2)}),
        suspects={"all rows are 3": lambda call: {"output": call.array("values")}},
        answer=lambda _: CheckVerdict(Status.SUCCESS),
    )
    (mutant,) = suspected(operator, {"threes": "all rows are 3"})
    call = call_of("toy", {}, {"values": np.full(2, 3.0)}, {"output": np.full(2, BEFORE)})
    null = {"values": replace(call.tensor("values"), array=None, null=True)}
    assert mutant.run(replace(call, inputs=null)) is Status.SUCCESS
    assert call.array("output").tolist() == [0, 0]


@pytest.mark.parametrize(("length", "written"), [(16, 16), (3, 3), (17, 16), (32, 32), (47, 32)])
def test_a_tail_is_what_stands_behind_the_last_whole_tile(length, written):
    (mutant,) = tails_left(doubled, "output", 0, "rows", tiles=(16,))
    assert mutant.name == "rows_tail_16"
    assert tried(mutant.run, [1] * length) == [2] * written + [BEFORE] * (length - written)


@pytest.mark.parametrize(("length", "written"), [(15, 15), (16, 12), (18, 15)])
def test_the_last_thread_has_a_part_where_there_is_enough_to_do(length, written):
    mutant = part_left(doubled, "output", 0, "rows")
    assert tried(mutant.run, [1] * length) == [2] * written + [BEFORE] * (length - written)


def test_a_cache_answers_calls_of_the_same_shapes_and_parameters():
    run = cached_by_shape(doubled).fresh()
    assert tried(run, [1, 2]) == [2, 4]
    assert tried(run, [5, 6, 7]) == [10, 12, 14]
    assert tried(run, [5, 6], factor=3) == [15, 18]
    assert tried(run, [5, 6]) == [2, 4]


def test_what_a_mutant_remembers_a_fresh_one_does_not():
    mutant = sum_goes_on(doubled, "output")
    for run in (mutant.fresh(), mutant.fresh()):
        assert [tried(run, [1, 2]), tried(run, [1, 2]), tried(run, [1])] == [[2, 4], [4, 8], [2]]


def test_the_first_call_decides_on_lengths_and_parameters():
    run = first_length_kept(doubled, "output", 0, "rows").fresh()
    assert [tried(run, [1, 1]), tried(run, [1]), tried(run, [1, 1, 1])] == [[2, 2], [2], [2, 2, BEFORE]]
    run = first_param_kept(doubled, "factor").fresh()
    assert [tried(run, [1]), tried(run, [1], factor=9)] == [[2], [2]]


def test_results_are_spoilt_after_they_are_right():
    run = spoilt("reversed", "", doubled, lambda call: call.array("output").sort()).run
    assert tried(run, [3, 1]) == [2, 6]


def test_an_input_that_serves_as_scratch_is_zero_afterwards():
    values = np.ones(2, np.float32)
    call = call_of("toy", {"factor": 2}, {"values": values}, {"output": np.zeros(2, np.float32)})
    input_cleared(doubled, "values").run(call)
    assert (call.array("output").tolist(), call.array("values").tolist()) == ([2, 2], [0, 0])


SMALLEST = 2.0**-24


def test_halves_are_rounded_toward_zero_or_up_from_the_middle():
    value = np.array([0.25, 0.5, 0.75, 1.5, 2.5, 2.25, 1023.5, 1024.5, 2049, 7], np.float32)
    truncated = np.array([0, 0, 0, 1, 2, 2, 1023, 1024, 2048, 7])
    up = np.array([0, 1, 1, 2, 3, 2, 1024, 1025, 2050, 7])
    for sign in (1, -1):
        exact = sign * value * np.float32(SMALLEST)
        assert truncated_to_half(exact).tolist() == (sign * truncated * SMALLEST).tolist()
        assert rounded_up_to_half(exact).tolist() == (sign * up * SMALLEST).tolist()


def test_what_half_does_not_reach_is_infinite_and_what_is_no_number_stays_so():
    values = np.array([1e6, -1e6, np.inf, -np.inf, np.nan], np.float32)
    for rounded in (truncated_to_half, rounded_up_to_half):
        np.testing.assert_array_equal(rounded(values), [np.inf, -np.inf, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize(("dtype", "smallest"), [(np.float16, 2.0**-14), (np.float32, 2.0**-126)])
def test_only_subnormal_numbers_are_flushed(dtype, smallest):
    values = np.array([smallest, -smallest, smallest / 2, -smallest / 2, 0, 1, np.inf, np.nan], dtype)
    result = flushed(values)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.array([smallest, -smallest, 0, 0, 0, 1, np.inf, np.nan], dtype))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_each_wrong_copy_changes_the_numbers_that_it_names_and_no_other(dtype):
    largest, tiny = np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal
    values = np.array([np.nan, np.inf, -np.inf, tiny, 1 + np.finfo(dtype).eps, largest, -0.0, 3], dtype)
    exact = dtype is np.float16
    changed = {
        "drops_nan": {0: 0},
        "clamps_infinity": {1: largest, 2: -largest},
        "flushes_denormals": {3: 0},
        "through_half": {} if exact else {3: 0, 4: 1, 5: np.inf},
    }
    for name, _, copy in WRONG_COPIES:
        expected = values.copy()
        for place, value in changed[name].items():
            expected[place] = value
        result = copy(values)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, expected)


NARROWED = {
    "int8": {127: 127, -128: -128, 128: -128, -129: 127, 256: 0},
    "int16": {32767: 32767, 32768: -32768, -(2**31): 0},
    "half": {2048: 2048, -2049: -2048, 2051: 2052, 2**31 - 1: 65504},
    "float": {2**24: 2**24, 2**24 + 1: 2**24, 2**31 - 1: 2**31},
}


def test_narrow_integers_are_wrong_beyond_what_they_hold_and_right_within_it():
    assert {kind for kind, _, _ in NARROW} == NARROWED.keys()
    for kind, _, narrow in NARROW:
        assert narrow(np.array([*NARROWED[kind]], np.int64)).tolist() == [*NARROWED[kind].values()], kind


def test_a_call_is_misread_in_the_inputs_that_are_named():
    call = call_of("toy", {}, {"rows": np.arange(4.0).reshape(2, 2), "other": np.ones(2)})
    read = misread(rows=np.transpose)(call)
    assert read.array("rows").tolist() == [[0, 2], [1, 3]]
    assert read.array("rows").flags.c_contiguous
    assert read.array("other") is call.array("other")
    assert call.array("rows").tolist() == [[0, 1], [2, 3]]


def test_a_suspect_says_nothing_of_a_call_that_cannot_be_misread():
    call = call_of("toy", {}, {"rows": np.ones(2)})

    def reference(call):
        return Baseline({"output": call.array("rows")})

    assert as_read(reference, misread(rows=np.negative))(call)["output"].tolist() == [-1, -1]
    assert as_read(reference, lambda _: None)(call) == {}
