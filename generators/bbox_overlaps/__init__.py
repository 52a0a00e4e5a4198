"""bbox_overlaps: intersection over union, or over the first box's area, of every two rectangles or row by row."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

import mluops_gtest.authoring as mg
from mluops_gtest.authoring import Array, Baseline, OpCall, Status, c_api, checks, exact_numbers, left_open, reductions
from mluops_gtest.authoring.suspects import Suspect, as_read, misread, with_params

from .._shared.refusals import Refusals, first_status, tensors_of

FLOATS: Final = (mg.DType.FLOAT, mg.DType.HALF)
BOXES: Final = ("bbox1", "bbox2")
SHAPE: Final = "[M, N] if aligned = 0, [M] if aligned = 1"


def is_aligned(call: OpCall) -> bool:
    """Row i of bbox1 meets row i of bbox2 alone."""
    return bool(call.param("aligned"))


def _ious(call: OpCall) -> tuple[int, ...]:
    return call.tensor("ious").dims


def _has_rows(call: OpCall) -> bool:
    return call.tensor("bbox1").dims[0] > 0 or not is_aligned(call)


# §1.4: rows of 4, or no row, of whatever length.
def _has_corners(name: str) -> Callable[[OpCall], bool]:
    return lambda call: call.tensor(name).dims[1] == 4 or call.tensor(name).dims[0] == 0


# What is checked, in normative order; neither the device nor a layout is.

CHECKS = (
    checks.handle("§3.8 (1)"),
    checks.descriptors(doc="§3.8 (1)"),
    checks.dtypes("bbox1", "bbox2 = bbox1", "ious = bbox1", doc="§1.4"),
    checks.ranks("bbox1", "bbox2", doc="§1.4"),
    checks.strided(doc="§1.4"),
    checks.params("mode", doc="§1.3"),
    *(checks.require(f"{name}_dim1", _has_corners(name), f"{name} has 4 columns", "§1.4") for name in BOXES),
    checks.params("offset", doc="§1.3"),
    checks.require(
        "ious_dim0", lambda c: _ious(c)[:1] == c.tensor("bbox1").dims[:1], "ious has the rows of bbox1", "§3.8 (8)"
    ),
    checks.only_if(is_aligned, checks.dims("bbox2.0 = bbox1.0", doc="§3.8 (8)")),
    # §1.1's (M, 1) is legal for M = 0 alone, where code and header ask for a last axis of 1: [0] is refused.
    checks.require(
        "ious_last",
        lambda c: _has_rows(c) or _ious(c)[-1] == 1,
        "without aligned rows the last axis of ious is 1",
        "released",
    ),
    checks.require("bbox1_empty", _has_rows, "there are no aligned rows", "§1.1", Status.SUCCESS),
    # §3.8 (8), header and code: aligned ious have one axis, not the two of §1.1.
    checks.require("ious_rank", lambda c: len(_ious(c)) == 2 - is_aligned(c), "ious has 2 axes, aligned 1", "§3.8 (8)"),
    checks.require(
        "ious_dim1",
        lambda c: is_aligned(c) or _ious(c)[1] == c.tensor("bbox2").dims[0],
        "ious has a column for each row of bbox2",
        "§3.8 (8)",
    ),
    checks.empty("ious", doc="§1.1"),
    checks.large(doc="released"),
    checks.pointers(doc="§3.8 (6)"),
)


# The formula in float64, of which suspects change a step.


class Pairs(NamedTuple):
    """Areas of boxes, of what two of them have in common and of their hull; every side is longer by the offset."""

    own: Array
    other: Array
    met: Array
    hull: Array
    # The sides of the intersection [2, …]; where boxes do not meet one is negative.
    common: Array
    offset: int
    mode: int

    @property
    def union(self) -> Array:
        """A + A' − I."""
        return self.own + self.other - self.met

    @property
    def divisor(self) -> Array:
        """A + A' − I or A, at least the offset: it never acts where boxes have an area (§1.4)."""
        return np.maximum(self.union if self.mode == 0 else self.own, self.offset)

    @property
    def ratio(self) -> Array:
        """Intersection over union or over foreground, §3.2's formula."""
        quotient: Array = self.met / self.divisor
        return quotient


def area(sides: Array) -> Array:
    """The product of both sides."""
    product: Array = sides[0] * sides[1]
    return product


def measure(first: Array, second: Array, params: Mapping[str, Any], kind: type[np.floating] = np.float64) -> Pairs:
    """Of boxes [M, 4] and [N, 4], row by row or all, in that arithmetic."""
    first, second = (boxes.astype(kind).T for boxes in (first, second))
    if not params["aligned"]:
        first, second = first[..., None], second[:, None]
    # x1, y1, x2, y2: header and listing; §1.4's <x1, x2, y1, y2> is a slip.
    low, high, other_low, other_high, offset = first[:2], first[2:], second[:2], second[2:], params["offset"]
    # The offset is added to the sides of boxes and to those of intersections.
    own, other = area(high - low + offset), area(other_high - other_low + offset)
    common = np.minimum(high, other_high) - np.maximum(low, other_low) + offset
    hull = np.maximum(high, other_high) - np.minimum(low, other_low) + offset
    return Pairs(own, other, area(np.maximum(common, 0)), area(hull), common, offset, params["mode"])


# Pairs that are looked at together.
_PAIRS: Final = 1 << 18


def blocks(call: OpCall) -> Iterator[tuple[slice, Pairs]]:
    """Some rows of ious, with their pairs in float64."""
    first, second = call.arrays(*BOXES)
    step = _PAIRS if is_aligned(call) else max(1, _PAIRS // max(1, len(second)))
    for start in range(0, len(first), step):
        rows = slice(start, start + step)
        yield rows, measure(first[rows], second[rows] if is_aligned(call) else second, call.params or {})


def overlaps(call: OpCall, value: Callable[[Pairs], Array] = lambda p: p.ratio) -> Mapping[str, Array]:
    """The document's formula, or another, rounded once."""
    ious = call.tensor("ious")
    result = np.empty(ious.dims, ious.dtype.storage)
    with np.errstate(all="ignore"):
        for rows, block in blocks(call):
            result[rows] = value(block)
    return {"ious": result}


def reference(call: OpCall) -> Baseline:
    """§3.2's formula."""
    return Baseline(overlaps(call))


def find_undefined(call: OpCall, _: Baseline) -> str | None:
    """Boxes have an area (§1.4), no NaN (header), and the areas of those that meet are numbers of their type."""
    for name in BOXES:
        if not (call.array(name)[:, 2:] > call.array(name)[:, :2]).all():
            return f"{name} has a box with x2 ≤ x1 or y2 ≤ y1"
    most = float(np.finfo(call.tensor("bbox1").dtype.storage).max)
    with np.errstate(all="ignore"):
        for _rows, block in blocks(call):
            total = block.own + (0 if block.mode else block.other)
            # Kernels and mmcv compute halves in half.
            if ((block.met > 0) & np.isfinite(total) & (total > most)).any():
                return "the areas of two boxes that meet overflow"
            # Inf − Inf, and what a maximum makes of NaN.
            if block.mode == 0 and np.isposinf(block.met).any():
                return "two boxes have an infinite intersection"
    return None


def bound(call: OpCall) -> Mapping[str, mg.Bound]:
    """Every side meets two roundings, every area a third; sums, difference and quotient one each, a reciprocal more."""
    magnitude = np.empty(call.tensor("ious").dims)
    with np.errstate(all="ignore"):
        for rows, p in blocks(call):
            # Ends may be farther apart than a side is long, by the offset.
            met_off = np.where(p.met == 0, 0, 5 * p.met + p.offset * np.maximum(p.common, 0).sum(axis=0))
            divisor_off = 5 * p.own if p.mode else 6 * (p.own + p.other) + met_off
            magnitude[rows] = np.nan_to_num((met_off + p.ratio * divisor_off) / p.divisor + 4 * p.ratio, posinf=0.0)
    # Twice, for what roundings of rounded numbers add.
    return {"ious": mg.Bound(magnitude, 2)}


def theory(call: OpCall) -> mg.Theory:
    """25 operations per pair, 23 without the second area; all tensors."""
    touched = sum(call.tensor(name).desc.nbytes for name in (*BOXES, "ious"))
    return mg.Theory(touched, (23 if call.param("mode") else 25) * call.tensor("ious").desc.count)


# Mistakes that kernels make about the formula, the parameters and the boxes.


def _param(name: str, read: Callable[[int], float]) -> Suspect:
    """A parameter is taken for another value of it."""
    return as_read(reference, lambda call: with_params(call, **{name: read(call.param(name))}))


def _lengthen_met(call: OpCall) -> Mapping[str, Array]:
    """The offset is added to the intersection."""
    offset = call.param("offset")
    bare = with_params(call, offset=0)
    return overlaps(bare, lambda p: p._replace(met=area(np.maximum(p.common + offset, 0))).ratio)


def _of_both(change: Callable[[Array], Array]) -> Suspect:
    return as_read(reference, misread(bbox1=change, bbox2=change))


SUSPECTS: Final[Mapping[str, Suspect]] = {
    "the second area divides": partial(overlaps, value=lambda p: p.met / p.other),
    "the smaller area divides": partial(overlaps, value=lambda p: p.met / np.minimum(p.own, p.other)),
    "the larger area divides": partial(overlaps, value=lambda p: p.met / np.maximum(p.own, p.other)),
    "the sum of areas divides": partial(overlaps, value=lambda p: p.met / (p.own + (0 if p.mode else p.other))),
    "the modes are exchanged": _param("mode", lambda mode: 1 - mode),
    "the offset is ignored": _param("offset", lambda _: 0),
    "the offset is added to areas alone": partial(
        overlaps, value=lambda p: p._replace(met=area(np.maximum(p.common - p.offset, 0))).ratio
    ),
    "the offset is added to the intersection alone": _lengthen_met,
    "the offset is added twice": _param("offset", lambda offset: 2 * offset),
    "the offset is 0.5": _param("offset", lambda offset: offset / 2),
    "the offset is subtracted": _param("offset", lambda offset: -offset),
    "boxes are x1, x2, y1, y2": _of_both(lambda b: b[:, [0, 2, 1, 3]]),
    "boxes are x, y, width, height": _of_both(lambda b: np.concatenate([b[:, :2], b[:, :2] + b[:, 2:]], 1)),
    "intersections are as wide as the hull": partial(overlaps, value=lambda p: p._replace(met=p.hull).ratio),
    "the sign of sides is ignored": partial(overlaps, value=lambda p: p._replace(met=abs(area(p.common))).ratio),
    "negative sides are not clamped": partial(overlaps, value=lambda p: p._replace(met=area(p.common)).ratio),
    "the distance 1 − IoU is written": partial(overlaps, value=lambda p: 1 - p.ratio),
    "the generalised IoU is written": partial(overlaps, value=lambda p: p.ratio - 1 + p.union / p.hull),
    "intersections are written": partial(overlaps, value=lambda p: p.met),
    "ious is transposed": lambda call: {"ious": overlaps(call)["ious"].T.reshape(_ious(call))},
    "every row is that of box 0 of bbox1": as_read(reference, misread(bbox1=lambda b: b[[0] * len(b)])),
    "every column is that of box 0 of bbox2": as_read(reference, misread(bbox2=lambda b: b[[0] * len(b)])),
    "coordinates have no sign": _of_both(np.abs),
}


# One element as §1.2 and §3.2 define it.
def elements(call: OpCall) -> Mapping[str, exact_numbers.ExactElement]:
    """The formula in fractions; floats where a side is infinite."""
    offset, is_union = call.param("offset"), call.param("mode") == 0

    def ious(row: int, column: int | None = None) -> Fraction | float:
        (x1, y1, x2, y2), (u1, v1, u2, v2) = (
            [exact_numbers.fraction(value) for value in call.array(name)[at]]
            for name, at in zip(BOXES, (row, row if column is None else column), strict=True)
        )
        met = max(min(x2, u2) - max(x1, u1) + offset, 0) * max(min(y2, v2) - max(y1, v1) + offset, 0)
        divisor = (x2 - x1 + offset) * (y2 - y1 + offset)
        if is_union:
            divisor = divisor + (u2 - u1 + offset) * (v2 - v1 + offset) - met
        divisor = max(divisor, Fraction(offset))
        if divisor == 0:
            return float("inf") if met > 0 else float("nan")
        quotient: Fraction | float = met / divisor
        return quotient

    return {"ious": ious}


# The kernel that the numpy backend runs: §3.1's tiles in float32, without maxima: an intersection is as wide as the
# least of four differences of ends.

_PARTS: Final = 12


def kernel(call: OpCall) -> Status:
    """Check the call, then tiles of bbox1 against tiles of bbox2."""
    if (early := first_status(_refusals(call))) is not None:
        return early
    first, second = (call.array(name).astype(np.float32).T for name in BOXES)
    tile = max(1, call.handle.nram_bytes // _PARTS // 4) if call.handle is not None else 1
    result = call.array("ious")
    with np.errstate(all="ignore"):
        for start in range(0, second.shape[1], tile):
            part = slice(start, start + tile)
            if call.param("aligned"):
                result[part] = _of_tile(first[:, part], second[:, part], call)
                continue
            step = max(1, tile // second.shape[1])
            for row in range(0, first.shape[1], step):
                rows = slice(row, row + step)
                result[rows, part] = _of_tile(first[:, rows, None], second[:, part], call)
    return Status.SUCCESS


def _of_tile(first: Array, second: Array, call: OpCall) -> Array:
    offset, zero = np.float32(call.param("offset")), np.float32(0)
    sides = []
    for low, high in ((0, 2), (1, 3)):
        own, other = first[high] - first[low], second[high] - second[low]
        least = np.minimum(np.minimum(own, other), np.minimum(first[high] - second[low], second[high] - first[low]))
        sides.append((own + offset, other + offset, np.where(least + offset < zero, zero, least + offset)))
    (w1, w2, w), (h1, h2, h) = sides
    divisor = w1 * h1
    if call.param("mode") == 0:
        divisor = divisor + (w2 * h2 - w * h)
    quotient: Array = w * h / np.maximum(divisor, offset)
    return quotient


def _refusals(call: OpCall) -> Refusals:
    bad, args = Status.BAD_PARAM, tensors_of(call)
    mode, aligned, offset = (call.param(name) for name in ("mode", "aligned", "offset"))
    yield call.handle is None or len(args) < 3, bad
    first, second, ious = args
    yield first.dtype not in FLOATS or any(arg.dtype is not first.dtype for arg in args), bad
    yield not len(first.dims) == len(second.dims) == 2, bad
    yield any(arg.desc.is_strided for arg in args), Status.NOT_SUPPORTED
    (rows, corners), (others, other_corners) = first.dims, second.dims
    yield mode not in (0, 1) or offset not in (0, 1), bad
    yield (rows > 0 and corners != 4) or (others > 0 and other_corners != 4), bad
    yield ious.dims[:1] != (rows,) or (aligned and rows != others), bad
    yield aligned and rows == 0, Status.SUCCESS if ious.dims[-1] == 1 else bad
    yield ious.dims != ((rows,) if aligned else (rows, others)), bad
    yield rows * others == 0, Status.SUCCESS
    yield any(arg.desc.is_large for arg in args), Status.NOT_SUPPORTED
    yield any(arg.null for arg in args), bad


# With torch: broadcasting in the type of the boxes; halves in half.
def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write ious."""
    import torch

    first, second, offset = inputs["bbox1"], inputs["bbox2"], call.param("offset")
    area1, area2 = ((boxes[:, 2:] - boxes[:, :2] + offset).prod(1) for boxes in (first, second))
    if not call.param("aligned"):
        first, area1 = first[:, None], area1[:, None]
    low, high = torch.maximum(first[..., :2], second[..., :2]), torch.minimum(first[..., 2:], second[..., 2:])
    met = (high - low + offset).clamp(min=0).prod(-1)
    divisor = area1 if call.param("mode") else area1 + area2 - met
    torch.div(met, divisor.clamp(min=offset), out=outputs["ious"])


# How calls become smaller: aligned, both sides lose the same rows.
def _smaller(name: str) -> reductions.Reduction:
    def without(call: OpCall, start: int, stop: int) -> mg.RecipeOutput:
        lost, axis = (BOXES, 0) if is_aligned(call) else ((name,), BOXES.index(name))
        arrays = {one: reductions.without_rows(call.array(one), start, stop) for one in lost}
        dims = list(call.tensor("ious").dims)
        dims[axis] -= stop - start
        return reductions.changed(call, arrays, outputs={"ious": tuple(dims)})

    return reductions.Reduction(lambda call: call.tensor(name).dims[0], without)


OPERATOR = mg.Operator(
    name="bbox_overlaps",
    op_type=("BBOX_OVERLAPS", 2041),
    summary="Intersection over union, or over the first area, of all pairs of rectangles, or of those in equal rows.",
    inputs=(mg.TensorSpec("bbox1", "[M, 4]", FLOATS, None), mg.TensorSpec("bbox2", "[N, 4]", FLOATS, None)),
    # §1.5.1.
    outputs=(mg.OutputSpec("ious", SHAPE, dict.fromkeys(FLOATS, mg.diff1_and_diff2(3e-3)), None),),
    params=mg.ParamMessage(
        "bbox_overlaps_param",
        2041,
        "BboxOverlapsParam",
        (
            mg.ParamField("mode", 1, default=0, allowed=(0, 1)),
            mg.ParamField("aligned", 2, "bool", default=False),
            mg.ParamField("offset", 3, default=0, allowed=(0, 1)),
        ),
    ),
    axes={"rows": mg.axis("M", of="bbox1"), "boxes": mg.axis("N", of="bbox2")},
    checks=CHECKS,
    reference=reference,
    bound=bound,
    left_open={"undefined": find_undefined, "subnormal": left_open.find_subnormal},
    theory=theory,
    kernel=kernel,
    suspects=SUSPECTS,
    reductions={"rows": _smaller("bbox1"), "boxes": _smaller("bbox2")},
    c_api=c_api.c_function(
        "mluOpBboxOverlaps",
        arguments=(c_api.HANDLE, *c_api.scalar("mode", "aligned", "offset"), *c_api.tensor(*BOXES, "ious")),
    ),
    exact=elements,
    torch_kernel=torch_kernel,
)
