"""`run --reruns`: a retry shows that a case is flaky and never makes it pass."""

import pytest

from tests.e2e.conftest import backends_in, replace_in

SMOKE = ("--op", "masked_im2col_forward", "--tag", "smoke")
moody = backends_in("moody_backends")


@pytest.mark.parametrize("where", ["--isolate", "--no-isolate"])
def test_a_case_that_fails_and_passes_is_flaky_and_blocks(run, where):
    result = run(*SMOKE, "--backend", moody("FailsAtFirst"), "--reruns", 2, where).expect_code(1)
    for one in result.results.values():
        assert one["outcome"] == "flaky"
        assert [a["outcome"] for a in one["attempts"]] == ["failed", "passed"]
        assert "diff3" in one["attempts"][0]["reason"]
        assert one["reason"].startswith("passed at try 2 after failed: data_col: diff3")
        assert one["worst"]["unequal"] == 1
        assert one["fingerprint"].startswith("v1:")
        assert "--reruns 2" in one["repro"]
    assert "flaky" in result.out


@pytest.mark.slow
def test_a_failure_that_stays_keeps_its_outcome_and_lists_its_tries(run):
    once = run(*SMOKE, "--backend", moody("FailsAlways"))
    assert {(r["outcome"], len(r["attempts"])) for r in once.results.values()} == {("failed", 0)}
    result = run(*SMOKE, "--backend", moody("FailsAlways"), "--reruns", 2).expect_code(1)
    for case, one in result.results.items():
        assert one["outcome"] == "failed"
        assert [a["outcome"] for a in one["attempts"]] == ["failed"] * 3
        assert one["fingerprint"] == once.results[case]["fingerprint"]


def test_a_case_that_passes_is_run_once(run):
    result = run(*SMOKE, "--reruns", 3).expect_code(0)
    assert all(r["attempts"] == [] for r in result.results.values())


@pytest.mark.slow
def test_a_crash_is_tried_again_in_a_new_process(run):
    result = run(*SMOKE, "--backend", moody("DiesOnce"), "--reruns", 1)
    outcomes = [r["outcome"] for r in result.results.values()]
    assert sorted(set(outcomes)) == ["flaky", "passed"]
    (flaky,) = (r for r in result.results.values() if r["outcome"] == "flaky")
    causes = [{"kind": "killed", "signal": "SIGKILL", "number": 9}]
    assert flaky["attempts"][0] == {"outcome": "crashed", "reason": "killed by SIGKILL", "causes": causes}


def test_broken_content_is_not_tried_again(run, toy):
    replace_in(toy / "prototxt" / "scale_by" / "ramp_2.prototxt", '"3f800000"', '"3f800001"')
    result = run("--root", toy, "--reruns", 2).expect_code(3)
    assert result.results["scale_by/ramp_2"]["attempts"] == []


@pytest.mark.slow
def test_an_interrupted_run_keeps_its_reruns(run, cli):
    """`--resume` takes the options from run.json."""
    result = run(*SMOKE, "--backend", moody("FailsAtFirst"), "--reruns", 1)
    (result.folder / "report.json").unlink()
    (result.folder / "results.jsonl").write_text("")
    cli("run", "--resume", result.folder).expect_output(1, "flaky")
