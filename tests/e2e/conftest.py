"""The command line as a user meets it: arguments in, exit code and printed lines out."""

import json
import shutil
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path

import pytest

from mluops_gtest.cli.main import run_main
from tests.support.built_once import built_once
from tests.support.crashing_backends import VICTIM
from tests.support.toy_root import CASES, write_toy_root

SUPPORT = Path(__file__).parents[1] / "support"
# What wrong backends do, they do to one operator's cases; innocent ones come before and after them.
_INNOCENT = ("dynamic_scatter_backward/network_mvxnet_twin", "voxel_pooling_forward/order_of_axes")
ONE_VICTIM = ("masked_im2col_forward/retinanet_3x3_twin_float", *_INNOCENT)
TWO_VICTIMS = ("masked_im2col_forward/order_of_rows_half", *ONE_VICTIM)


def backends_in(module):
    """Makes the --backend words of the classes in a module of tests/support."""
    return lambda name: f"{SUPPORT / module}.py:{name}"


wrong = backends_in("wrong_backends")


def only(result):
    """The one result of a run."""
    (one,) = result.results.values()
    return one


def split(result):
    """The results of the victims and of the innocent; there are both."""
    results = list(result.results.values())
    victims = [one for one in results if one["operator"] == VICTIM]
    assert 0 < len(victims) < len(results)
    return victims, [one for one in results if one["operator"] != VICTIM]


def assert_costs_its_cases_alone(result, outcome, reason):
    victims, others = split(result)
    assert {(one["outcome"], one["reason"]) for one in others} == {("passed", "")}
    for one in victims:
        assert (one["outcome"], reason in one["reason"]) == (outcome, True), one["reason"][:500]
        assert len(one["reason"]) < 100_000
    assert result.code == 1


def replace_in(path, old, new):
    """Replace a text of a file, which has it; returns the path."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def lines(self):
        return self.out.splitlines()

    def expect_code(self, code):
        """Assert that it ended so; returns itself."""
        assert self.code == code, self.out + self.err
        return self

    def expect_output(self, code, *words):
        """Assert that it ended so and printed all of these words; returns itself."""
        assert [one for one in words if one not in self.out] == [], self.out + self.err
        return self.expect_code(code)

    def expect_error(self, code, *words):
        """Assert that it ended so and said all of these words on stderr; returns itself."""
        assert [one for one in words if one not in self.err] == [], self.out + self.err
        return self.expect_code(code)


def called(*arguments):
    """Call the command line where there is no capture of a test: in fixtures of a module or of all tests."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = run_main([str(argument) for argument in arguments])
    return Result(code, out.getvalue(), err.getvalue())


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


@pytest.fixture(scope="module")
def run_once(tmp_path_factory):
    """`mluops-test run` for fixtures of a module: the folder of results that all its tests read."""

    def call(*arguments, code=0):
        out = tmp_path_factory.mktemp("run") / "results"
        called("run", *arguments, "--out", out).expect_code(code)
        return out

    return call


@pytest.fixture
def toy(toy_with):
    """A generated root with one tiny operator."""
    return toy_with()


@pytest.fixture
def toy_with(generated_toy, tmp_path):
    """Makes such a root; with parts its operator is a folder that has them."""

    def make(**parts):
        return Path(shutil.copytree(generated_toy(**parts), tmp_path / "toy"))

    return make


@pytest.fixture(scope="session")
def generated_toy(tmp_path_factory):
    """Roots of which tests get copies: to generate one takes ten times as long as to copy it."""

    @cache
    def make(**parts):
        root = write_toy_root(tmp_path_factory.mktemp("toys") / "toy", parts=parts or None)
        for chosen in (["--all"], ["--tag", "undefined"]):
            called("generate", *chosen, "--root", root).expect_code(0)
        return root

    return make


@pytest.fixture(scope="session")
def row_sum_root(tmp_path_factory):
    """A root with the operator of `new operator row_sum`, generated once for all workers; tests change copies."""

    def build(root):
        root.mkdir()
        for words in (["new", "operator", "row_sum"], ["generate", "--all"]):
            called(*words, "--root", root).expect_code(0)

    return built_once(tmp_path_factory, "row-sum-root", build)


@pytest.fixture(scope="session")
def folder_root(tmp_path_factory):
    """A root whose operator is a folder of part files, as released versions wrote it, generated once."""

    def build(root):
        shutil.copytree(SUPPORT / "folder_root", root)
        called("generate", "--all", "--root", root).expect_code(0)

    return built_once(tmp_path_factory, "folder-root", build)


@pytest.fixture(scope="session")
def ramps(generated_toy, tmp_path_factory):
    """A root with fifteen ramps of 2 to 16 elements, which no test changes."""
    root = Path(shutil.copytree(generated_toy(), tmp_path_factory.mktemp("ramps") / "toy"))
    (root / "cases" / "scale_by.yaml").write_text(CASES.partition("- name: big")[0].replace("to: 4", "to: 16"))
    called("generate", "--all", "--root", root).expect_code(0)
    return root
