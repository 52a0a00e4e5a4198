"""An operator that doubles: y = 2 · x, with a count beside it, and cases of it in one line each."""

from dataclasses import replace

import numpy as np

from mluops_gtest.core.call import Status
from mluops_gtest.core.case import Case, Expect
from mluops_gtest.core.declaration import Baseline, Check, OutputSpec, ParamField, ParamMessage, TensorSpec, Theory
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.tensor import Criterion, CriterionKind, DType, Layout, Tensor, TensorDesc

NEAR = (Criterion(CriterionKind.DIFF1, 1e-3), Criterion(CriterionKind.DIFF2, 1e-3))


def _reference(call):
    x = call.array("x")
    return Baseline({"y": 2 * x}, {"count": int(x.size)})


DOUBLES = Operator(
    name="doubles",
    released_name="doubles",
    op_type=("DOUBLES", 1),
    summary="y = 2 · x",
    inputs=(TensorSpec("x", "[n]", (DType.FLOAT,)),),
    outputs=(OutputSpec("y", "[n]", {DType.FLOAT: NEAR}),),
    params=ParamMessage(
        "doubles_param", 1, "DoublesParam", (ParamField("sign", 1), ParamField("count", 2, result=True))
    ),
    checks=(
        Check("sign_positive", Status.BAD_PARAM, lambda call: call.param("sign") > 0, "sign > 0", "§1"),
        Check("empty", Status.SUCCESS, lambda call: call.tensor("x").dims[0] > 0, "nothing to do", "§1"),
    ),
    reference=_reference,
    kernel=lambda call: Status.SUCCESS,
    recipes={},
    theory=lambda call: Theory(0, 0),
    precondition=lambda call: "x has a 7" if (call.array("x") == 7).any() else None,
)


def tensor(name, values):
    data = np.asarray(values, "<f4")
    return Tensor(name, TensorDesc(DType.FLOAT, Layout.ARRAY, data.shape), data)


def doubling(x=(1.0, 2.0, 3.0, 4.0), y=None, *, sign=1, count=None, status=Status.SUCCESS, check=None, **changes):
    """A case with its stored baseline; `y` replaces the right one."""
    right = tensor("y", [2 * value for value in x] if y is None else y)
    params = {"sign": sign} | ({} if count is None else {"count": count})
    case = Case("doubles/a", "doubles", (tensor("x", x),), (right,), params, ((),), Expect(status, check))
    return replace(case, **changes)
