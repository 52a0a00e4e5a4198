"""The how-to on backends, done as it says: its example files through the command line."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mluops_gtest.base.errors import ExitCode
from mluops_gtest.cli.main import run_main
from mluops_gtest.core.case import NAMED_TAGS, Backend
from mluops_gtest.running.caller import BackendChoice
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "how-to" / "write-a-backend.md"
EXAMPLE = "examples/python_backend/my_kernels.py:backend"
OPERATOR = "masked_im2col_forward"


def results(folder: Path) -> dict[str, dict]:
    lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return {result["case"]: result for result in map(json.loads, lines)}


@pytest.mark.slow
def test_the_example_passes_every_case_of_its_operator(tmp_path, catalogue):
    command = ["run", "--op", OPERATOR, "--backend", EXAMPLE, "--bitwise"]
    assert f"mluops-test {' '.join(command[:-1])}" in PAGE.read_text(encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "cli.py", *command, "--out", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    outcomes = {case: result["outcome"] for case, result in results(tmp_path).items()}
    drafts = [draft for draft in catalogue.drafts.values() if draft.operator == OPERATOR]
    declared = {draft.id for draft in drafts if not set(draft.tags) & set(NAMED_TAGS)}
    assert outcomes == dict.fromkeys(declared, "passed")


@pytest.mark.slow
def test_the_example_declines_what_it_does_not_offer(tmp_path):
    arguments = ["run", "--op", "dynamic_scatter_backward", "--tag", "smoke", "--backend", f"{ROOT / EXAMPLE}"]
    assert run_main([*arguments, "--out", str(tmp_path)]) == ExitCode.EMPTY
    found = results(tmp_path).values()
    assert {(r["outcome"], r["reason"]) for r in found} == {
        ("skipped", "declined: no kernel for dynamic_scatter_backward yet")
    }


@pytest.fixture
def first_kernel(tmp_path):
    """The first Python block of the page, saved as the page asks."""
    block = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    path = tmp_path / "first_kernel.py"
    path.write_text(block[1], encoding="utf-8")
    return f"{path}:backend"


@pytest.mark.slow
def test_the_smallest_backend_of_the_page_computes_right_values(first_kernel, tmp_path):
    arguments = ["run", "--op", OPERATOR, "-k", "not negative", "--backend", first_kernel, "--out", str(tmp_path)]
    assert run_main(arguments) == ExitCode.OK


@pytest.mark.slow
def test_the_smallest_backend_of_the_page_does_not_refuse(first_kernel, tmp_path):
    case = f"{OPERATOR}/feature_layout_nhwc"
    assert run_main(["run", case, "--backend", first_kernel, "--out", str(tmp_path), "--overwrite"]) == ExitCode.FAILED
    assert results(tmp_path)[case]["outcome"] == "wrong_status"


def test_both_are_backends(first_kernel):
    for spec in (f"{ROOT / EXAMPLE}", first_kernel):
        assert isinstance(BackendChoice(spec, (str(ROOT),)).load(), Backend)


def test_the_pages_case_exists(catalogue):
    named = set(re.findall(rf"{OPERATOR}/\w+", PAGE.read_text(encoding="utf-8")))
    assert named
    assert named <= set(catalogue.drafts)
