"""What the three sparse convolutions share: limits, checks, C functions, sums with their known mistakes, recipes."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Final, Literal

import numpy as np

from mluops_gtest.authoring import (
    Array,
    Baseline,
    Bound,
    Check,
    Definition,
    Draw,
    DType,
    Layout,
    OpCall,
    Operator,
    Status,
    Theory,
    checks,
    diff1_and_diff2,
)
from mluops_gtest.authoring.c_api import (
    ASKED_SIZE,
    HANDLE,
    WORKSPACE,
    WORKSPACE_SIZE,
    CApi,
    CType,
    c_function,
    descriptor,
    host_array,
    scalar,
    tensor,
)
from mluops_gtest.authoring.suspects import Suspect

from .connections import Connections, broken_pairs
from .products import Products, Values, bound_of, draw_factor, products_suspects, summed
from .wrong_pairs import Rows, wrong_pairs
from .wrong_products import wrong_weights

FLOATS: Final = (DType.FLOAT, DType.HALF)
# §1.5.1
CRITERIA: Final = {DType.FLOAT: diff1_and_diff2(1e-5), DType.HALF: diff1_and_diff2(3e-3)}
# More input rows than this are refused.
ROWS_LIMIT: Final = 1_000_000


def rows_within_limit(doc: str, status: Status) -> Check:
    """`indice_pairs_rows`: at most a million input rows."""
    return checks.require(
        "indice_pairs_rows",
        lambda call: call.tensor("indice_pairs").dims[2] <= ROWS_LIMIT,
        f"indice_pairs must have at most {ROWS_LIMIT} columns",
        doc,
        status,
    )


def inverse_supported(doc: str) -> Check:
    """`inverse_unsupported`: the inverse convolution is NOT_SUPPORTED."""
    return checks.require(
        "inverse_unsupported",
        lambda call: call.param("inverse") == 0,
        "inverse = 1 is not supported",
        doc,
        Status.NOT_SUPPORTED,
    )


def counts_fit_pairs(doc: str) -> Check:
    """`indice_num_fits_pairs`: no offset has more pairs than its row of the table."""
    return checks.require(
        "indice_num_fits_pairs",
        lambda call: all(count <= call.tensor("indice_pairs").dims[2] for count in call.param("indice_num")),
        "no entry of indice_num may exceed indice_pairs[2]",
        doc,
    )


def sound_pairs(rows_out: str) -> Callable[[OpCall], str | None]:
    """What a call takes for granted: a count of 0 … L per kernel offset; rows that exist, each once per offset.

    With sub_m the middle offset joins each row to itself. `rows_out` is the tensor whose rows are the outputs of pairs.
    """

    def precondition(call: OpCall) -> str | None:
        pairs, counts = call.array("indice_pairs"), call.param("indice_num")
        offsets, _, rows_in = pairs.shape
        if any(not 0 <= count <= rows_in for count in counts):
            return f"indice_num has an entry outside of 0 … {rows_in}"
        count, is_sub_m = call.tensor(rows_out).dims[0], call.param("sub_m") != 0
        return broken_pairs(pairs, counts, offsets=offsets, rows_in=rows_in, rows_out=count, sub_m=is_sub_m)

    return precondition


def convolution_function(name: str, *scalars: str, asked: tuple[str, ...] | None = None) -> Callable[[Operator], CApi]:
    """`mluOp<name>` and its query: indice_num and the scalars behind the inputs, in the query behind all descriptors.

    The query takes the scalars `asked`, where these are not all.
    """

    def declare(operator: Operator) -> CApi:
        inputs, outputs = ([spec.id for spec in specs] for specs in (operator.inputs, operator.outputs))
        counts = host_array("indice_num", type=CType.INT64)
        numbers = (*counts, *scalar(*scalars, type=CType.INT64))
        asked_numbers = (*counts, *scalar(*(scalars if asked is None else asked), type=CType.INT64))
        return c_function(
            f"mluOp{name}",
            query=f"mluOpGet{name}WorkspaceSize",
            arguments=(HANDLE, *tensor(*inputs), *numbers, WORKSPACE, WORKSPACE_SIZE, *tensor(*outputs)),
            query_arguments=(HANDLE, *descriptor(*inputs, *outputs), *asked_numbers, ASKED_SIZE),
        )(operator)

    return declare


def pairs_work(rows_in: str, rows_out: str) -> Callable[[OpCall], Theory]:
    """`theory`: a product and an addition per pair, channel of the one tensor and channel of the other.

    Every tensor is touched once, of indice_pairs the pairs in use.
    """

    def theory(call: OpCall) -> Theory:
        pairs, channels = sum(call.param("indice_num")), [call.tensor(name).dims[1] for name in (rows_in, rows_out)]
        whole = sum(call.tensor(name).desc.nbytes for name in (*call.inputs, *call.outputs) if name != "indice_pairs")
        return Theory(whole + 2 * pairs * DType.INT32.itemsize, 2 * pairs * math.prod(channels))

    return theory


# Mistakes that kernels make where pairs of several offsets meet in a row, and about matrices. Those that a place or a
# law of values tells already are not among them.
_WEIGHTS: Final = {
    "depth_mirrored", "height_mirrored", "width_mirrored", "width_slowest", "height_for_width", "weights_of_first",
    "weights_of_next", "channels_last_as_array", "array_as_channels_last", "two_dimensional", "weights_transposed",
    "first_input_channel", "last_input_channel", "first_output_channel", "last_output_channel",
}  # fmt: skip
_PAIRS: Final = {
    "rows_exchanged", "inputs_twice", "outputs_twice", "positions", "sorted_apart", "stride_of_counts", "first_count",
    "one_pair", "first_pair", "last_pair", "stops_at_empty", "skips_empty", "first_offset", "last_offset",
    "pairs_of_next", "pairs_repeated", "stride_of_outputs", "middle_of_all",
}  # fmt: skip


def define_products(
    read: str, written: str, products: Callable[[OpCall], Products], *, to: Literal[0, 1]
) -> Definition:
    """The output `written` is these sums; its rows are those of side `to` of a pair, rows of `read` the others.

    Towards the input rows (0) the matrices are those of `filters` transposed.
    """

    @wraps(products)
    def reference(call: OpCall) -> Baseline:
        return Baseline({written: summed(products(call))})

    @wraps(products)
    def bound(call: OpCall) -> dict[str, Bound]:
        return {written: bound_of(products(call))}

    def of_weights(weights: Callable[[OpCall], Array]) -> Suspect:
        def outputs(call: OpCall) -> Mapping[str, Array]:
            matrices = weights(call) if to == 1 else weights(call).swapaxes(1, 2)
            return {written: summed(replace(products(call), matrices=np.ascontiguousarray(matrices)))}

        return outputs

    def of_rows(rows: Callable[[OpCall], list[Rows]]) -> Suspect:
        def outputs(call: OpCall) -> Mapping[str, Array]:
            right = products(call)
            limits = np.array([[right.count], [len(right.rows)]])
            # A row of −1 is the last one.
            meetings = tuple(np.stack((met[to], met[1 - to])).astype(np.int64) % limits for met in rows(call))
            return {written: summed(replace(right, meetings=meetings))}

        return outputs

    ends = (read, written) if to == 1 else (written, read)
    weights = {f"it {one.message}": of_weights(one.weights) for one in wrong_weights(2 - to) if one.name in _WEIGHTS}
    rows = {f"it {one.message}": of_rows(one.rows) for one in wrong_pairs(*ends) if one.name in _PAIRS}
    return Definition(reference, bound, {**products_suspects(written, products), **weights, **rows}, pairs_work(*ends))


# How the axes of a filter become [Kd,] Kh, Kw, Ci, Co where they are others.
_TORCH_ORDER: Final = {
    Layout.NDHWC: (1, 2, 3, 4, 0),
    Layout.NCDHW: (2, 3, 4, 1, 0),
    Layout.NHWC: (1, 2, 3, 0),
    Layout.NCHW: (2, 3, 1, 0),
}
# Pairs per product on the processor: few enough for the cache, many enough that threads seldom wait for each other.
_TORCH_PAIRS: Final = 16384


def torch_blocks(pairs: Any, counts: Sequence[int]) -> Any:
    """(k, input rows, output rows) of the pairs in use, offset by offset and not too many at a time."""
    for offset, count in enumerate(counts):
        step = _TORCH_PAIRS if pairs.device.type == "cpu" else max(1, count)
        for first in range(0, count, step):
            yield offset, *pairs[offset, :, first : min(first + step, count)]


def torch_products(read: str, written: str, *, to: Literal[0, 1]) -> Callable[..., None]:
    """`torch_kernel` of such sums: gather, multiply, index_add_ in float32; half is rounded once."""

    def run(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        filters, order = inputs["filters"].float(), _TORCH_ORDER.get(call.tensor("filters").layout)
        weights = (filters if order is None else filters.permute(order)).flatten(0, -3)
        matrices = (weights if to == 1 else weights.transpose(1, 2)).contiguous()
        rows, result = inputs[read].float(), outputs[written]
        sums = result.zero_() if result.dtype == rows.dtype else rows.new_zeros(result.shape)
        for offset, *met in torch_blocks(inputs["indice_pairs"], call.param("indice_num")):
            sums.index_add_(0, met[to], rows.index_select(0, met[1 - to]) @ matrices[offset])
        if sums is not result:
            result.copy_(sums)

    return run


def draw_operands(
    draw: Draw,
    read: str,
    values: Values,
    dtype: DType,
    connections: Connections,
    channels: tuple[int, int],
    *,
    to: Literal[0, 1],
) -> tuple[Array, Array]:
    """Rows of the tensor `read` and weights [K, Ci, Co] of that kind; both are summed along the channels of `read`."""
    offsets, summed_channels = len(connections.counts), channels[1 - to]
    # Within one offset a written row occurs at most once, so that many products at most meet in one sum.
    terms = offsets * summed_channels
    shape = (connections.rows_in if to == 1 else connections.rows_out, summed_channels)
    rows = draw_factor(draw.stream(read), values, dtype, shape, terms=terms)
    stream = draw.stream("filters")
    return rows, draw_factor(stream, values, dtype, (offsets, *channels), terms=terms, axis=2 - to, sign=-1)


# By bytes of the type: the square overflows and no other product can take that back; one of them alone stays far from
# the largest number, so that no order of additions overflows in between.
_LARGE: Final = {2: 2.0**10, 4: 2.0**100}


def plant(kind: str, rows: Array, matrices: Array, connections: Connections, *, to: Literal[0, 1]) -> None:
    """Write few values that are not finite, or overflow, into the rows that are read or their matrices [K, I, O].

    …_idle: where nothing may show, in the matrix of an offset without pairs and in a row that no pair names.
    """
    counts, pairs, side = connections.counts, connections.pairs, 1 - to
    written = connections.rows_out if to == 1 else connections.rows_in
    used = next((k for k, count in enumerate(counts) if 0 < count < written), None)
    empty = next((k for k, count in enumerate(counts) if count == 0), None)
    idle = np.setdiff1d(np.arange(len(rows)), np.concatenate([met[side] for met in connections.used]))
    if used is None or empty is None or not idle.size or rows.shape[1] < 2:
        raise ValueError(
            "some offset must have few pairs and one none, some row be in no pair, and sums have at least 2 products"
        )
    row = pairs[used, side, 0]
    match kind:
        case "weight_inf":
            matrices[used, 0, 0] = np.inf
        case "weight_nan":
            matrices[used, 0, 0] = np.nan
        case "weight_idle":
            matrices[empty] = np.inf
        case "feature_inf" | "grad_inf":
            rows[row, 0] = -np.inf
        case "feature_nan" | "grad_nan":
            rows[row, 0] = np.nan
        case "feature_idle" | "grad_idle":
            rows[idle[0]] = np.nan
        case "inf_minus_inf":
            rows[row, :2], matrices[used, :2, 0] = (np.inf, -np.inf), 1
        case "zero_times_inf":
            rows[row, 0], matrices[used, 0, 0] = 0, np.inf
        case "zero_times_nan":
            # At every offset: the two rows may meet at another one, too.
            rows[row, 0], matrices[:, 0, 0] = np.nan, 0
        case "overflow":
            rows[row, 0] = matrices[used, 0, 0] = _LARGE[rows.dtype.itemsize]
