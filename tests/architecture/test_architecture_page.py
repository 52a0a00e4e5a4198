"""docs/architecture.md shows the packages, files and names as they are."""

import ast
import re
import tomllib
from collections.abc import Iterator

import pytest

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
