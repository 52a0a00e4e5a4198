"""An operator whose C functions take what few do: a truth value, a mode, a float, sizes of its tensors, under a newer
and a deprecated name, with a check that the query alone makes. Its library in C, with one mistake at a time."""

from pathlib import Path

GENERATOR = '''
"""Scales rows, by a mode."""

import numpy as np

from mluops_gtest.authoring import (
    Baseline, DType, EnumSpec, Operator, OutputSpec, ParamField, ParamMessage, QueryChecks, RecipeOutput, Status,
    TensorSpec, axis, diff1_and_diff2, exact,
)
from mluops_gtest.authoring import c_api, checks

MODES = EnumSpec("BlendMode", {"BLEND_FAST": 0, "BLEND_PRECISE": 1})


def reference(call):
    y = call.array("x").astype(np.float64) * call.param("scale")
    return Baseline({"y": (-y if call.param("negate") else y).astype("<f4")})


def kernel(call):
    x, y = call.inputs["x"], call.outputs["y"]
    if call.handle is None or x is None or y is None or len(x.dims) != 2 or len(y.dims) != 2:
        return Status.BAD_PARAM
    if x.dtype is not DType.FLOAT or y.dtype is not DType.FLOAT or x.dims != y.dims or call.param("mode") not in (0, 1):
        return Status.BAD_PARAM
    if x.desc.is_empty:
        return Status.SUCCESS
    if x.null or y.null:
        return Status.BAD_PARAM
    scale = np.float32(call.param("scale"))
    y.array[...] = x.array * (-scale if call.param("negate") else scale)
    return Status.SUCCESS


def drawn(draw, params, dtype, *, rows: int = 3, columns: int = 5):
    params = {"mode": 1, "negate": False, "scale": 0.5, **params}
    return RecipeOutput({"x": draw.stream("x").lattice((rows, columns), 20)}, params)


OPERATOR = Operator(
    name="blended", released_name="blended", op_type=("BLENDED", 9990),
    summary="Scales rows.",
    inputs=(TensorSpec("x", "[N, C]", (DType.FLOAT,)),),
    outputs=(OutputSpec("y", "[N, C]", {DType.FLOAT: diff1_and_diff2(1e-5)}),),
    params=ParamMessage("blended_param", 9991, "BlendedParam", (
        ParamField("mode", 1, "enum", enum=MODES, default=1),
        ParamField("negate", 2, "bool", default=False),
        ParamField("scale", 3, "float", default=1.0),
    )),
    axes={"rows": axis("N", of="x"), "columns": axis("C", of="x")},
    checks=(
        checks.handle("§1"), checks.descriptors(doc="§1"), checks.ranks(doc="§1"), checks.dtypes(doc="§1"),
        checks.dims(doc="§1"), checks.large(doc="§1", asked_by="query"), checks.empty("x", doc="§1"),
        checks.workspace("§1"), checks.pointers(doc="§1"),
    ),
    queries={"mluOpGetBlendedWorkspaceSize": QueryChecks()},
    reference=reference, kernel=kernel, recipes={"drawn": drawn},
    c_api=c_api.c_function(
        "mluOpBlended",
        query="mluOpGetBlendedWorkspaceSize",
        arguments=(
            c_api.HANDLE, *c_api.scalar("mode", "negate", "scale"),
            *c_api.size("N"), *c_api.size("C", type=c_api.CType.INT64), *c_api.tensor("x"),
            c_api.WORKSPACE, c_api.WORKSPACE_SIZE, *c_api.tensor("y"),
        ),
        query_arguments=(c_api.HANDLE, *c_api.size("N"), *c_api.descriptor("x", "y"), c_api.ASKED_SIZE),
        twins={"mluOpBlended": "mluOpBlend", "mluOpGetBlendedWorkspaceSize": "mluOpGetBlendWorkspaceSize"},
    ),
)
'''
CASES = """\
- name: plain
  tags: [smoke]
  doc: "§1"
  data: {recipe: drawn}
- name: negated
  tags: [smoke]
  doc: "§1"
  params: {negate: true, scale: 0.1, mode: BLEND_FAST}
  data: {recipe: drawn, rows: 2}
- name: large_for_the_query
  tags: [negative]
  doc: "§1: the query refuses what the operator would refuse by another check"
  data: {recipe: drawn}
  change: {x: {dims: [65536, 32768]}, y: {dims: [65536, 32768]}}
  null: {pointers: [y]}
  expect: {status: BAD_PARAM, check: y_ptr_null}
- name: empty_and_large
  tags: [negative]
  doc: "§1: rows alone are none"
  data: {recipe: drawn}
  change: {x: {dims: [0, 5]}, y: {dims: [0, 5]}}
  expect: {status: SUCCESS, check: x_empty}
"""
# Written against the printed header; -DMISTAKE makes one.
LIBRARY = """\
#include "api.h"
#include <stdlib.h>
#include <string.h>

struct mluOpContext { int arch; };
struct mluOpTensorStruct { int rank, dtype; int64_t dims[8]; };

mluOpStatus_t mluOpCreate(mluOpHandle_t *handle) {
    *handle = calloc(1, sizeof **handle);
    (*handle)->arch = 590;
    return MLUOP_STATUS_SUCCESS;
}
mluOpStatus_t mluOpDestroy(mluOpHandle_t handle) { free(handle); return MLUOP_STATUS_SUCCESS; }
mluOpStatus_t mluOpSetQueue(mluOpHandle_t handle, cnrtQueue_t queue) { return handle && queue ? 0 : 0; }
mluOpStatus_t mluOpTestSetArch(mluOpHandle_t handle, int arch) { handle->arch = arch; return MLUOP_STATUS_SUCCESS; }
mluOpStatus_t mluOpCreateTensorDescriptor(mluOpTensorDescriptor_t *desc) {
    *desc = calloc(1, sizeof **desc);
    return MLUOP_STATUS_SUCCESS;
}
mluOpStatus_t mluOpDestroyTensorDescriptor(mluOpTensorDescriptor_t desc) { free(desc); return MLUOP_STATUS_SUCCESS; }
mluOpStatus_t mluOpSetTensorDescriptor_v2(mluOpTensorDescriptor_t desc, mluOpTensorLayout_t layout,
    mluOpDataType_t dtype, int dimNb, const int64_t dimSize[]) {
    (void)layout;
    desc->rank = dimNb, desc->dtype = dtype;
    for (int i = 0; i < dimNb && i < 8; i++) desc->dims[i] = dimSize[i];
    return MLUOP_STATUS_SUCCESS;
}
mluOpStatus_t mluOpSetTensorDescriptorEx_v2(mluOpTensorDescriptor_t desc, mluOpTensorLayout_t layout,
    mluOpDataType_t dtype, int dimNb, const int64_t dimSize[], const int64_t dimStride[]) {
    (void)dimStride;
    return mluOpSetTensorDescriptor_v2(desc, layout, dtype, dimNb, dimSize);
}

static int differs(mluOpTensorDescriptor_t x, mluOpTensorDescriptor_t y) {
    return x->rank != 2 || y->rank != 2 || x->dims[0] != y->dims[0] || x->dims[1] != y->dims[1] ||
        x->dtype != MLUOP_DTYPE_FLOAT || y->dtype != x->dtype;
}

mluOpStatus_t QUERY(mluOpHandle_t handle, int N, const mluOpTensorDescriptor_t x_desc,
    const mluOpTensorDescriptor_t y_desc, size_t *workspace_size) {
    if (!handle || !x_desc || !y_desc || differs(x_desc, y_desc)) return MLUOP_STATUS_BAD_PARAM;
#ifndef QUERY_IS_SMALL
    if (x_desc->dims[0] * x_desc->dims[1] >= 1LL << 31) return MLUOP_STATUS_NOT_SUPPORTED;
#endif
    *workspace_size = 4 * (size_t)N;
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t OPERATOR(mluOpHandle_t handle, mluOpBlendMode_t mode, bool negate, float scale, int N, int64_t C,
    const mluOpTensorDescriptor_t x_desc, const void *x, void *workspace, size_t workspace_size,
    const mluOpTensorDescriptor_t y_desc, void *y) {
    if (!handle || !x_desc || !y_desc || differs(x_desc, y_desc)) return MLUOP_STATUS_BAD_PARAM;
    if (mode != MLUOP_BLEND_FAST && mode != MLUOP_BLEND_PRECISE) return MLUOP_STATUS_BAD_PARAM;
    if (N != x_desc->dims[0] || C != x_desc->dims[1]) return MLUOP_STATUS_INTERNAL_ERROR;
    if (N * C == 0) return MLUOP_STATUS_SUCCESS;
    if (workspace_size && !workspace) return MLUOP_STATUS_BAD_PARAM;
    if (!x || !y) return MLUOP_STATUS_BAD_PARAM;
#ifdef FORGETS_THE_SIGN
    negate = false;
#endif
    for (int64_t i = 0; i < N * C; i++) ((float *)y)[i] = ((const float *)x)[i] * (negate ? -scale : scale);
    return MLUOP_STATUS_SUCCESS;
}
"""


def write_blended_root(folder: Path) -> Path:
    """A content root with the operator alone."""
    for name, file, text in (("generators", "blended.py", GENERATOR), ("cases", "blended.yaml", CASES)):
        (folder / name).mkdir(parents=True)
        (folder / name / file).write_text(text)
    (folder / "prototxt").mkdir()
    return folder
