"""roipoint_pool3d: for every box the first points inside of it with their features, repeated in turn where few are."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache, partial
from typing import Any, Final, Literal, get_args

import numpy as np

import mluops_gtest.authoring as mg
from mluops_gtest.authoring import Array, DType, OpCall, RecipeOutput, Status, c_api, checks, copy_of, space, suspects
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction

from .._shared import boxes as geometry
from .._shared.bit_patterns import KINDS, BitPatterns
from .._shared.points import axes_first, first_batch
from .._shared.refusals import Refusals, first_status, tensors_of
from .._shared.wrong_boxes import misread_boxes

FLOATS: Final = (DType.FLOAT, DType.HALF)
INPUTS: Final = ("points", "point_features", "boxes3d")
OUTPUTS: Final = ("pooled_features", "pooled_empty_flag")
SAMPLES: Final = "num_sampled_points"
# §1.2, §3.1: cz is the centre of the bottom; z faces are closed, sides are not.
TEST: Final = geometry.BoxTest(bottom=True)

CHECKS = (
    mg.SIZE_NULL,
    checks.handle("§3.8 (1)"),
    checks.descriptors(doc="§3.8 (1)"),
    checks.ranks(doc="§1.4"),
    checks.dims(doc="§1.4"),
    # §1.4, as released: strides are reported before types.
    checks.strided(doc="§1.4"),
    checks.dtypes(*OUTPUTS, *(f"{name} = pooled_features" for name in INPUTS), doc="§1.3"),
    # §2.2, as released: the query alone looks at that.
    checks.large(doc="released", asked_by="query"),
    checks.workspace("§3.8 (1)"),
    # §1.1: no elements are an error, C = 0 included.
    checks.empty(doc="§1.1", status=Status.BAD_PARAM),
    checks.pointers(doc="§3.8 (1)"),
)


def precondition(call: OpCall) -> str | None:
    """No point is so near a face that rounding decides, in half least of all."""
    return geometry.undecided_pair(call.array("points"), call.array("boxes3d"), TEST, call.tensor("points").dtype)


# The oracle: every point against every box in float64, then rows of coordinates and features are copied.

# Of the points inside, ascending, those in the rows of so many samples; −1 for a row of zeros.
Pick = Callable[[Array, int], Array]


def inside(call: OpCall, test: geometry.BoxTest = TEST) -> Array:
    """bool [B, N, M]: the point is inside the box."""
    return test.inside_of_batches(*call.arrays("points", "boxes3d"))


def sources(call: OpCall, test: geometry.BoxTest = TEST, pick: Pick = np.resize) -> Array:
    """int64 [B, M, S]: the point in each row, −1 in boxes without points."""
    is_inside = inside(call, test)
    rows = np.full((*is_inside[:, 0].shape, call.param(SAMPLES)), -1)
    for batch, box in np.argwhere(is_inside.any(axis=1)):
        # §3.1 says "duplicate"; mmcv goes through all n points again: row q has point q mod n.
        rows[batch, box] = pick(np.flatnonzero(is_inside[batch, :, box]), rows.shape[2])
    return rows


def copies(call: OpCall, rows: Array | None = None) -> copy_of.CopyOf:
    """pooled_features with these points in the rows: coordinates, then features; the bits of each."""
    points = sources(call) if rows is None else rows
    # §3.1 (5): x, y, z come first, as stored and not along the box.
    table = np.concatenate(call.arrays("points", "point_features"), axis=2)
    # §3.1 (4): mmcv relies on cleared buffers; here the operator writes the zeros of empty boxes, and both flags.
    return copy_of.CopyOf(table, points.reshape(len(points), -1), call.tensor("pooled_features").dims)


def pooled(call: OpCall, choose: Callable[[OpCall], Array] = sources) -> Mapping[str, Array]:
    """Both outputs with the points in the rows that `choose` gives."""
    rows = choose(call)
    return {"pooled_features": copies(call, rows).copied(), "pooled_empty_flag": (rows[..., 0] < 0).astype("<i4")}


def reference(call: OpCall) -> mg.Baseline:
    """Rows of the first S points inside each box, in turn; +0 and flag 1 where there is none."""
    return mg.Baseline(pooled(call))


def is_empty(call: OpCall) -> Array:
    """bool [B, M]: no point is inside the box."""
    return np.logical_not(inside(call).any(axis=1))


def theory(call: OpCall) -> mg.Theory:
    """Per pair of point and box what points_in_boxes does; all tensors."""
    (batches, points, _), (_, boxes, _) = call.tensor("points").dims, call.tensor("boxes3d").dims
    return mg.Theory(sum(call.tensor(name).desc.nbytes for name in (*INPUTS, *OUTPUTS)), 17 * batches * points * boxes)


# Mistakes that kernels make about which points are in the rows, and where.


def _padded(indices: Array, samples: int, rest: int) -> Array:
    return np.concatenate([indices, np.full(max(0, samples - len(indices)), rest)])[:samples]


# Points that kernels take at a time; small, so that stored cases have several tiles.
_FEW: Final = 8

_PICKS: Final[Mapping[str, Pick]] = {
    "the last points are taken": lambda i, s: np.resize(i[-s:], s),
    "the rest is the first point": lambda i, s: _padded(i, s, i[0]),
    "the rest is the last point": lambda i, s: _padded(i, s, i[-1]),
    "the rest is zeros": lambda i, s: _padded(i, s, -1),
    "the rest is of the last tile": lambda i, s: np.append(i, np.resize(i[i >= i[-1] // _FEW * _FEW], s))[:s],
    "one row fewer is filled": lambda i, s: _padded(np.resize(i, s)[: s - 1], s, -1),
}


def _choose_nearest(call: OpCall) -> Array:
    """The points nearest to the centre."""
    points, boxes = call.arrays("points", "boxes3d")
    rows, is_inside = sources(call), inside(call)
    for batch, box in np.argwhere(is_inside.any(axis=1)):
        members = np.flatnonzero(is_inside[batch, :, box])
        away = np.square(geometry.local(points[batch, members], boxes[batch, box], bottom=True)).sum(axis=0)
        rows[batch, box] = np.resize(members[np.argsort(away, kind="stable")], rows.shape[2])
    return rows


def _count_on(call: OpCall) -> Array:
    """Rows that earlier batches filled are passed over."""
    rows, counts = sources(call), inside(call).sum(axis=1)
    places = np.arange(rows.shape[2]) - (np.cumsum(counts, axis=0) - counts)[..., None]
    return np.where(places < 0, -1, np.take_along_axis(rows, np.maximum(places, 0), axis=2))


def _along_boxes(call: OpCall) -> Mapping[str, Array]:
    rows, is_full = copies(call).copied(), ~is_empty(call)
    turned = np.stack(geometry.local(rows[..., :3], call.array("boxes3d")[:, :, None], bottom=True), axis=-1)
    rows[is_full, :, :3] = turned[is_full]
    return {"pooled_features": rows}


def _rows_of_channels(call: OpCall) -> Mapping[str, Array]:
    """Rows begin C elements apart and overwrite each other."""
    right = copies(call).copied()
    width = right.shape[-1]
    flat = np.zeros(right.size, right.dtype)
    flat[np.arange(right.size // width)[:, None] * (width - 3) + np.arange(width)] = right.reshape(-1, width)
    return {"pooled_features": flat.reshape(right.shape)}


def _reads(**changes: Callable[[Array], Array]) -> suspects.Suspect:
    return suspects.as_read(reference, suspects.misread(**changes))


SUSPECTS: Final[Mapping[str, suspects.Suspect]] = {
    **misread_boxes(lambda call, test: pooled(call, partial(sources, test=test)), TEST, "boxes3d"),
    **{words: partial(pooled, choose=partial(sources, pick=pick)) for words, pick in _PICKS.items()},
    "the nearest points are taken": partial(pooled, choose=_choose_nearest),
    "the counter goes on through the batches": partial(pooled, choose=_count_on),
    "features stand before coordinates": lambda call: {"pooled_features": np.roll(copies(call).copied(), -3, axis=-1)},
    "coordinates are along the box": _along_boxes,
    "pooled_empty_flag is inverted": lambda call: {"pooled_empty_flag": (~is_empty(call)).astype("<i4")},
    "rows are C elements apart": _rows_of_channels,
    "every batch has the boxes of batch 0": _reads(boxes3d=first_batch),
    "every batch has the points of batch 0": _reads(points=first_batch),
    "every batch has the features of batch 0": _reads(point_features=first_batch),
    "points is read as [B, 3, N]": _reads(points=axes_first),
    "point_features is read as [B, C, N]": _reads(
        point_features=lambda f: f.reshape(len(f), f.shape[2], -1).swapaxes(1, 2)
    ),
}


# One element as §1.2 and §3.1 define it.
def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The coordinate or feature of point number q mod n inside the box, in exact arithmetic."""
    points, features, boxes = call.arrays(*INPUTS)

    @cache
    def members(batch: int, box: int) -> list[int]:
        corner = boxes[batch, box]
        return [n for n, point in enumerate(points[batch]) if geometry.is_exactly_inside(point, corner, bottom=True)]

    def pooled_features(batch: int, box: int, row: int, column: int) -> Fraction | float:
        found = members(batch, box)
        if not found:
            return Fraction(0)
        point = found[row % len(found)]
        return fraction(points[batch, point, column] if column < 3 else features[batch, point, column - 3])

    return {"pooled_features": pooled_features, "pooled_empty_flag": lambda batch, box: int(not members(batch, box))}


# The kernel that the numpy backend runs: §3.1 in float32, some boxes at a time against all points of their batch.

# Pairs that are looked at together stay in the cache.
_PAIRS: Final = 1 << 16


def kernel(call: OpCall) -> Status:
    """Check the call, then fill the rows of every box."""
    if (early := first_status(_refusals(call))) is not None:
        return early
    points, features, boxes, rows, flags = call.arrays(*INPUTS, *OUTPUTS)
    # The row behind the last point, −1, is zeros.
    tables = np.pad(np.concatenate([points, features], axis=2), ((0, 0), (0, 1), (0, 0)))
    points, boxes = points.astype(np.float32), boxes.astype(np.float32)
    step, depth = (max(1, _PAIRS // pairs) for pairs in (points.shape[1], points.shape[1] * boxes.shape[1]))
    for start in range(0, len(points), depth):
        for first in range(0, boxes.shape[1], step):
            some = slice(start, start + depth), slice(first, first + step)
            turns = _members(points[some[0]], boxes[some], rows.shape[2])
            flags[some] = turns[..., 0] < 0
            rows[some] = tables[start + np.arange(len(turns))[:, None, None], turns]
    return Status.SUCCESS


def _members(points: Array, boxes: Array, most: int) -> Array:
    """int64 [B, M, S]: the points inside each box in turn, −1 where there is none."""
    x, y, z = np.ascontiguousarray(np.moveaxis(points, 2, 0))[:, :, None]
    cx, cy, bottom, dx, dy, dz, rz = np.moveaxis(boxes, 2, 0)[..., None]
    cosine, sine = np.cos(rz), np.sin(rz)
    with np.errstate(invalid="ignore", over="ignore"):
        inner = 2 * np.abs(z - (bottom + dz * np.float32(0.5))) <= dz
        inner &= 2 * np.abs((x - cx) * cosine + (y - cy) * sine) < dx
        inner &= 2 * np.abs((y - cy) * cosine - (x - cx) * sine) < dy
    counts = inner.sum(axis=2, keepdims=True)
    place = np.cumsum(counts).reshape(counts.shape) - counts + np.arange(most) % np.maximum(counts, 1)
    return np.where(counts > 0, np.append(np.flatnonzero(inner) % points.shape[1], -1)[place], -1)


def _refusals(call: OpCall) -> Refusals:
    bad, args = Status.BAD_PARAM, tensors_of(call)
    yield call.handle is None or [len(arg.dims) for arg in args] != [3, 3, 3, 4, 2], bad
    points, features, boxes, rows, flag = args
    (batches, count, _), width, most = points.dims, features.dims[2], boxes.dims[1]
    yield [arg.dims for arg in args[:3]] != [(batches, count, 3), (batches, count, width), (batches, most, 7)], bad
    yield rows.dims != (batches, most, call.param(SAMPLES), 3 + width) or flag.dims != (batches, most), bad
    yield any(arg.desc.is_strided for arg in args), Status.NOT_SUPPORTED
    floats = {arg.dtype for arg in (points, features, boxes, rows)}
    yield len(floats) > 1 or floats.isdisjoint(FLOATS) or flag.dtype is not DType.INT32, bad
    yield call.workspace_size > 0 and call.workspace is None, bad
    yield any(arg.null or 0 in arg.dims for arg in args), bad


# With torch: points inside come first in a stable sort by box.
def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write both outputs."""
    import torch

    samples = torch.arange(call.param(SAMPLES))
    rows, flags = (outputs[name] for name in OUTPUTS)
    # Integers of the same size: NaN payloads and −0 pass unchanged.
    bits = torch.int16 if rows.dtype == torch.float16 else torch.int32
    for batch, (points, features, boxes) in enumerate(zip(*(inputs[name] for name in INPUTS), strict=True)):
        table = torch.cat([points.view(bits), features.view(bits)], 1)
        place, box = points.float(), boxes.float()[:, :, None]
        x, y, z = (place[:, axis] - box[:, axis] for axis in range(3))
        cosine, sine = torch.cos(box[:, 6]), torch.sin(box[:, 6])
        inner = (z - box[:, 5] / 2).abs() <= box[:, 5] / 2
        inner &= (x * cosine + y * sine).abs() < box[:, 3] / 2
        inner &= (y * cosine - x * sine).abs() < box[:, 4] / 2
        count = inner.sum(1, keepdim=True)
        flags[batch] = (count[:, 0] == 0).int()
        order = inner.byte().argsort(dim=1, descending=True, stable=True)
        found = table[order.gather(1, samples % count.clamp(min=1))]
        rows[batch].view(bits)[...] = torch.where(count[:, :, None] > 0, found, torch.zeros_like(found))


# Recipes: boxes with so many points inside, nested and turned boxes, lattices on which points stand on faces.

Values = Literal["full", "wide", "denormal", "nan", "inf", "nan_inf", "any_bits"]

_draw_features = BitPatterns("features", "sorts", KINDS).drawn
# Objects of a scene: every third has no points, every third fewer than S, every third more.
_OBJECTS, _BELOW = 12, -100.0


def _samples(params: mg.Params) -> int:
    samples = params.get(SAMPLES, 512)
    assert isinstance(samples, int)
    return samples


def _made(
    draw: mg.Draw, params: mg.Params, points: Array, boxes: Array, channels: int, values: Values = "full"
) -> RecipeOutput:
    dtype = DType.HALF if points.dtype.itemsize == 2 else DType.FLOAT
    features = _draw_features(draw, dtype, (*points.shape[:2], channels), values)
    samples = _samples(params)
    dims = (*boxes.shape[:2], samples, 3 + channels)
    return RecipeOutput(
        {"points": points, "point_features": features, "boxes3d": boxes},
        {SAMPLES: samples},
        outputs={"pooled_features": dims, "pooled_empty_flag": dims[:2]},
    )


def scene(
    draw: mg.Draw, params: mg.Params, dtype: DType, *, points: int, boxes: int, channels: int, batches: int = 1
) -> RecipeOutput:
    """Boxes around 12 objects in turn: a third is empty, a third has fewer than S points, a third has more."""
    samples = _samples(params)
    objects = np.repeat(geometry.boxes_apart(draw, _OBJECTS, dtype), batches, axis=0)
    chosen = objects[:, np.arange(boxes) % _OBJECTS].astype(np.float64)
    jitter = geometry.uniform(draw.stream("proposals"), -1.0, 1.0, (batches, boxes, 6))
    chosen[..., :3] += 0.04 * jitter[..., :3] * chosen[..., 3:6]
    chosen[..., 3:6] *= 1.05 + 0.1 * jitter[..., 3:]
    chosen = chosen.astype(dtype.storage)
    few, many = max(1, samples // 2), 2 * samples
    owners = np.repeat(np.arange(_OBJECTS), np.tile([0, few, many], _OBJECTS // 3))
    if len(owners) > points:
        raise ValueError(f"{samples} samples of this scene take at least {len(owners)} points")
    owners = np.concatenate([owners, np.full(points - len(owners), -1)])
    owners = np.stack([owners[draw.stream(f"order {batch}").permutation(points)] for batch in range(batches)])

    def cloud(turn: int) -> Array:
        part = geometry.uniform(draw.stream(f"part {turn}"), -1.1, 1.1, (batches, points, 3))
        own = np.take_along_axis(objects, np.maximum(owners, 0)[..., None], axis=1)
        idle = 30 * part + np.array([0, 0, _BELOW])
        return np.where(owners[..., None] >= 0, geometry.within(own, part, bottom=True), idle)

    return _made(draw, params, geometry.clear_points(cloud, chosen, TEST, dtype), chosen, channels)


def counted(
    draw: mg.Draw,
    params: mg.Params,
    dtype: DType,
    *,
    points: int,
    counts: tuple[int, ...],
    channels: int,
    batches: int = 1,
    values: Values = "full",
) -> RecipeOutput:
    """Boxes apart with so many points each, of any numbers; every batch begins with the next count."""
    if sum(counts) > points:
        raise ValueError("counts are of points that are there")
    apart = geometry.boxes_apart(draw, len(counts), dtype)[0]
    objects = np.stack([np.roll(apart, batch, axis=0) for batch in range(batches)])
    owners = np.full((batches, points), -1)
    for batch in range(batches):
        own = np.repeat(np.arange(len(counts)), np.roll(counts, -batch))
        owners[batch, draw.stream(f"order {batch}").permutation(points)[: len(own)]] = own
    return _made(draw, params, geometry.planted_points(draw, objects, owners, TEST, dtype), objects, channels, values)


SCENES: Final = geometry.Scenes(TEST, _made, partial(counted, points=24, counts=(5, 0, 7), channels=1, batches=2))


def draw_call(at: Mapping[str, Any]) -> space.Drawn:
    """A call of one of the recipes."""
    points, samples, few = at["points"], at["samples"], at["few"]
    counts = tuple(n for n in (samples, 0, samples + 1, few, points) if n <= points)
    points = {"scene": points + 16 * samples, "counted": sum(counts) + few}.get(at["what"], points)
    return geometry.draw_in_scenes(
        {**at, "points": points, "counts": counts},
        {SAMPLES: samples},
        scene=("points", "batches", "boxes", "channels"),
        counted=("points", "counts", "batches", "channels", "values"),
    )


_LENGTHS: Final = {"batches": 5, "points": 513, "boxes": 129, "channels": 65, "samples": 65}
SPACE = space.Space(
    axes={
        "dtype": space.Choice(("float", "half")),
        **{name: space.Sizes(1, most) for name, most in _LENGTHS.items()},
        "few": space.Choice((1, 2, 3, 4)),
        "values": space.Choice(get_args(Values)[:3]),
        "what": space.Choice(("scene", "counted", "planted", "turned", "nested", "faces", "inf", "negative_inf")),
    },
    draw=draw_call,
    elements=lambda at: at["batches"] * (3 + at["channels"]) * (at["points"] + (16 + at["boxes"]) * at["samples"]),
)

_POOLED: Final = f"[batch_size, boxes_num, {SAMPLES}, 3 + feature_in_len]"
_NUMBERS: Final = (
    *c_api.size("batch_size", "pts_num", "boxes_num", "feature_in_len"),
    *c_api.scalar(SAMPLES, called="sampled_pts_num"),
)
_QUERY: Final = "mluOpGetRoiPointPool3dWorkspaceSize"

OPERATOR = mg.Operator(
    name="roipoint_pool3d",
    op_type=("ROIPOINT_POOL3D", 16002),
    summary="Gathers for every turned box the first points inside with their features; flags boxes without any.",
    inputs=(
        # No check looks at layouts.
        mg.TensorSpec("points", "[batch_size, pts_num, 3]", FLOATS, None),
        mg.TensorSpec("point_features", "[batch_size, pts_num, feature_in_len]", FLOATS, None),
        mg.TensorSpec("boxes3d", "[batch_size, boxes_num, 7]", FLOATS, None),
    ),
    # A pure copy, so diff3 = 0; §1.5.1 scales by another device's error, which cannot be judged without it.
    outputs=(
        mg.OutputSpec("pooled_features", _POOLED, dict.fromkeys(FLOATS, mg.exact()), None),
        mg.OutputSpec("pooled_empty_flag", "[batch_size, boxes_num]", {DType.INT32: mg.exact()}, None),
    ),
    params=mg.ParamMessage(
        "roipoint_pool3d_param", 16002, "RoiPointPool3dParam", (mg.ParamField(SAMPLES, 1, default=512),)
    ),
    axes={
        "batches": mg.axis("batch_size", of="points"),
        "points": mg.axis("pts_num", of="points"),
        "boxes": mg.axis("boxes_num", of="boxes3d"),
        "channels": mg.axis("feature_in_len", of="point_features"),
        "samples": mg.axis(SAMPLES, of="pooled_features"),
    },
    checks=CHECKS,
    subsumed={
        "pooled_empty_flag_empty": "points or boxes3d has no elements then, and is asked first",
        "pooled_empty_flag_large": "boxes3d has seven times as many elements, and is asked first",
    },
    queries={_QUERY: mg.QueryChecks()},
    definition=copy_of.define_copies("pooled_features", copies, row="batch"),
    reference=reference,
    theory=theory,
    precondition=precondition,
    left_open={"undefined": geometry.find_undefined("points", "boxes3d")},
    kernel=kernel,
    suspects=SUSPECTS,
    # §3.4: points and features, transposed.
    workspace_size=lambda call: call.tensor("points").desc.nbytes + call.tensor("point_features").desc.nbytes,
    c_api=c_api.c_function(
        "mluOpRoiPointPool3d",
        query=_QUERY,
        arguments=(
            *(c_api.HANDLE, *_NUMBERS, *c_api.tensor(*INPUTS)),
            *(c_api.WORKSPACE, c_api.WORKSPACE_SIZE, *c_api.tensor(*OUTPUTS)),
        ),
        query_arguments=(c_api.HANDLE, *_NUMBERS, *c_api.descriptor(*INPUTS, *OUTPUTS), c_api.ASKED_SIZE),
    ),
    exact=elements,
    torch_kernel=torch_kernel,
    recipes=SCENES.recipes(scene=scene, counted=counted),
    space=SPACE,
)
