"""`mluops-test gate` as CI calls it: files in, exit code and printed lines out."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from mluops_gtest.results.gate_reference import baseline_from_json, baseline_text, load_json, load_waivers
from tests.e2e.conftest import wrong

FOREVER = "2999-12-31"


@pytest.fixture(scope="module")
def results(generated_toy, run_once):
    """The default set of the toy operator, all passed."""
    return run_once("--root", generated_toy())


@pytest.fixture
def changed(tmp_path):
    """A copy of results in which single cases have other values; None takes a case out."""
    number = iter(range(100))

    def change(folder, changes=None, **top):
        report = json.loads((folder / "report.json").read_text())
        for case, values in (changes or {}).items():
            found = [r for r in report["results"] if r["case"] == case]
            if values is None:
                report["results"].remove(found[0])
            else:
                found[0].update(values)
        report["summary"] = dict(Counter(r["outcome"] for r in report["results"]))
        report.update(top)
        path = tmp_path / f"changed-{next(number)}.json"
        path.write_text(json.dumps(report))
        return path

    return change


FAILED = {"outcome": "failed", "fingerprint": "v1:abc123", "reason": "y: diff1 = 1 > 1e-06"}
RAMP = "scale_by/ramp_2"


def write_waivers(tmp_path, **fields):
    fields = {"case": RAMP, "outcome": "failed", "reason": "known", "owner": "ann", "expires": FOREVER, **fields}
    path = tmp_path / "waivers.yaml"
    path.write_text("- " + "\n  ".join(f"{key}: {value}" for key, value in fields.items() if value) + "\n")
    return path


def test_results_pass_against_folder_report_and_baseline_file(cli, results, tmp_path):
    baseline = tmp_path / "baseline.json"
    written = cli("gate", results, "--against", baseline, "--update").expect_code(0)
    assert "baseline.json: 5 cases (5 added, 0 dropped, 0 with another outcome)" in written.lines[-1]
    for against in (results, results / "report.json", baseline):
        gate = cli("gate", results, "--against", against)
        assert (gate.code, gate.lines[-1]) == (0, "passed: 5 cases compared")


def test_the_file_is_the_same_whenever_it_is_written(cli, run, toy, results, tmp_path):
    again = run("--root", toy).folder
    for name, folder in (("a.json", results), ("b.json", again)):
        assert cli("gate", folder, "--against", tmp_path / name, "--update").code == 0
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_a_regression_blocks_and_says_how_to_see_it(cli, results, changed):
    gate = cli("gate", changed(results, {RAMP: FAILED}), "--against", results).expect_code(1)
    assert gate.lines[-1] == "blocked: 1 regressed"
    assert "1 regressed (failed)" in gate.lines
    assert any(line.startswith("  repro: mluops-test run scale_by/ramp_2") for line in gate.lines)


@pytest.mark.parametrize(
    ("fields", "word"),
    [({"expires": "2020-01-01"}, "expired"), ({"case": "scale_by/gone"}, "unused"), ({"case": RAMP}, "xpassed")],
)
def test_a_ledger_that_rots_blocks(cli, results, tmp_path, fields, word):
    waivers = write_waivers(tmp_path, **fields)
    gate = cli("gate", results, "--against", results, "--waivers", waivers).expect_code(1)
    assert any(line.startswith(f"waiver {word}: ") and line.endswith("waivers.yaml:1") for line in gate.lines)


def test_usage(cli, results, tmp_path):
    assert cli("gate", results).code == 2
    assert "no such file; `--update` writes" in cli("gate", results, "--against", tmp_path / "none.json").err
    assert cli("gate", results, "--against", tmp_path / "none.json").code == 2
    assert cli("gate", results, "--against", results, "--format", "pdf").code == 2
    for word, why in (("x", "above 1"), ("1", "above 1"), ("nan", "above 1"), ("scale=3", "Known: scale_by")):
        cli("gate", results, "--against", results, "--drift-factor", word).expect_error(2, why)


def test_a_selection_misses_only_what_it_means(cli, run, toy, results, changed):
    part = run("scale_by/ramp_*", "--root", toy).folder
    whole = cli("gate", part, "--against", results)
    assert (whole.code, whole.lines[-1]) == (1, "blocked: 2 missing")
    assert cli("gate", part, "--against", results, "--subset").code == 0
    lacking = cli("gate", changed(part, {RAMP: None}), "--against", results, "--subset")
    assert (lacking.code, lacking.lines[-1]) == (1, "blocked: 1 missing")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["--op", "scale"], ["scale_by"], ["scale"], ["scale/ramp_*"], ["--tag", "boundary"], ["PROTOTXT"]]
)
def test_a_selection_in_the_words_of_the_user(cli, run, toy, results, changed, words):
    words = [str(toy / "prototxt" / "scale_by") if word == "PROTOTXT" else word for word in words]
    part = run(*words, "--root", toy).folder
    assert cli("gate", part, "--against", results, "--subset").code == 0
    lacking = cli("gate", changed(part, {RAMP: None}), "--against", results, "--subset")
    assert (lacking.code, lacking.lines[-1]) == (1, "blocked: 1 missing")


def test_an_update_is_refused_where_it_would_bless_a_failure(cli, results, changed, tmp_path):
    baseline = tmp_path / "baseline.json"
    assert cli("gate", results, "--against", baseline, "--update").code == 0
    before = baseline.read_bytes()
    failing = changed(results, {RAMP: FAILED})
    refused = cli("gate", failing, "--against", baseline, "--update").expect_code(1)
    assert "1 regressed (failed)" in refused.lines
    assert "  y: diff1 = 1 > 1e-06" in refused.lines
    assert refused.lines[-1] == "not written: 1 regressed"
    assert baseline.read_bytes() == before
    assert cli("gate", failing, "--against", baseline, "--update", "--waivers", write_waivers(tmp_path)).code == 0
    assert json.loads(baseline.read_text())["cases"][RAMP]["outcome"] == "xfailed"
    assert cli("gate", failing, "--against", baseline).code == 1
    assert cli("gate", failing, "--against", baseline, "--waivers", write_waivers(tmp_path)).code == 0


def test_an_update_of_a_selection_keeps_the_rest(cli, run, toy, results, tmp_path):
    baseline = tmp_path / "baseline.json"
    assert cli("gate", results, "--against", baseline, "--update").code == 0
    before = baseline.read_bytes()
    part = run("scale_by/ramp_*", "--root", toy).folder
    assert cli("gate", part, "--against", baseline, "--update", "--subset").code == 0
    assert baseline.read_bytes() == before
    whole = cli("gate", part, "--against", baseline, "--update").expect_code(1)
    assert whole.lines[-2:] == ["not written: 2 missing", "If you mean that: --accept missing"]
    assert baseline.read_bytes() == before
    meant = cli("gate", part, "--against", baseline, "--update", "--accept", "missing").expect_code(0)
    assert "accepted missing scale_by/rank_2" in meant.lines
    assert meant.lines[-1].endswith("3 cases (0 added, 2 dropped, 0 with another outcome)")


def test_an_update_refuses_what_the_gate_blocks_unless_it_is_accepted(cli, results, changed, tmp_path):
    baseline = tmp_path / "baseline.json"
    slow, rank = "scale_by/ramp_3", "scale_by/rank_2"
    assert cli("gate", changed(results, {slow: perf(1.0)}), "--against", baseline, "--update").code == 0
    before = baseline.read_bytes()
    worse = changed(results, {RAMP: {"outcome": "skipped", "compared": False}, rank: None, slow: perf(1.5)})
    refused = cli("gate", worse, "--against", baseline, "--update").expect_code(1)
    assert refused.lines[-2:] == [
        "not written: 1 became skipped, 1 missing, 1 case by its time",
        "If you mean that: --accept missing --accept skipped --accept slower",
    ]
    for words in (("--accept", "skipped", "--accept", "slower"), ("--accept", "missing")):
        assert cli("gate", worse, "--against", baseline, "--update", *words).code == 1
    assert baseline.read_bytes() == before
    every = ("--accept", "missing", "--accept", "skipped", "--accept", "slower")
    meant = cli("gate", worse, "--against", baseline, "--update", *every).expect_code(0)
    assert [line for line in meant.lines if line.startswith("accepted")] == [
        f"accepted skipped {RAMP}",
        f"accepted missing {rank}",
        f"accepted slower {slow}",
    ]
    assert cli("gate", worse, "--against", baseline).code == 0
    cli("gate", worse, "--against", baseline, "--accept", "missing").expect_error(2, "--accept needs --update")


def test_an_update_never_overwrites_results(cli, results):
    for against in (results, results / "report.json"):
        cli("gate", results, "--against", against, "--update").expect_error(2, "it holds results, not a baseline")
    assert (results / "report.json").exists()


READING = {"output": "y", "criterion": "diff1", "threshold": 1e-6, "within": True}


def test_drift_is_told_and_blocks_when_strict(cli, results, changed):
    drifted = changed(results, {RAMP: {"readings": [{**READING, "value": 0.9e-6 * 4, "threshold": 1e-5}]}})
    told = cli("gate", drifted, "--against", results).expect_code(0)
    assert "accuracy drift: scale_by, 1 case" in told.lines
    assert cli("gate", drifted, "--against", results, "--strict-accuracy").code == 1
    loose = ("--strict-accuracy", "--drift-factor", "scale_by=20")
    assert cli("gate", drifted, "--against", results, *loose).code == 0


def perf(factor, count=40):
    samples = [round(1e6 * factor * (1 + 0.001 * (i % 7))) for i in range(count)]
    return {"perf": {"samples_ns": samples, "device_samples_ns": [], "workspace_bytes": 0}}


def test_times_from_samples_to_the_exit_code(cli, results, changed, tmp_path):
    before, same, slow = (changed(results, {RAMP: perf(factor)}) for factor in (1.0, 1.001, 1.5))
    few = changed(results, {RAMP: perf(1.5, count=3)})
    baseline = tmp_path / "baseline.json"
    assert cli("gate", before, "--aa", same, "--against", baseline, "--update").code == 0
    assert len(json.loads(baseline.read_text())["cases"][RAMP]["times"]) == 2
    for against in (before, baseline):
        slower = cli("gate", slow, "--against", against)
        assert (slower.code, slower.lines[-1]) == (1, "blocked: 1 case by its time")
        assert cli("gate", same, "--against", against).code == 0
        assert cli("gate", few, "--against", against).code == 0
        assert cli("gate", few, "--against", against, "--strict-perf").code == 1
    environment = {**json.loads(slow.read_text())["environment"], "cpus": 999}
    cli("gate", changed(results, {RAMP: perf(1.5)}, environment=environment), "--against", baseline).expect_output(
        0, "another machine: cpus differ"
    )


def test_a_real_perf_run_gates_against_itself(cli, run, toy):
    timed = run("scale_by/ramp_*", "--root", toy, "--perf", "--samples", "12").folder
    gate = cli("gate", timed, "--against", timed).expect_code(0)
    assert any(line.startswith("times of 3 cases: ") for line in gate.lines)


def test_formats(cli, results, changed):
    failing = changed(results, {RAMP: FAILED})
    record = json.loads(cli("gate", failing, "--against", results, "--format", "json").out)
    assert (record["blocked"], record["exit_code"]) == (True, 1)
    quality = json.loads(cli("gate", failing, "--against", results, "--format", "gitlab").out)
    assert quality[0]["location"]["path"] == results.as_posix()
    annotations = cli("gate", failing, "--against", results, "--format", "github")
    assert annotations.lines[0].startswith("::error title=mluops-test gate%3A 1 regressed (failed)::scale_by/ramp_2%0A")
    assert cli("gate", failing, "--against", results, "--format", "markdown").lines[0].startswith("## Gate on `numpy`")
    codes = [
        cli("gate", failing, "--against", results, "--format", f).code for f in ("json", "gitlab", "github", "markdown")
    ]
    assert codes == [1, 1, 1, 1]


def test_one_bug_in_a_real_backend_is_one_annotation(cli, run):
    select = ("voxel_pooling_forward/channels_*",)
    good = run(*select, "--backend", wrong("Exact"), "--no-isolate").folder
    bad = run(*select, "--backend", wrong("WithNan"), "--no-isolate").folder
    gate = cli("gate", bad, "--against", good, "--cross-backend", "--format", "github").expect_code(1)
    lines = [line for line in gate.lines if line.startswith("::error")]
    assert 1 <= len(lines) <= 3
    assert " regressed (failed)" in lines[0]


DOCS = Path(__file__).parents[2] / "docs"


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", ["how-to/gate-in-ci.md", "reference/gate.md"])
def test_waivers_in_the_documentation_are_ones(page, tmp_path):
    path = tmp_path / "waivers.yaml"
    ledgers = [block for block in blocks(page, "yaml") if block.startswith("- case:")]
    assert ledgers
    for text in ledgers:
        path.write_text(text)
        assert load_waivers(path)


def test_the_baseline_in_the_documentation_is_one(tmp_path):
    path = tmp_path / "baseline.json"
    (text,) = blocks("reference/gate.md", "json")
    path.write_text(text)
    assert baseline_text(baseline_from_json(path, load_json(path))) == text
