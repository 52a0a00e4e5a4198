"""The labels of a run: what the user says, the git state of the folder, and the files of the backend."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mluops_gtest.backends.backend_files import file_labels
from mluops_gtest.model.labels import BRANCH, CLEAN, COMMIT, MAX_LETTERS, STATE, VERSION, merged_labels
from mluops_gtest.model.plain_text import plain_line

# Do not wait longer for git: a label is not worth it.
_PATIENCE_SECONDS: Final = 2.0
# Run no hooks or monitors of the repository, write nothing, ask nothing. Of submodules look at the commit alone: they
# have their own settings.
_GIT: Final = ("git", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "--no-optional-locks")
_STATUS: Final = ("status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=dirty")


def run_labels(labels: Mapping[str, str], backend: str, runtime: str | None, version: str) -> dict[str, str]:
    """The labels of a run that begins, or goes on: then what is no longer as it was is told as such.

    `labels` are those of the user, and those that a run had which is resumed.
    """
    given = {name: value for name, value in labels.items() if "." not in name}
    said = {VERSION: plain_line(version)[:MAX_LETTERS]} if version else {}
    now = {**git_labels(Path()), **file_labels(backend, runtime), **said, **given}
    return merged_labels([labels, now]) if len(labels) > len(given) else now


def git_labels(folder: Path) -> dict[str, str]:
    """Commit, branch and state of the repository that the folder is in; empty where git does not tell them in time."""
    status = _git(folder, *_STATUS)
    if status is None:
        commit = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
        return {COMMIT: commit.strip()} if commit else {}
    lines = status.splitlines()
    head = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# ") and " " in line[2:])
    changed = any(not line.startswith("#") for line in lines)
    found = {COMMIT: head.get("branch.oid", ""), BRANCH: head.get("branch.head", "")}
    # A repository without a commit, and a commit that is on no branch, have a word in brackets there.
    told = {name: value for name, value in found.items() if value and not value.startswith("(")}
    return {**told, STATE: "changed" if changed else CLEAN} if told else {}


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints; None where it is missing, refuses or takes too long."""
    environment = {**os.environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    quiet = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            [*_GIT, *arguments],
            cwd=folder,
            env=environment,
            stdin=quiet,
            stdout=subprocess.PIPE,
            stderr=quiet,
            start_new_session=True,
        )
    except OSError:
        return None
    with process:
        try:
            printed, _ = process.communicate(timeout=_PATIENCE_SECONDS)
        except BaseException as error:
            # Together with its children, which may hold the pipe open.
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return None
            raise
    return printed.decode(errors="replace") if process.returncode == 0 else None
