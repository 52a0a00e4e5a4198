"""Known failures are taken in: waivers by cause, written by the gate; coverage that is asked for; causes.json."""

import datetime
import json
import re
from pathlib import Path

import msgspec
import pytest
import yaml

import mluops_gtest as mt
from tests.e2e.conftest import backends_in, called

scaled = backends_in("scaled_backends")
WORDS = ("--owner", "ann", "--expires", "2999-12-31", "--reason", "tile: edges, 'bug' 17")


@pytest.fixture(scope="module")
def results(ramps, tmp_path_factory):
    """The results of a backend, run once."""
    made = tmp_path_factory.mktemp("known")

    def of(name, *options, folder=None):
        out = made / (folder or name)
        if not out.exists():
            called("run", "--root", ramps, "--backend", scaled(name), "--no-isolate", "--out", out, *options)
        return out

    return of


@pytest.fixture
def known(results, tmp_path):
    """The waivers that the gate writes for `tail`."""
    file = tmp_path / "known.yaml"
    # The gate's own answer stays.
    called("gate", results("tail"), "--against", results("right"), "--write-waivers", file, *WORDS).expect_error(
        1, "1 waiver"
    )
    return file


def gate(cli, results, name, *options):
    return cli("gate", results(name), "--against", results("right"), *options)


def entries(file):
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def test_one_entry_takes_in_every_failure_of_a_cause(cli, results, known):
    (entry,) = entries(known)
    assert entry.keys() == {"cause", "reason", "owner", "expires", "backend"}
    assert (entry["owner"], entry["reason"]) == ("ann", "tile: edges, 'bug' 17")
    assert entry["expires"] == datetime.date(2999, 12, 31)
    assert "scale_by: y[6:] is scaled by 0.5" in known.read_text()

    again = gate(cli, results, "tail", "--waivers", known, "--format", "json").expect_code(0)
    now = [case["now"] for case in json.loads(again.out)["cases"]]
    assert (now.count("xfailed"), now.count("passed")) == (10, 5)


def test_a_waiver_by_cause_covers_no_other_failure(cli, results, known):
    for other in ("end", "noise", "mixed"):
        assert gate(cli, results, other, "--waivers", known).code == 1
    # Four tails are still covered there; what is new is not.
    cases = json.loads(gate(cli, results, "mixed", "--waivers", known, "--format", "json").out)["cases"]
    assert {case["case"] for case in cases if case["now"] == "xfailed"} == {f"scale_by/ramp_{n}" for n in range(7, 12)}


def test_a_single_result_is_covered_whatever_else_ran(cli, results, known):
    """Only its own explanation decides."""
    alone = results("tail", "-k", "ramp_9", folder="alone")
    assert cli("gate", alone, "--against", results("right"), "--subset", "--waivers", known).code == 0


def test_what_has_no_law_is_written_by_fingerprint_and_errors_are_not(cli, results, tmp_path):
    known = tmp_path / "known.yaml"
    first = gate(cli, results, "mixed", "--write-waivers", known, *WORDS, "--format", "json").expect_code(1)
    json.loads(first.out)
    assert "error: fix it, or waive it by hand (scale_by/ramp_16)" in first.err
    by_cause, *by_case = entries(known)
    assert "cause" in by_cause
    named = [
        case for entry in by_case for case in ([entry["case"]] if isinstance(entry["case"], str) else entry["case"])
    ]
    assert sorted(named) == [f"scale_by/ramp_{n}" for n in range(12, 16)]
    assert len(by_case) == len({entry["fingerprint"] for entry in by_case}), "one entry per fingerprint"
    assert all(entry["fingerprint"].startswith("v1:") for entry in by_case)
    again = gate(cli, results, "mixed", "--waivers", known, "--format", "json")
    assert again.code == 1, "the error still blocks"
    assert [case["case"] for case in json.loads(again.out)["cases"] if case["blocks"]] == ["scale_by/ramp_16"]
    # Nothing of the ledger is out of date.
    assert json.loads(again.out)["waivers"] == []


def test_what_the_waivers_cover_is_not_written_again(cli, results, known, tmp_path):
    second = tmp_path / "second.yaml"
    gate(cli, results, "mixed", "--waivers", known, "--write-waivers", second, *WORDS)
    assert {"cause" in entry for entry in entries(second)} == {False}
    second.write_text(known.read_text() + second.read_text())
    assert gate(cli, results, "mixed", "--waivers", second).lines[-1] == "blocked: 1 regressed"


def test_a_cause_that_is_gone_or_over_blocks(cli, results, known):
    unused = gate(cli, results, "right", "--waivers", known, "--cross-backend")
    assert (unused.code, "1 waiver to clear" in unused.lines[-1]) == (1, True)
    assert any("no failure has the law of v3:" in line for line in unused.lines)
    known.write_text(known.read_text().replace("2999", "2001"))
    expired = gate(cli, results, "tail", "--waivers", known)
    assert any("expired on 2001-12-31" in line for line in expired.lines)


def test_a_cause_with_a_case_is_held_to_it(cli, results, known):
    known.write_text(known.read_text().replace("- cause:", "- case: scale_by/ramp_?\n  cause:"))
    passing = gate(cli, results, "tail", "--waivers", known)
    assert any("passes now: scale_by/ramp_2, scale_by/ramp_3, scale_by/ramp_4 and 2 more" in x for x in passing.lines)
    known.write_text(known.read_text().replace("ramp_?", "ramp_1?"))
    cases = json.loads(gate(cli, results, "tail", "--waivers", known, "--format", "json").out)["cases"]
    assert {case["case"] for case in cases if case["now"] == "xfailed"} == {f"scale_by/ramp_{n}" for n in range(10, 17)}


def test_a_cause_without_law_and_place_cannot_be_waived(cli, results, tmp_path):
    cases = json.loads(gate(cli, results, "noise", "--format", "json").out)["cases"]
    (vague,) = {case["cause"] for case in cases if case["blocks"]}
    known = tmp_path / "known.yaml"
    known.write_text(f"- cause: {vague}\n  owner: ann\n  reason: r\n  expires: 2999-12-31\n")
    answer = gate(cli, results, "noise", "--waivers", known).expect_code(1)
    assert any("has no law at a place" in line and "fingerprints" in line for line in answer.lines)
    gate(cli, results, "noise", "--write-waivers", tmp_path / "new.yaml", *WORDS)
    assert {"cause" in entry for entry in entries(tmp_path / "new.yaml")} == {False}
    assert gate(cli, results, "noise", "--waivers", tmp_path / "new.yaml").code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (WORDS[2:], "needs --owner, --expires and --reason"),
        (WORDS[:4], "needs --owner, --expires and --reason"),
        ((*WORDS[:2], *WORDS[4:]), "needs --owner, --expires and --reason"),
        ((*WORDS[:4], "--reason", "  "), "needs --owner, --expires and --reason"),
        ((*WORDS, "--expires", "soon"), "--expires soon"),
        ((*WORDS, "--expires", "2001-01-01"), "--expires 2001-01-01"),
        ((*WORDS, "--update"), "beside --update"),
    ],
)
def test_waivers_are_written_with_owner_end_and_reason_alone(cli, results, tmp_path, options, words):
    gate(cli, results, "tail", "--write-waivers", tmp_path / "known.yaml", *options).expect_error(2, words)
    assert not (tmp_path / "known.yaml").exists()


def test_an_existing_file_stays_as_it_is(cli, results, tmp_path):
    file, link = tmp_path / "known.yaml", tmp_path / "link.yaml"
    file.write_text("mine")
    link.symlink_to(tmp_path / "nowhere")
    for path in (file, link):
        assert gate(cli, results, "tail", "--write-waivers", path, *WORDS).code == 2
    assert (file.read_text(), (tmp_path / "nowhere").exists()) == ("mine", False)
    assert gate(cli, results, "tail", "--owner", "ann").code == 2


def test_nothing_to_waive_is_an_empty_ledger(cli, results, tmp_path):
    known = tmp_path / "known.yaml"
    assert gate(cli, results, "right", "--write-waivers", known, *WORDS).code == 0
    assert gate(cli, results, "right", "--waivers", known).code == 0


def test_one_id_wherever_a_cause_is_shown(cli, results):
    (cause,) = json.loads((results("tail") / "causes.json").read_text())["causes"]
    shown = {
        "explain": cli("explain", results("tail")).out,
        "zh": cli("explain", results("tail"), "--lang", "zh").out,
        "gate": gate(cli, results, "tail").out,
        "json": gate(cli, results, "tail", "--format", "json").out,
        **{form: cli("report", results("tail"), "--format", form).out for form in ("text", "markdown")},
    }
    assert cause["id"].startswith("v3:")
    assert cause["condition"] == "N ≥ 7"
    assert {where for where, text in shown.items() if cause["id"] not in text} == set()


def test_causes_stand_in_a_file_of_their_own(results):
    folder = results("mixed")
    document = json.loads((folder / "causes.json").read_text())
    assert document.keys() == {"format", "causes", "more_causes", "more_cases"}
    assert (document["format"], document["more_causes"], document["more_cases"]) == (1, 0, 0)
    by_law = {cause["law"]: cause for cause in document["causes"]}
    tail = by_law["scaled by 0.5"]
    assert tail["headline"].startswith("scale_by: y[6:] is scaled by 0.5")
    assert (tail["output"], tail["place"], tail["waivable"]) == ("y", "y[6:]", True)
    # What is wrong without a law is no part of it.
    assert (tail["cases"], tail["smallest"]) == (5, [f"scale_by/ramp_{n}" for n in range(7, 12)])
    noise = next(cause for cause in document["causes"] if cause["outcome"] == "failed" and not cause["law"])
    assert (noise["cases"], noise["waivable"]) == (4, False)
    assert re.match(r"mluops-test run scale_by/ramp_(7|8|9|10|11) ", tail["repro"]), "a case that shows it"
    sample = tail["samples"][0]
    assert sample["index"] == [6]
    assert float(sample["got"]) == float(sample["expected"]) / 2
    error = next(cause for cause in document["causes"] if cause["outcome"] == "error")
    assert (error["cases"], error["smallest"], error["waivable"]) == (1, ["scale_by/ramp_16"], False)
    assert error["headline"].startswith("scale_by: error: ")
    assert error["id"].startswith("v1:")
    assert sum(cause["cases"] for cause in document["causes"]) == 10


def test_every_results_folder_has_the_causes(cli, results, tmp_path):
    parts = [results("tail", "--shard", f"{i}/2", folder=f"part-{i}") for i in (1, 2)]
    assert cli("merge", *parts, "--out", tmp_path / "merged").code == 1
    whole = json.loads((results("tail") / "causes.json").read_text())["causes"]
    assert json.loads((tmp_path / "merged" / "causes.json").read_text())["causes"] == whole
    assert json.loads((results("right") / "causes.json").read_text())["causes"] == []
    saved = mt.RunReport.load(results("tail")).save(tmp_path / "saved")
    assert json.loads((saved / "causes.json").read_text())["causes"] == whole


def test_an_older_file_of_causes_does_not_survive(cli, ramps, tmp_path):
    out = tmp_path / "out"
    for name, number in (("tail", 1), ("right", 0)):
        coverage(cli, ramps, "--out", out, "--overwrite", backend=name)
        assert len(json.loads((out / "causes.json").read_text())["causes"]) == number


def test_python_has_the_same_causes(ramps, tmp_path):
    report = mt.run(backend=scaled("mixed"), roots=[str(ramps)], isolate=False, out=tmp_path / "out")
    stored = json.loads((tmp_path / "out" / "causes.json").read_text())["causes"]
    assert json.loads(msgspec.json.encode(report.causes)) == stored
    assert report.headlines == tuple(cause.headline for cause in report.causes if cause.output)


def coverage(cli, ramps, *options, backend="refuses"):
    return cli("run", "--root", ramps, "--backend", scaled(backend), "--no-isolate", *options)


def test_a_run_that_skips_most_says_so_in_its_closing_line(cli, ramps):
    answer = coverage(cli, ramps, "-q").expect_code(0)
    assert answer.lines[0].startswith("2 passed, 13 skipped in ")
    assert answer.lines[0].endswith("; more was skipped than compared: 2 of 15 cases compared")


@pytest.mark.parametrize(("required", "code"), [("13.3%", 0), ("13.4%", 5), ("100%", 5), ("0%", 0)])
def test_too_little_coverage_is_exit_5(cli, ramps, required, code):
    """2 of 15 are 13.33…%."""
    answer = coverage(cli, ramps, "--require-coverage", required, "-q").expect_code(code)
    assert (f"less than --require-coverage {required}: 2 of 15 cases compared" in answer.out) == (code == 5)


@pytest.mark.parametrize("required", ["0.95", "95", "101%", "-1%", "95 %", "%", "1e1%", "95%\n", "٩٥%"])
def test_coverage_is_a_percentage(cli, ramps, results, required):
    for answer in (
        coverage(cli, ramps, "--require-coverage", required),
        gate(cli, results, "tail", "--require-coverage", required),
    ):
        answer.expect_error(2, "write a percentage, e.g. --require-coverage 95%")
    with pytest.raises(mt.HarnessError, match="write a percentage"):
        mt.run(roots=[str(ramps)], require_coverage=required)


def test_failures_count_as_covered_and_come_first_and_cases_that_were_not_run_count_against_it(cli, ramps):
    assert coverage(cli, ramps, "--require-coverage", "100%", backend="tail").code == 1
    coverage(cli, ramps, "-x", "-q", "--require-coverage", "50%", backend="tail").expect_output(
        1, "6 of 15 cases compared"
    )


def test_the_settings_may_ask_for_coverage(cli, ramps, monkeypatch):
    monkeypatch.delenv("MLUOPS_TEST_SETTINGS")
    Path("mluops-test.toml").write_text('require_coverage = "95%"\n')
    assert coverage(cli, ramps).code == 5
    assert coverage(cli, ramps, "--require-coverage", "10%").code == 0
    Path("mluops-test.toml").write_text('jobs = 1\nrequire_coverage = "0.95"\n')
    coverage(cli, ramps).expect_error(2, "mluops-test.toml:2")


def test_a_resumed_and_a_merged_run_are_held_to_it(cli, ramps, tmp_path):
    out = tmp_path / "out"
    assert coverage(cli, ramps, "--require-coverage", "95%", "--out", out).code == 5
    assert cli("run", "--resume", out).code == 5
    (out / "report.json").unlink()
    assert cli("run", "--resume", out).code == 5
    parts = [tmp_path / f"part-{i}" for i in (1, 2)]
    for i, part in enumerate(parts, 1):
        coverage(cli, ramps, "--require-coverage", "95%", "--shard", f"{i}/2", "--out", part)
    cli("merge", *parts, "--out", tmp_path / "merged").expect_output(
        5, "less than --require-coverage 95%: 2 of 15 cases compared"
    )


def test_the_gate_asks_for_coverage(cli, results, tmp_path):
    folder = results("refuses")
    assert cli("gate", folder, "--against", folder).code == 0
    little = cli("gate", folder, "--against", folder, "--require-coverage", "95%").expect_code(5)
    assert little.lines[-1] == ("too little compared; less than --require-coverage 95%: 2 of 15 cases compared")
    assert gate(cli, results, "tail", "--require-coverage", "100%").code == 1, "failures come first"
    update = cli("gate", folder, "--against", tmp_path / "baseline.json", "--update", "--require-coverage", "95%")
    assert (update.code, (tmp_path / "baseline.json").exists()) == (5, False)
    decision = mt.decide(folder, folder, require_coverage="95%")
    assert (int(decision.exit_code), decision.blocked) == (5, False)


def test_python_asks_for_coverage(ramps):
    report = mt.run(backend=scaled("refuses"), roots=[str(ramps)], isolate=False, require_coverage="95%")
    assert (report.passed, int(report.exit_code)) == (False, 5)
