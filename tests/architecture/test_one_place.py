"""Facts that many modules need stand in one of them, and a name stands for one thing."""

import ast
from pathlib import Path

import pytest

from tests.support.source_trees import modules

ROOT = Path(__file__).parents[2]
# The literal, and the module that has it.
FACTS = {
    ".prototxt": "base/files.py",
    ".pb": "base/files.py",
    "baselines.lock": "casefiles/lock.py",
    "MLUOPS_TEST_CACHE": "base/files.py",
    "MLUOPS_TEST_DEVICE": "core/case.py",
    "MLUOPS_TEST_HISTORY": "results/history.py",
    "MLUOPS_TEST_KEEP_CALLS": "backends/exec_backend.py",
    "MLUOPS_TEST_NATIVE": "base/native/library.py",
    "MLUOPS_TEST_SETTINGS": "cli/main.py",
    0x5C: "core/buffers.py",
    70: "base/errors.py",
    74: "base/errors.py",
    130: "base/errors.py",
}


@pytest.mark.slow
def test_a_fact_stands_in_one_module() -> None:
    found: dict[object, list[str]] = {fact: [] for fact in FACTS}
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and type(node.value) in (str, int) and node.value in found:
                found[node.value].append(path.relative_to(ROOT / "mluops_gtest").as_posix())
    assert found == {fact: [module] for fact, module in FACTS.items()}


@pytest.mark.slow
def test_a_class_has_a_name_of_its_own() -> None:
    """One name, one meaning; causes are always written `cause.Declined` and may be called like what they tell of.

    What Python programs get may extend the class of the same name: it is one, and means the same.
    """
    places: dict[str, list[str]] = {}
    for path, tree in modules().items():
        for node in tree.body:
            if (
                not isinstance(node, ast.ClassDef)
                or node.name.startswith("_")
                or path.name in ("cause.py", "infrastructure.py")
            ):
                continue
            extends = any(isinstance(base, ast.Attribute) and base.attr == node.name for base in node.bases)
            if not (extends and path.name == "api.py"):
                places.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    assert len(places) > 200
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
