"""`mluops-test new operator`: the file that it writes works at once, through every door, in any root."""

import re
import shlex
import shutil
import sys

import pytest

from mluops_gtest.core.operator_parts import C_API
from tests.conftest import ROOT
from tests.e2e.conftest import SUPPORT, replace_in
from tests.support.native import compile_library, needs_gcc
from tests.support.torch_needed import needs_torch
from tests.support.toy_root import write_toy_root

NAME = "row_sum"
EXAMPLE = ROOT / "examples" / "c_backend"


def test_it_says_what_it_wrote_and_what_to_do_next(cli, tmp_path):
    result = cli("new", "operator", NAME).expect_code(0)
    assert result.lines[:2] == [f"generators/{NAME}.py", f"cases/{NAME}.yaml"]
    assert {path.name for path in (tmp_path / "cwd").rglob("*.*")} == {f"{NAME}.py", f"{NAME}.yaml"}
    assert f"  mluops-test generate --op {NAME} --root ." in result.lines


def test_all_of_it_fits_on_a_page(row_sum_root):
    lines = (row_sum_root / "generators" / f"{NAME}.py").read_text().splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= 120
    assert len((row_sum_root / "cases" / f"{NAME}.yaml").read_text().splitlines()) <= 80


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
    assert cli("generate", "--all", "--root", tmp_path).code == 0
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
    assert 100 < len(result.results) < 200


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
    assert (result.code, result.lines[-1].rpartition(" rules, ")[2]) == (0, "0 findings"), result.out


@pytest.fixture
def spoilt_root(cli, row_sum_root, tmp_path):
    """A copy in which a text of the operator's file is replaced, generated anew."""

    def copy(right, wrong):
        root = tmp_path / "spoilt"
        shutil.copytree(row_sum_root, root, ignore=shutil.ignore_patterns("__pycache__"))
        replace_in(root / "generators" / f"{NAME}.py", right, wrong)
        cli("generate", "--all", "--root", root).expect_code(0)
        return root

    return copy


# Sums that lack rows, and checks that are wrong in one way each.
LOST = ("    output[...] = 0\n", "    output[...] = 0\n    order[-1:] = order[:1]\n")
POINTERS = "any(one.null for one in tensors)"
WRONG_KERNELS = {
    "values": (*LOST, "failed"),
    "arch": ("arch < 370", "arch < 290", "wrong_status"),
    "strides": ("any(one.desc.is_strided for one in tensors) or ", "", "wrong_status"),
    "order": (
        "    if any(one.desc",
        f"    if {POINTERS}:\n        return Status.BAD_PARAM\n    if any(one.desc",
        "wrong_status",
    ),
}


@pytest.mark.parametrize("way", WRONG_KERNELS)
def test_the_cases_see_a_wrong_kernel(run, spoilt_root, way):
    right, wrong, outcome = WRONG_KERNELS[way]
    result = run("--all", "--root", spoilt_root(right, wrong)).expect_code(1)
    assert {one["outcome"] for one in result.results.values()} == {"passed", outcome}


@pytest.mark.slow
def test_what_fuzzing_draws_follows_from_the_axes(cli, row_sum_root, spoilt_root):
    """A right kernel passes; the failure of a wrong one is kept as a case of few rows."""
    words = ("fuzz", "--op", NAME, "--cases", "40", "--seed", "1", "--backend", "numpy")
    cli(*words, "--root", row_sum_root).expect_code(0)
    cli(*words, "--root", spoilt_root(*LOST)).expect_output(1, f"{NAME}: ")


@pytest.mark.slow
def test_a_case_becomes_smaller_along_the_axes(cli, spoilt_root):
    words = ("minimise", f"{NAME}/network_twin_float", "--backend", "numpy", "--root", spoilt_root(*LOST))
    cli(*words).expect_output(0, "rows 160 → 2, channels 3 → 1, segments 20 → 1")


def test_a_float_parameter_is_what_a_case_file_holds_of_it(cli, run, tmp_path):
    """1.7 is no float of 32 bits: the stored case, its line in the lock and the call have the same neighbour of it."""
    root = write_toy_root(tmp_path / "toy")
    generator = root / "generators" / "scale_by.py"
    replace_in(generator, 'ParamField("factor", 1, default=2)', 'ParamField("factor", 1, "float", default=2.0)')
    cases = root / "cases" / "scale_by.yaml"
    replace_in(cases, "  change: {x: {dims: [2, 2]}}", "  change: {x: {dims: [2, 2]}, params: {factor: 0.1}}")
    replace_in(cases, "  each: {n", "  params: {factor: 1.7}\n  each: {n")
    cli("generate", "--all", "--root", root).expect_code(0)
    result = run("--all", "--root", root).expect_code(0)
    assert set(result.report["summary"]) == {"passed"}


PROTOTYPE = """mluOpStatus_t mluOpLookUp(mluOpHandle_t handle,
    const mluOpTensorDescriptor_t table_desc, const void *table, const mluOpTensorDescriptor_t places_desc,
    const void *places, const int pad[], mluOpMode_t mode, void *workspace, size_t workspace_size,
    const mluOpTensorDescriptor_t output_desc, void *output);"""


def test_what_a_prototype_leaves_open_is_marked_and_listed(cli, tmp_path):
    words = ("new", "operator", "look_up", "--prototype", PROTOTYPE)
    cli(*words).expect_output(0, "generators/look_up.py", "cases/look_up.yaml", "FILL IN")
    text = (tmp_path / "cwd" / "generators" / "look_up.py").read_text()
    assert 'TensorSpec("places", "[FILL_IN]"' in text
    assert text.count("FILL IN") > 8
    listed = cli("audit", "operators", "--root", ".").expect_code(1)
    for rule in ("families", "sizes_live", "checks_asked", "bounds_declared", "mutants_caught"):
        assert f"look_up: {rule}: " in listed.out


def c_functions(header):
    """Name → prototype without white space."""
    return {match[1]: re.sub(r"\s", "", match[0]) for match in re.finditer(r"mluOpStatus_t (\w+)\([^)]*\);", header)}


def test_declarations_made_from_a_header_print_the_prototypes_that_they_were_made_from(cli, operators, tmp_path):
    header = cli("ops", "--c").expect_code(0).out
    (tmp_path / "api.h").write_text(header)
    known, tried = c_functions(header), 0
    for name, operator in operators.items():
        function = operators.part(name, C_API)[0].function.name
        # A descriptor that carries parameters has no place in what is written.
        if operator.params_descriptor is None:
            cli("new", "operator", name, "--header", tmp_path / "api.h", "--function", function).expect_code(0)
            printed = c_functions(cli("ops", name, "--c", "--root", ".").expect_code(0).out)
            assert printed[function] == known[function]
            assert printed.items() <= known.items()
            tried += 1
    assert tried >= 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--header", "api.h"], "Say --prototype 'mluOpStatus_t mluOpRowSum(…)', or --header FILE with --function"),
        (["--function", "mluOpX"], "Say --prototype"),
        (["--prototype", "int f(int)"], "--prototype, line 1: f: the argument 'int' cannot be read"),
        (["--header", "api.h", "--function", "mluOpY"], "api.h declares no function 'mluOpY', but mluOpX"),
        (["--header", "none.h", "--function", "mluOpY"], "none.h"),
    ],
)
def test_a_prototype_that_cannot_be_read_writes_nothing(cli, tmp_path, options, words):
    (tmp_path / "cwd" / "api.h").write_text("int mluOpX(int a);")
    cli("new", "operator", NAME, *options).expect_error(2, words)
    assert [path.name for path in (tmp_path / "cwd").iterdir()] == ["api.h"]
