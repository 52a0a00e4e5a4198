"""`mluops-test new operator`: what it writes works at once, through every door, in any root."""

import shlex
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.e2e.conftest import SUPPORT, replace_in
from tests.support.native import compile_library, needs_gcc
from tests.support.torch_needed import needs_torch

NAME = "row_sum"
EXAMPLE = ROOT / "examples" / "c_backend"


def test_it_says_what_it_wrote_and_what_to_do_next(cli, tmp_path):
    result = cli("new", "operator", NAME).expect_code(0)
    written = [line for line in result.lines if line.startswith(("generators/", "cases/", "tests/"))]
    assert {f"generators/{NAME}/__init__.py", f"cases/{NAME}.yaml", f"tests/test_{NAME}.py"} <= set(written)
    assert all((tmp_path / "cwd" / path).is_file() for path in written)
    assert f"  mluops-test generate --op {NAME} --root ." in result.lines


@pytest.mark.parametrize(("kind", "example"), [("operator", NAME), ("backend", "my_kernels")])
@pytest.mark.parametrize("name", ["Row", "1st", "class", "row-sum", "../row", "", "row.sum"])
def test_a_bad_name_is_refused(cli, tmp_path, kind, example, name):
    cli("new", kind, name).expect_error(2, f"use lower-case letters, digits and _, e.g. {example}")
    assert list((tmp_path / "cwd").iterdir()) == []


@pytest.mark.parametrize("there", [f"generators/{NAME}/notes.txt", f"generators/{NAME}.py", f"cases/{NAME}.yaml"])
def test_nothing_is_overwritten(cli, tmp_path, there):
    path = tmp_path / "mine" / there
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    cli("new", "operator", NAME, "--root", tmp_path / "mine").expect_error(
        2, "exists already; take another name or another --root"
    )
    assert [one for one in (tmp_path / "mine").rglob("*") if one.is_file()] == [path]
    assert path.read_text() == "mine"


@pytest.mark.slow
def test_two_operators_stand_in_one_root(cli, tmp_path):
    for name in (NAME, "a", "an_operator_with_quite_a_long_name_for_one"):
        assert cli("new", "operator", name, "--root", tmp_path).code == 0
    assert cli("generate", "--op", "a", "--root", tmp_path).code == 0
    listed = cli("ops", "--root", tmp_path)
    assert [line.split()[0] for line in listed.lines[1:]] == ["a", "an_operator_with_quite_a_long_name_for_one", NAME]


PROGRAM = shlex.join([sys.executable, str(SUPPORT / "row_sum_program.py")])


@pytest.mark.slow
@pytest.mark.parametrize(
    "backend",
    [["numpy"], ["reference"], pytest.param(["torch"], marks=needs_torch), [f"exec:{PROGRAM}", "--serve"]],
    ids=["numpy", "reference", "torch", "exec"],
)
def test_every_case_passes(run, row_sum_root, backend):
    result = run("--all", "--root", row_sum_root, "--backend", *backend).expect_code(0)
    assert set(result.report["summary"]) == {"passed"}
    assert 40 < len(result.results) < 120


class TestWithGcc:
    pytestmark = needs_gcc

    @pytest.mark.slow
    def test_every_case_passes_in_a_c_library_made_from_the_printed_prototype(self, cli, run, row_sum_root, tmp_path):
        """Handle and descriptors are those of our example; the compiler holds the function to what was printed."""
        printed = cli("ops", NAME, "--c", "--root", row_sum_root).expect_code(0)
        (tmp_path / f"{NAME}.h").write_text(printed.out)
        common = [EXAMPLE / name for name in ("handle.c", "descriptors.c", "checks.c")]
        flags = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-Wmissing-prototypes", f"-I{EXAMPLE}", f"-I{tmp_path}")
        library = compile_library(tmp_path / "lib.so", SUPPORT / f"{NAME}.c", *common, flags=flags)
        result = run("--all", "--root", row_sum_root, "--backend", f"c:{library}").expect_code(0)
        assert set(result.report["summary"]) == {"passed"}


@pytest.mark.slow
def test_the_audit_finds_nothing(cli, row_sum_root):
    result = cli("audit", "operators", "--root", row_sum_root)
    assert (result.code, result.out) == (0, "1 operator, 19 rules, 0 findings\n")


def own_tests(root):
    """The scaffold's own tests with pytest alone: no configuration of ours reaches the folder."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.slow
def test_its_own_tests_pass(row_sum_root):
    done = own_tests(row_sum_root)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


@pytest.mark.slow
def test_its_own_tests_see_a_wrong_kernel(row_sum_root, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(row_sum_root, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for right, wrong in (("firsts, axis=0", "firsts[:1], axis=0"), ("_OLDEST_ARCH = 370", "_OLDEST_ARCH = 290")):
        replace_in(copy / "generators" / NAME / "kernel.py", right, wrong)
    done = own_tests(copy)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "5 failed" in done.stdout
