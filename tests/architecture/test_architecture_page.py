"""docs/architecture.md shows packages, files and names as they are; a warm case takes the short way that it shows."""

import ast
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator

import pytest

import mluops_gtest
from mluops_gtest.running.case_run import CaseRun
from mluops_gtest.running.workers.pool import Worker
from tests.conftest import ROOT

PACKAGE = ROOT / "mluops_gtest"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGES = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
# `running/case_run.py:CaseRun.run`, in a sentence or at the beginning of a line of the frames.
REFERENCES = re.findall(r"(?:`|^)([\w/]+\.py):([\w.]+)", PAGE, re.MULTILINE)
FILES = sorted(set(re.findall(r"(?:`|^)([a-z]\w*(?:/\w+)*\.py)\b", PAGE, re.MULTILINE)))
# Files of an operator, and the one that the reader of a recipe writes.
OTHERS = {"csv_file.py", *(path.name for path in (ROOT / "generators").glob("*/*.py"))}
RECIPES = ("an option", "a cause", "a report format", "a kind of backend", "a criterion")


def definitions(node: ast.AST, inside: str = "") -> Iterator[str]:
    """Every class, function and variable of a module or a class, with the names of the classes around it."""
    for child in getattr(node, "body", ()):
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            yield f"{inside}{child.name}"
        if isinstance(child, ast.ClassDef):
            yield from definitions(child, f"{inside}{child.name}.")
        targets = child.targets if isinstance(child, ast.Assign) else [getattr(child, "target", None)]
        yield from (f"{inside}{target.id}" for target in targets if isinstance(target, ast.Name))


def test_the_table_of_packages_is_true():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE[PAGE.index("## The packages") :], re.MULTILINE))
    docstrings = {
        name: ast.get_docstring(ast.parse((PACKAGE / name / "__init__.py").read_text(encoding="utf-8")))
        for name in PACKAGES
    }
    assert rows == docstrings


def test_the_layers_are_those_that_are_checked():
    printed = re.search(r"```text\n(cli \|.*?)```", PAGE, re.DOTALL)[1].split("\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    checked = [layer.replace("mluops_gtest.", "").replace(" | garbage", "") for layer in layers]
    assert [line for line in printed if line] == checked


def test_the_page_names_files_and_definitions():
    assert len(FILES) > 25
    assert len(REFERENCES) > 25


@pytest.mark.parametrize("file", FILES)
def test_a_file_of_the_page_exists(file):
    assert (PACKAGE / file).is_file() or file in OTHERS


@pytest.mark.parametrize(("file", "name"), sorted(set(REFERENCES)))
def test_a_name_of_the_page_is_defined_in_its_file(file, name):
    assert name in definitions(ast.parse((PACKAGE / file).read_text(encoding="utf-8")))


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_names_one_file_and_shows_code(recipe):
    title, text = re.search(rf"^### Add {recipe}(.*?)\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL).groups()
    assert (PACKAGE / re.fullmatch(r".*: `([\w/]+\.py)`", title)[1]).is_file()
    assert "```python" in text


# The place of each excerpt of the recipes, in their order: the file, and the line that it is put before; none: the end.
PLACES = [
    ("running/options.py", "    failed: str | None = option("),
    ("core/cause.py", "if TYPE_CHECKING:\n"),
    ("core/report.py", '    "json": ReportKind('),
    ("results/reports/csv_file.py", ""),
    ("backends/registry.py", '    "torch": "torch[:DEVICE]'),
    ("backends/registry.py", '        case "exec":'),
    ("judging/criteria.py", "    parts = elements.parts"),
]
# What the recipes say in words, and a backend and imports that the reader has.
REST = [
    ("judging/criteria.py", "    CriterionKind.DIFF_KL,\n", "    CriterionKind.DIFF_KL,\n    CriterionKind.DIFF5,\n"),
    ("core/tensor.py", '"diff_kl", 11)\n', '"diff_kl", 11)\n    DIFF5 = ("diff5", 12)\n'),
    ("core/report.py", '"junit", "ctrf"]', '"junit", "ctrf", "csv"]'),
]
NEW_FILES = {
    "results/reports/csv_file.py": "from __future__ import annotations\n\n\n",
    "backends/remote.py": "class RemoteBackend:\n    def __init__(self, address):\n        self.name = address\n",
}
TRIAL = """
import sys
import numpy
import mluops_gtest
from mluops_gtest.backends.registry import BackendDependencies, load_backend
from mluops_gtest.cli.main import run_main
from mluops_gtest.base.typed_files import Source, decode_json, json_bytes
from mluops_gtest.core import cause
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.judging.fingerprint import with_fingerprint
from mluops_gtest.results.records import result_from_json, result_to_json
assert mluops_gtest.__file__.startswith(sys.argv[1])
wrong = cause.WrongSign("y", 3)
assert (wrong.format(), wrong.format("zh")) == ("3 elements of y have the wrong sign", "y 的 3 个元素符号错误")
failed = with_fingerprint(CaseResult("op/a", "op", (), Outcome.FAILED, causes=(wrong,)))
stored, source = json_bytes(result_to_json(failed)), Source("report.json", "Run again.")
assert failed.fingerprint and result_from_json(decode_json(stored, source), source) == failed
assert mluops_gtest.compare(numpy.float32([1, 2.5]), numpy.float32([1, 2]), {"diff5": 0.25})
assert not mluops_gtest.compare(numpy.float32([1, 2.5]), numpy.float32([1, 2]), {"diff5": 0.24})
assert load_backend("remote:node1", BackendDependencies(None, None)).name == "node1"
run = ["run", "--op", "ball_query", "--tag", "smoke", "--root", sys.argv[2], "--out", "results"]
assert run_main([*run, "--most", "7", "--csv", "cases.csv"]) == 0
assert run_main(["report", "results", "--format", "csv", "-o", "again.csv"]) == 0
"""


@pytest.mark.slow
def test_the_recipes_work(tmp_path):
    package = tmp_path / "mluops_gtest"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for file, text in NEW_FILES.items():
        (package / file).write_text(text, encoding="utf-8")
    recipes = PAGE[PAGE.index("## Where to change what") : PAGE.index("## The packages")]
    excerpts = re.findall(r"```python\n(.*?)```", recipes, re.DOTALL)
    changes = [(file, line, excerpt + line) for (file, line), excerpt in zip(PLACES, excerpts, strict=True)]
    for file, before, after in [*changes, *REST]:
        text = (package / file).read_text(encoding="utf-8")
        assert before in text, (file, before)
        changed = text.replace(before, after, 1) if before else f"{text}\n\n{after}"
        (package / file).write_text(changed, encoding="utf-8")
    command = [sys.executable, "-c", TRIAL, str(tmp_path), str(ROOT)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"most":7' in (tmp_path / "results" / "run.json").read_text(encoding="utf-8").replace(" ", "")
    written = (tmp_path / "cases.csv").read_text(encoding="utf-8")
    assert ",passed\n" in written
    assert (tmp_path / "again.csv").read_text(encoding="utf-8") == written


# Reading the stored case (11 of them), calling and judging; the case itself is one.
MOST_FILES = 26
MOST_FRAMES = 6
WARM = 10


class Trace:
    """Follows `CaseRun.run` in the threads of worker slots."""

    def __init__(self):
        self.files: list[set[str]] = []
        # Of each request, after how many cases it was made: the first start workers.
        self.frames: list[tuple[int, int]] = []
        self._of_thread = threading.local()

    def __call__(self, frame, event, _argument):
        root = getattr(self._of_thread, "root", None)
        if event == "return" and frame is root:
            self.files.append(self._of_thread.files)
            self._of_thread.root = None
        elif event == "call" and root is None and frame.f_code is CaseRun.run.__code__:
            self._of_thread.root, self._of_thread.files = frame, set()
        if event == "call" and self._of_thread.__dict__.get("root") is not None:
            if frame.f_code.co_filename.startswith(str(PACKAGE)):
                self._of_thread.files.add(frame.f_code.co_filename)
            if frame.f_code is Worker.request.__code__:
                self.frames.append((len(self.files), self._depth(frame)))

    def _depth(self, frame):
        depth = 1
        while frame is not self._of_thread.root:
            frame, depth = frame.f_back, depth + 1
        return depth


def test_one_warm_case_enters_few_files_through_few_frames():
    trace = Trace()
    threading.setprofile(trace)
    try:
        report = mluops_gtest.run("masked_im2col_forward/*_float", backend="numpy", isolate=True, jobs=2)
    finally:
        threading.setprofile(None)
    assert report.passed
    warm = trace.files[WARM:]
    assert len(warm) > WARM
    # The first cases open things, and the large ones are made or come from the cache.
    usual = sorted(warm, key=len)[len(warm) // 2]
    assert len(usual) <= MOST_FILES, sorted(usual)
    frames = [depth for cases, depth in trace.frames if cases > WARM]
    assert frames
    assert max(frames) <= MOST_FRAMES
