"""A failure in a worker that other cases ran in before is run again alone, and then behind the case before."""

from pathlib import Path

import pytest

from tests.e2e.conftest import backends_in

IDS = tuple(f"scale_by/ramp_{n}" for n in (2, 3, 4))
UNCONFIRMED = "not confirmed: it did not run again alone in a fresh worker"


@pytest.fixture
def run_toy(run, toy):
    def call(name, *options, ids=IDS):
        return run("--root", toy, *ids, "--backend", backends_in("remembering_backends")(name), *options)

    return call


def calls():
    """The sizes that each process was called with, process by process."""
    by_process = {}
    for line in Path("calls").read_text().splitlines():
        process, size = line.split()
        by_process.setdefault(process, []).append(int(size))
    return list(by_process.values())


def outcomes(result):
    return [result.results[case]["outcome"] for case in IDS]


def test_what_fails_alone_keeps_its_verdict(run_toy):
    result = run_toy("WrongAlways")
    assert outcomes(result) == ["failed"] * 3
    assert all((one["attempts"], one["notes"]) == ([], []) for one in result.results.values())
    # The first case had no history; each of the others ran again, and the case behind it ran where that one had.
    assert calls() == [[2, 3], [3, 4], [4]]


def test_green_runs_cost_nothing(run_toy):
    assert outcomes(run_toy("Doubles")) == ["passed"] * 3
    assert calls() == [[2, 3, 4]]


@pytest.mark.parametrize(
    ("name", "outcome"), [("WrongAfter3", "failed"), pytest.param("DiesAfter3", "crashed", marks=pytest.mark.slow)]
)
def test_what_fails_behind_the_case_before_alone_says_so(run_toy, name, outcome):
    result = run_toy(name).expect_code(1)
    assert outcomes(result) == ["passed", "passed", outcome]
    one = result.results[IDS[2]]
    assert one["causes"][0] == {"kind": "only_after", "case": IDS[1]}
    assert one["reason"].startswith("only after scale_by/ramp_3, not alone: ")
    assert [attempt["outcome"] for attempt in one["attempts"]] == [outcome, "passed", outcome]
    assert f"mluops-test run {IDS[1]} {IDS[2]} " in one["repro"]


@pytest.mark.slow
def test_the_repro_line_tells_the_same_and_the_fingerprint_is_that_of_the_first_failure(run_toy):
    behind, pair = (run_toy("WrongAfter3", ids=ids).results[IDS[2]] for ids in (IDS, IDS[1:]))
    assert (pair["causes"], pair["fingerprint"]) == (behind["causes"], behind["fingerprint"])
    for name in ("WrongAt4Once", "WrongAlways"):
        assert run_toy(name).results[IDS[2]]["fingerprint"] == behind["fingerprint"]


def test_what_fails_neither_alone_nor_behind_is_flaky(run_toy):
    result = run_toy("WrongAt4Once").expect_code(1)
    assert outcomes(result) == ["passed", "passed", "flaky"]
    one = result.results[IDS[2]]
    assert one["reason"].startswith("passed at try 2 after failed: y: ")
    assert [attempt["outcome"] for attempt in one["attempts"]] == ["failed", "passed", "passed"]


def test_what_a_case_leaves_meets_nobody_once_it_is_found(run_toy):
    result = run_toy("WrongFrom3On", ids=(*IDS[1:], IDS[0]))
    assert outcomes(result) == ["passed", "passed", "failed"]
    assert calls() == [[3, 4], [4], [3, 4], [2]]


def test_a_case_behind_named_changes_gets_its_verdict_alone(run_toy):
    result = run_toy("Names").expect_code(0)
    assert outcomes(result) == ["passed"] * 3
    note = "failed after scale_by/ramp_3, which changed the state of its worker; this is its verdict alone"
    assert result.results[IDS[2]]["notes"] == [note]
    assert result.results[IDS[1]]["notes"] == ["changed numpy's errstate; that was put back"]


def test_timeouts_are_confirmed_once_per_operator(run_toy):
    """After a time-out the worker is new, so that a calm case comes between."""
    result = run_toy("Hangs", "--timeout", 0.5, ids=(IDS[0], IDS[1], "scale_by/odd_thing", IDS[2]))
    assert outcomes(result) == ["passed", "timed_out", "timed_out"]
    assert [UNCONFIRMED in result.results[case]["notes"] for case in IDS] == [False, False, True]
    assert len(Path("hung").read_text()) == 3


@pytest.mark.parametrize("options", [("--fresh-workers",), ("--no-isolate",)])
def test_workers_without_history_and_none_at_all(run_toy, options):
    result = run_toy("WrongAlways", *options)
    assert outcomes(result) == ["failed"] * 3
    assert sorted(size for sizes in calls() for size in sizes) == [2, 3, 4]


def test_retries_come_first(run_toy):
    result = run_toy("WrongAfter3", "--reruns", 1)
    assert result.results[IDS[2]]["outcome"] == "flaky"
    assert calls() == [[2, 3, 4, 4]]


@pytest.mark.parametrize(
    "options",
    [
        ("-x",),
        ("-j", 2),
        ("--repeat", 2),
        ("--guard-pages",),
        pytest.param(("--perf", "--samples", 3), marks=pytest.mark.slow),
    ],
)
def test_beside_other_options(run_toy, options):
    result = run_toy("WrongAlways", *options)
    assert {one["outcome"] for one in result.results.values()} <= {"failed", "not_run"}
    assert not [one for one in result.results.values() if one["attempts"] or UNCONFIRMED in one["notes"]]
