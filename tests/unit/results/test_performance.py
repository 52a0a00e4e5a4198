"""Which cases are timed against each other, and what their answers do to the gate."""

import numpy as np
import pytest

from mluops_gtest.base.errors import ExitCode, UsageError
from mluops_gtest.core.result import Perf
from mluops_gtest.results.gate import Policy, decide
from mluops_gtest.results.gate_findings import findings
from mluops_gtest.results.gate_reference import reference_of, with_runs
from mluops_gtest.results.statistics import TimeVerdict
from tests.unit.results.build import EVERYTHING, MACHINE, TODAY, gate, report, result


def samples(factor=1.0, seed=0, count=60):
    return 1e6 * factor * np.exp(np.random.default_rng(seed).normal(0, 0.02, count))


def timed(factor=1.0, seed=0, count=60, outcome="passed", **more):
    return report(result("op/a", outcome, times=samples(factor, seed, count)), **more)


def answers(decision):
    return [(change.answer.value, change.reason) for change in decision.performance.changes]


def test_slower_blocks_and_faster_does_not():
    slower, faster = gate(timed(), timed(1.5)), gate(timed(), timed(0.6))
    assert slower.performance.changes[0].answer is TimeVerdict.SLOWER
    assert slower.exit_code is ExitCode.FAILED
    assert slower.performance.changes[0].ratio.ratio == pytest.approx(1.5, rel=0.02)
    assert faster.performance.changes[0].answer is TimeVerdict.FASTER
    assert faster.exit_code is ExitCode.OK


def test_inconclusive_blocks_only_when_asked_for():
    before = now = report(result("op/a", times=[1_000_000, 1_100_000, 900_000, 1_200_000, 1_050_000, 950_000]))
    decision = gate(before, now)
    assert decision.performance.changes[0].answer is TimeVerdict.INCONCLUSIVE
    assert decision.performance.changes[0].needed > 6
    assert decision.exit_code is ExitCode.OK
    assert gate(before, now, strict_perf=True).exit_code is ExitCode.FAILED


def test_shown_to_be_unchanged_passes_the_strict_gate():
    runs = {f"run {seed}": timed(seed=seed, count=400) for seed in range(1, 6)}
    reference = with_runs(reference_of(timed(count=400)), runs)
    decision = decide(timed(seed=9, count=400), reference, (), TODAY, Policy(strict_perf=True))
    assert answers(decision) == [("unchanged", "")]
    assert decision.exit_code is ExitCode.OK


@pytest.mark.parametrize("key", ["platform", "machine", "cpus"])
def test_another_machine_is_inconclusive_however_slow(key):
    other = timed(3.0, machine={**MACHINE, key: "other"})
    assert answers(gate(timed(), other)) == [("inconclusive", f"another machine: {key} differ")]
    assert gate(timed(), other).exit_code is ExitCode.OK
    assert gate(timed(), other, strict_perf=True).exit_code is ExitCode.FAILED


@pytest.mark.parametrize(("before", "now"), [(None, 7), (7, 8)])
def test_times_of_other_values_are_inconclusive(before, now):
    old, new = ({"selection": {**EVERYTHING, "reseed": number}} for number in (before, now))
    ((answer, reason),) = answers(gate(timed(**old), timed(3.0, **new)))
    assert (answer, reason.partition(":")[0]) == ("inconclusive", "different values")
    with pytest.raises(UsageError, match="--aa run: its cases have different values"):
        with_runs(reference_of(timed(**old)), {"run": timed(**new)})


def test_another_python_is_the_same_machine():
    assert gate(timed(), timed(2.0, machine={**MACHINE, "python": "3.14"})).blocked


def test_samples_on_one_side_only():
    bare = report(result("op/a"))
    assert answers(gate(timed(), bare)) == [("inconclusive", "RESULTS has no samples for it; run with --perf")]
    assert answers(gate(bare, timed())) == [("inconclusive", "the baseline has no times for it")]
    assert answers(gate(bare, bare)) == []


def test_too_few_samples_say_how_many_are_needed():
    assert answers(gate(timed(), timed(9.0, count=4))) == [("inconclusive", "4 samples; at least 5 are needed")]


@pytest.mark.parametrize(("before", "now"), [("failed", "passed"), ("passed", "failed"), ("failed", "failed")])
def test_a_wrong_result_has_no_time(before, now):
    assert answers(gate(timed(outcome=before), timed(9.0, outcome=now))) == []


def test_seconds_are_no_samples():
    before, now = report(result("op/a", seconds=1.0)), report(result("op/a", seconds=9.0))
    assert not gate(before, now).blocked


def test_further_runs_must_be_of_the_same_build_and_machine():
    reference = reference_of(timed())
    assert len(with_runs(reference, {"again": timed(seed=1)}).cases["op/a"].times) == 2
    with pytest.raises(UsageError, match="--aa again: it ran on backend 'mlu'"):
        with_runs(reference, {"again": timed(backend="mlu")})
    with pytest.raises(UsageError, match="--aa again: it ran on another machine"):
        with_runs(reference, {"again": timed(machine={**MACHINE, "cpus": 64})})


def test_a_failed_run_adds_no_time():
    again = {"again": timed(seed=1, outcome="failed")}
    assert len(with_runs(reference_of(timed()), again).cases["op/a"].times) == 1


def test_all_cases_a_little_slower_block_together():
    def many(factor, seed):
        rng = np.random.default_rng(seed)
        return report(*(result(f"op/{i}", times=factor * 1e6 * np.exp(rng.normal(0, 0.02, 30))) for i in range(30)))

    decision = gate(many(1.0, 1), many(1.08, 2))
    assert decision.performance.all_slower
    assert decision.exit_code is ExitCode.FAILED


class TestTooShort:
    """Calls of a millisecond whose overhead is known."""

    def timed(self, factor, overhead_ns):
        perf = Perf(tuple(int(ns) for ns in samples(factor)), overhead_ns=overhead_ns)
        return report(result("op/a", perf=perf))

    def test_a_slower_call_that_is_mostly_overhead_is_no_finding_that_blocks(self):
        decision = gate(timed(), self.timed(1.5, 200_000), strict_perf=True)
        (change,) = decision.performance.changes
        assert (change.answer, change.ratio, decision.exit_code) == (TimeVerdict.TOO_SHORT, None, ExitCode.OK)
        assert (round(change.before_ns, -5), round(change.now_ns, -5)) == (1_000_000, 1_500_000)
        assert "an empty one 200 µs; from 2 ms on it can be judged: use a larger case" in change.reason
        (finding,) = findings(decision)
        assert finding.title == "too short to judge: times of 1 case"
        assert "op/a: the call takes 1.5" in finding.text

    def test_a_faster_one_is_no_news_either(self):
        assert gate(timed(), self.timed(0.5, 200_000)).performance.changes[0].answer is TimeVerdict.TOO_SHORT

    def test_ten_overheads_are_long_enough(self):
        assert gate(timed(), self.timed(1.5, 140_000)).performance.changes[0].answer is TimeVerdict.SLOWER

    def test_a_larger_minimum_effect_needs_less(self):
        decision = gate(timed(), self.timed(1.5, 200_000), min_effect=0.1)
        assert decision.performance.changes[0].answer is TimeVerdict.SLOWER

    def test_short_calls_do_not_make_the_others_noisy(self):
        def two_cases(factor):
            short = Perf((1000, 3000) * 20, overhead_ns=1000)
            return report(result("op/a", times=samples(factor)), result("op/b", perf=short))

        alone = gate(timed(), timed(1.1)).performance
        beside = gate(two_cases(1.0), two_cases(1.1)).performance
        assert beside.changes[0] == alone.changes[0]
        assert beside.changes[1].answer is TimeVerdict.TOO_SHORT
