"""The git state of a folder: told where git tells it, absent otherwise, and nothing of the repository is run."""

import os
import shutil
import subprocess
import time

import pytest

from mluops_gtest.backends import labels
from mluops_gtest.backends.labels import git_labels, run_labels
from mluops_gtest.base.errors import UsageError
from mluops_gtest.running.settings import parse_labels

NAMED = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")


def git(folder, *arguments):
    command = ["git", *NAMED, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "kernel.c").write_text("1\n")
    git(folder, "add", "kernel.c")
    git(folder, "commit", "-q", "-m", "first")
    return folder


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@needs_git
class TestGit:
    def test_clean_changed_and_detached(self, repository):
        commit = git(repository, "rev-parse", "HEAD")
        clean = {"git.commit": commit, "git.branch": "main", "git.state": "clean"}
        assert git_labels(repository) == clean
        (repository / "results.json").write_text("a new file is no change of the code")
        assert git_labels(repository) == clean
        (repository / "kernel.c").write_text("2\n")
        assert git_labels(repository) == {**clean, "git.state": "changed"}
        git(repository, "checkout", "-q", "--force", "--detach")
        assert git_labels(repository) == {"git.commit": commit, "git.state": "clean"}

    def test_a_staged_file_is_a_change(self, repository):
        (repository / "new.c").write_text("3\n")
        git(repository, "add", "new.c")
        assert git_labels(repository)["git.state"] == "changed"

    def test_outside_of_any_repository_and_before_the_first_commit(self, repository, tmp_path):
        folder = tmp_path / "folder"
        folder.mkdir()
        assert git_labels(folder) == {}
        git(folder, "init", "-q", "-b", "main")
        assert git_labels(folder) == {"git.branch": "main", "git.state": "clean"}

    def test_neither_hooks_nor_monitors_run_and_nothing_is_written(self, repository):
        proof = repository / "ran"
        program = repository / ".git" / "hooks" / "post-index-change"
        program.write_text(f"#!/bin/sh\ntouch {proof}\n")
        program.chmod(0o755)
        git(repository, "config", "core.fsmonitor", program)
        before = (repository / ".git" / "index").read_bytes()
        # The same content with another time: git would like to note that in its index.
        os.utime(repository / "kernel.c", (1, 1))
        assert git_labels(repository)["git.state"] == "clean"
        assert (repository / ".git" / "index").read_bytes() == before
        assert not proof.exists()

    def test_a_slow_status_costs_the_state_and_not_the_commit(self, repository, tmp_path, monkeypatch):
        slow = tmp_path / "bin" / "git"
        slow.parent.mkdir()
        slow.write_text(f'#!/bin/sh\ncase "$*" in *status*) sleep 600;; esac\nexec {shutil.which("git")} "$@"\n')
        slow.chmod(0o755)
        commit = git(repository, "rev-parse", "HEAD")
        monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
        monkeypatch.setattr(labels, "_PATIENCE_SECONDS", 0.5)
        begin = time.monotonic()
        assert git_labels(repository).get("git.commit", commit) == commit
        assert time.monotonic() - begin < 60


def test_without_git(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_labels(tmp_path) == {}


def test_given_labels():
    labels = {"device": "mlu370", "url": "http://a/?b=c", "a_b-2": "ü x"}
    assert parse_labels([f"{name}={value}" for name, value in labels.items()]) == labels


BAD_NAMES = ("=x", "1st=x", "a b=x")
BAD_VALUES = ("", " ", "x" * 201, "a\nb", "\x1b[31mred")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["device"], "write NAME=VALUE, e.g. --label device=mlu370"),
        (["git.commit=abc"], "letters, digits, - and _"),
        (["n" * 65 + "=x"], "at most 64"),
        *(([word], "a name begins with a letter") for word in BAD_NAMES),
        *(([f"device={value}"], "one line of 1 to 200 characters") for value in BAD_VALUES),
        (["device=a", "device=b"], "--label device is given twice, as 'a' and as 'b'"),
        (["device=a", "device=a"], "given twice"),
    ],
)
def test_labels_that_are_none(words, message):
    with pytest.raises(UsageError) as caught:
        parse_labels(words)
    assert message in str(caught.value)


class TestLabelsOfARun:
    @pytest.fixture(autouse=True)
    def now(self, monkeypatch):
        monkeypatch.setattr(labels, "git_labels", lambda folder: {"git.commit": "now"})
        monkeypatch.setattr(labels, "file_labels", lambda spec, runtime: {"backend.file": f"{spec} {runtime}"})

    def test_a_new_run(self):
        assert run_labels({"device": "x"}, "c:k.so", "rt.so", "1.2\n3") == {
            "git.commit": "now",
            "backend.file": "c:k.so rt.so",
            "backend.version": "1.2 3",
            "device": "x",
        }

    def test_a_run_that_goes_on_tells_what_has_changed_since(self):
        before = {"git.commit": "then", "backend.file": "k None", "device": "x"}
        assert run_labels(before, "k", None, "") == {
            "git.commit": "differs: then | now",
            "backend.file": "k None",
            "device": "x",
        }
