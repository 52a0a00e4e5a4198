"""Our sources as syntax trees: parsed once, and not before a test looks at them."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


def modules() -> dict[Path, ast.Module]:
    """Those of the package."""
    return _trees("mluops_gtest")


def generators() -> dict[Path, ast.Module]:
    """Those of the operators."""
    return _trees("generators")


def sources_of_tests() -> dict[Path, ast.Module]:
    """Those of the tests, with what supports them."""
    return _trees("tests")


@cache
def _trees(folder: str) -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted((ROOT / folder).rglob("*.py"))}
