"""indice_convolution_backward_filter: the gradient of a sparse convolution with respect to its filters."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np

from mluops_gtest.authoring import (
    SIZE_NULL,
    Array,
    Baseline,
    Bound,
    Criterion,
    DType,
    Layout,
    OpCall,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    QueryChecks,
    SizedAxis,
    Status,
    TensorDesc,
    TensorSpec,
    Theory,
    diff1_and_diff2,
)
from mluops_gtest.authoring.c_api import (
    ASKED_SIZE,
    HANDLE,
    WORKSPACE,
    WORKSPACE_SIZE,
    CFunction,
    CSignature,
    CType,
    descriptor,
    host_array,
    scalar,
    tensor,
)
from mluops_gtest.authoring.checks import (
    arch,
    arrays,
    descriptors,
    dim,
    dims,
    dtypes,
    empty,
    handle,
    large,
    params,
    pointers,
    ranks,
    require,
    strided,
    workspace,
)
from mluops_gtest.authoring.exact_numbers import ExactElement, products, total
from mluops_gtest.authoring.left_open import find_nonfinite, find_subnormal
from mluops_gtest.authoring.rows import wide_rows
from mluops_gtest.authoring.sums import exact_sums, largest_magnitude, lattice_exponent, sums_are_exact
from mluops_gtest.authoring.suspects import Suspect

from .._shared.connections import broken_pairs, pairs_in_use, pairs_size, pairs_theory
from .._shared.products import each
from .._shared.wrong_pairs import Rows, wrong_pairs

# §1.5.1
CRITERIA: Final[dict[DType, tuple[Criterion, ...]]] = {
    DType.FLOAT: diff1_and_diff2(1e-5),
    DType.HALF: diff1_and_diff2(3e-3),
}


# The parameter checks in their normative order; the first that does not hold decides the status.


# More input rows than this are refused.
ROWS_LIMIT: Final = 1_000_000

_FLOATS: Final = (DType.FLOAT, DType.HALF)
# §1.4: [Kh, Kw, Ci, Co] and [Kd, Kh, Kw, Ci, Co].
_RANKS: Final = (4, 5)


def _dim(call: OpCall, tensor: str, axis: int) -> int:
    return call.tensor(tensor).dims[axis]


# Neither sub_m nor an entry of indice_num is checked, nor is any layout: §1.4 has ARRAY stand for DHWCN and HWCN.
CHECKS: Final = (
    handle("§1.3"),
    descriptors(doc="§1.3"),
    arrays(doc="§1.3, §1.4"),
    # Forward and backward data answer NOT_SUPPORTED here, and only to 1.
    params("inverse", doc="§1.4, as released"),
    strided(doc="§1.1"),
    arch("released"),
    dtypes("indice_pairs", "features", doc="§1.1, §1.3"),
    dtypes("output_grad = features", "filters_grad = features", doc="§1.1, as released", name="dtype_equal"),
    large(doc="released"),
    ranks("features", "output_grad", "indice_pairs", doc="§1.1"),
    ranks("filters_grad", doc="§1.1, §1.4"),
    dim("features", 1, lambda call: _dim(call, "filters_grad", -2), "features[1] must be Ci", "§1.1, §1.4"),
    dim("output_grad", 1, lambda call: _dim(call, "filters_grad", -1), "output_grad[1] must be Co", "§1.1, §1.4"),
    dims("features.0 = indice_pairs.2", "indice_pairs.1", doc="§1.1"),
    dim(
        "indice_pairs",
        0,
        lambda call: math.prod(call.tensor("filters_grad").dims[:-2]),
        "indice_pairs[0] must be Kd·Kh·Kw",
        "§1.1, §1.4",
    ),
    # §1.1 knows no limit of sizes; the released code has this one.
    require(
        "indice_pairs_rows",
        lambda call: _dim(call, "indice_pairs", 2) <= ROWS_LIMIT,
        f"indice_pairs must have at most {ROWS_LIMIT} columns",
        "released",
    ),
    empty(doc="§1.1"),
    pointers(doc="§1.3"),
    workspace("§2.2"),
)

# As released: the size comes first.
QUERIES: Final = {
    "mluOpGetIndiceConvolutionBackwardFilterWorkspaceSize": QueryChecks((SIZE_NULL, "… features_ptr_null"))
}

# Without one of these another check answers with the same status.
ANSWERED_ANYWAY: Final = {
    "features_empty": "without rows indice_pairs is empty, without channels filters_grad is",
    "indice_pairs_empty": "without rows features is empty, without offsets filters_grad is",
}

# A tensor without elements is neither strided nor large.
NOT_TOGETHER: Final = {
    f"{tensor}_{refused}": (f"{tensor}_empty",)
    for tensor in ("features", "output_grad", "indice_pairs")
    for refused in ("strided", "large")
}


# What the document takes for granted about the pairs: no kernel can be held to a case that breaks it.


def precondition(call: OpCall) -> str | None:
    """A count of 0 … L per kernel offset (§1.3); rows that exist, each once per offset; with sub_m an identity centre.

    The released code checks none of it: there a negative count is 0, and one beyond L reads behind the table.
    """
    pairs, counts = call.array("indice_pairs"), call.param("indice_num")
    rows_in = pairs.shape[2]
    if any(not 0 <= count <= rows_in for count in counts):
        return f"indice_num has an entry outside of 0 … {rows_in}"
    return broken_pairs(
        pairs,
        counts,
        offsets=math.prod(call.tensor("filters_grad").dims[:-2]),
        rows_in=rows_in,
        rows_out=call.tensor("output_grad").dims[0],
        sub_m=call.param("sub_m") != 0,
    )


# What cases are declared for in size.


SIZES: Final[Mapping[str, SizedAxis]] = {
    "rows_in": SizedAxis("features", 0),
    "rows_out": SizedAxis("output_grad", 0),
    "channels_in": SizedAxis("features", 1),
    "channels_out": SizedAxis("output_grad", 1),
    # Kernels of one row: [[1,] 1, K, Ci, Co].
    "offsets": SizedAxis("filters_grad", -3),
    "pairs": pairs_size("features", 0),
}


# The oracle: §3.1's products of gathered rows with sums that are exact in float64, rounded once.


# Pairs whose rows are gathered at a time: 2 MiB of float64 for each side at 128 channels.
_BLOCK_PAIRS: Final = 1 << 11
_LARGEST_EXPONENT: Final = 1023


class Operands(NamedTuple):
    """What the formula reads: features [L, Ci], output_grad [Y, Co] and per offset its (input, output) rows."""

    features: Array
    output_grad: Array
    pairs: tuple[Array, ...]

    @classmethod
    def of(cls, call: OpCall) -> "Operands":
        """The operands of a valid call."""
        # Only the first indice_num[k] entries are read: whatever stands behind them is legal. Row 0 of a pair is the
        # input, row 1 the output.
        used = pairs_in_use(call.array("indice_pairs"), call.param("indice_num"))
        return cls(call.array("features"), call.array("output_grad"), used)

    @property
    def shape(self) -> tuple[int, int, int]:
        """K, Ci and Co."""
        return len(self.pairs), self.features.shape[1], self.output_grad.shape[1]

    @property
    def longest(self) -> int:
        """The most products that any element of filters_grad sums."""
        return max((pairs.shape[1] for pairs in self.pairs), default=0)

    @property
    def unit_exponent(self) -> int:
        """Every product is a multiple of 2 to this power."""
        return lattice_exponent(self.features) + lattice_exponent(self.output_grad)


def reference(call: OpCall) -> Baseline:
    """filters_grad, the same bits on every machine."""
    # sub_m does not occur here. The released code does not even look at it; mmcv multiplies all rows for its middle
    # offset, which is the same, because there every row meets itself.
    operands = Operands.of(call)
    # Sums beyond the largest half become infinite, and infinite inputs may make NaN: answers, not accidents.
    with np.errstate(over="ignore", invalid="ignore"):
        sums = by_matrix_products(operands) if float64_is_exact(operands) else _one_by_one(operands)
        by_offset = sums.astype(operands.features.dtype)
    # Which NaN an operation gives differs between processors.
    by_offset[np.isnan(by_offset)] = np.nan
    # §1.4: whatever layout the descriptor names, the axes are [Kd,]Kh,Kw,Ci,Co, and offsets count through the kernel
    # with its width running fastest. (§1.4's "get_indice_pairs only supports conv2D" is a slip: it is 3-D.)
    return Baseline({"filters_grad": by_offset.reshape(call.tensor("filters_grad").dims)})


def bound(call: OpCall) -> dict[str, Bound]:
    """What arithmetic allows: sums of products in any order."""
    operands = Operands.of(call)
    *kernel, channels_in, channels_out = call.tensor("filters_grad").dims
    magnitudes = operands._replace(features=np.abs(operands.features), output_grad=np.abs(operands.output_grad))
    with np.errstate(over="ignore", invalid="ignore"):
        sums = by_matrix_products(magnitudes).astype(np.float32)
    terms = np.array([pairs.shape[1] for pairs in operands.pairs]).reshape(*kernel, 1, 1)
    # Where all inputs are 0 the exponent is beyond that of any float.
    unit = 2.0 ** min(operands.unit_exponent, _LARGEST_EXPONENT)
    return {"filters_grad": Bound(sums.reshape(*kernel, channels_in, channels_out), terms, unit=unit, products=True)}


def float64_is_exact(operands: Operands) -> bool:
    """Every sum is exact in float64 in any order, so BLAS may choose one."""
    largest = largest_magnitude(operands.features) * largest_magnitude(operands.output_grad)
    return sums_are_exact(operands.unit_exponent, largest, operands.longest)


def offset_products(operands: Operands, offset: int, channels_in: slice) -> Array:
    """What the offset sums for these input channels: float64 [n, channels · Co], all exact."""
    inputs, outputs = operands.pairs[offset]
    features = operands.features[inputs, channels_in].astype(np.float64)
    # The product of two float32 values has at most 48 bits, and float64 holds 53.
    terms: Array = features[:, :, None] * operands.output_grad[outputs][:, None]
    return terms.reshape(len(terms), math.prod(terms.shape[1:]))


def by_matrix_products(operands: Operands) -> Array:
    """The sums [K, Ci, Co] in float64, in an order that BLAS chooses."""
    # §3.1 step 1 clears filters_grad, so offsets without pairs are +0.
    sums = np.zeros(operands.shape, np.float64)
    sides = [values.astype(np.float32, copy=False) for values in (operands.features, operands.output_grad)]

    def product(block: tuple[int, int]) -> Array:
        offset, first = block
        used = operands.pairs[offset][:, first : first + _BLOCK_PAIRS]
        features, grads = (wide_rows(rows, chosen) for rows, chosen in zip(sides, used, strict=True))
        return np.asarray(features.T @ grads)

    blocks = [(k, first) for k, pairs in enumerate(operands.pairs) for first in range(0, pairs.shape[1], _BLOCK_PAIRS)]
    much = sum(pairs.shape[1] for pairs in operands.pairs) > _BLOCK_PAIRS
    for (offset, _), part in zip(blocks, each(product, blocks) if much else map(product, blocks), strict=True):
        sums[offset] += part
    return sums


def _one_by_one(operands: Operands) -> Array:
    sums = np.zeros(operands.shape, np.float64)
    for offset, channel_in in np.ndindex(operands.shape[:2]):
        sums[offset, channel_in] = exact_sums(offset_products(operands, offset, slice(channel_in, channel_in + 1)))
    return sums


# Mistakes that kernels make about the pairs of an offset, and about which offset they belong to.


def _of_pairs(misread: Callable[[Array], Array]) -> Suspect:
    """The sums over what is made of the pairs [2, n] of every offset."""
    return _of_operands(lambda given: given._replace(pairs=tuple(misread(pairs) for pairs in given.pairs)))


def _of_operands(
    misread: Callable[[Operands], Operands | None], finished: Callable[[Array, Operands], Array] = lambda sums, _: sums
) -> Suspect:
    def outputs(call: OpCall) -> Mapping[str, Array]:
        operands = misread(Operands.of(call))
        if operands is None:
            return {}
        gradient = call.tensor("filters_grad")
        with np.errstate(over="ignore", invalid="ignore"):
            sums = finished(by_matrix_products(operands), operands)
            return {"filters_grad": sums.astype(gradient.dtype.storage).reshape(gradient.dims)}

    return outputs


# Those that a place or a law of values tells already are not among them.
_PAIRS = {
    "inputs_twice", "outputs_twice", "positions", "sorted_apart", "stride_of_counts", "tail_is_row_0", "first_count",
    "one_pair", "skips_empty", "pairs_of_next", "pairs_repeated", "stride_of_outputs", "middle_of_all",
}  # fmt: skip


def _of_rows(rows: Callable[[OpCall], list[Rows]]) -> Suspect:
    def outputs(call: OpCall) -> Mapping[str, Array]:
        limits = np.array([[call.tensor("features").dims[0]], [call.tensor("output_grad").dims[0]]])
        # A row of −1 is the last one.
        pairs = tuple(np.stack(one).astype(np.int64) % limits for one in rows(call))
        return _of_operands(lambda given: given._replace(pairs=pairs))(call)

    return outputs


def _rows_exchanged(given: Operands) -> Operands | None:
    exchanged = given._replace(pairs=tuple(pairs[::-1] for pairs in given.pairs))
    for inputs, outputs in exchanged.pairs:
        if inputs.size and (inputs.max() >= len(given.features) or outputs.max() >= len(given.output_grad)):
            return None
    return exchanged


def _mean(sums: Array, operands: Operands) -> Array:
    numbers = np.array([pairs.shape[1] for pairs in operands.pairs])
    means: Array = sums / np.maximum(numbers, 1)[:, None, None]
    return means


def _transposed(sums: Array, operands: Operands) -> Array:
    del operands
    return np.ascontiguousarray(sums.swapaxes(1, 2))


SUSPECTS = {
    "the last pair of every offset wins": _of_pairs(lambda pairs: pairs[:, -1:]),
    "the first pair of every offset is missing": _of_pairs(lambda pairs: pairs[:, 1:]),
    "the last pair of every offset is missing": _of_pairs(lambda pairs: pairs[:, :-1]),
    "sums are divided by indice_num": _of_operands(lambda given: given, _mean),
    "the rows of every pair are exchanged": _of_operands(_rows_exchanged),
    "the opposite offset's pairs are taken": _of_operands(lambda given: given._replace(pairs=given.pairs[::-1])),
    "the matrix of every offset is transposed": _of_operands(lambda given: given, _transposed),
    **{f"it {one.message}": _of_rows(one.rows) for one in wrong_pairs("features", "output_grad") if one.name in _PAIRS},
}


# One element of filters_grad: features[pairs[k, 0, l], ci] · output_grad[pairs[k, 1, l], co] over all pairs of k.


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The products of the pairs of one offset; whatever the layout says, the axes are [Kd,] Kh, Kw, Ci, Co (§1.4)."""
    features, gradients, pairs = (call.array(name) for name in ("features", "output_grad", "indice_pairs"))
    kernel = call.tensor("filters_grad").dims[:-2]

    def filters_grad(*index: int) -> Fraction | float:
        *offset, channel_in, channel_out = index
        k = int(np.ravel_multi_index(tuple(offset), kernel))
        inputs, outputs = pairs[k, :, : call.param("indice_num")[k]]
        return total(products(features[inputs, channel_in], gradients[outputs, channel_out]))

    return {"filters_grad": filters_grad}


# The kernel's own checks: §1.1 to §1.4 of the document, in the order of the released code.


def refusal(call: OpCall) -> Status | None:
    """The status of a call that does not compute, or None."""
    arguments = (*call.inputs.values(), *call.outputs.values())
    if call.handle is None or None in arguments or call.param("indice_num") is None or call.param("inverse") != 0:
        return Status.BAD_PARAM
    features, grad, pairs, result = (
        call.tensor(name).desc for name in ("features", "output_grad", "indice_pairs", "filters_grad")
    )
    if any(desc.is_strided for desc in (features, grad, pairs, result)):
        return Status.NOT_SUPPORTED
    if call.handle.arch < 370:
        return Status.ARCH_MISMATCH
    if pairs.dtype is not DType.INT32 or {features.dtype, grad.dtype, result.dtype} not in (
        {DType.HALF},
        {DType.FLOAT},
    ):
        return Status.BAD_PARAM
    counts = [math.prod(desc.dims) for desc in (features, grad, pairs, result)]
    if max(counts) >= 2**31:
        return Status.NOT_SUPPORTED
    if not _shapes_fit(features, grad, pairs, result):
        return Status.BAD_PARAM
    if 0 in counts:
        return Status.SUCCESS
    if any(argument is None or argument.null for argument in arguments):
        return Status.BAD_PARAM
    return Status.BAD_PARAM if call.workspace is None and call.workspace_size > 0 else None


def _shapes_fit(features: TensorDesc, grad: TensorDesc, pairs: TensorDesc, result: TensorDesc) -> bool:
    """[L, Ci], [Y, Co], [K, 2, L] and [[Kd,] Kh, Kw, Ci, Co], of at most a million input rows."""
    if (len(features.dims), len(grad.dims), len(pairs.dims)) != (2, 2, 3) or len(result.dims) not in (4, 5):
        return False
    rows, channels_in = features.dims
    *kernel, result_in, result_out = result.dims
    if (result_in, result_out) != (channels_in, grad.dims[1]) or rows > 1_000_000:
        return False
    return pairs.dims == (math.prod(kernel), 2, rows)


# An implementation that shares nothing with the reference: float32, the sums cut into tiles of pairs.


# Pairs per tile: enough that the threads of BLAS seldom wait for each other, and few enough that a float32 sum of
# hundreds of thousands of products loses little, because tiles are summed apart.
_TILE: Final = 4096


def kernel(call: OpCall) -> Status:
    """Answer the status of the call and, where it computes, write filters_grad."""
    status = refusal(call)
    if status is not None:
        return status
    features, grad = (call.array(name).astype(np.float32, copy=False) for name in ("features", "output_grad"))
    result = call.array("filters_grad")
    # [Co, Ci] per offset: the gathered gradients come first in the product.
    sums = np.zeros((len(call.param("indice_num")), grad.shape[1], features.shape[1]), np.float32)
    # Infinite inputs may make NaN, and rounding a sum beyond the largest half gives an infinity, as the device does.
    with np.errstate(over="ignore", invalid="ignore"):
        for k, count in enumerate(call.param("indice_num")):
            inputs, outputs = call.array("indice_pairs")[k]
            for first in range(0, count, _TILE):
                tile = slice(first, min(first + _TILE, count))
                sums[k] += grad[outputs[tile]].T @ features[inputs[tile]]
        result[...] = sums.swapaxes(1, 2).reshape(result.shape)
    return Status.SUCCESS


# With torch: per kernel offset gather both sides and multiply, all in float32.


# Pairs per product on the processor: few enough for the cache, many enough that threads seldom wait for each other.
_TORCH_PAIRS = 16384


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write filters_grad; half is computed in float32 and rounded once."""
    import torch

    features, grad = inputs["features"].float(), inputs["output_grad"].float()
    result = outputs["filters_grad"].flatten(0, -3)
    for filters, pairs, count in zip(result, inputs["indice_pairs"], call.param("indice_num"), strict=True):
        sums = torch.zeros(filters.shape, dtype=torch.float32, device=features.device)
        step = _TORCH_PAIRS if features.device.type == "cpu" else max(1, count)
        for first in range(0, count, step):
            in_rows, out_rows = pairs[:, first : min(first + step, count)]
            sums.addmm_(features.index_select(0, in_rows).T, grad.index_select(0, out_rows))
        filters.copy_(sums)


# The C functions: §2.2 of the document.


C_API = (
    CSignature(
        CFunction(
            "mluOpIndiceConvolutionBackwardFilter",
            (
                HANDLE,
                *tensor("features", "output_grad", "indice_pairs"),
                *host_array("indice_num", type=CType.INT64),
                *scalar("inverse", "sub_m", type=CType.INT64),
                WORKSPACE,
                WORKSPACE_SIZE,
                *tensor("filters_grad"),
            ),
        ),
        query=CFunction(
            "mluOpGetIndiceConvolutionBackwardFilterWorkspaceSize",
            (
                HANDLE,
                *descriptor("features", "output_grad", "indice_pairs", "filters_grad"),
                *host_array("indice_num", type=CType.INT64),
                *scalar("inverse", "sub_m", type=CType.INT64),
                ASKED_SIZE,
            ),
        ),
    ),
)


def theory(call: OpCall) -> Theory:
    """A product per pair and per entry of its matrix."""
    *_, channels_in, channels_out = call.tensor("filters_grad").dims
    return pairs_theory(call, channels_in, channels_out)


OPERATOR: Final = Operator(
    name="indice_convolution_backward_filter",
    released_name="indice_convolution_backward_filter",
    op_type=("INDICE_CONVOLUTION_BACKWARD_FILTER", 901),
    # §1.1's own summary, regions of interest, belongs to another operator.
    summary="Sums up, for every kernel offset, the products featuresᵀ · output_grad of the rows that meet there.",
    inputs=(
        TensorSpec("features", "[L, Ci]", _FLOATS),
        TensorSpec("output_grad", "[Y, Co]", _FLOATS),
        TensorSpec("indice_pairs", "[K, 2, L]", (DType.INT32,)),
    ),
    outputs=(OutputSpec("filters_grad", "[[Kd,] Kh, Kw, Ci, Co]", CRITERIA, (Layout.ARRAY, Layout.HWCN)),),
    params=ParamMessage(
        field="indice_convolution_backward_param",
        number=20230131,
        message="IndiceConvolutionBackwardParam",
        fields=(
            ParamField("inverse", 1, "int64", default=0, allowed=(0,)),
            ParamField("sub_m", 2, "int64", default=0),
            ParamField("indice_num", 3, "int64", "repeated"),
        ),
    ),
    checks=CHECKS,
    subsumed={
        "filters_grad_empty": "without channels features or output_grad is empty, without offsets indice_pairs: all "
        "answer before"
    },
    queries=QUERIES,
    answered_anyway=ANSWERED_ANYWAY,
    not_together=NOT_TOGETHER,
    reference=reference,
    precondition=precondition,
    # The document says nothing of NaN and Inf.
    left_open={"undefined": find_nonfinite, "subnormal": find_subnormal},
    kernel=kernel,
    suspects=SUSPECTS,
    theory=theory,
    bound=bound,
    sizes=SIZES,
    c_api=C_API,
    exact=elements,
    torch_kernel=torch_kernel,
)
