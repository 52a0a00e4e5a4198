"""docs/architecture.md shows the packages as they are."""

import ast
import re
import tomllib

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGES = sorted(path.parent.name for path in (ROOT / "mluops_gtest").glob("*/__init__.py"))


def test_the_table_of_packages_is_true():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE[PAGE.index("## The packages") :], re.MULTILINE))
    docstrings = {
        name: ast.get_docstring(ast.parse((ROOT / "mluops_gtest" / name / "__init__.py").read_text(encoding="utf-8")))
        for name in PACKAGES
    }
    assert rows == docstrings


def test_the_layers_are_those_that_are_checked():
    drawn = re.search(r"```text\n(cli\b.*?)```", PAGE, re.DOTALL)[1].split("\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    checked = [layer.replace("mluops_gtest.", "").replace(" | garbage", "") for layer in layers]
    assert [line for line in drawn if line] == checked
