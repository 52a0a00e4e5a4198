"""A small operator with every kind of parameter, and files of it, for the tests of the codec."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mluops_gtest.casefiles.reader import read_case
from mluops_gtest.casefiles.schema import Schema
from mluops_gtest.core.call import OpCall, Status
from mluops_gtest.core.case import Case
from mluops_gtest.core.declaration import Baseline, EnumSpec, OutputSpec, ParamField, ParamMessage, TensorSpec, Theory
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.tensor import Array, Criterion, CriterionKind, DType, Layout, Tensor, TensorDesc, diff1_and_diff2

ZERO = (Criterion(CriterionKind.DIFF1, 0.0), Criterion(CriterionKind.DIFF2, 0.0))


def _reference(call: OpCall) -> Baseline:
    return Baseline({})


def _kernel(call: OpCall) -> Status:
    return Status.SUCCESS


TOY = Operator(
    name="toy_scale",
    released_name="toy_scale_released",
    op_type=("TOY_SCALE", 77),
    summary="for tests",
    inputs=(TensorSpec("values", "[N]", (DType.FLOAT, DType.HALF)), TensorSpec("index", "[M]", (DType.INT32,))),
    outputs=(
        OutputSpec("scaled", "[N]", {DType.FLOAT: diff1_and_diff2(3e-3)}),
        OutputSpec("count", "[M]", {DType.INT32: ZERO}),
    ),
    params=ParamMessage(
        "toy_scale_param",
        990001,
        "ToyScaleParam",
        (
            ParamField("factor", 1, label="required"),
            ParamField("pad", 2, label="repeated"),
            ParamField("kernel", 3, default=3),
            ParamField("mode", 4, "enum", enum=EnumSpec("ToyMode", {"TOY_SUM": 0, "TOY_MAX": 2})),
            ParamField("ratio", 5, "float", default=0.5),
            ParamField("total", 6, "int64", result=True),
            ParamField("label", 7, "string"),
            ParamField("exact", 8, "bool", default=True),
        ),
    ),
    checks=(),
    reference=_reference,
    kernel=_kernel,
    recipes={},
    theory=lambda call: Theory(0, 0),
)


class Known:
    """The operators that a test knows."""

    def __init__(self, operators: Iterable[Operator] = (TOY,)) -> None:
        self._operators = {name: operator for operator in operators for name in operator.names}

    def get_any(self, name: str) -> Operator | None:
        return self._operators.get(name)


SCHEMA = Schema.of([TOY])
KNOWN = Known()


def tensor(name: str, array: Array, layout: Layout = Layout.ARRAY, dtype: DType | None = None) -> Tensor:
    kind = dtype or next(d for d in DType if d.storage == array.dtype)
    return Tensor(name, TensorDesc(kind, layout, array.shape), np.ascontiguousarray(array).reshape(-1))


def toy_case(count: int = 3, **changes: object) -> Case:
    values = np.linspace(-1, 1, count, dtype="<f4")
    fields = {
        "id": "toy_scale/plain",
        "operator": "toy_scale",
        "inputs": (tensor("values", values), tensor("index", np.array([4, -5], "<i4"), dtype=DType.INT32)),
        "outputs": (tensor("scaled", values * 2), tensor("count", np.array([1, 0], "<i4"), dtype=DType.INT32)),
        "params": {
            "factor": 2,
            "pad": (1, 2),
            "kernel": 3,
            "mode": 2,
            "ratio": 0.5,
            "total": 12,
            "label": "",
            "exact": True,
        },
        "criteria": (diff1_and_diff2(3e-3), ZERO),
    }
    return Case(**(fields | changes))


# A file as other tools write it: own ids, test_param, comments, lists, no output for the baseline's sake.
PLAIN_TEXT = b"""
op_name: "toy_scale_released"  # both names are known
op_type: TOY_SCALE
input { id: "input1" shape { dims: 2 dims: 2 } layout: LAYOUT_ARRAY dtype: DTYPE_FLOAT value_f: [1, 2.5, -3, 4e-2f] }
input { id: "input2" shape { dims: [2] } layout: LAYOUT_ARRAY dtype: DTYPE_INT32 value_i: 7 value_i: -0x10 }
output { id: "output1" shape { dims: 4 } layout: LAYOUT_ARRAY dtype: DTYPE_FLOAT }
output { id: "output2" shape { dims: 2 } layout: LAYOUT_ARRAY dtype: DTYPE_INT32 }
toy_scale_param { factor: 2 pad: 1 }
test_param { error_func: DIFF1 error_func: DIFF2 error_threshold: 0.003 error_threshold: 0.003 baseline_device: CPU }
"""


def read_back(folder: Path, content: bytes, name: str = "case.prototxt", **options: object) -> Case:
    path = folder / name
    path.write_bytes(content)
    return read_case(path, SCHEMA, KNOWN, **options)
