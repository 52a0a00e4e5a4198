"""`mluops-test cache`: what it holds, and what pruning takes away."""

import errno
import os
import time
from pathlib import Path

import pytest

from mluops_gtest.catalog import cache as case_cache


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder of an empty cache."""
    monkeypatch.setenv("MLUOPS_TEST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def filled(cache, toy, run):
    """A cache with the toy's large case as declared and under two seeds."""
    assert run("scale_by/big", "--root", toy).code == 0
    for seed in (3, 12):
        assert run("scale_by/big", "--root", toy, "--reseed", seed).code == 0
    return cache


def entries(cache: Path) -> list[Path]:
    return sorted(path.parent for path in cache.rglob("case.pb"))


def aged(path: Path, days: float) -> Path:
    at = time.time() - days * 86400
    os.utime(path, (at, at))
    return path


def test_what_it_holds_and_where(cli, filled):
    result = cli("cache").expect_code(0)
    assert result.lines[0] == str(filled)
    rows = [line.split() for line in result.lines[1:]]
    today = time.strftime("%Y-%m-%d")
    assert rows[0] == ["values", "cases", "size", "last", "used"]
    assert [row[:-3] for row in rows[1:4]] == [["as", "declared", "1"], ["--reseed", "3", "1"], ["--reseed", "12", "1"]]
    assert rows[4][:2] == ["together", "3"]
    assert all(row[-1] == today and row[-2] in ("KiB", "MiB") for row in rows[1:5])
    assert "\x1b" not in result.out


def test_an_empty_one_is_told_as_such(cli, cache):
    assert cli("cache").lines == [str(cache), "empty"]
    pruned = cli("cache", "prune").expect_code(0)
    assert pruned.lines == [f"{cache}: removed 0 of 0 cases, 0 bytes."]
    assert not cache.exists()


def test_pruning_takes_what_was_not_used_for_long(cli, filled, toy, run):
    for entry in entries(filled):
        aged(entry, 31)
    # Used again, and so kept.
    assert run("scale_by/big", "--root", toy, "--reseed", 3).code == 0
    assert run("scale_by/big", "--root", toy).code == 0
    cli("cache", "prune").expect_output(0, "removed 1 of 3 cases")
    assert {path.relative_to(filled).parts[:2] for path in entries(filled)} == {
        ("reseed", "3"),
        ("scale_by", entries(filled)[-1].name),
    }
    assert not (filled / "reseed" / "12").exists()


def test_pruning_everything_leaves_an_empty_folder_and_cases_are_made_again(cli, filled, toy, run):
    result = cli("cache", "prune", "--older-than", 0)
    assert "removed 3 of 3 cases" in result.out
    assert list(filled.iterdir()) == []
    assert run("scale_by/big", "--root", toy).code == 0
    assert len(entries(filled)) == 1


def test_what_somebody_else_put_there_stays(cli, filled):
    (case,) = (filled / "scale_by").iterdir()
    strangers = [
        filled / "notes.txt",
        filled / "scale_by" / "thesis.tex",
        filled / "scale_by" / "photos" / "cat.png",
        filled / "scale_by" / f"b{case.name}" / "diary.txt",
        filled / "reseed" / "mine" / "x",
    ]
    for path in strangers:
        path.parent.mkdir(exist_ok=True)
        path.write_text("dear")
    outside = filled.parent / "elsewhere"
    case.rename(outside)
    case.symlink_to(outside)
    shown = cli("cache")
    assert f"not put there by mluops-test: {len(strangers) + 1}, e.g. {filled / 'notes.txt'}" in shown.lines
    result = cli("cache", "prune", "--older-than", 0).expect_output(0, "removed 2 of 2 cases")
    assert f"Left alone: {len(strangers) + 1} not put there by mluops-test" in result.err
    assert [path.read_text() for path in strangers] == ["dear"] * len(strangers)
    assert (outside / "case.pb").exists()


def test_what_a_killed_run_left_goes_and_what_a_live_one_writes_stays(cli, filled):
    (case,) = (filled / "scale_by").iterdir()
    left, live = (case.with_name(f".{case.name}.123.{digits}") for digits in ("0123abcd", "4567cdef"))
    for folder in (left, live):
        folder.mkdir()
        (folder / "case.pb").write_text("half")
    aged(left, 1)
    assert "left by killed runs: 1, to remove them: mluops-test cache prune" in cli("cache").lines
    assert cli("cache", "prune", "--older-than", 0).code == 0
    assert not left.exists()
    assert (live / "case.pb").exists()


def test_a_run_goes_on_when_its_case_is_pruned_under_its_hands(run, cli, toy, cache, monkeypatch):
    """Between the moment a case is published and the moment it is read back."""
    publish = case_cache.publish

    def publish_and_prune(entry, fill):
        publish(entry, fill)
        assert cli("cache", "prune", "--older-than", 0).code == 0

    monkeypatch.setattr(case_cache, "publish", publish_and_prune)
    result = run("scale_by/big", "--root", toy).expect_code(0)
    assert result.results["scale_by/big"]["outcome"] == "passed"


def test_what_cannot_be_removed_is_told(cli, filled, monkeypatch):
    def refuse(path, target):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "rename", refuse)
    cli("cache", "prune", "--older-than", 0).expect_error(74, "cannot be removed: Permission denied")


def test_wrong_usage(cli, cache):
    assert cli("cache", "prune", "--older-than", "-1").code == 2
    assert cli("cache", "clear").code == 2
