"""A root in the form of a released version, a folder of part files, does all that it did."""

import json

import pytest

from mluops_gtest.catalog.operators import load_operators
from mluops_gtest.core.operator_parts import C_API, EXACT, MUTANTS, REDUCTIONS, TORCH_KERNEL
from tests.e2e.conftest import SUPPORT
from tests.support.torch_needed import needs_torch

NAME = "row_sum"


def test_its_declaration_loads_with_what_is_no_longer_needed():
    operator = load_operators(SUPPORT / "folder_root")[NAME]
    assert set(operator.sizes) == {"rows", "channels", "segments"}
    assert operator.not_together


@pytest.mark.parametrize(
    "part",
    [C_API, EXACT, MUTANTS, REDUCTIONS, pytest.param(TORCH_KERNEL, marks=needs_torch)],
    ids=lambda part: part.file,
)
def test_its_part_files_are_read(part):
    assert load_operators(SUPPORT / "folder_root").part(NAME, part)


@pytest.mark.parametrize("backend", ["numpy", "reference"])
def test_its_cases_pass(run, folder_root, backend):
    result = run("--all", "--root", folder_root, "--backend", backend).expect_code(0)
    assert result.report["summary"] == {"passed": 90}


def test_no_case_is_made_anew(cli, folder_root):
    cli("generate", "--all", "--check", "--root", folder_root).expect_output(0, "90 cases compared, 0 differences")


@pytest.mark.slow
def test_the_audit_asks_for_nothing_but_derived_cases(cli, folder_root):
    """Hand-written cases show the order of checks only where somebody thought of it."""
    result = cli("audit", "operators", "--root", folder_root, "--format", "json")
    assert {finding["rule"] for finding in json.loads(result.out)["findings"]} <= {"checks_in_order", "earlier_forms"}


def test_its_c_function_is_printed(cli, folder_root):
    cli("ops", NAME, "--c", "--root", folder_root).expect_output(0, "mluOpRowSum(mluOpHandle_t handle,")
