"""`mluops-test run`: what it prints, writes and answers."""

import json
import math
import re
import subprocess
import sys
from collections import Counter

import click
import pytest

from mluops_gtest.cli.commands.run import command as run_command
from mluops_gtest.running.plan import Shard, shard_of
from tests.conftest import ROOT
from tests.e2e.conftest import only, replace_in, wrong
from tests.support.reports import GOLDEN

SMOKE = ("--op", "masked_im2col_forward", "--tag", "smoke")


@pytest.mark.slow(seconds=10)
def test_declared_cases_pass_on_numpy(run, catalogue):
    """Every element within its bound, too; .ci/run has the whole default set, and the audit the bounds in all of it."""
    tags = {"negative", "nonfinite", "precision", "smoke"}
    result = run("--elementwise", *(word for tag in sorted(tags) for word in ("--tag", tag))).expect_code(0)
    assert result.report["backend"]["name"] == "numpy"
    assert set(result.report["summary"]) == {"passed"}
    assert {r["operator"] for r in result.results.values()} == set(catalogue.operators)
    assert {tag for r in result.results.values() for tag in r["tags"]} >= tags


@pytest.mark.slow
def test_the_reference_passes_what_it_made(run, catalogue):
    """A few cases of every operator; `verify` and `audit operators` hold it against all stored baselines."""
    result = run("--backend", "reference", "--tag", "smoke", "--tag", "precision", "--tag", "nonfinite").expect_code(0)
    assert set(result.report["summary"]) == {"passed"}
    assert {r["operator"] for r in result.results.values()} == set(catalogue.operators)


@pytest.mark.slow
def test_the_report_holds_what_it_promises(run):
    result = run(*SMOKE, "--backend", wrong("Transposed"))
    report = result.report
    assert report.keys() >= json.loads((GOLDEN / "report.json").read_text()).keys()
    assert set(report["timing"]) == {"generate", "load", "backend", "compare", "write"}
    one = report["results"][0]
    assert one.keys() >= {"status", "expected_status", "readings", "seconds", "reason", "repro"}
    assert one["worst"]["output"] == "data_col"
    assert min(one["worst"]["unequal"], one["worst"]["max_ulp"]) > 0
    assert report["summary"] == {"failed": len(report["results"])}
    lines = (result.folder / "results.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == report["results"]


@pytest.mark.slow
def test_a_failure_is_printed_with_reason_worst_element_and_repro(run, cli):
    result = run(*SMOKE, "--backend", wrong("Transposed"))
    # Cases with one cause stand together under the smallest of them.
    (one,) = [found for found in result.results.values() if f"failed {found['case']}" in result.out]
    for words in (
        "masked_im2col_forward: elements of data_col are right values of other elements",
        "reason: data_col: diff3",
        "worst:  data_col[",
        f"repro:  {one['repro']}",
    ):
        assert words in result.out
    cli(*one["repro"].split()[1:]).expect_output(1, one["case"])


@pytest.mark.slow
def test_failures_of_one_kind_are_one_block_with_the_smallest_case(run, cli):
    """The wrong status is answered by every negative case; all that expect BAD_PARAM fail in the same way."""
    result = run("--op", "masked_im2col_forward", "--tag", "negative", "--backend", wrong("WrongStatus"))
    members = [r for r in result.results.values() if r["expected_status"] == "BAD_PARAM"]
    (head,) = [
        line for line in result.out.splitlines() if line.endswith(f"and {len(members) - 1} more in the same way")
    ]
    smallest = min(members, key=lambda r: (elements(r), r["case"]))
    assert head == f"wrong_status {smallest['case']} and {len(members) - 1} more in the same way"
    assert result.out.count("reason: answered SUCCESS, expected BAD_PARAM") == 1
    listing = f"mluops-test report {result.folder} --format text"
    assert f"and {len(members) - 4} more, to list them: {listing}" in result.out
    listed = cli(*listing.split()[1:]).expect_code(0)
    assert all(f"    {r['case']}\n" in listed.out for r in members if r is not smallest)


def elements(record):
    return sum(math.prod(t["dims"]) for t in (*record["info"]["inputs"], *record["info"]["outputs"]))


@pytest.mark.slow
def test_stopping_at_the_first_failure_leaves_the_rest_not_run(run):
    result = run("--op", "masked_im2col_forward", "--tag", "boundary", "-x", "--backend", wrong("AllZero"))
    outcomes = [r["outcome"] for r in result.report["results"]]
    first = outcomes.index("failed")
    assert set(outcomes[:first]) <= {"passed", "suspect"}
    assert set(outcomes[first + 1 :]) == {"not_run"}
    assert result.code == 1
    assert len((result.folder / "results.jsonl").read_text().splitlines()) == len(outcomes)


def test_quiet_and_verbose_and_plain_in_a_pipe(run):
    plain, quiet, verbose = run(*SMOKE), run(*SMOKE, "-q"), run(*SMOKE, "-v")
    assert "\x1b" not in plain.out + quiet.out + verbose.out
    assert len(quiet.lines) == 2
    assert sum(line.startswith("passed ") for line in verbose.lines) == len(verbose.results)


def test_what_was_tolerated_in_a_case_is_told(run, toy, tmp_path):
    stored = toy / "prototxt" / "scale_by" / "ramp_3.prototxt"
    for name in ("one", "two"):
        (tmp_path / f"{name}.prototxt").write_text(stored.read_text() + "from_the_future: 1\n")
    run(tmp_path / "one.prototxt", tmp_path / "two.prototxt", "--root", toy).expect_output(
        0, "one.prototxt: not in the schema, skipped: field from_the_future", "1 more case has notices"
    )
    verbose = run(tmp_path / "two.prototxt", "-v", "--root", toy)
    assert "  note: not in the schema, skipped: field from_the_future" in verbose.out
    assert "notice" not in run(tmp_path / "two.prototxt", "-q", "--root", toy).out


def test_without_out_the_results_lie_in_a_dated_folder(cli, tmp_path):
    for _ in range(2):
        assert cli("run", *SMOKE).code == 0
    assert len(list((tmp_path / "cwd" / "mluops-results").glob("*/report.json"))) == 2


def test_an_out_that_cannot_be_written_has_its_exit_code(cli, tmp_path):
    (tmp_path / "file").write_text("")
    cli("run", *SMOKE, "--out", tmp_path / "file" / "below").expect_error(74, "cannot be written: Not a directory")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["no_such/case"], 5, "'no_such/case' is not a case id"),
        (["--tag", "network", "-k", "nothing_like_this"], 5, "The selection matches no case"),
        (["--tag", "nework"], 2, "Did you mean 'network'?"),
        (["--op", "lgamma"], 2, "Unknown operator 'lgamma'"),
        (["--repeat", "0"], 2, "'--repeat': 0 is not in the range"),
        (["--no-such-option"], 2, "--no-such-option"),
        (["-k", "a and"], 2, "a word is missing at the end"),
        (["--root", "no_such_folder"], 2, "'no_such_folder' does not exist"),
        (["-j", "2", "--devices", "0,1", "--isolate"], 2, "Use either -j or --devices"),
        (["-j", "2"], 2, "add --isolate"),
        (["--timeout", "3"], 2, "add --isolate"),
        (["--devices", "0,0"], 2, "different device numbers"),
        (["--memory-limit", "much"], 2, "is not a size"),
        (["--shard", "3/2"], 2, "--shard"),
        (["--shard", "x"], 2, "--shard"),
        (["--resume", "no_such"], 2, "no_such"),
    ],
)
def test_wrong_usage_has_its_exit_code(cli, arguments, code, words):
    cli("run", *arguments).expect_error(code, words)


def test_an_empty_shard_is_allowed_only_when_said_so(cli):
    ids = len(cli("list", *SMOKE, "--format", "ids").lines)
    arguments = ("run", *SMOKE, "--shard", f"{ids + 1}/{ids + 1}")
    assert cli(*arguments).code == 5
    assert cli(*arguments, "--allow-empty-shard").code == 0


def test_shards_depend_on_ids_and_costs_alone():
    costs = {f"c{i}": i // 2 for i in range(20)}
    ids = list(costs)
    for shard in (Shard(i, 4) for i in range(1, 5)):
        assert shard_of(ids, costs, shard) == shard_of(ids[::-1], costs, shard) != set()


def test_resume_takes_no_other_option(cli, run, tmp_path):
    result = run(*SMOKE)
    assert cli("run", "--resume", result.folder, "--tag", "smoke").code == 2
    assert cli("run", "--resume", result.folder, "--backend", "reference").code == 2
    (tmp_path / "empty").mkdir()
    cli("run", "--resume", tmp_path / "empty").expect_error(2, "run.json")


@pytest.fixture
def entry(run, toy, tmp_path, monkeypatch):
    """The cache entry of the large case, which a run has made."""
    monkeypatch.setenv("MLUOPS_TEST_CACHE", str(tmp_path / "cache"))
    assert run("--root", toy, "--tag", "network").code == 0
    (folder,) = (tmp_path / "cache" / "scale_by").iterdir()
    return folder


def test_large_cases_are_made_once_into_the_cache(run, toy, entry):
    before = {path.name: path.stat().st_mtime_ns for path in entry.iterdir()}
    assert run("--root", toy, "--tag", "network").code == 0
    assert {path.name: path.stat().st_mtime_ns for path in entry.iterdir()} == before


@pytest.mark.parametrize("damage", ["truncated", "emptied", "flipped", "missing"])
def test_a_damaged_cache_entry_is_never_used(run, toy, entry, damage):
    target = max(entry.iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(target.read_bytes())
    if damage == "missing":
        target.unlink()
    else:
        data[len(data) // 2] ^= 255
        target.write_bytes({"truncated": data[:-100], "emptied": b"", "flipped": data}[damage])
    run("--root", toy, "--tag", "network").expect_code(0)
    assert target.read_bytes() == bytes(data) if damage == "missing" else target.read_bytes() != bytes(data)


def test_a_cache_that_cannot_be_written_costs_only_a_note(run, toy, tmp_path, monkeypatch):
    (tmp_path / "blocked").write_text("")
    monkeypatch.setenv("MLUOPS_TEST_CACHE", str(tmp_path / "blocked"))
    result = run("--root", toy, "--tag", "network").expect_code(0)
    assert any("could not be cached" in note for note in result.results["scale_by/big"]["notes"])


def test_a_declaration_changed_since_it_was_generated_is_broken_content(run, toy):
    replace_in(toy / "cases" / "scale_by.yaml", 'count: "{n}"', 'count: "{n + 1}"')
    result = run("--root", toy, "scale_by/ramp_2").expect_code(3)
    assert "has changed since it was generated" in result.results["scale_by/ramp_2"]["reason"]


def test_the_module_and_the_checkout_shim_are_the_same_command():
    for command in ([sys.executable, "-m", "mluops_gtest"], [sys.executable, str(ROOT / "cli.py")]):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True, cwd=ROOT)
        assert done.stdout.startswith("mluops-test ")


@pytest.mark.slow
def test_the_checkout_shim_makes_cases_in_several_processes(toy):
    words = [sys.executable, str(ROOT / "cli.py"), "generate", "--all", "--check", "-j", "2", "--root", str(toy)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "0 differences" in done.stdout


def test_shards_by_recorded_times(cli, run, toy, tmp_path):
    earlier = run("--root", toy)
    report = json.loads((earlier.folder / "report.json").read_text())
    for result in report["results"]:
        result["seconds"] = 60.0 if result["case"] == "scale_by/ramp_3" else 0.001
    times = tmp_path / "times.json"
    times.write_text(json.dumps(report))
    parts = [run("--root", toy, "--shard", f"{index}/2", "--times", times) for index in (1, 2)]
    assert [list(part.results) for part in parts] == [
        ["scale_by/ramp_3"],
        [case for case in earlier.results if case != "scale_by/ramp_3"],
    ]
    assert cli("merge", *(part.folder for part in parts), "--out", tmp_path / "merged").code == 0
    other = run("--root", toy, "--shard", "2/2", "--times", earlier.folder)
    cli("merge", parts[0].folder, other.folder, "--out", tmp_path / "mixed").expect_error(3, "its --times is")


def test_times_must_be_of_use(cli, run, toy):
    earlier = run("scale_by/ramp_2", "--root", toy).folder
    cli("run", "--root", toy, "--times", earlier).expect_error(2, "--shard I/N, -x and --failed")
    run("scale_by/ramp_3", "--root", toy, "-x", "--times", earlier).expect_error(
        0, "--times has none of the selected cases"
    )


@pytest.mark.slow
def test_stopping_at_the_first_failure_starts_with_the_smallest(run, toy):
    result = run(
        "scale_by/big", "scale_by/ramp_4", "scale_by/ramp_2", "--root", toy, "-x", "--backend", wrong("WithNan")
    )
    assert [r["case"] for r in result.report["results"]] == ["scale_by/ramp_2", "scale_by/ramp_4", "scale_by/big"]


def test_an_operator_alone_selects_its_cases_for_every_command(cli, toy, tmp_path):
    wanted = cli("list", "--op", "scale_by", "--root", toy, "--format", "ids").lines
    assert cli("list", "scale_by", "--root", toy, "--format", "ids").lines == wanted
    assert cli("list", "scale", "--root", toy, "--format", "ids").lines == wanted
    for words in (["generate", "--check"], ["verify"], ["export", "--out", tmp_path / "exported"]):
        assert cli(words[0], "scale_by", "--root", toy, *words[1:]).code == 0, words
    ran = cli("run", "scale_by", "--root", toy, "-q")
    assert ran.lines[0].startswith(f"{len(wanted)} passed")


def edited(folder, path, **outcomes):
    """A copy of a report in which cases have other outcomes."""
    report = json.loads((folder / "report.json").read_text())
    for result in report["results"]:
        name = result["case"].partition("/")[2]
        if name in outcomes:
            result.update(outcome=outcomes[name], compared=outcomes[name] not in ("skipped", "not_run"))
    report["summary"] = dict(Counter(result["outcome"] for result in report["results"]))
    path.write_text(json.dumps(report))
    return path


def test_what_did_not_pass_is_run_again(cli, run, toy, tmp_path):
    earlier = run("--root", toy, "--all").folder
    failed = edited(earlier, tmp_path / "r.json", big="failed", ramp_4="not_run", ramp_2="suspect", rank_2="skipped")
    again = run("--root", toy, "--failed", failed).expect_code(0)
    # The smallest first, and network scales as well: they are what failed.
    assert [r["case"] for r in again.report["results"]] == ["scale_by/ramp_2", "scale_by/ramp_4", "scale_by/big"]
    assert list(run("--root", toy, "--failed", failed, "--tag", "network").results) == ["scale_by/big"]
    assert list(run("--root", toy, "--failed", failed, "scale_by/ramp_*", "-k", "4").results) == ["scale_by/ramp_4"]
    assert cli("gate", again.folder, "--against", earlier, "--subset").code == 0
    cli("run", "--root", toy, "--failed", again.folder, "--out", again.folder, "--overwrite").expect_error(
        5, "nothing failed there"
    )


def test_failed_says_what_it_cannot_run(cli, run, toy, tmp_path):
    earlier = run("--root", toy).folder
    failed = edited(earlier, tmp_path / "r.json", ramp_2="failed")
    cli("run", "--root", toy, "--failed", failed, "scale_by/ramp_3").expect_error(
        5, "none of the 1 cases that failed there is selected"
    )
    cli("run", "--resume", earlier, "--failed", failed).expect_error(2, "leave out --failed")
    cli("run", "abs", "--resume", earlier).expect_error(2, "leave out SELECT")
    cli("run", "--op", "abs", "--out", earlier).expect_error(2, f"`--resume {earlier}` goes on with it")
    cli("run", "--failed", failed).expect_error(5, "1 case(s) no longer exist and are left out, e.g. scale_by/ramp_2")


@pytest.mark.slow
def test_repro_lines_keep_the_limits(run):
    select = ("masked_im2col_forward/edge_top_float", "--isolate")
    result = only(run(*select, "--timeout", "20", "--memory-limit", "2G"))
    assert " --timeout 20 --memory-limit 2147483648 " in result["repro"]
    assert " --timeout 12.5 " in next(iter(run(*select, "--timeout", "12.5").results.values()))["repro"]


def test_only_who_selects_nothing_is_told_what_is_not_selected(run, toy):
    note = "declared cases were not selected"
    told = run("--root", toy).out
    assert note in told
    assert "--tag network" in told
    for words in (("--all",), ("--tag", "boundary"), ("scale_by/ramp_2",), ("--op", "scale_by"), ("-k", "ramp")):
        assert note not in run("--root", toy, *words).out, words


def test_the_help_page_has_every_option_under_one_heading(cli):
    page = cli("run", "--help").expect_code(0).out
    lines = page.partition("\nWhich cases:")[2].partition("\n  Examples:")[0]
    shown = [word for line in lines.splitlines() for word in re.findall(r"^  (?:-\w, )?(--\w[\w-]*|-k)\b", line)]
    declared = [flag for one in run_command.params for flag in one.opts if isinstance(one, click.Option)]
    assert sorted(shown) == sorted([*(flag for flag in declared if flag.startswith("--") or flag == "-k"), "--help"])
    assert page.partition("\nOthers:\n")[2].split()[:2] == ["-h,", "--help"]


def test_the_slowest_cases(run):
    result = run(*SMOKE, "--durations", "2").expect_code(0)
    title, *rows, counts = result.lines[-5:-1]
    assert (title.split(), counts.split()[1]) == (["backend", "ms", "slowest", "cases"], "passed")
    slowest = sorted(result.results.values(), key=lambda one: -one["seconds"])[:2]
    assert [row.split() for row in rows] == [[f"{one['seconds'] * 1e3:.2f}", one["case"]] for one in slowest]
