"""The line between controller and worker: whoever breaks it loses that case, and no innocent case is touched."""

import os
import resource
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.e2e.conftest import TWO_VICTIMS, assert_costs_its_cases_alone, backends_in, only, split

pytestmark = pytest.mark.slow
AGREED = "the worker did not answer as agreed: "
CASE = "masked_im2col_forward/retinanet_1x1_twin_float"
rude = backends_in("rude_backends")


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
    assert_costs_its_cases_alone(run(*TWO_VICTIMS, "--backend", rude(backend)), outcome, reason)


@pytest.mark.parametrize("backend", ["ForksOnce", "ForksAndRaises", "ForksInWorkspaceSize", "TellsHalfCharacters"])
def test_a_child_that_comes_back_is_ended_and_half_characters_are_no_matter(run, backend):
    result = run(*TWO_VICTIMS, "--backend", rude(backend))
    assert {r["outcome"] for r in result.results.values()} == {"passed"}


@pytest.mark.parametrize("backend", ["ForksUnseen", "ForksUnseenAndLate"])
def test_a_child_that_answers_too_costs_its_case_or_nothing(run, backend):
    victims, others = split(run(*TWO_VICTIMS, "--backend", rude(backend)))
    assert {(r["outcome"], r["reason"]) for r in others} == {("passed", "")}
    for one in victims:
        assert one["outcome"] == "passed" or (one["outcome"] == "crashed" and AGREED in one["reason"])


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


@pytest.mark.parametrize("isolate", ["--isolate", "--no-isolate"])
def test_a_time_that_is_none_is_the_backends_error(run, isolate):
    result = run(*TWO_VICTIMS, "--backend", rude("TellsNoTime"), isolate)
    assert {r["outcome"] for r in result.results.values()} == {"error"}
    assert all("device_seconds() returned" in r["reason"] for r in result.results.values())
    assert result.code == 1


@pytest.mark.parametrize(
    ("backend", "options", "reason"),
    [
        (
            "WantsTwoGigabytes",
            ("--memory-limit", "1G"),
            "workspace_size() returned 2147483648, but --memory-limit allows 1073741824 bytes",
        ),
        ("WantsTooMuch", ("--no-isolate",), "of memory are free"),
    ],
)
def test_a_workspace_beyond_the_memory_is_never_allocated(run, backend, options, reason):
    assert_costs_its_cases_alone(run(*TWO_VICTIMS, "--backend", rude(backend), *options), "error", reason)


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


@pytest.mark.parametrize("isolate", ["--isolate", "--no-isolate"])
def test_what_is_noted_is_limited_while_it_runs(run, isolate):
    one = only(run(CASE, "--backend", rude("NotesWithoutMeasure"), isolate))
    assert one["outcome"] == "passed"
    assert "the first note" in one["notes"]
    assert one["notes"][-1] == "the last note"
    assert any("cut" in note for note in one["notes"])
    assert sum(map(len, one["notes"])) <= 1 << 20


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
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert words in done.stdout + done.stderr
