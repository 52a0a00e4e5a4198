"""indice_convolution_backward_filter: the gradient of a sparse convolution with respect to its filters."""

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np

from mluops_gtest.authoring import (
    SIZE_NULL,
    Array,
    Baseline,
    Bound,
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
    axis,
    checks,
)
from mluops_gtest.authoring.exact_numbers import ExactElement, products, total
from mluops_gtest.authoring.left_open import find_nonfinite, find_subnormal
from mluops_gtest.authoring.rows import wide_rows
from mluops_gtest.authoring.sums import exact_sums, lattice_unit
from mluops_gtest.authoring.suspects import Suspect

from .._shared.connections import pairs_in_use, pairs_size
from .._shared.convolution import (
    CRITERIA,
    FLOATS,
    convolution_function,
    pairs_work,
    rows_within_limit,
    sound_pairs,
    torch_blocks,
)
from .._shared.products import each, products_are_exact
from .._shared.wrong_pairs import wrong_pairs

# The parameter checks in their normative order; the first that does not hold decides the status. Neither sub_m nor an
# entry of indice_num is checked, nor is any layout: §1.4 has ARRAY stand for DHWCN and HWCN.
CHECKS: Final = (
    checks.handle("§1.3"),
    checks.descriptors(doc="§1.3"),
    checks.arrays(doc="§1.3, §1.4"),
    # Forward and backward data answer NOT_SUPPORTED here, and only to 1.
    checks.params("inverse", doc="§1.4, as released"),
    checks.strided(doc="§1.1"),
    checks.arch("released"),
    checks.dtypes("indice_pairs", "features", doc="§1.1, §1.3"),
    checks.dtypes("output_grad = features", "filters_grad = features", doc="§1.1, as released", name="dtype_equal"),
    checks.large(doc="released"),
    checks.ranks("features", "output_grad", "indice_pairs", doc="§1.1"),
    checks.ranks("filters_grad", doc="§1.1, §1.4"),
    checks.dims("features.1", "output_grad.1", doc="§1.1, §1.4"),
    checks.dims("features.0 = indice_pairs.2", "indice_pairs.1", doc="§1.1"),
    checks.dims("indice_pairs.0", doc="§1.1, §1.4"),
    # §1.1 knows no limit of sizes; the released code has this one.
    rows_within_limit("released", Status.BAD_PARAM),
    checks.empty(doc="§1.1"),
    checks.pointers(doc="§1.3"),
    checks.workspace("§2.2"),
)


# The oracle: §3.1's products of gathered rows with sums that are exact in float64, rounded once. Pairs whose rows are
# gathered at a time: 2 MiB of float64 for each side at 128 channels.
_BLOCK_PAIRS: Final = 1 << 11


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
    unit = lattice_unit(operands.features, operands.output_grad)
    return {"filters_grad": Bound(sums.reshape(*kernel, channels_in, channels_out), terms, unit=unit, products=True)}


def float64_is_exact(operands: Operands) -> bool:
    """Every sum is exact in float64 in any order, so BLAS may choose one."""
    return products_are_exact(operands.features, operands.output_grad, operands.longest)


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


def offset_products(operands: Operands, offset: int, channels_in: slice) -> Array:
    """What the offset sums for these input channels: float64 [n, channels · Co], all exact."""
    inputs, outputs = operands.pairs[offset]
    features = operands.features[inputs, channels_in].astype(np.float64)
    # The product of two float32 values has at most 48 bits, and float64 holds 53.
    terms: Array = features[:, :, None] * operands.output_grad[outputs][:, None]
    return terms.reshape(len(terms), math.prod(terms.shape[1:]))


def _one_by_one(operands: Operands) -> Array:
    sums = np.zeros(operands.shape, np.float64)
    for offset, channel_in in np.ndindex(operands.shape[:2]):
        sums[offset, channel_in] = exact_sums(offset_products(operands, offset, slice(channel_in, channel_in + 1)))
    return sums


# Mistakes that kernels make about the pairs of an offset, and about which offset they belong to. Those that a place or
# a law of values tells already are not among them.
_PAIRS = {
    "inputs_twice", "outputs_twice", "positions", "sorted_apart", "stride_of_counts", "tail_is_row_0", "first_count",
    "one_pair", "skips_empty", "pairs_of_next", "pairs_repeated", "stride_of_outputs", "middle_of_all",
}  # fmt: skip


def _of_pairs(
    misread: Callable[[OpCall], Iterable[Any]], finished: Callable[[Array, Operands], Array] = lambda sums, _: sums
) -> Suspect:
    """The sums over these pairs [2, n] of every offset; nothing where one names a row that does not exist."""

    def outputs(call: OpCall) -> Mapping[str, Array]:
        right, gradient = Operands.of(call), call.tensor("filters_grad")
        limits = np.array([[len(right.features)], [len(right.output_grad)]])
        pairs = [np.stack(one).astype(np.int64) for one in misread(call)]
        if any((one >= limits).any() for one in pairs):
            return {}
        # A row of −1 is the last one.
        operands = right._replace(pairs=tuple(one % limits for one in pairs))
        with np.errstate(over="ignore", invalid="ignore"):
            sums = finished(by_matrix_products(operands), operands)
            return {"filters_grad": sums.astype(gradient.dtype.storage).reshape(gradient.dims)}

    return outputs


def _right_pairs(call: OpCall) -> tuple[Array, ...]:
    return Operands.of(call).pairs


SUSPECTS = {
    "the last pair of every offset wins": _of_pairs(lambda call: [one[:, -1:] for one in _right_pairs(call)]),
    "the first pair of every offset is missing": _of_pairs(lambda call: [one[:, 1:] for one in _right_pairs(call)]),
    "the last pair of every offset is missing": _of_pairs(lambda call: [one[:, :-1] for one in _right_pairs(call)]),
    "sums are divided by indice_num": _of_pairs(
        _right_pairs, lambda sums, used: sums / np.array([max(one.shape[1], 1) for one in used.pairs])[:, None, None]
    ),
    "the rows of every pair are exchanged": _of_pairs(lambda call: [one[::-1] for one in _right_pairs(call)]),
    "the opposite offset's pairs are taken": _of_pairs(lambda call: _right_pairs(call)[::-1]),
    "the matrix of every offset is transposed": _of_pairs(
        _right_pairs, lambda sums, _: np.ascontiguousarray(sums.swapaxes(1, 2))
    ),
    **{
        f"it {one.message}": _of_pairs(one.rows) for one in wrong_pairs("features", "output_grad") if one.name in _PAIRS
    },
}


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """One element: features[pairs[k, 0, l], ci] · output_grad[pairs[k, 1, l], co] over all pairs of its offset k.

    Whatever the layout says, the axes are [Kd,] Kh, Kw, Ci, Co (§1.4).
    """
    features, gradients, pairs = (call.array(name) for name in ("features", "output_grad", "indice_pairs"))
    kernel = call.tensor("filters_grad").dims[:-2]

    def filters_grad(*index: int) -> Fraction | float:
        *offset, channel_in, channel_out = index
        k = int(np.ravel_multi_index(tuple(offset), kernel))
        inputs, outputs = pairs[k, :, : call.param("indice_num")[k]]
        return total(products(features[inputs, channel_in], gradients[outputs, channel_out]))

    return {"filters_grad": filters_grad}


# The kernel shares nothing with the reference: its own checks, §1.1 to §1.4 in the order of the released code, then
# float32 sums, cut into tiles of pairs.

# Pairs per tile: enough that the threads of BLAS seldom wait for each other, and few enough that a float32 sum of
# hundreds of thousands of products loses little, because tiles are summed apart.
_TILE: Final = 4096


def kernel(call: OpCall) -> Status:
    """Answer the status of the call and, where it computes, write filters_grad."""
    status = _refusal(call)
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


def _refusal(call: OpCall) -> Status | None:
    """The status of a call that does not compute, or None."""
    arguments = (*call.inputs.values(), *call.outputs.values())
    if call.handle is None or None in arguments or call.param("indice_num") is None or call.param("inverse") != 0:
        return Status.BAD_PARAM
    features, grad, pairs, result = descs = tuple(
        call.tensor(name).desc for name in ("features", "output_grad", "indice_pairs", "filters_grad")
    )
    if any(desc.is_strided for desc in descs):
        return Status.NOT_SUPPORTED
    if call.handle.arch < 370:
        return Status.ARCH_MISMATCH
    types = {features.dtype, grad.dtype, result.dtype}
    if pairs.dtype is not DType.INT32 or types not in ({DType.HALF}, {DType.FLOAT}):
        return Status.BAD_PARAM
    numbers = [math.prod(desc.dims) for desc in descs]
    if max(numbers) >= 2**31:
        return Status.NOT_SUPPORTED
    if not _shapes_fit(features, grad, pairs, result):
        return Status.BAD_PARAM
    if 0 in numbers:
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


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write filters_grad: gather both sides and multiply in float32; half is rounded once."""
    features, grad = inputs["features"].float(), inputs["output_grad"].float()
    result = outputs["filters_grad"]
    sums = features.new_zeros(result.flatten(0, -3).shape)
    for offset, in_rows, out_rows in torch_blocks(inputs["indice_pairs"], call.param("indice_num")):
        sums[offset].addmm_(features.index_select(0, in_rows).T, grad.index_select(0, out_rows))
    result.copy_(sums.view(result.shape))


OPERATOR: Final = Operator(
    name="indice_convolution_backward_filter",
    released_name="indice_convolution_backward_filter",
    op_type=("INDICE_CONVOLUTION_BACKWARD_FILTER", 901),
    # §1.1's own summary, regions of interest, belongs to another operator.
    summary="Sums up, for every kernel offset, the products featuresᵀ · output_grad of the rows that meet there.",
    inputs=(
        TensorSpec("features", "[L, Ci]", FLOATS),
        TensorSpec("output_grad", "[Y, Co]", FLOATS),
        TensorSpec("indice_pairs", "[Kd·Kh·Kw, 2, L]", (DType.INT32,)),
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
    axes={
        "rows_in": axis("L", of="features"),
        "rows_out": axis("Y", of="output_grad"),
        "channels_in": axis("Ci", of="filters_grad"),
        "channels_out": axis("Co", of="filters_grad"),
    },
    # Cases are declared for offsets in kernels of one row: [[1,] 1, K, Ci, Co].
    sizes={"offsets": SizedAxis("filters_grad", -3), "pairs": pairs_size("features", 0)},
    checks=CHECKS,
    subsumed={
        "filters_grad_empty": "without channels features or output_grad is empty, without offsets indice_pairs: all "
        "answer before"
    },
    # As released: the size comes first.
    queries={"mluOpGetIndiceConvolutionBackwardFilterWorkspaceSize": QueryChecks((SIZE_NULL, "… features_ptr_null"))},
    reference=reference,
    bound=bound,
    suspects=SUSPECTS,
    theory=pairs_work("features", "output_grad"),
    # The released code checks no count: there a negative one is 0, and one beyond L reads behind the table.
    precondition=sound_pairs("output_grad"),
    # The document says nothing of NaN and Inf.
    left_open={"undefined": find_nonfinite, "subnormal": find_subnormal},
    exact=elements,
    kernel=kernel,
    torch_kernel=torch_kernel,
    c_api=convolution_function("IndiceConvolutionBackwardFilter", "inverse", "sub_m"),
)
