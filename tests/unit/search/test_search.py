"""The search on an operator that doubles: what is found, in how many calls, and where it ends."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from mluops_gtest.authoring.reductions import Reduction, along
from mluops_gtest.base.errors import OperatorError
from mluops_gtest.core.call import Status
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.search.minimise import minimised, what_shrank
from tests.unit.running.small_operator import DOUBLES, doubling

ROOT = Path(__file__).parents[3]
REDUCTIONS = {"values": along(DOUBLES, "n")}


class Doubling:
    """Right, but for what `spoil` makes of the output."""

    name = "doubling"

    def __init__(self, spoil=lambda x, y: None):
        self.spoil, self.calls = spoil, []

    def run(self, call):
        early = DOUBLES.early_answer(call)
        if early is not None:
            return early
        x, y = call.array("x"), call.array("y")
        self.calls.append(x.tolist())
        y[...] = 2 * x
        call.scalars["count"] = x.size
        return self.spoil(x, y) or Status.SUCCESS


def searched(case, spoil, limit=300, **options):
    backend = Doubling(spoil)
    executor = CaseRun(InlineCaller(backend), Options(explain=False))
    return minimised(case, DOUBLES, REDUCTIONS, lambda one: executor.run_case(one, DOUBLES), limit, **options), backend


def values(found):
    return found.case.inputs[0].values.tolist()


def wrong_where(condition):
    def spoil(x, y):
        y[condition(x)] += 1

    return spoil


def test_one_of_many_is_left_with_a_plain_value():
    found, backend = searched(doubling(tuple(range(10, 110))), wrong_where(lambda x: x > 50))
    assert len(values(found)) == 1
    assert values(found)[0] > 50
    assert found.elements == (200, 2)
    assert found.result.outcome is Outcome.FAILED
    assert found.finished
    assert found.calls == len(backend.calls) <= 40
    assert what_shrank(found) == "values 100 → 1"


def test_values_become_0_or_1_where_the_failure_stays():
    found, _ = searched(doubling((3.25, 9.5, 4.75)), wrong_where(lambda x: np.ones(x.shape, bool)))
    assert values(found) == [0.0]
    found, _ = searched(doubling((3.25, 9.5, 4.75)), wrong_where(lambda x: x > 0))
    assert values(found) == [1.0]


def test_a_mistake_that_needs_many_keeps_as_many():
    def tail(x, y):
        y[64:] = 0

    found, _ = searched(doubling(tuple(range(10, 310))), tail)
    assert len(values(found)) == 65
    # The last of them must differ from 0 to be missed.
    assert values(found)[-1] == 1


def test_two_that_belong_together_stay():
    def pair(x, y):
        if {20.0, 90.0} <= set(x.tolist()):
            y[0] += 1000

    found, _ = searched(doubling(tuple(range(10, 110))), pair)
    assert values(found) == [20.0, 90.0]


def test_what_the_document_does_not_define_is_never_called():
    """7 breaks the precondition; ranks and small integers would make some."""
    _, backend = searched(doubling(tuple(range(10, 30))), wrong_where(lambda x: x >= 0))
    assert not any(7.0 in x for x in backend.calls)


def test_a_limit_is_kept_and_told():
    found, backend = searched(doubling(tuple(range(10, 110))), wrong_where(lambda x: x > 50), limit=3)
    assert found.calls == len(backend.calls) == 3
    assert not found.finished
    assert found.elements[1] < 200


def test_nothing_is_tried_twice():
    _, backend = searched(doubling(tuple(range(10, 60))), wrong_where(lambda x: x == 31))
    called = [tuple(x) for x in backend.calls]
    # The first is called again with what a candidate has: no file, no notes.
    assert len(called) - len(set(called)) <= 1


def test_the_same_search_gives_the_same_case():
    results = [searched(doubling(tuple(range(10, 60))), wrong_where(lambda x: x % 7 == 3))[0] for _ in range(2)]
    assert values(results[0]) == values(results[1])
    assert results[0].calls == results[1].calls


def test_a_case_that_passes_is_returned_as_it_is():
    case = doubling()
    found, _ = searched(case, lambda x, y: None)
    assert not found.fails
    assert found.case is case
    assert found.calls == 1


def test_a_minimal_case_is_told_to_be_one():
    first, _ = searched(doubling((3.25, 9.5)), wrong_where(lambda x: x > 0))
    again, _ = searched(first.case, wrong_where(lambda x: x > 0))
    assert not first.is_unchanged
    assert again.is_unchanged
    assert again.finished


def test_a_baseline_of_its_own_is_told_apart_from_a_mistake():
    found, _ = searched(doubling((1.0, 2.0), y=(2.0, 5.0)), lambda x, y: None)
    assert found.fails
    assert found.other_baseline


def test_an_interrupt_ends_with_the_best_so_far():
    steps = []

    def tell(step):
        steps.append(step)
        if len(steps) == 3:
            raise KeyboardInterrupt

    found, _ = searched(doubling(tuple(range(10, 110))), wrong_where(lambda x: x > 50), tell=tell)
    assert found.interrupted
    assert found.result.outcome is Outcome.FAILED
    assert [step.calls for step in steps] == [1, 2, 3]


def test_an_interrupt_before_anything_is_known_is_one():
    def tell(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        searched(doubling(), wrong_where(lambda x: x > 0), tell=tell)


def test_a_smaller_case_with_another_failure_does_not_count():
    """Alone, a value above 50 is refused; the wrong value stays with company."""

    def spoil(x, y):
        if len(x) == 1:
            return Status.NOT_SUPPORTED
        y[x > 50] += 1
        return None

    found, _ = searched(doubling(tuple(range(10, 110))), spoil)
    assert found.result.outcome is Outcome.FAILED
    assert len(values(found)) == 2


def test_a_refused_call_loses_its_values_and_keeps_its_check():
    class Accepts(Doubling):
        def run(self, call):
            return Status.SUCCESS

    case = doubling(tuple(range(1, 9)), sign=-3, status=Status.BAD_PARAM, check="sign_positive")
    executor = CaseRun(InlineCaller(Accepts()), Options(explain=False))
    total = Reduction(lambda call: int(call.array("x").sum()), lambda call, start, stop: None)
    reductions = {**REDUCTIONS, "total": total}
    found = minimised(case, DOUBLES, reductions, lambda one: executor.run_case(one, DOUBLES))
    assert found.case.inputs[0].data is None
    assert found.case.inputs[0].desc.dims == (1,)
    assert found.case.params["sign"] == 0
    # What only values could tell is not told of a call that lost them.
    assert found.sizes == {"values": (8, 1)}
    assert found.result.outcome is Outcome.WRONG_STATUS


def failing(call, *_places):
    return call.array("nowhere")


@pytest.mark.parametrize(
    ("reduction", "words"),
    [
        (Reduction(failing, lambda *_: None), "the reduction 'odd' of doubles fails: KeyError"),
        (Reduction(lambda _: 3, failing), "the reduction 'odd' of doubles fails from 1 up to 3: KeyError"),
    ],
)
def test_a_reduction_that_fails_is_told_with_its_line(reduction, words):
    executor = CaseRun(InlineCaller(Doubling(wrong_where(lambda x: x > 1))), Options(explain=False))
    with pytest.raises(OperatorError, match=r"test_search\.py:\d+: ") as told:
        minimised(doubling((1, 2, 3)), DOUBLES, {"odd": reduction}, lambda one: executor.run_case(one, DOUBLES))
    assert words in str(told.value)
    line = failing.__code__.co_firstlineno + 1
    assert f"(tests/unit/search/test_search.py:{line})" in str(told.value).replace(f"{ROOT}/", "")


def test_a_reference_that_fails_on_a_smaller_call_is_told_with_its_line():
    def reference(call):
        if call.array("x").size < 3:
            raise RuntimeError("too few")
        return DOUBLES.reference(call)

    careless = dataclasses.replace(DOUBLES, reference=reference)
    executor = CaseRun(InlineCaller(Doubling(wrong_where(lambda x: x > 1))), Options(explain=False))
    with pytest.raises(
        OperatorError, match=r"fails on a smaller call: RuntimeError: too few \(.*test_search\.py:\d+\)"
    ):
        minimised(doubling((1, 2, 3)), careless, REDUCTIONS, lambda one: executor.run_case(one, careless))
