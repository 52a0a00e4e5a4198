"""ms_deform_attn_forward: for every query and head a weighted sum of bilinear samples of maps of several levels."""

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from math import floor
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import (
    Array,
    Baseline,
    DType,
    OpCall,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    RecipeOutput,
    Status,
    TensorSpec,
    Theory,
    axis,
    checks,
    diff1_and_diff2,
)
from mluops_gtest.authoring.c_api import HANDLE, c_function, scalar, tensor
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction
from mluops_gtest.authoring.left_open import find_subnormal
from mluops_gtest.authoring.reductions import Reduction, changed, without_rows

from .._shared.deformable import INPUTS, bound, find_unruled, precondition, sums
from .._shared.wrong_deformable import SUSPECTS


def _divides(call: OpCall) -> bool:
    # mmcv takes im2col_step samples of a batch at a time; nothing else depends on it.
    batches = call.tensor("data_value").dims[0]
    step = int(min(batches, call.param("im2col_step")))
    return step > 0 and batches % step == 0


def _agrees(name: str, call: OpCall) -> bool:
    """The tensor's axes are as long as its shape says, but for the one of length 2."""
    batches, _, heads, channels = call.tensor("data_value").dims
    _, queries, _, _, points, _ = call.tensor("data_sampling_loc").dims
    levels = call.tensor("data_spatial_shapes").dims[0]
    wanted = (batches, queries, heads, *((channels,) if name == "data_col" else (levels, points)))
    return call.tensor(name).dims[: len(wanted)] == wanted


# What is checked, in normative order; neither the device nor a layout is.

CHECKS = (
    checks.handle("§3.8 (1)"),
    checks.descriptors(doc="§3.8 (1)"),
    checks.ranks(doc="§3.8 (3)"),
    checks.dims("data_spatial_shapes.1", "data_sampling_loc.5", "data_level_start_index.0", doc="§3.8 (3)"),
    *(
        checks.require(f"{name}_dims", partial(_agrees, name), f"{name} must agree with the others", "§3.8 (3)")
        for name in (*INPUTS[3:], "data_col")
    ),
    checks.strided(doc="§1.4"),
    checks.dtypes(*INPUTS[:3], *(f"{name} = data_value" for name in ("data_col", *INPUTS[3:])), doc="§1.4"),
    checks.large("data_value", "data_sampling_loc", "data_col", doc="released"),
    checks.empty("data_col", doc="§1.1", status=Status.BAD_PARAM),
    # §1.1: without levels or points the sums are empty, and 0 is written.
    checks.empty("data_attn_weight", doc="§1.1", writes=True),
    checks.require("im2col_step", _divides, "im2col_step, or B if that is less, must divide B", "released"),
    checks.pointers(doc="§3.8 (1)"),
)


def reference(call: OpCall) -> Baseline:
    """§3.1's samples; the attention weights are used as they are, whatever their sum (§1.2 speaks of the network)."""
    return Baseline(sums(call))


def theory(call: OpCall) -> Theory:
    """Per sample 10 operations for place and weights, 9 a channel; each pixel at most once."""
    batches, keys, count, channels = call.tensor("data_value").dims
    samples = call.tensor("data_attn_weight").desc.count
    touched = sum(call.tensor(name).desc.nbytes for name in (*INPUTS[1:], "data_col"))
    return Theory(
        touched + 4 * min(4 * samples * channels, batches * keys * count * channels), samples * (9 * channels + 10)
    )


# One element as §3.2 defines it.


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """Sample after sample in fractions; IEEE where a pixel or a weight is not finite."""
    if call.tensor("data_attn_weight").desc.is_empty:
        return {"data_col": lambda *_: Fraction(0)}
    values, shapes, starts, locations, weights = call.arrays(*INPUTS)

    def data_col(batch: int, query: int, head: int, channel: int) -> Fraction | float:
        total: Fraction | float = Fraction(0)
        for level, point in np.ndindex(*weights.shape[3:]):
            height, width = (int(size) for size in shapes[level])
            at = locations[batch, query, head, level, point]
            x, y = (Fraction(float(one)) * size - Fraction(1, 2) for one, size in zip(at, (width, height), strict=True))
            if not (-1 < x < width and -1 < y < height):
                continue
            sample: Fraction | float = Fraction(0)
            for row in (floor(y), floor(y) + 1):
                for column in (floor(x), floor(x) + 1):
                    if 0 <= row < height and 0 <= column < width:
                        pixel = values[batch, starts[level] + row * width + column, head, channel]
                        sample = sample + fraction(pixel) * (1 - abs(y - row)) * (1 - abs(x - column))
            total = total + fraction(weights[batch, query, head, level, point]) * sample
        return total

    return {"data_col": data_col}


# The kernel that the numpy backend runs: §3.1's loop over samples in float32, of all batches, queries and heads.

_SAMPLES: Final = 1 << 16


def kernel(call: OpCall) -> Status:
    """Check the call, then add up level by level, point by point."""
    answer = _answer_of_checks(call)
    if answer is not None:
        return answer
    col = call.array("data_col")
    col[...] = 0
    if 0 in call.tensor("data_attn_weight").dims:
        return Status.SUCCESS
    values, shapes, starts, locations, weights = call.arrays(*INPUTS)
    step = max(1, _SAMPLES // (col.shape[2] * col.shape[3]))
    with np.errstate(all="ignore"):
        for batch in range(len(values)):
            for first in range(0, col.shape[1], step):
                part = slice(first, first + step)
                for level, point in np.ndindex(*weights.shape[3:]):
                    height, width = shapes[level]
                    image = values[batch, starts[level] : starts[level] + height * width]
                    at = locations[batch, part, :, level, point]
                    _add_sample(col[batch, part], image, (height, width), at, weights[batch, part, :, level, point])
    return Status.SUCCESS


def _add_sample(col: Array, image: Array, shape: tuple[int, int], at: Array, weight: Array) -> None:
    """col [Q, M, C] += weight · sample of image [H·W, M, C] at places [Q, M, 2]."""
    height, width = shape
    x = at[..., 0] * np.float32(width) - np.float32(0.5)
    y = at[..., 1] * np.float32(height) - np.float32(0.5)
    query, head = np.nonzero((y > -1) & (x > -1) & (y < height) & (x < width))
    x, y = x[query, head], y[query, head]
    left, top = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
    right_part, lower_part = x - left.astype(np.float32), y - top.astype(np.float32)
    sample = np.zeros((len(query), col.shape[2]), np.float32)
    one = np.float32(1)
    for row, by_row in ((top, one - lower_part), (top + 1, lower_part)):
        for column, by_column in ((left, one - right_part), (left + 1, right_part)):
            there = np.flatnonzero((row >= 0) & (row <= height - 1) & (column >= 0) & (column <= width - 1))
            pixels = image[row[there] * width + column[there], head[there]]
            sample[there] += (by_row * by_column)[there, None] * pixels
    col[query, head] += weight[query, head][:, None] * sample


def _answer_of_checks(call: OpCall) -> Status | None:
    args = [*(call.inputs[name] for name in INPUTS), call.outputs["data_col"]]
    present = [arg for arg in args if arg is not None]
    if call.handle is None or len(present) < 6:
        return Status.BAD_PARAM
    value, shapes, starts, locations, weights, col = present
    if tuple(len(arg.dims) for arg in present) != (4, 2, 1, 6, 5, 4):
        return Status.BAD_PARAM
    batches, _, heads_, channels = value.dims
    levels, queries, points = shapes.dims[0], locations.dims[1], locations.dims[4]
    sampled = (batches, queries, heads_, levels, points)
    if shapes.dims != (levels, 2) or starts.dims != (levels,) or locations.dims != (*sampled, 2):
        return Status.BAD_PARAM
    if weights.dims != sampled or col.dims != (batches, queries, heads_, channels):
        return Status.BAD_PARAM
    if any(arg.desc.is_strided for arg in present):
        return Status.NOT_SUPPORTED
    if any(arg.dtype is not (DType.INT32 if arg in (shapes, starts) else DType.FLOAT) for arg in present):
        return Status.BAD_PARAM
    if value.desc.is_large or locations.desc.is_large or col.desc.is_large:
        return Status.NOT_SUPPORTED
    if 0 in col.dims:
        return Status.BAD_PARAM
    if levels * points == 0:
        return None
    step = min(batches, call.param("im2col_step"))
    if step <= 0 or batches % step or any(arg.null for arg in present):
        return Status.BAD_PARAM
    return None


# With torch: grid_sample of every level.


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write data_col."""
    import torch

    col = outputs["data_col"].zero_()
    if call.tensor("data_attn_weight").desc.is_empty:
        return
    values, shapes, starts, locations, weights = (inputs[name] for name in INPUTS)
    for level, ((height, width), start) in enumerate(zip(shapes.tolist(), starts.tolist(), strict=True)):
        image = (
            values[:, start : start + height * width].permute(0, 2, 3, 1).flatten(0, 1).unflatten(2, (height, width))
        )
        grid = 2 * locations[:, :, :, level].transpose(1, 2).flatten(0, 1) - 1
        size = torch.tensor([width, height], dtype=grid.dtype)
        place = locations[:, :, :, level] * size - 0.5
        inside = ((place > -1) & (place < size)).all(-1)
        sampled = torch.nn.functional.grid_sample(image, grid.clamp(-9, 9), align_corners=False)
        own = weights[:, :, :, level, None]
        terms = own * sampled.unflatten(0, col.shape[::2][:1] + col.shape[2:3]).permute(0, 3, 1, 2, 4)
        # Whatever the weight of what is outside.
        col += torch.where(inside[..., None, :], terms, 0).sum(-1)


# How calls become smaller, beside what follows from the axes: levels go with their pixels.


def _without_levels(call: OpCall, start: int, stop: int) -> RecipeOutput | None:
    shapes = call.array("data_spatial_shapes")
    ends = np.cumsum(shapes.prod(axis=1))
    left = without_rows(shapes, start, stop)
    if not len(left):
        return None
    first, last = (int(ends[at - 1]) if at else 0 for at in (start, stop))
    pixels = left.prod(axis=1)
    return changed(
        call,
        {
            "data_value": without_rows(call.array("data_value"), first, last, 1),
            "data_spatial_shapes": left,
            "data_level_start_index": (np.cumsum(pixels) - pixels).astype("<i4"),
            **{name: without_rows(call.array(name), start, stop, 3) for name in INPUTS[3:]},
        },
    )


_FLOAT: Final = (DType.FLOAT,)
_INT32: Final = (DType.INT32,)

OPERATOR = Operator(
    name="ms_deform_attn_forward",
    released_name="ms_deform_attn_forward",
    op_type=("MS_DEFORM_ATTN_FORWARD", 16005),
    summary="Adds up, for every query and head, weighted bilinear samples of maps of several levels.",
    inputs=(
        TensorSpec("data_value", "[B, K, M, C]", _FLOAT, None),
        TensorSpec("data_spatial_shapes", "[L, 2]: h, w", _INT32, None),
        TensorSpec("data_level_start_index", "[L]", _INT32, None),
        TensorSpec("data_sampling_loc", "[B, Q, M, L, P, 2]: x, y", _FLOAT, None),
        TensorSpec("data_attn_weight", "[B, Q, M, L, P]", _FLOAT, None),
    ),
    # §1.5.1 allows ten times the error of a GPU; ruling: 5e-5 up to maps of 256, and equality on lattices.
    outputs=(OutputSpec("data_col", "[B, Q, M, C]", {DType.FLOAT: diff1_and_diff2(5e-5)}, None),),
    params=ParamMessage(
        "ms_deform_attn_forward_param",
        16005,
        "MsDeformAttnForwardParam",
        (ParamField("im2col_step", 1, default=64),),
    ),
    axes={
        "batches": axis("B", of="data_value"),
        "heads": axis("M", of="data_value"),
        "channels": axis("C", of="data_value"),
        "levels": axis("L", of="data_spatial_shapes"),
        "queries": axis("Q", of="data_sampling_loc"),
        "points": axis("P", of="data_sampling_loc"),
    },
    checks=CHECKS,
    reference=reference,
    bound=bound,
    precondition=precondition,
    left_open={"undefined": find_unruled, "subnormal": find_subnormal},
    theory=theory,
    kernel=kernel,
    suspects=SUSPECTS,
    reductions={"levels": Reduction(lambda call: call.tensor("data_spatial_shapes").dims[0], _without_levels)},
    c_api=c_function(
        "mluOpMsDeformAttnForward",
        arguments=(HANDLE, *tensor(*INPUTS), *scalar("im2col_step"), *tensor("data_col")),
    ),
    exact=elements,
    torch_kernel=torch_kernel,
)
