"""What every operator computes, written from the documents for right variants of it."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from mluops_gtest.core.call import OpCall
from mluops_gtest.core.tensor import Array, Layout
from tests.support.right.boxes_and_samples import overlaps, sampled
from tests.support.right.sums import HALF_ORDERS, ORDERS, Sums

ONE = np.ones((1, 1), np.float32)
# What the axes of a filter are, as the layouts name them.
AXES = {
    (Layout.NHWC, 4): "nhwc",
    (Layout.NCHW, 4): "nchw",
    (Layout.HWCN, 4): "hwcn",
    (Layout.ARRAY, 4): "hwcn",
    (Layout.NDHWC, 5): "ndhwc",
    (Layout.NCDHW, 5): "ncdhw",
    (Layout.ARRAY, 5): "dhwcn",
}


class Variant(NamedTuple):
    """A right answer in one output, valid until the next; of a case that is too large only some rows are computed."""

    name: str
    output: str
    values: Array
    # A half output that was computed in half.
    in_half: bool = False


# The call with the case's inputs and its baseline by output.
Variants = Callable[[OpCall, Mapping[str, Array]], Iterator[Variant]]


def by_every_order(output: str, sums: Sums, baseline: Array, shaped: Callable[[Array], Array]) -> Iterator[Variant]:
    """The sums in every order; `shaped` makes rows of sums of a baseline, as a view."""
    few, taken = sums.few_enough()
    values = baseline.copy()
    in_half = {**HALF_ORDERS, "half, offset by offset": few.offset_by_offset} if values.dtype == np.float16 else {}
    for name, order in {**ORDERS, **in_half}.items():
        shaped(values)[taken] = few.by(order)
        yield Variant(name, output, values, name in in_half)


def pooled(call: OpCall, baseline: Mapping[str, Array]) -> Iterator[Variant]:
    """voxel_pooling_forward: the features of the points of a cell."""
    x, y, z = np.moveaxis(call.array("geom_xyz").astype(np.int64), -1, 0)
    width, height, depth = (call.param(f"num_voxel_{axis}") for axis in "xyz")
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height) & (z >= 0) & (z < depth)
    cells = (np.arange(len(x))[:, None] * height + y) * width + x
    features = call.array("input_features")[inside]
    sums = Sums(cells[inside], features, ONE, len(x) * height * width)
    channels = call.param("num_channels")
    yield from by_every_order(
        "output_features", sums, baseline["output_features"], lambda values: values.reshape(-1, channels)
    )


def reduced(call: OpCall, baseline: Mapping[str, Array]) -> Iterator[Variant]:
    """dynamic_point_to_voxel_forward: means by division and by reciprocal; there is one right maximum."""
    coors, feats, right = call.array("coors"), call.array("feats"), baseline["voxel_feats"]
    valid = (coors >= 0).all(axis=1)
    rows, voxels, counts = np.unique(coors[valid], axis=0, return_inverse=True, return_counts=True)
    voxels = voxels.reshape(-1)
    if not len(rows) or call.param("reduce_type") == 2:
        return
    few, taken = Sums(voxels, feats[valid], ONE, len(rows)).few_enough()
    sizes = counts[taken, None].astype(np.float32)
    values = right.copy()
    for name, order in ORDERS.items():
        sums = few.by(order)
        for way, means in (("divided", sums / sizes), ("by reciprocal", sums * (np.float32(1) / sizes))):
            values[taken] = means
            yield Variant(f"{name}, {way}", "voxel_feats", values)


def interpolated(call: OpCall, baseline: Mapping[str, Array]) -> Iterator[Variant]:
    """three_interpolate_forward: three weighted cells per point."""
    features, indices, weights = (call.array(name) for name in ("features", "indices", "weights"))
    batches, points, _ = indices.shape
    batch = np.repeat(np.arange(batches), 3 * points)
    x = features.swapaxes(1, 2)[batch, indices.reshape(-1)].astype(np.float32)
    rows = np.repeat(np.arange(batches * points), 3)
    sums = Sums(rows, x, weights.reshape(-1, 1).astype(np.float32), batches * points)
    yield from _of_points(sums, "output", baseline["output"])


def scattered(call: OpCall, baseline: Mapping[str, Array]) -> Iterator[Variant]:
    """three_interpolate_backward: every point adds to three cells."""
    grad, indices, weights = (call.array(name) for name in ("grad_output", "indices", "weights"))
    batches, _, cells = baseline["grad_features"].shape
    points = grad.shape[2]
    x = np.repeat(grad.swapaxes(1, 2).reshape(batches * points, -1), 3, axis=0).astype(np.float32)
    rows = (np.arange(batches)[:, None, None] * cells + indices).reshape(-1)
    sums = Sums(rows, x, weights.reshape(-1, 1).astype(np.float32), batches * cells)
    yield from _of_points(sums, "grad_features", baseline["grad_features"])


def _of_points(sums: Sums, output: str, baseline: Array) -> Iterator[Variant]:
    """Outputs whose channels lie before their points."""
    by_point = np.ascontiguousarray(baseline.swapaxes(1, 2))
    for variant in by_every_order(output, sums, by_point, lambda rows: rows.reshape(-1, rows.shape[2])):
        yield variant._replace(values=variant.values.swapaxes(1, 2))


def convolved(call: OpCall, baseline: Mapping[str, Array]) -> Iterator[Variant]:
    """indice_convolution_forward: input rows times the weights of an offset."""
    inputs, outputs, offsets = _pairs(call)
    weights = _weights(call)
    channels = weights.shape[1]
    x = call.array("features")[inputs].reshape(-1, 1).astype(np.float32)
    y = weights[offsets].reshape(-1, weights.shape[2])
    right = baseline["features_out"]
    sums = Sums(np.repeat(outputs, channels), x, y, len(right), block=channels)
    yield from by_every_order("features_out", sums, right, _as_it_is)


def convolved_back(call: OpCall, baseline: Mapping[str, Array]) -> Iterator[Variant]:
    """indice_convolution_backward_data: rows of the gradient times the transposed weights."""
    inputs, outputs, offsets = _pairs(call)
    weights = _weights(call).swapaxes(1, 2)
    channels = weights.shape[1]
    right = baseline["input_grad"]
    # One element of a row after the other, so that wide rows need no large arrays.
    x = call.array("output_grad")[outputs].reshape(-1, 1).astype(np.float32)
    y = weights[offsets].reshape(-1, weights.shape[2])
    sums = Sums(np.repeat(inputs, channels), x, y, len(right), block=channels)
    yield from by_every_order("input_grad", sums, right, _as_it_is)


def filtered(call: OpCall, baseline: Mapping[str, Array]) -> Iterator[Variant]:
    """indice_convolution_backward_filter: outer products over the pairs of an offset."""
    inputs, outputs, offsets = _pairs(call)
    right = baseline["filters_grad"]
    *kernel, channels_in, channels_out = right.shape
    # A row per offset and input channel.
    rows = (offsets[:, None] * channels_in + np.arange(channels_in)).reshape(-1)
    x = call.array("features")[inputs].reshape(-1, 1).astype(np.float32)
    y = np.repeat(call.array("output_grad")[outputs], channels_in, axis=0).astype(np.float32)
    sums = Sums(rows, x, y, int(np.prod(kernel)) * channels_in)
    yield from by_every_order("filters_grad", sums, right, lambda values: values.reshape(-1, channels_out))


def _as_it_is(values: Array) -> Array:
    return values


def _pairs(call: OpCall) -> tuple[Array, Array, Array]:
    """Input row, output row and offset of every pair in use."""
    table, counts = call.array("indice_pairs"), call.param("indice_num")
    used = [table[k, :, :count] for k, count in enumerate(counts)]
    inputs, outputs = np.concatenate(used, axis=1)
    return inputs, outputs, np.repeat(np.arange(len(counts)), counts)


def _weights(call: OpCall) -> Array:
    """float32 [K, Ci, Co]."""
    filters = call.array("filters")
    axes = AXES[call.tensor("filters").layout, filters.ndim]
    order = [axes.index(axis) for axis in "dhwcn" if axis in axes]
    ordered = filters.transpose(order)
    return ordered.reshape(-1, *ordered.shape[-2:]).astype(np.float32)


def distances(call: OpCall, baseline: Mapping[str, Array]) -> Iterator[Variant]:
    """three_nn_forward: the squared distances of the neighbours that there are."""
    right, idx = baseline["dist2"], baseline["idx"].astype(np.int64)
    there = np.isfinite(right)
    unknown, known = (call.array(name).astype(np.float32) for name in ("unknown", "known"))
    batch = np.arange(len(idx))[:, None, None]
    difference = np.moveaxis(unknown[:, :, None] - known[batch, idx], -1, 0)
    x, y, z = (difference * difference).astype(np.float32)
    wide = difference.astype(np.float64)

    def chain(*axes: int) -> Array:
        total = np.zeros(right.shape, np.float32)
        for axis in axes:
            total = (total + wide[axis] * wide[axis]).astype(np.float32)
        return total

    exact = np.moveaxis(unknown[:, :, None].astype(np.float64) - known[batch, idx], -1, 0)
    ways = {
        "x, y, z": (x + y) + z,
        "y, z, x": (y + z) + x,
        "z, x, y": (z + x) + y,
        "fused x, y, z": chain(0, 1, 2),
        "fused z, y, x": chain(2, 1, 0),
        "fused y, x, z": chain(1, 0, 2),
        "squares of float differences in double": (wide * wide).sum(axis=0).astype(np.float32),
        "double": (exact * exact).sum(axis=0).astype(np.float32),
        "halved and doubled": (((difference * 0.5) ** 2).sum(axis=0, dtype=np.float32) * np.float32(4)),
    }
    for name, values in ways.items():
        yield Variant(name, "dist2", np.where(there, values, right).astype(right.dtype))
    if right.dtype != np.float16:
        return
    x, y, z = (half := difference.astype(np.float16)) * half
    in_half = {
        "half x, y, z": (x + y) + z,
        "half z, y, x": (z + y) + x,
        "half squares in float": x.astype(np.float32) + y + z,
        "half sums of float squares": (difference * difference).astype(np.float16).sum(axis=0, dtype=np.float16),
    }
    for name, values in in_half.items():
        yield Variant(name, "dist2", np.where(there, values, right).astype(right.dtype), in_half=True)


def compared(call: OpCall, baseline: Mapping[str, Array]) -> Iterator[Variant]:
    """bbox_overlaps: in float, and half boxes in half."""
    right = baseline["ious"]
    for name, values in overlaps(call, np.float32):
        yield Variant(name, "ious", values.astype(right.dtype))
    if right.dtype == np.float16:
        for name, values in overlaps(call, np.float16):
            yield Variant(f"half {name}", "ious", values, in_half=True)


def attended(call: OpCall, baseline: Mapping[str, Array]) -> Iterator[Variant]:
    """ms_deform_attn_forward: pixels of samples inside."""
    right = baseline["data_col"]
    if not call.tensor("data_attn_weight").desc.is_empty:
        yield from by_every_order("data_col", sampled(call, right), right, lambda col: col.reshape(-1, col.shape[3]))


# Operators that copy have one right answer, which definition, reference and kernel agree on.
VARIANTS: dict[str, Variants] = {
    "bbox_overlaps": compared,
    "dynamic_point_to_voxel_forward": reduced,
    "indice_convolution_backward_data": convolved_back,
    "indice_convolution_backward_filter": filtered,
    "indice_convolution_forward": convolved,
    "ms_deform_attn_forward": attended,
    "three_interpolate_backward": scattered,
    "three_interpolate_forward": interpolated,
    "three_nn_forward": distances,
    "voxel_pooling_forward": pooled,
}
