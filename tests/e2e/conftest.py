"""The command line as a user meets it: arguments in, exit code and printed lines out."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from mluops_gtest.cli.main import run_main
from tests.support.toy_root import write_toy_root

SUPPORT = Path(__file__).parents[1] / "support"


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def lines(self):
        return self.out.splitlines()


@pytest.fixture
def cli(capsys, tmp_path, monkeypatch):
    """Call the command line in an empty folder."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def call(*arguments):
        code = run_main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def run(cli, tmp_path):
    """`mluops-test run`, with its report beside the printed lines."""
    number = iter(range(1000))

    def call(*arguments):
        out = tmp_path / f"results-{next(number)}"
        result = cli("run", *arguments, "--out", out)
        report = out / "report.json"
        result.report = json.loads(report.read_text()) if report.exists() else None
        result.results = {r["case"]: r for r in result.report["results"]} if result.report else {}
        result.folder = out
        return result

    return call


@pytest.fixture
def toy(toy_with):
    """A generated root with one tiny operator."""
    return toy_with()


@pytest.fixture
def toy_with(cli, tmp_path):
    """Makes such a root; with parts its operator is a folder that has them."""

    def make(**parts):
        root = write_toy_root(tmp_path / "toy", parts=parts or None)
        result = cli("generate", "--all", "--root", root)
        assert result.code == 0, result.err
        assert cli("generate", "--tag", "undefined", "--root", root).code == 0
        return root

    return make


def wrong(name):
    """The --backend word of a wrong backend."""
    return f"{SUPPORT / 'wrong_backends.py'}:{name}"
