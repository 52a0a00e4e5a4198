"""`run --reseed N`: the declared cases with other values, told everywhere, and no committed file touched."""

import json
import shlex

import pytest

from mluops_gtest.catalog.make import make_case
from mluops_gtest.catalog.root import Root
from mluops_gtest.catalog.selection import Catalogue
from tests.support.toy_root import CASES

NOISE = (
    CASES
    + """\
- name: noise_{n}
  tags: [random]
  doc: "§1: noise"
  each: {n: {from: 3, to: 4}}
  data: {recipe: noise, count: "{n}"}
- name: noise_of_rank_2
  tags: [negative]
  doc: "§1: drawn, but the change takes the values"
  data: {recipe: noise, count: 4}
  change: {x: {dims: [2, 2]}}
  expect: {status: BAD_PARAM, check: x_rank}
"""
)
FIXED = {"ramp_2", "ramp_3", "ramp_4", "rank_2", "empty", "noise_of_rank_2"}
# Right for the inputs that it knows by heart, and only for those.
TABLE = """
from mluops_gtest import Status

SEEN = {seen!r}


class Table:
    name = "table"

    def run(self, call):
        if len(call.inputs["x"].dims) != 1:
            return Status.BAD_PARAM
        if call.inputs["x"].desc.is_empty:
            return Status.SUCCESS
        known = call.array("x").tobytes().hex() in SEEN
        call.array("y")[...] = call.array("x") * 2 if known else 0.5
        return Status.SUCCESS


backend = Table()
"""


@pytest.fixture
def noisy(toy, cli):
    """The toy root with cases that draw."""
    (toy / "cases" / "scale_by.yaml").write_text(NOISE)
    assert cli("generate", "--all", "--root", toy).code == 0
    return toy


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_other_values_pass_and_the_committed_files_stay(noisy, run):
    before = contents(noisy / "prototxt")
    result = run("--root", noisy, "--all", "--reseed", 7).expect_code(0)
    assert contents(noisy / "prototxt") == before
    assert result.report["selection"]["reseed"] == 7
    assert "Values of --reseed 7; 6 cases are the same without it" in result.lines
    reseeded = {case.partition("/")[2]: r["info"]["reseeded"] for case, r in result.results.items()}
    assert {name for name, told in reseeded.items() if told["fixed"]} == FIXED
    assert {told["number"] for told in reseeded.values()} == {7}
    assert all("--reseed 7" in r["repro"] for r in result.results.values())
    without = run("--root", noisy)
    assert without.report["selection"]["reseed"] is None
    assert {r["info"]["reseeded"] for r in without.results.values()} == {None}
    assert "reseed" not in without.out


@pytest.fixture
def lookup_table(noisy, tmp_path):
    """The --backend word of a backend that knows the declared inputs."""
    catalogue = Catalogue(Root(noisy))
    cases = [make_case(draft, catalogue.operators[draft.operator]) for draft in catalogue.drafts.values()]
    seen = {case.inputs[0].data.tobytes().hex() for case in cases if case.inputs[0].data is not None}
    file = tmp_path / "table.py"
    file.write_text(TABLE.format(seen=seen))
    return f"{file}:backend"


def test_a_lookup_table_passes_the_declared_values_alone(noisy, run, lookup_table):
    options = ("--root", noisy, "--backend", lookup_table, "--no-isolate")
    assert run(*options).code == 0
    reseeded = run(*options, "--reseed", 1).expect_code(1)
    failed = {case for case, r in reseeded.results.items() if r["outcome"] == "failed"}
    assert failed == {"scale_by/noise_3", "scale_by/noise_4"}
    again = run(*shlex.split(reseeded.results["scale_by/noise_3"]["repro"])[2:])
    assert again.results["scale_by/noise_3"]["worst"] == reseeded.results["scale_by/noise_3"]["worst"]


def test_the_same_seed_gives_the_same_values_another_one_others(noisy, cli):
    def lines_of(case, *options):
        return cli("show", f"scale_by/{case}", "--root", noisy, *options).lines

    def float_lines(*options):
        return [line for line in lines_of("noise_4", *options) if "float" in line]

    lines = lines_of("noise_4", "--reseed", 5)
    assert "values: of --reseed 5" in lines
    assert lines[-1] == f"repro: mluops-test run scale_by/noise_4 --root {noisy} --reseed 5"
    assert "values: the same as without --reseed" in lines_of("ramp_2", "--reseed", 5)
    assert float_lines("--reseed", 5) == float_lines("--reseed", 5)
    assert len({str(float_lines(*options)) for options in ((), ("--reseed", 0), ("--reseed", 5))}) == 3


def test_a_file_keeps_its_values(noisy, run, tmp_path):
    file = tmp_path / "mine.prototxt"
    file.write_bytes((noisy / "prototxt" / "scale_by" / "noise_4.prototxt").read_bytes())
    result = run(file, "--root", noisy, "--reseed", 3).expect_code(0)
    assert result.results[file.as_posix()]["info"]["reseeded"] == {"number": 3, "redraws": 0, "fixed": True}


def test_large_cases_are_cached_by_seed_and_made_anew_when_the_code_changes(noisy, run, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("MLUOPS_TEST_CACHE", str(cache))
    assert run("scale_by/big", "--root", noisy, "--reseed", 3).code == 0
    (entry,) = (cache / "reseed" / "3" / "scale_by").iterdir()
    written = (entry / "case.pb").stat().st_mtime_ns
    assert run("scale_by/big", "--root", noisy, "--reseed", 3).code == 0
    assert (entry / "case.pb").stat().st_mtime_ns == written
    blobs = [file for file in entry.iterdir() if file.name not in ("case.pb", "made.json")]
    blobs[0].write_bytes(bytes(len(blobs[0].read_bytes())))
    assert run("scale_by/big", "--root", noisy, "--reseed", 3).code == 0
    assert (entry / "case.pb").stat().st_mtime_ns != written


def test_a_new_seed_every_night_does_not_fill_the_disk(noisy, run, tmp_path, monkeypatch):
    monkeypatch.setenv("MLUOPS_TEST_CACHE", str(tmp_path / "cache"))
    for seed in range(6):
        assert run("scale_by/big", "--root", noisy, "--reseed", seed).code == 0
    assert sorted(path.name for path in (tmp_path / "cache" / "reseed").iterdir()) == ["2", "3", "4", "5"]


def test_random_draws_a_seed_and_says_it(noisy, run):
    first, second = (run("--root", noisy, "--reseed", "random") for _ in range(2))
    seed = first.report["selection"]["reseed"]
    assert f"Values of --reseed {seed};" in first.out
    assert f"--reseed {seed}" in first.results["scale_by/noise_3"]["repro"]
    assert second.report["selection"]["reseed"] != seed


@pytest.mark.parametrize("word", ["-1", "1.5", "4294967296", "dice", "²"])
def test_what_is_no_seed_is_told(noisy, cli, word):
    result = cli("run", "--root", noisy, f"--reseed={word}").expect_code(2)
    assert "write an integer from 0 to 4294967295, or random" in " ".join(result.err.split())


def test_shards_need_one_seed(noisy, cli):
    cli("run", "--root", noisy, "--reseed", "random", "--shard", "1/2").expect_error(2, "give each the same number")


def test_merge_refuses_parts_of_different_seeds(noisy, run, cli, tmp_path):
    parts = [run("--root", noisy, "--shard", f"{i}/2", "--reseed", seed).folder for i, seed in ((1, 7), (2, 8), (2, 7))]
    cli("merge", *parts[:2], "--out", tmp_path / "merged").expect_error(3, "its --reseed is 8, but the first has 7")
    other = run("--all", "--root", noisy, "--shard", "2/2", "--reseed", 8).folder
    cli("merge", parts[0], other, "--out", tmp_path / "merged").expect_error(
        3, "its --reseed is 8, but the first has 7", "its selection.everything is True, but the first has False"
    )
    assert cli("merge", parts[0], parts[2], "--out", tmp_path / "merged").code == 0
    assert json.loads((tmp_path / "merged" / "report.json").read_text())["selection"]["reseed"] == 7


def test_resume_keeps_the_seed(noisy, run, cli):
    whole = run("--root", noisy, "--reseed", 7)
    (whole.folder / "report.json").unlink()
    lines = (whole.folder / "results.jsonl").read_text().splitlines(keepends=True)
    (whole.folder / "results.jsonl").write_text("".join(lines[:2]))
    assert cli("run", "--resume", whole.folder).code == 0
    report = json.loads((whole.folder / "report.json").read_text())
    assert report["selection"]["reseed"] == 7
    assert [r["info"]["reseeded"] for r in report["results"]] == [
        r["info"]["reseeded"] for r in whole.report["results"]
    ]
    assert cli("run", "--resume", whole.folder, "--reseed", 0).code == 2


def test_a_declaration_that_is_not_generated_yet_runs(noisy, run):
    """Nothing committed is needed; without the lock a case that draws nothing still is known."""
    (noisy / "prototxt" / "scale_by" / "baselines.lock").unlink()
    result = run("scale_by/noise_3", "scale_by/ramp_2", "--root", noisy, "--reseed", 1).expect_code(0)
    assert [r["info"]["reseeded"]["fixed"] for r in result.report["results"]] == [False, True]


def test_what_the_declaration_alone_says_survives_the_cache(noisy, run, tmp_path, monkeypatch):
    """The reason for a constant baseline, and the tags."""
    monkeypatch.setenv("MLUOPS_TEST_CACHE", str(tmp_path / "cache"))
    declared = NOISE + "- {name: zero, tags: [boundary], doc: '§1', params: {factor: 0}, degenerate: 'all 0',"
    (noisy / "cases" / "scale_by.yaml").write_text(declared + " data: {recipe: ramp, count: 20000}}\n")
    for _ in range(2):
        result = run("scale_by/zero", "--root", noisy, "--reseed", 3)
        assert result.results["scale_by/zero"]["outcome"] == "passed", result.out
        assert result.results["scale_by/zero"]["tags"] == ["boundary"]
