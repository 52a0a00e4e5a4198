"""A toy operator with the unusual contracts of calls, and backends that break one of them each.

A buffer that is input and output, an input that a call may lack, checks under a condition, an output that may stay as
it was, a refused call that may have cleared an output, strides of inputs and outputs.
"""

from pathlib import Path

GENERATOR = '''
"""Rows of x go to their places in a table, which keeps its other rows; norms are the sums of their magnitudes.

Weights, where they are given, are factors of the columns in norms.
"""

import numpy as np

from mluops_gtest.authoring import (
    Baseline, DType, Operator, OutputSpec, ParamField, ParamMessage, RecipeOutput, Status, TensorSpec, axis, checks,
    diff1_and_diff2, exact,
)
from mluops_gtest.authoring.c_api import c_function


def keeps(call):
    rows = np.ones(call.tensor("table").dims[0], bool)
    rows[call.array("place")] = False
    return rows


def reference(call):
    x, table = call.array("x"), call.array("table").copy()
    table[call.array("place")] = x
    weights = np.float64(1) if call.inputs["weights"] is None else call.array("weights").astype(np.float64)
    norms = (np.abs(x.astype(np.float64)) * weights).sum(axis=1) * call.param("mode")
    return Baseline({"table": table, "norms": norms.astype("<f4")})


def kernel(call):
    weights = call.inputs["weights"]
    tensors = (call.inputs["x"], call.inputs["place"], *call.outputs.values())
    if None in tensors or len(call.inputs["x"].dims) != 2:
        return Status.BAD_PARAM
    rows, columns = call.inputs["x"].dims
    if call.inputs["place"].dims != (rows,) or call.outputs["norms"].dims != (rows,):
        return Status.BAD_PARAM
    if len(call.outputs["table"].dims) != 2 or call.outputs["table"].dims[1] != columns:
        return Status.BAD_PARAM
    if weights is not None and weights.dims != (columns,):
        return Status.BAD_PARAM
    if call.param("mode") == 1 and columns > 8:
        return Status.NOT_SUPPORTED
    if any(tensor.null for tensor in (*tensors, *filter(None, [weights]))):
        return Status.BAD_PARAM
    if weights is not None and weights.dtype is not DType.FLOAT:
        return Status.BAD_PARAM
    if [one.dtype.value for one in tensors] != ["float", "int32", "float", "float"]:
        return Status.BAD_PARAM
    factors = np.ones(columns, np.float32) if weights is None else weights.array
    for row, place in enumerate(call.array("place")):
        call.array("table")[place] = call.array("x")[row]
        if call.param("mode"):
            call.array("norms")[row] = sum(abs(call.array("x")[row]) * factors) * np.float32(call.param("mode"))
    return Status.SUCCESS


def placed(draw, params, dtype, *, rows: int, columns: int, places: int):
    x = draw.stream("x").mantissas((rows, columns))
    before = draw.stream("table").mantissas((places, columns))
    before.reshape(-1)[:2] = np.array([0x7FC12345, 0x80000000], "<u4").view("<f4")
    place = draw.stream("place").permutation(places)[:rows].astype("<i4")
    return RecipeOutput({"x": x, "place": place, "table_before": before}, {"mode": 1, **params})


def weighted(draw, params, dtype, *, rows: int, columns: int, places: int):
    made = placed(draw, params, dtype, rows=rows, columns=columns, places=places)
    weights = np.abs(draw.stream("weights").mantissas((columns,)))
    return RecipeOutput({**made.inputs, "weights": weights}, made.params)


FLOAT = (DType.FLOAT,)
OPERATOR = Operator(
    name="every_contract", released_name="every_contract", op_type=("EVERY_CONTRACT", 9996),
    summary="Writes rows to their places in a table.",
    inputs=(
        TensorSpec("x", "[N, C]", FLOAT),
        TensorSpec("place", "[N]", (DType.INT32,), names="M", distinct=True),
        TensorSpec("table_before", "[M, C]", FLOAT, becomes="table"),
        TensorSpec("weights", "[C]", FLOAT, optional=True),
    ),
    outputs=(
        OutputSpec("table", "[M, C]", {DType.FLOAT: exact()}, kept=keeps),
        OutputSpec("norms", "[N]", {DType.FLOAT: diff1_and_diff2(1e-5)}, may_stay=lambda call: call.param("mode") == 0),
    ),
    params=ParamMessage("every_contract_param", 461018400, "EveryContractParam", (ParamField("mode", 1, default=1),)),
    axes={"rows": axis("N", of="x"), "columns": axis("C", of="x"), "places": axis("M", of="table")},
    checks=(
        checks.descriptors(doc="§1"),
        checks.ranks(doc="§1"),
        checks.dims(doc="§1"),
        checks.only_if(
            lambda call: call.param("mode") == 1,
            checks.require(
                "columns", lambda call: call.tensor("x").dims[1] <= 8, "x has at most 8 columns", "§2",
                Status.NOT_SUPPORTED,
            ),
        ),
        checks.dtypes(doc="§1"),
        checks.pointers("x", "table", doc="§3"),
        checks.pointers("weights", doc="§5"),
        checks.pointers("place", "norms", doc="§3", may_clear=("norms",)),
    ),
    reference=reference, kernel=kernel, recipes={"placed": placed, "weighted": weighted},
    c_api=c_function("mluOpEveryContract"),
)
'''
CASES = """\
- name: placed
  tags: [smoke]
  doc: "§1"
  data: {recipe: placed, rows: 3, columns: 4, places: 7}
- name: without_norms
  tags: [boundary]
  doc: "§2: norms may stay as they were, or be 0"
  params: {mode: 0}
  data: {recipe: placed, rows: 3, columns: 9, places: 7}
- name: strided
  tags: [boundary]
  doc: "§4: any strides"
  data: {recipe: placed, rows: 3, columns: 4, places: 7}
  change: {x: {strides: [1, 3]}, table: {strides: [5, 1]}, norms: {strides: [2]}}
- name: weighted
  tags: [smoke]
  doc: "§5: weights are factors of the columns"
  data: {recipe: weighted, rows: 3, columns: 5, places: 7}
- name: overlapping_x
  tags: [boundary]
  doc: "§4: elements of x may share a place"
  data: {recipe: placed, rows: 3, columns: 4, places: 7}
  change: {x: {strides: [2, 1]}, table: {strides: [1, 7]}}
- name: strides_of_length_1
  tags: [boundary]
  doc: "§4"
  data: {recipe: placed, rows: 2, columns: 1, places: 3}
  change: {x: {strides: [1, 9]}, place: {strides: [1]}, table: {strides: [1, 4]}}
- name: columns
  tags: [negative]
  doc: "§2"
  data: {recipe: placed, rows: 3, columns: 9, places: 7}
  expect: {status: NOT_SUPPORTED, check: columns}
- name: no_place
  tags: [negative]
  doc: "§3"
  data: {recipe: placed, rows: 3, columns: 4, places: 7}
  null: {pointers: [place]}
  expect: {status: BAD_PARAM, check: place_ptr_null}
- name: no_x
  tags: [negative]
  doc: "§3"
  data: {recipe: placed, rows: 3, columns: 4, places: 7}
  null: {pointers: [x]}
  expect: {status: BAD_PARAM, check: x_ptr_null}
- {standard: checks, base: [placed, weighted]}
- {standard: sizes, base: placed, budget: 4 KB}
"""
BACKENDS = '''
import numpy as np

from mluops_gtest import Status


class Backend:
    """The right one; a class below breaks one thing."""

    weights = None

    name = "mine"

    def run(self, call):
        refused = self.refused(call)
        if refused is not None:
            return refused
        given = call.inputs["weights"]
        self.weights = np.float32(1) if given is None or given.null else given.array
        self.write(call, call.array("x"), call.array("place"), call.array("table"), call.array("norms"))
        return Status.SUCCESS

    def refused(self, call):
        tensors = (call.inputs["x"], call.inputs["place"], *call.outputs.values())
        if any(one is None for one in tensors) or [len(one.dims) for one in tensors] != [2, 1, 2, 1]:
            return Status.BAD_PARAM
        x, place, table, norms = (one.dims for one in tensors)
        if (x[0], x[1]) != (place[0], table[1]) or norms != place:
            return Status.BAD_PARAM
        weights = call.inputs["weights"]
        if self.refuses_weights(weights, x[1]):
            return Status.BAD_PARAM
        if call.param("mode") == 1 and x[1] > 8:
            return Status.NOT_SUPPORTED
        if [one.dtype.value for one in tensors] != ["float", "int32", "float", "float"]:
            return Status.BAD_PARAM
        if weights is not None and (weights.dtype.value != "float" or self.is_null(weights)):
            return Status.BAD_PARAM
        if call.inputs["x"].null or call.outputs["table"].null:
            return Status.BAD_PARAM
        if call.inputs["place"].null or call.outputs["norms"].null:
            self.clear(call)
            return Status.BAD_PARAM
        return None

    def refuses_weights(self, weights, columns):
        return weights is not None and weights.dims != (columns,)

    def is_null(self, weights):
        return weights.null

    def clear(self, call):
        pass

    def write(self, call, x, place, table, norms):
        table[place] = x
        if call.param("mode"):
            norms[...] = (np.abs(x) * self.weights).sum(axis=1) * np.float32(call.param("mode"))


class IgnoresWeights(Backend):
    def write(self, call, x, place, table, norms):
        self.weights = 1
        super().write(call, x, place, table, norms)


class AsksForWeights(Backend):
    def refuses_weights(self, weights, columns):
        return weights is None or super().refuses_weights(weights, columns)


class ForgetsNullWeights(Backend):
    def is_null(self, weights):
        return False


class ClearsNorms(Backend):
    """Allowed, in refused calls and where they may stay."""

    def clear(self, call):
        if call.outputs["norms"].array is not None:
            call.array("norms")[...] = 0

    def write(self, call, x, place, table, norms):
        norms[...] = 0
        super().write(call, x, place, table, norms)


class RefusesWide(Backend):
    """The condition of the check is not looked at."""

    def refused(self, call):
        answer = super().refused(call)
        return Status.NOT_SUPPORTED if answer is None and call.inputs["x"].dims[1] > 8 else answer


class ClearsHalf(Backend):
    def clear(self, call):
        if call.outputs["norms"].array is not None:
            call.array("norms")[:1] = 0


class ClearsTable(Backend):
    def clear(self, call):
        call.array("table")[...] = 0


class ClearsTooEarly(ClearsNorms):
    def refused(self, call):
        answer = super().refused(call)
        if answer is not None and call.outputs["norms"] is not None and call.outputs["norms"].array is not None:
            call.array("norms")[...] = 0
        return answer


class WritesSomeNorms(Backend):
    def write(self, call, x, place, table, norms):
        super().write(call, x, place, table, norms)
        norms[:1] = 0


class WritesOtherNorms(Backend):
    def write(self, call, x, place, table, norms):
        super().write(call, x, place, table, norms)
        norms[...] = np.abs(x).sum(axis=1)


class ClearsOtherRows(Backend):
    def write(self, call, x, place, table, norms):
        table[...] = 0
        super().write(call, x, place, table, norms)


class QuietsNans(Backend):
    """Kept rows come back as other bits of the same numbers."""

    def write(self, call, x, place, table, norms):
        super().write(call, x, place, table, norms)
        table[np.isnan(table)] = np.nan


class LosesSigns(Backend):
    def write(self, call, x, place, table, norms):
        super().write(call, x, place, table, norms)
        table[table == 0] = 0


class LeavesARow(Backend):
    def write(self, call, x, place, table, norms):
        before = table[place[-1]].copy()
        super().write(call, x, place, table, norms)
        table[place[-1]] = before


class AddsToRows(Backend):
    def write(self, call, x, place, table, norms):
        before = table[place].copy()
        super().write(call, x, place, table, norms)
        table[place] += before


def flat(argument):
    return np.lib.stride_tricks.as_strided(argument.array, (argument.desc.extent,), (argument.array.itemsize,))


class ClearsGaps(Backend):
    def write(self, call, x, place, table, norms):
        before, rows = table.copy(), norms.copy()
        flat(call.tensor("table"))[...] = 0
        flat(call.tensor("norms"))[...] = 0
        table[...], norms[...] = before, rows
        super().write(call, x, place, table, norms)


class WritesOneGap(Backend):
    def write(self, call, x, place, table, norms):
        super().write(call, x, place, table, norms)
        if call.outputs["norms"].desc.extent > 2:
            flat(call.tensor("norms"))[1:2] = norms[:1]


class StridesOfTable(Backend):
    """x is read as the table lies."""

    def write(self, call, x, place, table, norms):
        buffer, (row, column) = flat(call.tensor("x")), call.tensor("table").strides or table.shape[::-1][:1] + (1,)
        places = np.add.outer(np.arange(len(x)) * row, np.arange(x.shape[1]) * column)
        super().write(call, buffer[np.minimum(places, len(buffer) - 1)], place, table, norms)


class StridesInBytes(Backend):
    def write(self, call, x, place, table, norms):
        strides = call.tensor("x").strides
        if strides is not None:
            x = np.lib.stride_tricks.as_strided(x, x.shape, strides).copy()
        super().write(call, x, place, table, norms)


class ReadsContiguously(Backend):
    def write(self, call, x, place, table, norms):
        super().write(call, np.resize(flat(call.tensor("x")), x.shape), place, table, norms)


class WritesContiguously(Backend):
    def write(self, call, x, place, table, norms):
        super().write(call, x, place, table, norms)
        flat(call.tensor("norms"))[: len(norms)] = np.abs(x).sum(axis=1)


class WritesWhenRefusing(Backend):
    def refused(self, call):
        answer = super().refused(call)
        if answer is not None and call.outputs["table"] is not None and call.outputs["table"].array is not None:
            table = call.array("table")
            table[...] = table + 0
        return answer
'''
# The operator as a program: a tensor that the call lacks has no file.
PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np
folder = Path(sys.argv[1])
call = json.loads((folder / "call.json").read_text())
tensors = {tensor["id"]: tensor for tensor in call["tensors"]}
x, weights, table = (tensors[name] for name in ("x", "weights", "table"))
assert (weights["descriptor"] is None) == (not (folder / "weights.in").exists())
valid = len(x["descriptor"]["dims"]) == 2 and x["data"] != "null"
if valid:
    values = np.fromfile(folder / "x.in", "<f4").reshape(x["descriptor"]["dims"])
    factors = np.float32(1) if weights["descriptor"] is None else np.fromfile(folder / "weights.in", "<f4")
    (abs(values) * factors).sum(axis=1).tofile(folder / tensors["norms"]["data"])
    rows = np.fromfile(folder / table["data"], "<f4").reshape(table["descriptor"]["dims"])
    rows[np.fromfile(folder / "place.in", "<i4")] = values
    rows.tofile(folder / table["data"])
(folder / "result.json").write_text(json.dumps({"status": 0 if valid else 3}))
"""
# The operator in C, with the handle and the descriptors of the example.
LIBRARY = r"""
#include <math.h>
#include "mluops_host.h"
#include "descriptors.h"

mluOpStatus_t mluOpEveryContract(mluOpHandle_t handle, const mluOpTensorDescriptor_t x_desc, const void *x,
    const mluOpTensorDescriptor_t place_desc, const void *place, const mluOpTensorDescriptor_t weights_desc,
    const void *weights, int mode, const mluOpTensorDescriptor_t table_desc, void *table,
    const mluOpTensorDescriptor_t norms_desc, void *norms) {
    if (!handle || !x_desc || !place_desc || !table_desc || !norms_desc) return MLUOP_STATUS_BAD_PARAM;
    if (weights_desc && (weights_desc->rank != 1 || weights_desc->dims[0] != x_desc->dims[1] || !weights))
        return MLUOP_STATUS_BAD_PARAM;
    if (!weights_desc && weights) return MLUOP_STATUS_INTERNAL_ERROR;
    for (int64_t row = 0; row < x_desc->dims[0]; row++) {
        float sum = 0;
        for (int64_t column = 0; column < x_desc->dims[1]; column++) {
            const float value = ((const float *)x)[row * x_desc->dims[1] + column];
            sum += fabsf(value) * (weights ? ((const float *)weights)[column] : 1);
            ((float *)table)[((const int *)place)[row] * x_desc->dims[1] + column] = value;
        }
#ifndef LEAVES_NORMS
        ((float *)norms)[row] = sum * (float)mode;
#endif
    }
    return MLUOP_STATUS_SUCCESS;
}
"""


def write_every_contract(folder: Path) -> Path:
    """A root with the operator, and `backends.py` beside its content."""
    for name in ("generators", "cases", "prototxt"):
        (folder / name).mkdir(parents=True)
    (folder / "generators" / "every_contract.py").write_text(GENERATOR)
    (folder / "cases" / "every_contract.yaml").write_text(CASES)
    (folder / "backends.py").write_text(BACKENDS)
    return folder
