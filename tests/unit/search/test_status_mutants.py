"""Wrong statuses made from ordered checks: what each gets wrong, and what is left out because nobody could tell."""

from dataclasses import replace

import numpy as np
import pytest

from mluops_gtest.authoring import Check, Status, call_of
from mluops_gtest.core.call import Crashed
from mluops_gtest.search.mutants import status_mutants


def check(name, status, least, **more):
    return Check(name, status, lambda call: call.array("values").size >= least, "", "", **more)


SMALL = check("small", Status.BAD_PARAM, 2)
SMALLER = check("smaller", Status.NOT_SUPPORTED, 1)
NONE = check("none", Status.SUCCESS, 1)


@pytest.fixture
def made(operators):
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


def test_each_mutant_is_wrong_where_its_checks_answer(made):
    found = made(SMALL, SMALLER)
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


def test_an_early_success_can_be_forgotten_refused_or_written(made):
    found = made(NONE)
    assert answer(found["forgets_none"], 0) == (Status.SUCCESS, True)
    assert answer(found["bad_param_for_none"], 0) == (Status.BAD_PARAM, False)
    assert answer(found["writes_before_none"], 0) == (Status.SUCCESS, True)


def test_one_that_owes_its_outputs_may_write(made):
    assert made(replace(NONE, writes=True)).keys() == {"forgets_none", "bad_param_for_none"}


def test_what_nobody_could_tell_is_left_out(made):
    assert made(replace(SMALL, subsumed="another stands before it"), SMALLER).keys() == {
        "forgets_smaller",
        "bad_param_for_smaller",
        "writes_before_smaller",
    }
    assert "forgets_small" not in made(SMALL, SMALLER, answered_anyway={"small": "why"})
    assert "smaller_before_small" not in made(SMALL, SMALLER, not_together={"small": ("smaller",)})
    same = replace(SMALLER, status=SMALL.status)
    assert "smaller_before_small" not in made(SMALL, same)


def test_a_check_that_needs_another_before_it_crashes(made):
    def raising(call):
        raise ValueError("the descriptor is null")

    found = made(SMALL, replace(SMALLER, holds=raising))
    with pytest.raises(Crashed, match="descriptor is null"):
        answer(found["forgets_small"], 1)
