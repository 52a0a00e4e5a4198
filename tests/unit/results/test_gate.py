"""The decision: what became of every case, readings that grow, times that are compared, and the findings of it all."""

import itertools
import json
import math

import numpy as np
import pytest

from mluops_gtest.base.errors import ContentError, ExitCode, UsageError
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseInfo, Perf, Reading, TensorInfo
from mluops_gtest.judging.explaining import explained
from mluops_gtest.judging.value_laws import WrongOutput
from mluops_gtest.results.gate import Policy, Transition, decide, transition
from mluops_gtest.results.gate_findings import decision_to_json, findings, github, gitlab, markdown, verdict
from mluops_gtest.results.gate_reference import DriftLimits, reference_of, with_runs
from mluops_gtest.results.statistics import TimeVerdict
from tests.unit.results.build import EVERYTHING, MACHINE, TODAY, gate, outcomes, report, result, waiver

# before, now, what became of it, does it block
TABLE = [
    (("passed",), ("passed",), "still passing", False),
    (("failed", "xfailed", "suspect", "flaky"), ("passed",), "fixed", False),
    (("skipped", "not_run", None), ("passed",), "new", False),
    ((None,), ("skipped",), "new", False),
    (("skipped",), ("skipped",), "still skipped", False),
    (("passed",), ("failed", "flaky", "timed_out"), "regressed", True),
    (("failed", "xfailed", "suspect"), ("failed", "crashed"), "still failing", True),
    ((None, "skipped"), ("failed", "memory"), "new and failing", True),
    (("passed", "skipped"), (None,), "missing", True),
    (("passed", "failed"), ("skipped",), "became skipped", True),
    (("passed", "suspect", None), ("suspect",), "suspect", True),
    (("passed", None), ("not_run",), "not_run", True),
]


@pytest.mark.parametrize(("before", "now", "word", "blocks"), TABLE)
def test_every_transition(before, now, word, blocks):
    for sides in itertools.product(before, now):
        old, new = (outcomes(other="passed", **({} if side is None else {"a": side})) for side in sides)
        decision = gate(old, new)
        change = next(change for change in decision.changes if change.case == "op/a")
        assert (change.transition.value, change.blocks) == (word, blocks), sides
        assert decision.exit_code is (ExitCode.FAILED if blocks else ExitCode.OK)


def test_the_table_has_every_transition():
    # What replaces a case stands in its root, not in results.
    assert {word for _, _, word, _ in TABLE} | {"replaced"} == {transition.value for transition in Transition}


@pytest.mark.parametrize(
    "outcome", [outcome for outcome in Outcome if outcome not in (Outcome.XFAILED, Outcome.XPASSED)]
)
def test_a_result_that_blocks_a_run_blocks_the_gate(outcome):
    for before in (None, *Outcome):
        blocks = transition(before, outcome).blocks
        assert blocks or not outcome.blocks
    assert outcome.fails == (transition(None, outcome) is Transition.NEW_AND_FAILING)


@pytest.mark.parametrize(
    ("before", "now", "code"),
    [
        ({}, {}, ExitCode.EMPTY),
        ({}, {"a": "passed"}, ExitCode.EMPTY),
        ({"a": "skipped"}, {"a": "skipped"}, ExitCode.EMPTY),
        ({"a": "skipped"}, {"a": "passed"}, ExitCode.EMPTY),
        ({}, {"a": "skipped"}, ExitCode.EMPTY),
        ({"a": "passed"}, {"a": "skipped"}, ExitCode.FAILED),
        ({"a": "passed"}, {}, ExitCode.FAILED),
    ],
)
def test_where_nothing_is_compared_what_blocks_counts_more(before, now, code):
    assert gate(outcomes(**before), outcomes(**now)).exit_code is code


def test_missing_is_judged_within_what_was_asked_for():
    before, now = outcomes(a="passed", b="passed", c="passed"), outcomes(a="passed")
    assert gate(before, now).transitions == {Transition.STILL_PASSING: 1, Transition.MISSING: 2}
    decision = gate(before, now, asked_for={"op/a", "op/b"})
    assert [change.case for change in decision.blocking] == ["op/b"]
    assert gate(before, now, asked_for={"op/a"}).exit_code is ExitCode.OK
    # What is there is judged, too.
    decision = gate(outcomes(a="passed", b="passed"), outcomes(a="passed", b="failed"), asked_for={"op/a"})
    assert [change.transition for change in decision.blocking] == [Transition.REGRESSED]


def test_backends_are_not_mixed_by_accident():
    before, now = report(result("op/a")), report(result("op/a"), backend="mlu")
    with pytest.raises(UsageError, match=r"'mlu'.*'numpy'.*--cross-backend"):
        gate(before, now)
    assert gate(before, now, cross_backend=True).exit_code is ExitCode.OK


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["failed", "passed"], "op/a has two results"),
        (["xfailed"], "op/a is xfailed, which only the gate gives"),
        (["xpassed"], "op/a is xpassed, which only the gate gives"),
    ],
)
def test_two_results_of_a_case_and_those_that_claim_a_waiver_are_refused(words, message):
    with pytest.raises(ContentError, match=message):
        gate(outcomes(a="passed"), report(*(result("op/a", word) for word in words)))


FLOAT, HALF = 2.0**-22, 2.0**-9


def drift(before, now, dtype="float", **policy):
    old, new = (report(result("op/a", value=value, dtype=dtype)) for value in (before, now))
    return gate(old, new, **policy)


@pytest.mark.parametrize(
    ("dtype", "within", "beyond"),
    [
        ("float", [(1e-5, 3.9e-5), (1e-5, 4e-5), (1e-3, 1e-9)], [(1e-5, 4.1e-5)]),
        ("float", [(0.0, 4 * FLOAT), (FLOAT / 100, FLOAT / 2)], [(0.0, 4.01 * FLOAT)]),
        ("half", [(0.0, 4 * HALF), (0.0, 8 * FLOAT)], [(0.0, 4.01 * HALF)]),
        ("bfloat16", [(0.0, 4 * HALF)], [(0.0, 4.01 * HALF)]),
    ],
)
def test_a_reading_may_grow_by_the_factor_from_the_floor_on(dtype, within, beyond):
    assert [bool(drift(*pair, dtype).drifts) for pair in (*within, *beyond)] == [False] * len(within) + [True]


def test_drift_is_told_and_blocks_only_when_asked_for():
    assert drift(1e-5, 1e-3).exit_code is ExitCode.OK
    decision = drift(1e-5, 1e-3, strict_accuracy=True)
    assert decision.exit_code is ExitCode.FAILED
    assert decision.drifts[0].factor == pytest.approx(100)
    assert (decision.drifts[0].output, decision.drifts[0].criterion, decision.drifts[0].limit) == ("y", "diff1", 4.0)


def test_operators_have_limits_of_their_own():
    assert not drift(1e-5, 6e-5, drift=DriftLimits(4, {"op": 8})).drifts
    assert drift(1e-5, 6e-5, drift=DriftLimits(4, {"other": 8})).drifts
    assert drift(1e-5, 3e-5, drift=DriftLimits(2)).drifts


@pytest.mark.parametrize(("before", "now"), [("failed", "failed"), ("passed", "failed"), ("failed", "passed")])
def test_only_cases_that_still_pass_drift(before, now):
    old, new = report(result("op/a", before, value=1e-5)), report(result("op/a", now, value=1.0))
    assert not gate(old, new).drifts


def test_a_share_is_no_size_and_nan_is_no_number():
    def readings(*pairs):
        return tuple(Reading("y", criterion, value, 1.0, True) for criterion, value in pairs)

    old = report(result("op/a", readings=readings(("diff4", 0.01), ("diff2", 1e-5)), value=None))
    new = report(result("op/a", readings=readings(("diff4", 0.5), ("diff2", math.nan)), value=None))
    assert not gate(old, new).drifts


def test_the_floor_is_that_of_the_output_which_was_read():
    info = result("op/a", dtype="half").info
    reading = (Reading("other", "diff1", 5 * FLOAT, 1.0, True),)
    new = report(result("op/a", readings=reading, value=None, info=info))
    assert len(gate(report(result("op/a")), new).drifts) == 1


def with_seed(number, *results):
    return report(*results, selection={**EVERYTHING, "reseed": number})


@pytest.mark.parametrize(
    ("before", "now", "compared"), [(None, 7, False), (7, None, False), (7, 8, False), (7, 7, True)]
)
def test_readings_of_other_values_are_not_compared_and_that_is_told(before, now, compared):
    old, new = with_seed(before, result("op/a", value=1e-6)), with_seed(now, result("op/a", value=1e-3))
    decision = gate(old, new, strict_accuracy=True)
    assert bool(decision.drifts) is compared
    assert decision.exit_code is (ExitCode.FAILED if compared else ExitCode.OK)
    told = [finding for finding in findings(decision) if finding.key == "other values"]
    assert len(told) == (0 if compared else 1)
    assert bool(decision_to_json(decision)["other_values"]) is not compared
    if not compared:
        assert f"RESULTS {'without --reseed' if now is None else f'with --reseed {now}'}, the baseline" in told[0].text


def test_outcomes_are_compared_whatever_the_values():
    decision = gate(with_seed(None, result("op/a")), with_seed(7, result("op/a", "failed")))
    assert [change.transition.value for change in decision.blocking] == ["regressed"]


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


def test_without_enough_samples_there_is_no_answer():
    bare = report(result("op/a"))
    assert answers(gate(timed(), bare)) == [("inconclusive", "RESULTS has no samples for it; run with --perf")]
    assert answers(gate(bare, timed())) == [("inconclusive", "the baseline has no times for it")]
    assert answers(gate(bare, bare)) == []
    assert answers(gate(timed(), timed(9.0, count=4))) == [("inconclusive", "4 samples; at least 5 are needed")]
    assert not gate(report(result("op/a", seconds=1.0)), report(result("op/a", seconds=9.0))).blocked


@pytest.mark.parametrize(("before", "now"), [("failed", "passed"), ("passed", "failed"), ("failed", "failed")])
def test_a_wrong_result_has_no_time(before, now):
    assert answers(gate(timed(outcome=before), timed(9.0, outcome=now))) == []


def test_further_runs_must_be_of_the_same_build_and_machine():
    reference = reference_of(timed())
    for outcome, runs in (("passed", 2), ("failed", 1)):
        again = {"again": timed(seed=1, outcome=outcome)}
        assert len(with_runs(reference, again).cases["op/a"].times) == runs
    with pytest.raises(UsageError, match="--aa again: it ran on backend 'mlu'"):
        with_runs(reference, {"again": timed(backend="mlu")})
    with pytest.raises(UsageError, match="--aa again: it ran on another machine"):
        with_runs(reference, {"again": timed(machine={**MACHINE, "cpus": 64})})


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

    def test_ten_overheads_are_long_enough_and_fewer_for_a_larger_effect(self):
        for factor, overhead, effect, answer in (
            (0.5, 200_000, 0.05, TimeVerdict.TOO_SHORT),
            (1.5, 140_000, 0.05, TimeVerdict.SLOWER),
            (1.5, 200_000, 0.10, TimeVerdict.SLOWER),
        ):
            decision = gate(timed(), self.timed(factor, overhead), min_effect=effect)
            assert decision.performance.changes[0].answer is answer

    def test_short_calls_do_not_make_the_others_noisy(self):
        def two_cases(factor):
            short = Perf((1000, 3000) * 20, overhead_ns=1000)
            return report(result("op/a", times=samples(factor)), result("op/b", perf=short))

        alone = gate(timed(), timed(1.1)).performance
        beside = gate(two_cases(1.0), two_cases(1.1)).performance
        assert beside.changes[0] == alone.changes[0]
        assert beside.changes[1].answer is TimeVerdict.TOO_SHORT


def failing(*fingerprints, word="failed"):
    return report(*(result(f"op/{i}", word, fingerprint=mark) for i, mark in enumerate(fingerprints)))


def passing(count):
    return report(*(result(f"op/{i}") for i in range(count)))


def errors(text, kind="error"):
    return [line for line in text.splitlines() if line.startswith(f"::{kind} ")]


def test_failures_with_one_fingerprint_are_one_finding():
    found = findings(gate(passing(4), failing("v1:a", "v1:b", "v1:b", "v1:b", "v1:a")))
    assert [(f.title, len(f.cases)) for f in found] == [
        ("3 regressed (failed)", 3),
        ("1 new and failing, 1 regressed (failed)", 2),
    ]
    assert "repro: mluops-test run op/1" in found[0].text
    assert "fingerprint: v1:b" in found[0].text


def cleared_tail(name, length, fingerprint):
    """A failure whose last two elements are 0: another fingerprint at every length, and one cause."""
    baseline = np.arange(1.0, length + 1)
    evaluated = np.where(np.arange(length) < length - 2, baseline, 0)
    out = WrongOutput(evaluated, baseline, evaluated != baseline, "equality", epsilon=2.0**-52)
    one = explained(out, "y", lambda index: (str(evaluated[index]), str(baseline[index])))
    return result(f"op/{name}", "failed", fingerprint=fingerprint, explained=(one,))


def test_failures_with_one_cause_are_one_finding_whatever_their_fingerprints():
    now = report(*(cleared_tail(i, length, f"v1:{i}") for i, length in enumerate((4, 6, 9, 40))))
    (found,) = findings(gate(passing(4), now))
    assert len(found.cases) == 4
    assert found.text.splitlines()[0] == "op: y[-2:] is zero"
    assert "fingerprints: v1:0, v1:1, v1:2 and 1 more" in found.text
    assert len(errors(github(gate(passing(4), now)))) == 1
    assert {case["headline"] for case in decision_to_json(gate(passing(4), now))["cases"]} == {"op: y[-2:] is zero"}


def test_a_waiver_with_a_fingerprint_still_covers_its_case():
    now = report(*(cleared_tail(i, length, f"v1:{i}") for i, length in enumerate((4, 6, 9, 40))))
    decision = gate(passing(4), now, waiver("op/2", fingerprint="v1:2"))
    (found,) = findings(decision)
    assert set(found.cases) == {"op/0", "op/1", "op/3"}


def test_the_smallest_case_stands_for_its_group():
    def sized(name, length):
        info = CaseInfo(outputs=(TensorInfo("y", "float", "ARRAY", (length,)),))
        return result(f"op/{name}", "failed", fingerprint="v1:a", reason=f"{name} is wrong", info=info)

    (found,) = findings(gate(passing(1), report(result("op/0"), sized("a_large", 1000), sized("small", 2))))
    assert found.cases == ("op/small", "op/a_large")
    assert "small is wrong\nrepro: mluops-test run op/small" in found.text


def test_what_has_no_fingerprint_is_grouped_by_what_became_of_it():
    found = findings(gate(outcomes(a="passed", b="passed", c="passed"), outcomes(c="skipped")))
    assert [f.title for f in found] == ["2 missing", "1 became skipped (skipped)"]
    assert found[0].cases == ("op/a", "op/b")


@pytest.mark.parametrize("count", [1, 10, 11, 500])
def test_at_most_ten_errors_and_none_is_dropped_in_silence(count):
    decision = gate(passing(count), failing(*(f"v1:{i}" for i in range(count))))
    lines = errors(github(decision))
    assert len(lines) == min(count, 10)
    if count > 10:
        assert f"{count - 9} more findings" in lines[-1]
    assert len(json.loads(gitlab(decision, "baseline.json"))) == min(count, 10)


def test_at_most_ten_warnings_beside_the_errors():
    before = report(*(result(f"op{i}/a", value=1e-6) for i in range(30)), result("op/0"))
    now = report(*(result(f"op{i}/a", value=1e-3) for i in range(30)), result("op/0", "failed"))
    text = github(gate(before, now))
    assert len(errors(text)) == 1
    assert len(errors(text, "warning")) == 10
    assert len(errors(github(gate(before, now, strict_accuracy=True)))) == 10


def test_workflow_commands_cannot_be_broken_by_what_a_backend_says():
    wicked = result("op/a", "failed", reason="100 %\n::error::gotcha\r\nend", repro="")
    lines = github(gate(outcomes(a="passed"), report(wicked))).splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("op/a%0A100 %25 ::error::gotcha end%0Afingerprint: v1:0")
    named = github(gate(outcomes(a="passed"), outcomes(a="failed"), waiver("x:y,z%"))).splitlines()
    assert "title=mluops-test gate%3A waiver unused%3A x%3Ay%2Cz%25::" in named[1]


def test_a_rotten_waiver_is_shown_where_it_stands():
    (line,) = errors(github(gate(outcomes(a="passed"), outcomes(a="passed"), waiver("op/a"))))
    assert line.startswith(
        "::error file=waivers.yaml,line=3,title=mluops-test gate%3A waiver xpassed%3A op/a::passes now"
    )


def test_the_code_quality_report_has_what_gitlab_asks_for():
    decision = gate(outcomes(a="passed", b="passed"), outcomes(a="failed", b="passed"), waiver("op/b"))
    entries = json.loads(gitlab(decision, "ci/baseline.json"))
    assert [entry["location"] for entry in entries] == [
        {"path": "ci/baseline.json", "lines": {"begin": 1}},
        {"path": "waivers.yaml", "lines": {"begin": 3}},
    ]
    assert {entry["severity"] for entry in entries} == {"critical"}
    assert len({entry["fingerprint"] for entry in entries}) == 2
    assert all(set(entry) == {"description", "check_name", "fingerprint", "severity", "location"} for entry in entries)


def test_a_finding_keeps_its_fingerprint_from_run_to_run():
    before = passing(3)
    first, second = failing("v1:a", "", ""), failing("v1:a", "v1:a", "")
    prints = [json.loads(gitlab(gate(before, now), "b"))[0]["fingerprint"] for now in (first, second)]
    assert gate(before, first).blocking[0].fingerprint == "v1:a"
    assert prints[1] in {entry["fingerprint"] for entry in json.loads(gitlab(gate(before, first), "b"))}


def test_nothing_found_is_an_empty_report():
    decision = gate(passing(2), passing(2))
    assert github(decision) == "passed: 2 cases compared"
    assert json.loads(gitlab(decision, "b")) == []


def test_markdown_is_a_comment_in_which_everything_stays_text():
    wicked = result("op/a`b|c<script>", "failed", reason="```\n</details><script>alert(1)</script>", fingerprint="v1:q")
    before = report(result("op/a`b|c<script>"), result("op/d"))
    text = markdown(gate(before, report(wicked, result("op/d", "failed", fingerprint="v1:q"))))
    lines = text.splitlines()
    assert lines[0] == "## Gate on `numpy`: blocked: 2 regressed"
    assert "| regressed | 2 | 2 |" in lines
    fence = lines.index("````text")
    assert lines[fence + 1 :][lines[fence + 1 :].index("````") - 1] == "fingerprint: v1:q"
    assert "- ``op/a`b|c<script>``" in lines


def test_the_decision_for_programs():
    times = [1_000_000] * 9
    before = report(result("op/a", times=times), result("op/b", value=1e-6), result("op/c"), result("op/d"))
    now = report(
        result("op/a", times=[2 * t for t in times]),
        result("op/b", value=1e-3),
        result("op/c", "failed", fingerprint="v1:c"),
    )
    decision = gate(before, now, waiver("op/c"), waiver("op/x"), strict_accuracy=True)
    assert verdict(decision) == "blocked: 1 missing, 1 waiver to clear, 1 case by its time, 1 reading that drifted"
    assert verdict(gate(outcomes(), outcomes())).startswith("nothing compared")
    record = json.loads(json.dumps(decision_to_json(decision), allow_nan=False))
    assert (record["verdict"], record["blocked"], record["exit_code"]) == (verdict(decision), True, 1)
    assert record["compared"] == 3
    assert record["transitions"] == {"still passing": 2, "regressed": 1, "missing": 1}
    cases = {case["case"]: case for case in record["cases"]}
    waived = {name: cases["op/c"][name] for name in ("now", "blocks", "waiver")}
    assert waived == {"now": "xfailed", "blocks": False, "waiver": "waivers.yaml:3"}
    assert (cases["op/d"]["now"], cases["op/d"]["transition"]) == (None, "missing")
    assert record["drift"][0]["factor"] == pytest.approx(1000)
    (time,) = record["performance"]["cases"]
    assert (time["answer"], time["ratio"], time["blocks"]) == ("slower", pytest.approx(2.0), True)
