"""Mistakes of any operator: each is wrong where its message says so, and right everywhere else."""

import numpy as np
import pytest

from mluops_gtest.authoring import Status, call_of
from mluops_gtest.authoring.mistakes import (
    cached_by_shape,
    first_length_kept,
    first_param_kept,
    input_cleared,
    part_left,
    spoilt,
    sum_goes_on,
    tails_left,
)

BEFORE = -7


def doubled(call):
    call.array("output")[...] = call.array("values") * call.param("factor")
    return Status.SUCCESS


def tried(run, values, factor=2):
    values = np.array(values, np.float32)
    call = call_of("toy", {"factor": factor}, {"values": values}, {"output": np.full_like(values, BEFORE)})
    assert run(call) is Status.SUCCESS
    return call.array("output").tolist()


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
