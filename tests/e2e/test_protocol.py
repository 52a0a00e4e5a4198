"""The line between controller and worker: whoever breaks it loses that case, and no innocent case is touched."""

import json
import resource
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.e2e.conftest import ONE_VICTIM, SUPPORT, TWO_VICTIMS
from tests.support.crashing_backends import VICTIM

AGREED = "the worker did not answer as agreed: "


@pytest.fixture(autouse=True)
def _support_is_importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def rude(name):
    return f"{SUPPORT / 'rude_backends.py'}:{name}"


def split(result):
    victims = [r for r in result.results.values() if r["operator"] == VICTIM]
    others = [r for r in result.results.values() if r["operator"] != VICTIM]
    assert victims
    assert others
    return victims, others


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "outcome", "reason"),
    [
        ("AnswersTwice", "crashed", AGREED + "it sent more than one answer"),
        ("AnswersAnother", "crashed", AGREED + "it answered a request "),
        ("AnswersNonsense", "crashed", AGREED),
        ("AnswersTooDeep", "crashed", AGREED),
        ("AnswersTooMuch", "crashed", AGREED + "an answer of 104857600 bytes"),
        ("SendsDescriptors", "crashed", AGREED + "it sent file descriptors"),
        ("ClaimsAnHour", "error", "the call took 3600.0; it must be a number of seconds from 0 to "),
        ("WantsNonsense", "error", "workspace_size() returned nan"),
        ("WantsLessThanNothing", "error", "workspace_size() returned -8"),
        ("WantsTooMuch", "error", "workspace_size() returned 35184372088832"),
        ("RefusesWithoutMeasure", "wrong_status", "cut"),
        ("RaisesALongStory", "error", "ValueError: why why"),
    ],
)
def test_what_breaks_the_agreement_costs_its_case_alone(run, backend, outcome, reason):
    costs_its_cases_alone(run(*TWO_VICTIMS, "--backend", rude(backend)), outcome, reason)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["StallsInItsAnswer", "HangsInWorkspaceSize"])
def test_an_answer_that_does_not_come_costs_its_case_alone(run, backend):
    """One case waits, so that the limit can be one that no other case comes near."""
    result = run(*ONE_VICTIM, "--backend", rude(backend), "--timeout", 5)
    costs_its_cases_alone(result, "timed_out", "no answer within 5 s")


def costs_its_cases_alone(result, outcome, reason):
    victims, others = split(result)
    assert {(r["outcome"], r["reason"]) for r in others} == {("passed", "")}
    for one in victims:
        assert (one["outcome"], reason in one["reason"]) == (outcome, True), one["reason"][:500]
        assert len(one["reason"]) < 100_000
    assert result.code == 1


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["ForksOnce", "ForksAndRaises", "ForksInWorkspaceSize"])
def test_a_child_that_comes_back_is_ended(run, backend):
    result = run(*TWO_VICTIMS, "--backend", rude(backend))
    assert {r["outcome"] for r in result.results.values()} == {"passed"}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["ForksUnseen", "ForksUnseenAndLate"])
def test_a_child_that_answers_too_costs_its_case_or_nothing(run, backend):
    result = run(*TWO_VICTIMS, "--backend", rude(backend))
    victims, others = split(result)
    assert {(r["outcome"], r["reason"]) for r in others} == {("passed", "")}
    for one in victims:
        assert one["outcome"] == "passed" or (one["outcome"] == "crashed" and AGREED in one["reason"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "outcome", "reason"),
    [
        ("ClaimsPassed", "crashed", "'passed'"),
        ("ClaimsAnOutcome", "crashed", "unknown field `outcome`"),
        ("ClaimsAStatus", "failed", "never written"),
    ],
)
def test_a_worker_has_no_say_in_the_verdict(run, backend, outcome, reason):
    """The first case patches our worker; from then on nothing is computed and everything is claimed."""
    result = run(*TWO_VICTIMS, "--backend", rude(backend))
    outcomes = [r["outcome"] for r in result.report["results"]]
    assert "passed" not in outcomes
    assert outcome in outcomes
    assert any(reason in r["reason"] for r in result.report["results"] if r["outcome"] == outcome)
    assert result.code == 1


@pytest.mark.slow
@pytest.mark.parametrize("isolate", ["--isolate", "--no-isolate"])
@pytest.mark.parametrize("backend", ["TellsNoTime", "TellsNegativeTime", "TellsEndlessTime", "TellsAbsurdTime"])
def test_a_time_that_is_none_is_the_backends_error(run, backend, isolate):
    result = run(*TWO_VICTIMS, "--backend", rude(backend), isolate)
    assert {r["outcome"] for r in result.results.values()} == {"error"}
    assert all("device_seconds() returned" in r["reason"] for r in result.results.values())
    assert result.code == 1


@pytest.mark.slow
def test_a_workspace_beyond_the_memory_limit_is_never_allocated(run):
    result = run(*TWO_VICTIMS, "--backend", rude("WantsTwoGigabytes"), "--memory-limit", "1G")
    victims, others = split(result)
    assert {r["outcome"] for r in others} == {"passed"}
    for one in victims:
        assert one["outcome"] == "error"
        assert "workspace_size() returned 2147483648" in one["reason"]
        assert "1073741824" in one["reason"]


def test_a_workspace_beyond_the_free_memory_is_never_allocated_inline(run):
    result = run(*TWO_VICTIMS, "--backend", rude("WantsTooMuch"), "--no-isolate")
    victims, others = split(result)
    assert {r["outcome"] for r in others} == {"passed"}
    for one in victims:
        assert one["outcome"] == "error"
        assert "of memory are free" in one["reason"]


@pytest.mark.slow
def test_what_is_printed_is_limited_while_it_runs(run):
    result = run(*TWO_VICTIMS, "--backend", rude("PrintsWithoutMeasure"))
    victims, others = split(result)
    assert all(r["output"] == "" for r in others)
    for one in victims:
        assert one["outcome"] == "passed"
        assert one["output"].startswith("the first words")
        assert one["output"].endswith("the last words\n")
        assert f"[… {(199 << 20) + 32} bytes cut …]" in one["output"]
    assert result.code == 0


@pytest.mark.slow
@pytest.mark.parametrize("isolate", ["--isolate", "--no-isolate"])
def test_what_is_noted_is_limited_while_it_runs(run, isolate):
    result = run("masked_im2col_forward/retinanet_1x1_twin_float", "--backend", rude("NotesWithoutMeasure"), isolate)
    (one,) = result.results.values()
    assert one["outcome"] == "passed"
    assert "the first note" in one["notes"]
    assert one["notes"][-1] == "the last note"
    assert any("cut" in note for note in one["notes"])
    assert sum(map(len, one["notes"])) <= 1 << 20


@pytest.mark.slow
def test_half_characters_are_no_matter(run):
    result = run(*TWO_VICTIMS, "--backend", rude("TellsHalfCharacters"))
    assert {r["outcome"] for r in result.results.values()} == {"passed"}


def _without_readings(record):
    record.update(readings=[], status=None)


def _of_another_status(record):
    record["status"] = "BAD_PARAM"


def _not_compared(record):
    record["compared"] = False


def _out_of_reach(record):
    record["readings"][0]["within"] = False


@pytest.mark.parametrize("edit", [_without_readings, _of_another_status, _not_compared, _out_of_reach])
def test_a_results_file_with_a_pass_that_nobody_saw_is_refused(cli, run, tmp_path, edit):
    result = run("masked_im2col_forward/retinanet_1x1_twin_float")
    assert result.code == 0
    path = result.folder / "report.json"
    (tmp_path / "before.json").write_bytes(path.read_bytes())
    report = json.loads(path.read_text())
    edit(report["results"][0])
    path.write_text(json.dumps(report))
    commands = [
        ("gate", result.folder, "--against", tmp_path / "before.json"),
        ("report", result.folder, "--format", "markdown"),
        ("merge", result.folder, "--out", tmp_path / "merged"),
        ("history", "add", result.folder, "--db", tmp_path / "history.db"),
        ("compare", result.folder, result.folder),
    ]
    for command in commands:
        refused = cli(*command)
        assert refused.code == 3, (command, refused.out, refused.err)
        assert "report.json" in refused.err
        assert "masked_im2col_forward/retinanet_1x1_twin_float" in refused.err
        assert "cannot have passed" in refused.err


def test_a_line_of_an_unfinished_run_with_such_a_pass_is_refused(cli, run):
    result = run("masked_im2col_forward/retinanet_1x1_twin_float")
    (result.folder / "report.json").unlink()
    path = result.folder / "results.jsonl"
    record = json.loads(path.read_text())
    _without_readings(record)
    path.write_text(json.dumps(record) + "\n")
    refused = cli("run", "--resume", result.folder)
    assert refused.code == 3
    assert "results.jsonl" in refused.err
    assert "cannot have passed" in refused.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("soft", "hard", "jobs", "code", "words"),
    [
        (100, 4096, 16, 0, "passed"),
        (100, 100, 16, 2, "16 workers need up to 224 open files, and this system allows 100"),
    ],
)
def test_many_workers_get_the_descriptors_that_they_need(tmp_path, soft, hard, jobs, code, words):
    """Beyond the soft limit, as -j 330 is beyond the usual 1024."""

    def limited():
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    command = ["run", "--tag", "smoke", "--isolate", "-j", str(jobs), "--out", tmp_path / "out"]
    done = subprocess.run(
        [sys.executable, "-m", "mluops_gtest", *command],
        preexec_fn=limited, capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert words in done.stdout + done.stderr
