"""`mluops-test ops [OP] --c`: prototypes that compile and are those of the example; a library is built from them."""

import re
import subprocess

import pytest

from tests.conftest import ROOT
from tests.support.native import compile_library, needs_gcc
from tests.support.released_functions import released_functions

EXAMPLE = ROOT / "examples" / "c_backend" / "mluops_host.h"
# Offered by the example beside what the harness calls.
NOT_CALLED = {"mluOpGetQueue", "mluOpSetTensorDescriptor"}

C_API = """\
from mluops_gtest.authoring.c_api import (
    ASKED_SIZE, HANDLE, WORKSPACE, WORKSPACE_SIZE, CEnum, CFunction, CSignature, CType,
    data, descriptor, scalar, tensor,
)

SCALE = CEnum("scale_t", {"ONCE": 1, "TWICE": 2})

C_API = (
    # Size before pointer, and data before descriptor, as some libraries have it.
    CSignature(
        CFunction(
            "mluOpScale",
            (
                HANDLE, *tensor("x"), *scalar("factor", type=SCALE), WORKSPACE_SIZE, WORKSPACE,
                *data("y"), *descriptor("y"),
            ),
        ),
        query=CFunction("mluOpGetScaleWorkspaceSize", (ASKED_SIZE, HANDLE, *descriptor("x"))),
    ),
    CSignature(CFunction("mluOpScaleByFloat", (HANDLE, *scalar("factor", type=CType.FLOAT), *tensor("x", "y")))),
)
"""
# Written against the printed header; the compiler holds every definition against its prototype.
LIBRARY = """\
#include "api.h"
#include <stdlib.h>

struct mluOpContext { int unused; };
struct mluOpTensorStruct { int rank; int64_t dims[8]; };

mluOpStatus_t mluOpCreate(mluOpHandle_t *handle) { return (*handle = calloc(1, sizeof **handle)) ? 0 : 2; }
mluOpStatus_t mluOpDestroy(mluOpHandle_t handle) { free(handle); return 0; }
mluOpStatus_t mluOpSetQueue(mluOpHandle_t handle, cnrtQueue_t queue) { (void)handle; (void)queue; return 0; }
mluOpStatus_t mluOpCreateTensorDescriptor(mluOpTensorDescriptor_t *desc) {
    return (*desc = calloc(1, sizeof **desc)) ? 0 : 2;
}
mluOpStatus_t mluOpDestroyTensorDescriptor(mluOpTensorDescriptor_t desc) { free(desc); return 0; }
mluOpStatus_t mluOpSetTensorDescriptor_v2(mluOpTensorDescriptor_t desc, mluOpTensorLayout_t layout,
    mluOpDataType_t dtype, int dimNb, const int64_t dimSize[]) {
    (void)layout; (void)dtype;
    desc->rank = dimNb;
    for (int i = 0; i < dimNb; i++) desc->dims[i] = dimSize[i];
    return 0;
}
mluOpStatus_t mluOpSetTensorDescriptorEx_v2(mluOpTensorDescriptor_t desc, mluOpTensorLayout_t layout,
    mluOpDataType_t dtype, int dimNb, const int64_t dimSize[], const int64_t dimStride[]) {
    (void)dimStride;
    return mluOpSetTensorDescriptor_v2(desc, layout, dtype, dimNb, dimSize);
}

static mluOpStatus_t scale(mluOpHandle_t handle, mluOpTensorDescriptor_t x_desc, const float *x, float factor,
                           mluOpTensorDescriptor_t y_desc, float *y) {
    if (!handle || !x_desc || !y_desc || x_desc->rank != 1 || y_desc->rank != 1) return MLUOP_STATUS_BAD_PARAM;
    for (int64_t i = 0; i < x_desc->dims[0]; i++) y[i] = x[i] * factor;
    return 0;
}
#ifndef ONLY_FLOAT
mluOpStatus_t mluOpGetScaleWorkspaceSize(size_t *workspace_size, mluOpHandle_t handle,
    const mluOpTensorDescriptor_t x_desc) {
    (void)handle;
    if (x_desc->rank == 1 && x_desc->dims[0] > 2) *workspace_size = 40; /* else it stays as it is */
    return 0;
}
mluOpStatus_t mluOpScale(mluOpHandle_t handle, const mluOpTensorDescriptor_t x_desc, const void *x, scale_t factor,
    size_t workspace_size, void *workspace, void *y, const mluOpTensorDescriptor_t y_desc) {
    if (x_desc && x_desc->rank == 1 && workspace_size != (x_desc->dims[0] > 2 ? 40u : 0u)) return 4;
    if (workspace_size) *(char *)workspace = 1;
    return scale(handle, x_desc, x, factor == TWICE ? 2.0f : -1.0f, y_desc, y);
}
#endif
mluOpStatus_t mluOpScaleByFloat(mluOpHandle_t handle, float factor, const mluOpTensorDescriptor_t x_desc, const void *x,
    const mluOpTensorDescriptor_t y_desc, void *y) {
    return scale(handle, x_desc, x, factor, y_desc, y);
}
"""


def functions_in(header):
    """The arguments of every mluOp function, one string each, without what a caller cannot notice."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S).replace("MLUOP_API ", "")
    found = re.findall(r"mluOpStatus_t\s+(mluOp\w+)\s*\(([^)]*)\);", text)
    return {name: [normal(argument) for argument in arguments.split(",")] for name, arguments in found}


def normal(argument):
    """`const` before a value that is copied says nothing, and one caller writes dimNb, another dimnb."""
    words = re.sub(r"\s+", " ", argument.strip().lower())
    return words if "*" in words or "[" in words else words.removeprefix("const ")


def constants_in(header):
    return {name: int(number) for name, number in re.findall(r"\b(MLUOP_\w+) = (\d+)", header)}


def test_the_prototypes_are_those_of_the_example_and_of_the_released_header(cli):
    printed, example = functions_in(cli("ops", "--c").out), functions_in(EXAMPLE.read_text())
    released = {name: list(map(normal, arguments)) for name, arguments in released_functions().items()}
    offered = {name: arguments for name, arguments in example.items() if name not in NOT_CALLED}
    assert {**offered, **released} == {**released, **offered}
    assert printed == {**offered, **released}


def test_the_constants_are_those_of_the_example(cli):
    printed, example = constants_in(cli("ops", "--c").out), constants_in(EXAMPLE.read_text())
    assert printed == {name: number for name, number in example.items() if name != "MLUOP_DTYPE_INVALID"}


def test_one_operator_prints_its_own_functions(cli, catalogue):
    header = functions_in(cli("ops", "--c").out)
    of_operators = [functions_in(cli("ops", name, "--c").out) for name in catalogue.operators]
    assert all(of_operators)
    assert {name: arguments for one in of_operators for name, arguments in one.items()}.items() <= header.items()
    assert "mluOpCreate" not in of_operators[0]
    released = cli("ops", "dynamic_point_to_voxel_backward", "--c").out
    assert {"mluOpDynamicPointToVoxelBackward", "mluOpDynamicScatterBackward"} <= set(functions_in(released))


def test_an_operator_without_c_functions_is_told(cli, toy):
    cli("ops", "scale_by", "--c", "--root", toy).expect_error(
        2,
        "scale_by declares no C functions: say c_api= in its page, or write c_api.py in its folder, generators/",
    )


def test_a_parameter_may_have_another_name_in_c(cli, toy_with):
    declared = 'scalar("factor", type=CType.FLOAT)'
    root = toy_with(c_api=C_API.replace(declared, declared.replace(")", ', called="times")')))
    assert "mluOpScaleByFloat(mluOpHandle_t handle, float times," in cli("ops", "--c", "--root", root).out


def compiles(folder, text, *flags):
    (folder / "header.h").write_text(text)
    command = ["gcc", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", *flags, str(folder / "header.h")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class TestWithACompiler:
    pytestmark = needs_gcc

    def test_the_header_compiles(self, cli, tmp_path):
        compiles(tmp_path, cli("ops", "--c").out, "-xc", "-std=c11")

    def test_every_operator_compiles_behind_the_common_types(self, cli, toy, catalogue, tmp_path):
        common = cli("ops", "--c", "--root", toy).out  # the toy declares nothing, so nothing else is there
        for name in catalogue.operators:
            compiles(tmp_path, common + cli("ops", name, "--c").out, "-xc", "-std=c11")

    @pytest.mark.slow
    @pytest.mark.parametrize("flags", [(), ("-DONLY_FLOAT",)], ids=["enum, swapped workspace", "float, second name"])
    def test_an_operator_of_another_root_runs_on_a_library_of_its_prototypes(self, cli, run, toy_with, tmp_path, flags):
        root = toy_with(c_api=C_API)
        (tmp_path / "api.h").write_text(cli("ops", "--c", "--root", root).out)
        (tmp_path / "scale.c").write_text(LIBRARY)
        library = compile_library(tmp_path / "libscale.so", tmp_path / "scale.c", flags=("-Wall", "-Werror", *flags))
        result = run("--all", "--root", root, "--backend", f"c:{library}").expect_code(0)
        assert {r["outcome"] for r in result.results.values()} == {"passed"}
        assert len(result.results) == 6


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('tensor("x")', 'tensor("z")', "mluOpScale takes the tensor 'z'; the operator has x, y"),
        ('scalar("factor", type=SCALE)', 'scalar("times")', "takes the parameter 'times'; the operator has factor"),
        ('*data("y"), ', "", "mluOpScale does not take y: every tensor of the operator is an argument"),
        ("(ASKED_SIZE, HANDLE", "(HANDLE", "mluOpGetScaleWorkspaceSize writes the size to exactly one ASKED_SIZE"),
        ("C_API = (", "_UNUSED = (", "the file must define C_API, a tuple of mluops_gtest.authoring.c_api.CSign"),
    ],
)
def test_a_mistake_in_the_declaration_names_the_file(cli, toy_with, before, after, message):
    assert before in C_API
    root = toy_with(c_api=C_API.replace(before, after))
    cli("ops", "scale_by", "--c", "--root", root).expect_error(3, f"{root}/generators/scale_by/c_api.py: ", message)


def test_the_header_has_the_released_names(cli):
    """As the documents print them in 2.2 and the released header has them."""
    header = cli("ops", "--c").out
    names = {"MLUOP_REDUCE_DSUM": 0, "MLUOP_REDUCE_DMEAN": 1, "MLUOP_REDUCE_DMAX": 2, "MLUOP_DTYPE_BFLOAT16": 17}
    names |= {"MLUOP_LAYOUT_NCDHW": 5, "MLUOP_STATUS_ARCH_MISMATCH": 5}
    assert [name for name, number in names.items() if f" {name} = {number}" not in header] == []
