"""points_in_boxes: the first of its batch's turned boxes that a point is in, −1 where there is none."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np

import mluops_gtest.authoring as mg
from mluops_gtest.authoring import Array, DType, OpCall, Status, c_api, checks, exact_numbers, left_open, space
from mluops_gtest.authoring.suspects import Suspect, as_read, misread

from .._shared import boxes as geometry
from .._shared.points import axes_first, first_batch
from .._shared.refusals import Refusals, first_status, tensors_of
from .._shared.wrong_boxes import misread_boxes

# §1.2: cz is the geometric centre. §3.1's listing widens the sides, not z; §1.2's formula and §3.2's pseudo-code forget
# that, the code of §1.2's reference does not.
TEST: Final = geometry.BoxTest(bottom=False, widened=1e-5)


def _boxes_fit(call: OpCall) -> bool:
    # §3.4: all boxes of a batch stay on the chip beside the points, of which at least one must fit.
    return call.handle is not None and 28 * call.tensor("boxes").dims[1] + 36 <= call.handle.nram_bytes


CHECKS = (
    checks.handle("§3.8 (1)"),
    checks.descriptors(doc="§3.8 (1)"),
    checks.ranks(doc="§3.8 (3)"),
    checks.dtypes(doc="§1.3"),
    checks.layouts(doc="§1.3"),
    checks.dims("boxes.0", "points_indices.0", "points_indices.1", "points.2", "boxes.2", doc="§3.8 (3)"),
    checks.strided(doc="§1.4"),
    # points_indices has fewer elements than points.
    checks.large("points", "boxes", doc="released"),
    # §1.1: without boxes nothing is written, not even −1.
    checks.empty("points", "boxes", doc="§1.1"),
    checks.pointers(doc="§3.8 (1)"),
    checks.require("boxes_nram", _boxes_fit, "28·T + 36 bytes must fit into NRAM", "header, §3.4"),
)


def precondition(call: OpCall) -> str | None:
    """No point is so near a face that rounding decides; the header: results may differ on the edge of the box."""
    return geometry.undecided_pair(call.array("points"), call.array("boxes"), TEST, DType.FLOAT)


# The oracle: every point against every box in float64.


def first_boxes(hits: Array) -> Array:
    """int32 [B, M] of bool [B, M, T]."""
    # Of several boxes the first one (header, §3.1's break); §3.2's sub_scalar(last, -1) would add 1.
    return np.where(hits.any(axis=2), hits.argmax(axis=2), -1).astype("<i4")


def indices(
    call: OpCall, test: geometry.BoxTest = TEST, choose: Callable[[Array], Array] = first_boxes
) -> Mapping[str, Array]:
    """The number of the first box that holds each point, or of what `choose` takes."""
    return {"points_indices": choose(test.inside_of_batches(*call.arrays("points", "boxes")))}


def reference(call: OpCall) -> mg.Baseline:
    """The smallest index of a box that holds the point; −1, too, is written by the operator."""
    return mg.Baseline(indices(call))


def theory(call: OpCall) -> mg.Theory:
    """Per pair 3 differences, 3 absolute values, 4 products, 2 sums, 3 comparisons and 2 conjunctions; all tensors."""
    points, boxes, numbers = (call.tensor(name).desc for name in ("points", "boxes", "points_indices"))
    return mg.Theory(points.nbytes + boxes.nbytes + numbers.nbytes, 17 * numbers.count * boxes.dims[1])


# Mistakes that kernels make about which box is named, and how, and about batches.


_CHOICES: Final[Mapping[str, Callable[[Array], Array]]] = {
    "the last box that holds a point is named": lambda hits: np.where(hits, np.arange(hits.shape[2]), -1).max(axis=2),
    "boxes that hold a point are counted": lambda hits: hits.sum(axis=2),
    "boxes are counted from 1": lambda hits: first_boxes(hits) + 1,
    "§3.2's last subtraction adds 1": lambda hits: first_boxes(hits) + 2,
    "indices count through the boxes of all batches": lambda hits: np.where(
        hits.any(axis=2), first_boxes(hits) + np.arange(len(hits))[:, None] * hits.shape[2], -1
    ),
    "a point in no box has 0": lambda hits: np.maximum(first_boxes(hits), 0),
}

SUSPECTS: Final[Mapping[str, Suspect]] = {
    **misread_boxes(indices, TEST, "boxes"),
    **{words: partial(indices, choose=choose) for words, choose in _CHOICES.items()},
    "every batch has the boxes of batch 0": as_read(reference, misread(boxes=first_batch)),
    "every batch has the points of batch 0": as_read(reference, misread(points=first_batch)),
    "points is read as [B, 3, M]": as_read(reference, misread(points=axes_first)),
}


# One index as §1.2 and §3.1 define it.


def elements(call: OpCall) -> Mapping[str, exact_numbers.ExactElement]:
    """The first box that holds the point in exact arithmetic."""
    points, boxes = call.arrays("points", "boxes")
    margin = Fraction(1, 100_000)

    def points_indices(batch: int, point: int) -> int:
        for number, box in enumerate(boxes[batch]):
            if geometry.is_exactly_inside(points[batch, point], box, bottom=False, widened=margin):
                return number
        return -1

    return {"points_indices": points_indices}


# The kernel that the numpy backend runs: §3.1's second way, all boxes against a tile of points, in float32.

# Pairs that are looked at together stay in the cache.
_PAIRS: Final = 1 << 16


def kernel(call: OpCall) -> Status:
    """Check the call, then name the box of every point."""
    if (early := first_status(_refusals(call))) is not None:
        return early
    nram = call.handle.nram_bytes if call.handle is not None else 0
    for points, boxes, numbers in zip(*call.arrays("points", "boxes", "points_indices"), strict=True):
        tile = max(1, min((nram - 28 * len(boxes)) // 36, _PAIRS // len(boxes)))
        for first in range(0, len(points), tile):
            some = slice(first, first + tile)
            _name(numbers[some], points[some], boxes)
    return Status.SUCCESS


def _name(numbers: Array, points: Array, boxes: Array) -> None:
    """The first box of each point, −1 where there is none."""
    with np.errstate(invalid="ignore", over="ignore"):
        # Most boxes are far away: the circle around one is looked at before its sides.
        away = np.abs(points[:, :1] - boxes[:, 0]) + np.abs(points[:, 1:2] - boxes[:, 1])
        near = away <= np.abs(boxes[:, 3]) + np.abs(boxes[:, 4]) + np.float32(1)
        point, box = np.divmod(np.flatnonzero(near), len(boxes))
        east, north, up = (points[point] - boxes[box, :3]).T
        dx, dy, dz, rz = boxes[box, 3:].T
        cosine, sine = np.cos(rz), np.sin(rz)
        is_in = np.abs(east * cosine + north * sine) < dx * np.float32(0.5) + np.float32(1e-5)
        is_in &= np.abs(north * cosine - east * sine) < dy * np.float32(0.5) + np.float32(1e-5)
        is_in &= np.abs(up) <= dz * np.float32(0.5)
    # The first box comes last and takes the point over.
    numbers[...] = -1
    numbers[point[is_in][::-1]] = box[is_in][::-1]


def _refusals(call: OpCall) -> Refusals:
    args = tensors_of(call)
    yield call.handle is None or [len(arg.dims) for arg in args] != [3, 3, 2], Status.BAD_PARAM
    points, boxes, numbers = args
    yield any(arg.layout is not mg.Layout.ARRAY for arg in args), Status.BAD_PARAM
    yield [arg.dtype for arg in args] != [DType.FLOAT, DType.FLOAT, DType.INT32], Status.BAD_PARAM
    yield points.dims != (*numbers.dims, 3) or boxes.dims != (points.dims[0], boxes.dims[1], 7), Status.BAD_PARAM
    yield any(arg.desc.is_strided for arg in args), Status.NOT_SUPPORTED
    yield points.desc.is_large or boxes.desc.is_large, Status.NOT_SUPPORTED
    yield 0 in (*points.dims, *boxes.dims), Status.SUCCESS
    yield any(arg.null for arg in args), Status.BAD_PARAM
    yield boxes.dims[1] > ((call.handle.nram_bytes if call.handle else 0) - 36) // 28, Status.BAD_PARAM


# With torch: the local coordinates of all pairs by one product of matrices, the first box by argmax.

# Pairs at a time.
_TORCH_PAIRS = 1 << 20


def torch_kernel(_: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write points_indices."""
    import torch

    for points, boxes, numbers in zip(inputs["points"], inputs["boxes"], outputs["points_indices"], strict=True):
        centre, half, heading = boxes[:, None, :3], boxes[:, None, 3:6] / 2, boxes[:, 6]
        half[..., :2] += 1e-5
        cosine, sine = torch.cos(heading), torch.sin(heading)
        # [T, 2, 2], from the right: (sx, sy) becomes (lx, ly).
        turned = torch.stack([torch.stack([cosine, -sine], -1), torch.stack([sine, cosine], -1)], 1)
        step = max(1, _TORCH_PAIRS // len(boxes))
        for part, found in zip(points.split(step), numbers.split(step), strict=True):
            away = part - centre
            sides = (away[..., :2] @ turned).abs() < half[..., :2]
            inside = sides.all(-1) & (away[..., 2].abs() <= half[..., 2])
            found[:] = torch.where(inside.any(0), inside.int().argmax(0), -1)


# Recipes: clouds whose points keep away from the faces of all boxes, and lattices on which they stand on them.

# The scene: points of a lidar sweep and where some of them are.
_REACH, _SHARE, _LIFT = 75.0, 0.13, 8.0
# How near to a face of its box a point of a dense scene may come, as a part of the half length.
_EDGE = 1e-3


def scene(
    draw: mg.Draw, params: mg.Params, dtype: DType, *, points: int, boxes: int, batches: int = 1, reach: float = 70.0
) -> mg.RecipeOutput:
    """A road with cars of any heading: point 0 is in box 0, the last point in the last box alone, about 13 % in any.

    Half of the points inside are near a face.
    """
    objects = geometry.road_boxes(draw, batches, boxes, dtype, reach)
    # Above all others, so that no earlier box holds its point.
    objects[:, -1, 2] += _LIFT

    def cloud(turn: int) -> Array:
        wide, high = (
            geometry.uniform(draw.stream(f"{name} {turn}"), low, end, (batches, points, axes))
            for name, low, end, axes in (("ground", -_REACH, _REACH, 2), ("height", -2.5, 3.5, 1))
        )
        part, skin = (
            geometry.uniform(draw.stream(f"inside {turn} {name}"), -1.0, 1.0, (batches, points, 3))
            for name in ("part", "skin")
        )
        box = draw.stream(f"inside {turn} box").integers(0, boxes, (batches, points))
        face = draw.stream(f"inside {turn} face").integers(0, 6, (batches, points, 1))
        is_in = draw.stream(f"share {turn}").integers(0, 1000, box.shape) < 1000 * _SHARE
        # The first and the last point are not asked to be beside a face.
        box[:, 0], box[:, -1], face[:, [0, -1]], is_in[:, [0, -1]] = 0, boxes - 1, 6, True
        part = np.where(np.arange(3) == face, np.copysign(1 + _EDGE * skin, part), part)
        own = geometry.within(np.take_along_axis(objects, box[..., None], axis=1), part, bottom=TEST.bottom)
        return np.where(is_in[..., None], own, np.concatenate([wide, high], axis=-1))

    return _made(draw, params, geometry.clear_points(cloud, objects, TEST, dtype), objects)


def _made(_draw: mg.Draw, _params: mg.Params, points: Array, boxes: Array, _channels: int = 0) -> mg.RecipeOutput:
    return mg.RecipeOutput({"points": points, "boxes": boxes}, {})


SCENES: Final = geometry.Scenes(TEST, _made, partial(scene, points=45, boxes=3, batches=2, reach=4.0))

SPACE = space.Space(
    axes={
        **{name: space.Sizes(1, most) for name, most in {"batches": 5, "points": 2049, "boxes": 257}.items()},
        "few": space.Choice((1, 2, 3, 4)),
        "reach": space.Choice((2.0, 10.0, 70.0)),
        "what": space.Choice(("scene", "planted", "turned", "nested", "faces", "inf", "negative_inf")),
    },
    draw=lambda at: geometry.draw_in_scenes(at, scene=("batches", "points", "boxes", "reach")),
    elements=lambda at: at["batches"] * (4 * at["points"] + 7 * at["boxes"] + at["points"] * at["boxes"] // 16),
)

OPERATOR = mg.Operator(
    name="points_in_boxes",
    op_type=("POINTS_IN_BOXES", 217),
    summary="Names for each point the first box of its batch, turned about z, that holds it; −1 where there is none.",
    inputs=(mg.TensorSpec("points", "[B, M, 3]", (DType.FLOAT,)), mg.TensorSpec("boxes", "[B, T, 7]", (DType.FLOAT,))),
    # §1.5.1. The operator writes −1 itself.
    outputs=(mg.OutputSpec("points_indices", "[B, M]", {DType.INT32: mg.exact()}),),
    axes={"points": mg.axis("M", of="points"), "boxes": mg.axis("T", of="boxes"), "batches": mg.axis("B", of="points")},
    checks=CHECKS,
    reference=reference,
    precondition=precondition,
    left_open={"undefined": geometry.find_undefined("points", "boxes"), "subnormal": left_open.find_subnormal},
    kernel=kernel,
    suspects=SUSPECTS,
    theory=theory,
    c_api=c_api.c_function("mluOpPointsInBoxes"),
    exact=elements,
    torch_kernel=torch_kernel,
    recipes=SCENES.recipes(scene=scene),
    space=SPACE,
)
