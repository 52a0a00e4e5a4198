"""Labels through the command line: recorded by `run`, kept by its files, shown wherever runs are."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.reports import report, result, written

COMMITS = ("a" * 40, "b" * 40)
BACKEND = """
from mluops_gtest import Declined


class Mine:
    name = "mine"
    version = "7.1"

    def run(self, call):
        raise Declined("not yet")


backend = Mine()
"""


@pytest.fixture
def committed(cli, monkeypatch):
    """The current folder as a repository with one commit."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    Path("mine.py").write_text(BACKEND)
    named = ["git", "-c", "user.name=A", "-c", "user.email=a@b.c"]
    for words in (["init", "-q", "-b", "main"], ["add", "mine.py"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*named, *words], check=True, timeout=60)
    return subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.slow
def test_a_run_records_commit_file_version_and_what_the_user_says(run, toy, committed):
    done = run("--root", toy, "--backend", "mine.py", "--label", "device=x y", "--label", "n=1", "-v")
    digest = hashlib.sha256(BACKEND.encode()).hexdigest()[:16]
    labels = {
        "git.commit": committed,
        "git.branch": "main",
        "git.state": "clean",
        "backend.file": f"mine.py sha256:{digest}",
        "backend.version": "7.1",
        "device": "x y",
        "n": "1",
    }
    assert done.report["labels"] == labels
    assert json.loads((done.folder / "run.json").read_text())["labels"] == labels
    assert f"Labels: git.commit={committed}, git.branch=main" in done.out


def test_a_label_that_is_none_is_told_before_anything_runs(cli, toy):
    told = cli("run", "--root", toy, "--label", "git.commit=abc", "--out", "results")
    assert (told.code, told.out) == (2, "")
    assert "write NAME=VALUE" in told.err
    assert not Path("results").exists()


@pytest.mark.slow
def test_a_resumed_run_tells_that_the_code_has_changed(run, cli, toy, committed):
    done = run("--root", toy, "--backend", "mine.py", "--label", "device=x")
    kept = (done.folder / "results.jsonl").read_text().splitlines(keepends=True)
    (done.folder / "results.jsonl").write_text("".join(kept[:1]))
    (done.folder / "report.json").unlink()
    before = Path("mine.py").read_text()
    Path("mine.py").write_text(before + "# another\n")
    cli("run", "--resume", done.folder)
    labels = json.loads((done.folder / "report.json").read_text())["labels"]
    assert (labels["git.commit"], labels["git.state"]) == (committed, "differs: clean | changed")
    assert labels["backend.file"].startswith("differs: mine.py sha256:")
    assert (labels["backend.version"], labels["device"]) == ("7.1", "x")


@pytest.fixture
def two(cli, tmp_path):
    """Two runs of one case on two commits."""
    folders = []
    for day, commit in enumerate(COMMITS, 1):
        labels = {"git.commit": commit, "git.state": "changed" if day == 2 else "clean", "device": f"[red]{day}"}
        one = report(result("a"), started=f"2026-01-0{day}T00:00:00+00:00", labels=labels)
        folders.append(written(tmp_path / f"run-{day}", one))
    assert cli("history", "add", *folders).code == 0
    return folders


def test_history_shows_them_and_chooses_by_them(cli, two):
    _, first, second = cli("history", "show").lines
    assert ("aaaaaaaaaa " in first, "device=[red]1" in first) == (True, True)
    assert "bbbbbbbbbb+ " in second
    assert [line.split()[1] for line in cli("history", "show", "op/a").lines[2:4]] == ["aaaaaaaaaa", "bbbbbbbbbb+"]
    _, only = cli("history", "show", "--label", "device=[red]2").lines
    assert only == second
    assert len(cli("history", "show", "--label", "device=3").lines) == 1
    for words in (["device"], ["device=1", "--label", "device=2"]):
        cli("history", "show", "--label", *words).expect_error(2, "write NAME=VALUE, each name once")


def test_a_trend_marks_where_the_commit_changes(cli, two):
    _, line, legend = cli("history", "trend", "--op", "op").lines
    assert "✓|✓" in line
    assert legend == "| a new commit; from old to new: aaaaaaaaaa, bbbbbbbbbb+"


def test_compare_shows_both(cli, two):
    shown = cli("compare", *two)
    rows = {line.split()[0]: line.split()[1:] for line in shown.lines if line}
    assert rows["git.commit"] == ["aaaaaaaaaa", "bbbbbbbbbb"]
    assert rows["device"] == ["[red]1", "[red]2"]
    document = json.loads(cli("compare", *two, "--format", "json").out)
    assert (document["before"]["labels"]["git.commit"], document["after"]["labels"]["git.commit"]) == COMMITS


def test_every_report_has_them(cli, two):
    def report_as(form, *more):
        done = cli("report", two[1], "--format", form, *more).expect_code(0)
        return done.out

    commit = COMMITS[1]
    assert f'<property name="label.git.commit" value="{commit}" />' in report_as("junit")
    environment = json.loads(report_as("ctrf"))["results"]["environment"]
    assert (environment["commit"], environment["extra"]["labels"]["device"]) == (commit, "[red]2")
    assert f"Labels: git.commit `{commit}`, git.state `changed`, device `[red]2`." in report_as("markdown")
    assert f"标签：git.commit `{commit}`" in report_as("markdown", "--lang", "zh")
    assert f"Labels: git.commit={commit}, git.state=changed, device=[red]2" in report_as("text")
    page = report_as("html", "--history", ".mluops-test/history.sqlite")
    assert f'["git.commit","{commit}"]' in page
    assert '"commits":["aaaaaaaaaa","bbbbbbbbbb+"]' in page


def test_shards_keep_what_they_agree_on(cli, tmp_path):
    folders = []
    for part, device in ((1, "x"), (2, "y")):
        labels = {"git.commit": COMMITS[0], "device": device}
        one = report(result(f"c{part}"), selection={"shard": f"{part}/2"}, labels=labels)
        folders.append(written(tmp_path / f"part-{part}", one))
    assert cli("merge", *folders, "--out", "merged").code == 0
    merged = json.loads(Path("merged/report.json").read_text())
    assert merged["labels"] == {"git.commit": COMMITS[0], "device": "differs: x | y"}


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"device": 7}, "expected a text"),
        (["device"], "$.labels: expected an object"),
        ({"a b": "x"}, "'a b' is not a name for a label"),
    ],
)
def test_spoiled_labels_are_refused(cli, run, toy, labels, words):
    done = run("--root", toy)
    for name, arguments in (("report.json", ("report", done.folder)), ("run.json", ("run", "--resume", done.folder))):
        path = done.folder / name
        document = json.loads(path.read_text())
        path.write_text(json.dumps({**document, "labels": labels}))
        cli(*arguments).expect_error(3, words, str(path))


def test_reports_without_labels_stay_readable(cli, tmp_path):
    old = written(tmp_path / "old", report(result("a")))
    assert "labels" not in json.loads((old / "report.json").read_text())
    assert cli("report", old).code == 0
