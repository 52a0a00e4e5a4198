"""The search for the smallest case: which failures are one, what is found in how many calls, and where it ends."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from mluops_gtest.authoring.reductions import Reduction, along
from mluops_gtest.base.errors import OperatorError
from mluops_gtest.core import cause as c
from mluops_gtest.core.call import Status
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult, ElementReading
from mluops_gtest.running.caller import Ending, InlineCaller, Reply
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.search.minimise import FailureCause, Trials, can_be_minimised, minimised, what_shrank
from tests.unit.running.small_operator import DOUBLES, doubling

ROOT = Path(__file__).parents[3]
REDUCTIONS = {"values": along(DOUBLES, "n")}
HUNDRED = tuple(range(10, 110))


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


def searched(case, spoil, operator=DOUBLES, reductions=REDUCTIONS, **options):
    backend = spoil if isinstance(spoil, Doubling) else Doubling(spoil)
    executor = CaseRun(InlineCaller(backend), Options(explain=False))
    found = minimised(case, operator, reductions, lambda one: executor.run_case(one, operator), **options)
    return found, backend


def values(smallest):
    return smallest.case.inputs[0].values.tolist()


def wrong_where(condition):
    def spoil(x, y):
        y[condition(x)] += 1

    return spoil


ABOVE_50 = wrong_where(lambda x: x > 50)


def test_one_of_many_is_left_with_a_plain_value():
    found, backend = searched(doubling(HUNDRED), ABOVE_50)
    assert len(values(found)) == 1
    assert values(found)[0] > 50
    assert found.elements == (200, 2)
    assert found.result.outcome is Outcome.FAILED
    assert found.finished
    assert found.calls == len(backend.calls) <= 40
    assert what_shrank(found) == "values 100 → 1"


@pytest.mark.parametrize(("wrong", "left"), [(lambda x: x >= 0, 0.0), (lambda x: x > 0, 1.0)])
def test_values_become_0_or_1_where_the_failure_stays_and_then_nothing_changes(wrong, left):
    first, _ = searched(doubling((3.25, 9.5, 4.75)), wrong_where(wrong))
    again, _ = searched(first.case, wrong_where(wrong))
    assert values(first) == [left]
    assert (first.is_unchanged, again.is_unchanged, again.finished) == (False, True, True)


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

    found, _ = searched(doubling(HUNDRED), pair)
    assert values(found) == [20.0, 90.0]


def test_what_the_document_does_not_define_is_never_called():
    """7 breaks the precondition; ranks and small integers would make some."""
    _, backend = searched(doubling(tuple(range(10, 30))), wrong_where(lambda x: x >= 0))
    assert not any(7.0 in x for x in backend.calls)


def test_a_limit_is_kept_and_told():
    found, backend = searched(doubling(HUNDRED), ABOVE_50, limit=3)
    assert found.calls == len(backend.calls) == 3
    assert not found.finished
    assert found.elements[1] < 200


def test_nothing_is_tried_twice_and_the_same_search_makes_the_same_calls():
    first, second = (
        [tuple(x) for x in searched(doubling(tuple(range(10, 60))), wrong_where(lambda x: x % 7 == 3))[1].calls]
        for _ in range(2)
    )
    assert first == second
    # The first is called again with what a candidate has: no file, no notes.
    assert len(first) - len(set(first)) <= 1


def test_a_case_that_passes_is_returned_as_it_is_and_a_baseline_of_its_own_is_no_mistake():
    case = doubling()
    found, _ = searched(case, lambda x, y: None)
    assert (found.fails, found.case is case, found.calls) == (False, True, 1)
    found, _ = searched(doubling((1.0, 2.0), y=(2.0, 5.0)), lambda x, y: None)
    assert (found.fails, found.other_baseline) == (True, True)


def test_an_interrupt_ends_with_the_best_so_far():
    steps = []

    def tell(step):
        steps.append(step)
        if len(steps) == 3:
            raise KeyboardInterrupt

    found, _ = searched(doubling(HUNDRED), ABOVE_50, tell=tell)
    assert found.interrupted
    assert found.result.outcome is Outcome.FAILED
    assert [step.calls for step in steps] == [1, 2, 3]


def test_an_interrupt_before_anything_is_known_is_one():
    def interrupt(x, y):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        searched(doubling(), interrupt)


def test_a_smaller_case_with_another_failure_does_not_count():
    """Alone, a value above 50 is refused; the wrong value stays with company."""

    def spoil(x, y):
        if len(x) == 1:
            return Status.NOT_SUPPORTED
        y[x > 50] += 1
        return None

    found, _ = searched(doubling(HUNDRED), spoil)
    assert found.result.outcome is Outcome.FAILED
    assert len(values(found)) == 2


def test_a_refused_call_loses_its_values_and_keeps_its_check():
    class Accepts(Doubling):
        def run(self, call):
            return Status.SUCCESS

    case = doubling(tuple(range(1, 9)), sign=-3, status=Status.BAD_PARAM, check="sign_positive")
    total = Reduction(lambda call: int(call.array("x").sum()), lambda call, start, stop: None)
    found, _ = searched(case, Accepts(), reductions={**REDUCTIONS, "total": total})
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
    with pytest.raises(OperatorError, match=r"test_minimise\.py:\d+: ") as told:
        searched(doubling((1, 2, 3)), wrong_where(lambda x: x > 1), reductions={"odd": reduction})
    assert words in str(told.value)
    line = failing.__code__.co_firstlineno + 1
    assert f"(tests/unit/search/test_minimise.py:{line})" in str(told.value).replace(f"{ROOT}/", "")


def test_a_reference_that_fails_on_a_smaller_call_is_told_with_its_line():
    def reference(call):
        if call.array("x").size < 3:
            raise RuntimeError("too few")
        return DOUBLES.reference(call)

    careless = replace(DOUBLES, reference=reference)
    where = r"fails on a smaller call: RuntimeError: too few \(.*test_minimise\.py:\d+\)"
    with pytest.raises(OperatorError, match=where):
        searched(doubling((1, 2, 3)), wrong_where(lambda x: x > 1), careless)


PLACES = c.Places(3, 10, 1, 7)


def failed(*causes, outcome=Outcome.FAILED, status=Status.SUCCESS, elements=()):
    return CaseResult("op/case", "op", (), outcome, status=status, causes=causes, elements=elements, compared=True)


def exceeded(output, value=1.0, places=PLACES):
    return c.Exceeded(output, (c.Excess("diff1", value, 1e-3),), places, False, False, None, 3)


def beyond(output):
    return ElementReading(output, "float", 2, 10, 5.0, (0,), "1", "2", 0.1)


def same(first, second):
    return FailureCause.of(first).is_also_of(second)


TIMED_OUT = [failed(c.TimedOut(seconds), outcome=Outcome.TIMED_OUT) for seconds in (60.0, 1.0)]
OVERRUN = [failed(c.Overrun("y", "behind", n), outcome=Outcome.MEMORY) for n in (1, 500)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (failed(exceeded("y")), failed(exceeded("y", 0.1, c.Places(1, 1, 0, 0)))),
        TIMED_OUT,
        OVERRUN,
        # A crash is the same however its signal is told.
        (failed(c.Killed("SIGSEGV", 11)), failed(c.Fault("SIGSEGV", "read", "0x10", "null"))),
    ],
)
def test_digits_and_places_do_not_matter(first, second):
    assert same(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (failed(exceeded("y")), failed(exceeded("z"))),
        (failed(exceeded("y")), failed(c.Unwritten("y", PLACES, (0,)))),
        (failed(exceeded("y")), failed(exceeded("y"), outcome=Outcome.MEMORY)),
        (failed(exceeded("y")), failed(exceeded("y"), status=Status.BAD_PARAM)),
        (failed(c.Overrun("y", "behind", 1)), failed(c.Overrun("y", "in front", 1))),
        (failed(c.Killed("SIGSEGV", 11)), failed(c.Killed("SIGABRT", 6))),
        (failed(c.Raised("ValueError", "a")), failed(c.Raised("KeyError", "a"))),
        (failed(c.WrongStatus("SUCCESS", "BAD_PARAM")), failed(c.WrongStatus("NOT_SUPPORTED", "BAD_PARAM"))),
    ],
)
def test_kind_output_outcome_status_side_and_signal_do(first, second):
    assert same(first, first)
    assert not same(first, second)
    assert not same(second, first)


def test_causes_may_go_but_not_come_and_the_main_one_stays():
    both = failed(exceeded("y"), exceeded("z"))
    assert same(both, failed(exceeded("y")))
    assert not same(failed(exceeded("y")), both)
    assert not same(both, failed(exceeded("z")))


def test_what_was_beyond_arithmetic_stays_so():
    """A sum that cancels breaks a criterion by rounding alone."""
    wrong = failed(exceeded("y"), elements=(beyond("y"),))
    assert same(wrong, wrong)
    assert not same(wrong, failed(exceeded("y")))
    assert same(failed(exceeded("y")), wrong)


def test_only_the_backends_own_failures_can_be_minimised():
    error = {"outcome": Outcome.ERROR}
    for backends_own in (failed(exceeded("y")), failed(c.Raised("ValueError", "a"), **error)):
        assert can_be_minimised(backends_own)
    for other in (
        failed(c.ContentError("x"), **error),
        replace(failed(c.Bug("KeyError", "x"), **error), bug=True),
        failed(c.Unsupported("b", "op"), outcome=Outcome.SKIPPED),
        failed(c.ConstantBaseline("y"), outcome=Outcome.SUSPECT),
    ):
        assert not can_be_minimised(other)


@dataclass
class Hanging(InlineCaller):
    """Says that it hung, and remembers how long it might take."""

    timeouts: list = field(default_factory=list)
    seconds: float = 0.0

    def __post_init__(self):
        super().__init__(Doubling())

    def request(self, _what, call, timeout):
        self.timeouts.append(timeout)
        if self.seconds:
            call.array("y")[...] = 2 * call.array("x")
            return Reply(status=Status.SUCCESS, seconds=self.seconds, scalars={"count": 4})
        return Reply(ended=Ending.TIMED_OUT, causes=(c.TimedOut(timeout),))


@pytest.mark.parametrize(
    ("timeout", "seconds", "timeouts"),
    [
        pytest.param(50.0, (0.0, 0.0), [50.0, 1.0], id="the first hang gets all its time, the next one second"),
        pytest.param(50.0, (0.5, 0.0, 0.0), [50.0, 50.0, 10.0], id="a slow backend is not taken for a hanging one"),
        pytest.param(0.25, (0.0, 0.0), [0.25, 0.25], id="no call gets longer than the user allows"),
    ],
)
def test_after_the_first_hang_nobody_waits_long(timeout, seconds, timeouts):
    caller = Hanging()
    trials = Trials(caller, Options(timeout=timeout), DOUBLES)
    for caller.seconds in seconds:
        assert trials(doubling()).outcome is (Outcome.PASSED if caller.seconds else Outcome.TIMED_OUT)
    trials.explained(doubling())
    assert caller.timeouts == [*timeouts, timeout]
