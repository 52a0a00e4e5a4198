"""Everything about an operator stands in its folder: outside of examples the package names none."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mluops_gtest.base.native.library import LIBRARY
from mluops_gtest.catalog.operators import load_operators
from mluops_gtest.core.operator_parts import C_API

ROOT = Path(__file__).parents[2]
OPERATORS = load_operators(ROOT)
PACKAGE = ROOT / "mluops_gtest"
# What `new` writes for a user to start from is an example from end to end.
EXAMPLES = PACKAGE / "cli" / "templates"


def names() -> set[str]:
    """Names, released names, C functions with those of their descriptors, and mluOp<Operator>."""
    found = {name for operator in OPERATORS.values() for name in operator.names}
    for operator in OPERATORS:
        found.update(symbol for signature in OPERATORS.part(operator, C_API) or () for symbol in signature.symbols)
        found.add("mluOp" + operator.title().replace("_", ""))
    return found


NAMES = re.compile("|".join(sorted(names(), key=len, reverse=True)), re.IGNORECASE)


def shows_a_command(path: Path, line: str) -> bool:
    """A help text of the command line or of the pytest plugin that shows how a command or an option is typed."""
    of_a_door = PACKAGE / "cli" in path.parents or path in (
        PACKAGE / "pytest_plugin.py",
        PACKAGE / "running" / "options.py",
    )
    return of_a_door and any(word in line for word in ("mluops-test ", "e.g. --", "@pytest.mark."))


def places_of_names(path: Path) -> Iterator[str]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if NAMES.search(line) and not shows_a_command(path, line):
            yield f"{path.relative_to(ROOT)}:{number}: {line.strip()}"


@pytest.mark.slow
def test_the_package_names_no_operator() -> None:
    files = [
        p
        for p in PACKAGE.rglob("*")
        if p.is_file() and "__pycache__" not in p.parts and EXAMPLES not in p.parents and p != LIBRARY
    ]
    assert len(files) > 150
    assert [place for path in files for place in places_of_names(path)] == []


@pytest.mark.parametrize(
    ("file", "line", "found"),
    [
        ("backends/c_memory.py", '"mluOpGetIndicePairs": (),', True),
        ("backends/c_memory.py", "mluOpCreateSparseConvolutionDescriptor", True),
        ("reports/page.py", "# as in masked_im2col_forward", True),
        ("reports/page.py", "mluops-test run masked_im2col_forward", True),
        ("cli/commands/run.py", 'if operator == "dynamic_point_to_voxel_backward":', True),
        ("cli/commands/run.py", "  mluops-test run masked_im2col_forward -x", False),
        ("cli/options.py", 'help="Only this operator, e.g. --op get_indice_pairs."', False),
        ("backends/c_memory.py", '"mluOpCreateTensorDescriptor": (),', False),
    ],
)
def test_the_rule_tells_right_from_wrong(file: str, line: str, found: bool) -> None:
    assert bool(NAMES.search(line) and not shows_a_command(PACKAGE / file, line)) is found
