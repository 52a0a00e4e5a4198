"""row_sum: adds up the rows that belong to the same segment.

The document that every § in this folder and in the cases means; put a link to your own here.

§1  output[s, c] is the sum of values[n, c] over all rows n with segments[n] = s, and 0 where s has no row.
§2  values [N, C] and output [num_segments, C] are float or half, both the same. segments [N] is int32, every element
    in 0 … num_segments − 1. All tensors are contiguous; values and output have fewer than 2^31 elements.
§3  The checks, in this order: the handle is there, the device is an MLU370 or newer (ARCH_MISMATCH), descriptors are
    there, ranks, types and sizes are those of §2, all else BAD_PARAM; strides and large tensors are NOT_SUPPORTED; an
    output without elements is a SUCCESS that writes nothing; data pointers are there, again BAD_PARAM.
§4  Sums are accumulated in float or wider, in any order, and rounded once. diff1 and diff2 are at most 1e-5 for float
    and 3e-3 for half.
§5  Networks add up 16384 rows of 64 channels in 2000 segments.
"""

from mluops_gtest.authoring import (
    DType,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    SizedAxis,
    TensorSpec,
    diff1_and_diff2,
)

from .bound import bound
from .checks import CHECKS, NOT_TOGETHER
from .kernel import kernel
from .precondition import precondition
from .recipes import RECIPES
from .reference import reference, theory

OPERATOR = Operator(
    name="row_sum",
    # op_name in case files, where it differs from the name of the document.
    released_name="row_sum",
    # Name and number in the schema's enum OpType.
    op_type=("ROW_SUM", 461018459),
    summary="Adds up the rows that belong to the same segment.",
    inputs=(
        TensorSpec("values", "[N, C]", (DType.FLOAT, DType.HALF)),
        TensorSpec("segments", "[N]", (DType.INT32,)),
    ),
    # §4
    outputs=(
        OutputSpec("output", "[num_segments, C]", {DType.FLOAT: diff1_and_diff2(1e-5), DType.HALF: diff1_and_diff2(3e-3)}),  # noqa: E501
    ),
    params=ParamMessage(
        field="row_sum_param",
        number=461018459,
        message="RowSumParam",
        fields=(ParamField("num_segments", 1, "int32", "required"),),
    ),
    checks=CHECKS,
    not_together=NOT_TOGETHER,
    reference=reference,
    bound=bound,
    kernel=kernel,
    recipes=RECIPES,
    theory=theory,
    precondition=precondition,
    # What cases are declared for under `sizes`; a kernel that loses an index sees 0 there, or leaves 0.
    sizes={"rows": SizedAxis("values", 0), "channels": SizedAxis("values", 1), "segments": SizedAxis("output", 0)},
    # §4: in any order.
    order_free=True,
)  # fmt: skip
