"""The command blocks of Markdown pages, and a fresh checkout in which they run.

A block is run unless the line before it says `<!-- not run: reason -->`. Other remarks, one per line before the block:
`<!-- exit: 1 -->` the exit code of its last command, `<!-- file: NAME -->` the block is a file that the reader saves,
`<!-- append: NAME -->` one that the reader extends, `<!-- prepare: COMMAND -->` what the page takes for granted,
`<!-- pipeline -->` a CI file whose scripts are run.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
REMARKS = {"not run", "exit", "file", "append", "prepare", "pipeline"}
_REMARK = re.compile(r"<!-- ([a-z ]+?)(?:: (.+))? -->")
# What other tests may be writing just now.
_PASSING = shutil.ignore_patterns("__pycache__", "build", "libmluops_host*.so")
_CHECKOUT = ("mluops_gtest", "generators", "cases", "prototxt", "examples", "docs", "README.md", "cli.py")


@dataclass(frozen=True, slots=True)
class Command:
    """One call of the shell; without expected lines its output is not looked at."""

    text: str
    expected: tuple[str, ...] = ()
    code: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block, where it is, and the remarks before it."""

    page: str
    line: int
    language: str
    text: str
    remarks: tuple[tuple[str, str], ...] = ()

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_command(self) -> bool:
        return self.language in {"sh", "bash", "console"} or self.text.startswith("$ ")

    def remark(self, key: str) -> str | None:
        return dict(self.remarks).get(key)

    @property
    def commands(self) -> tuple[Command, ...]:
        """What to run: a script as a whole, or every line behind a prompt with the lines that it prints."""
        code = int(self.remark("exit") or 0)
        if not self.text.startswith("$ "):
            return (Command(self.text, code=code),)
        parts = [part.splitlines() for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]]
        return tuple(Command(lines[0], tuple(lines[1:]), code if lines is parts[-1] else 0) for lines in parts)


def pages() -> tuple[str, ...]:
    """Every page that a reader may follow, relative to the checkout."""
    found = [*ROOT.glob("README*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md")]
    return tuple(sorted(path.relative_to(ROOT).as_posix() for path in found))


def blocks(page: str) -> tuple[Block, ...]:
    """The fenced blocks of a page in their order."""
    return parse(page, (ROOT / page).read_text(encoding="utf-8"))


def parse(page: str, text: str) -> tuple[Block, ...]:
    """The fenced blocks of a text; a remark belongs to the block right behind it."""
    found: list[Block] = []
    remarks: list[tuple[str, str]] = []
    opened: tuple[int, str, list[str]] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if opened is not None:
            if line.strip() == "```":
                start, language, body = opened
                found.append(Block(page, start, language, "".join(f"{one}\n" for one in body), tuple(remarks)))
                opened, remarks = None, []
            else:
                opened[2].append(line)
        elif line.startswith("```"):
            opened = (number, line[3:].strip(), [])
        elif remark := _REMARK.fullmatch(line.strip()):
            remarks.append((remark[1], remark[2] or ""))
        elif remarks:
            raise ValueError(f"{page}:{number}: the remarks {remarks} belong to no block")
    if opened is not None or remarks:
        raise ValueError(f"{page}: a block or a remark at the end has no end")
    return tuple(found)


def as_pattern(expected: tuple[str, ...]) -> re.Pattern[str]:
    """Matches output like this: … stands for any lines or for any part of a line; spaces and times may differ."""
    return re.compile(
        "".join(
            r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
            for line in map(_stable, expected)
        )
    )


def matches(expected: tuple[str, ...], output: str) -> bool:
    """Whether a command printed what the page shows."""
    return as_pattern(expected).fullmatch("".join(f"{_stable(line)}\n" for line in output.splitlines())) is not None


def _stable(line: str) -> str:
    line = re.sub(r"\s+", " ", line).strip()
    return re.sub(r"\b\d+\.\d+(?= s\b)|\b\d+\.\d\d$", "T", line)


def scripts(pipeline: dict[str, Any]) -> tuple[tuple[dict[str, str], tuple[str, ...]], ...]:
    """The scripts of a GitHub or GitLab pipeline in order, each with its environment; a parallel job is several."""
    if "jobs" in pipeline:
        steps = [step["run"] for job in pipeline["jobs"].values() for step in job["steps"] if "run" in step]
        return (({"GITHUB_STEP_SUMMARY": "summary.md"}, tuple(steps)),)
    return tuple(
        ({"CI_NODE_INDEX": str(index), "CI_NODE_TOTAL": str(job.get("parallel", 1))}, tuple(job["script"]))
        for job in pipeline.values()
        for index in range(1, job.get("parallel", 1) + 1)
    )


def reports(pipeline: dict[str, Any]) -> dict[str, str]:
    """The reports that the jobs of a GitLab pipeline hand over, by kind."""
    jobs = () if "jobs" in pipeline else pipeline.values()
    return {kind: path for job in jobs for kind, path in job.get("artifacts", {}).get("reports", {}).items()}


def write_checkout(folder: Path) -> None:
    """A checkout as a reader has it, with its modules compiled, which saves seconds per page."""
    folder.mkdir()
    for name in _CHECKOUT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=_PASSING)
        else:
            shutil.copy2(source, folder)
    command = [sys.executable, "-m", "compileall", "-q", "mluops_gtest", "generators"]
    subprocess.run(command, cwd=folder, check=True)


class Reader:
    """Somebody who follows a page in a checkout of their own, with `mluops-test` and `python` on the path."""

    def __init__(self, folder: Path, checkout: Path) -> None:
        self.folder = folder / "checkout"
        shutil.copytree(checkout, self.folder, ignore=shutil.ignore_patterns("prototxt"))
        # Thousands of stored cases, which commands replace and never write into.
        shutil.copytree(checkout / "prototxt", self.folder / "prototxt", copy_function=os.link)
        programs = folder / "bin"
        programs.mkdir()
        for name, arguments in (
            ("mluops-test", f"'{self.folder / 'cli.py'}'"),
            ("python", ""),
            ("pytest", "-m pytest"),
        ):
            program = programs / name
            program.write_text(f"#!/bin/sh\nexec '{sys.executable}' {arguments} \"$@\"\n", encoding="utf-8")
            program.chmod(0o755)
        self._environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "200"}

    def follow(self, block: Block) -> None:
        """Do what a block asks; AssertionError where it does not work as printed."""
        for key, value in block.remarks:
            if key == "prepare":
                self.call(Command(value), block.place)
        for key, mode in (("file", "w"), ("append", "a")):
            if name := block.remark(key):
                with (self.folder / name).open(mode, encoding="utf-8") as file:
                    file.write(block.text)
        if block.remark("pipeline") is not None:
            self._follow_pipeline(block)
        elif block.is_command:
            for command in block.commands:
                self.call(command, block.place)

    def _follow_pipeline(self, block: Block) -> None:
        for results in self.folder.glob("results*"):  # a job starts without what an earlier one made
            shutil.rmtree(results)
        pipeline = yaml.safe_load(block.text)
        for environment, lines in scripts(pipeline):
            for line in lines:
                if not line.startswith("pip install"):
                    self.call(Command(line), block.place, environment)
        for path in reports(pipeline).values():
            assert (self.folder / path).is_file(), f"{block.place}: no script writes the report {path}"
            (self.folder / path).unlink()

    def call(self, command: Command, place: str, environment: dict[str, str] | None = None) -> None:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command.text],
            cwd=self.folder,
            env=self._environment | (environment or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        told = f"{place}: {command.text}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == command.code, told
        assert not command.expected or matches(command.expected, done.stdout), told
