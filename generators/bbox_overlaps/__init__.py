"""bbox_overlaps: intersection over union, or over the first box's area, of every two rectangles or row by row."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np

from mluops_gtest.authoring import (
    Array,
    Baseline,
    Bound,
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
from mluops_gtest.authoring.c_api import HANDLE, CType, c_function, scalar, tensor
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction
from mluops_gtest.authoring.left_open import find_subnormal
from mluops_gtest.authoring.reductions import Reduction, changed, without_rows
from mluops_gtest.authoring.suspects import Suspect, as_read, misread, with_params

FLOATS: Final = (DType.FLOAT, DType.HALF)
BOXES: Final = ("bbox1", "bbox2")
SHAPE: Final = "[M, N] if aligned = 0, [M] if aligned = 1"


def is_aligned(call: OpCall) -> bool:
    """Row i of bbox1 meets row i of bbox2 alone."""
    return bool(call.param("aligned"))


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
        "ious_dim0",
        lambda call: call.tensor("ious").dims[:1] == call.tensor("bbox1").dims[:1],
        "ious has the rows of bbox1",
        "§3.8 (8)",
    ),
    checks.only_if(is_aligned, checks.dims("bbox2.0 = bbox1.0", doc="§3.8 (8)")),
    # §1.1's (M, 1) is legal for M = 0 alone, where code and header ask for a last axis of 1: [0] is refused.
    checks.require(
        "ious_last",
        lambda call: _has_rows(call) or call.tensor("ious").dims[-1] == 1,
        "without aligned rows the last axis of ious is 1",
        "released",
    ),
    checks.require("bbox1_empty", _has_rows, "there are no aligned rows", "§1.1", Status.SUCCESS),
    checks.require(
        "ious_rank",
        # §3.8 (8), header and code: aligned ious have one axis, not the two of §1.1.
        lambda call: len(call.tensor("ious").dims) == 2 - is_aligned(call),
        "ious has 2 axes, aligned 1",
        "§3.8 (8)",
    ),
    checks.require(
        "ious_dim1",
        lambda call: is_aligned(call) or call.tensor("ious").dims[1] == call.tensor("bbox2").dims[0],
        "ious has a column for each row of bbox2",
        "§3.8 (8)",
    ),
    checks.empty("ious", doc="§1.1"),
    checks.large(doc="released"),
    checks.pointers(doc="§3.8 (6)"),
)


# The formula in float64, of which suspects change a step.


class Ratio(NamedTuple):
    """Sides of the intersection, areas of both boxes and of their hull, the offset and the mode."""

    w: Array
    h: Array
    own: Array
    other: Array
    hull: Array
    offset: int
    mode: int

    def union(self) -> Array:
        """A + A' − I."""
        area: Array = self.own + self.other - self.w * self.h
        return area

    def divisor(self) -> Array:
        """A + A' − I or A, at least the offset: it never acts where boxes have an area (§1.4)."""
        largest: Array = np.maximum(self.union() if self.mode == 0 else self.own, self.offset)
        return largest

    def value(self) -> Array:
        """Intersection over union or over foreground."""
        quotient: Array = self.w * self.h / self.divisor()
        return quotient


@dataclass(frozen=True, slots=True)
class Formula:
    """§3.2's steps."""

    # x1, y1, x2, y2: header and listing; §1.4's <x1, x2, y1, y2> is a slip.
    columns: tuple[int, ...] = (0, 1, 2, 3)
    # How often the offset is added to the sides of boxes and to those of intersections (both once).
    own_offset: float = 1.0
    met_offset: float = 1.0
    clamp: Callable[[Array, Array], tuple[Array, Array]] = lambda w, h: (np.maximum(w, 0), np.maximum(h, 0))
    hull: bool = False
    value: Callable[[Ratio], Array] = Ratio.value

    def ratio(self, first: Array, second: Array, offset: int, mode: int) -> Ratio:
        """Of boxes [..., 4] that broadcast."""
        x1, y1, x2, y2 = (first[..., column] for column in self.columns)
        u1, v1, u2, v2 = (second[..., column] for column in self.columns)
        own, met = self.own_offset * offset, self.met_offset * offset
        hull = (np.maximum(x2, u2) - np.minimum(x1, u1) + met, np.maximum(y2, v2) - np.minimum(y1, v1) + met)
        both = (np.minimum(x2, u2) - np.maximum(x1, u1) + met, np.minimum(y2, v2) - np.maximum(y1, v1) + met)
        areas = (x2 - x1 + own) * (y2 - y1 + own), (u2 - u1 + own) * (v2 - v1 + own)
        return Ratio(*self.clamp(*(hull if self.hull else both)), *areas, hull[0] * hull[1], offset, mode)


DOCUMENT: Final = Formula()
# Pairs that are looked at together.
_PAIRS: Final = 1 << 18


def pairs(call: OpCall) -> Iterator[tuple[slice, Array, Array]]:
    """Some rows of ious, with float64 boxes of both sides that broadcast to them."""
    first, second = (call.array(name).astype(np.float64) for name in BOXES)
    aligned = is_aligned(call)
    step = _PAIRS if aligned else max(1, _PAIRS // max(1, len(second)))
    for start in range(0, len(first), step):
        rows = slice(start, start + step)
        yield rows, first[rows] if aligned else first[rows, None], second[rows] if aligned else second


def overlaps(call: OpCall, formula: Formula = DOCUMENT) -> Mapping[str, Array]:
    """The document's formula, or another, rounded once."""
    ious = call.tensor("ious")
    result = np.empty(ious.dims, ious.dtype.storage)
    with np.errstate(all="ignore"):
        for rows, first, second in pairs(call):
            result[rows] = formula.value(formula.ratio(first, second, call.param("offset"), call.param("mode")))
    return {"ious": result}


def reference(call: OpCall) -> Baseline:
    """§3.2's formula."""
    return Baseline(overlaps(call))


def find_undefined(call: OpCall, _: Baseline) -> str | None:
    """Boxes have an area (§1.4), no NaN (header), and the areas of those that meet are numbers of their type."""
    for name in BOXES:
        if not (call.array(name)[:, 2:] > call.array(name)[:, :2]).all():
            return f"{name} has a box with x2 ≤ x1 or y2 ≤ y1"
    offset, mode, most = call.param("offset"), call.param("mode"), np.finfo(call.tensor("bbox1").dtype.storage).max
    with np.errstate(all="ignore"):
        for _rows, one, other in pairs(call):
            ratio = DOCUMENT.ratio(one, other, offset, mode)
            met, total = ratio.w * ratio.h, ratio.own + (0 if mode else ratio.other)
            # Kernels and mmcv compute halves in half.
            if ((met > 0) & np.isfinite(total) & (total > float(most))).any():
                return "the areas of two boxes that meet overflow"
            # Inf − Inf, and what a maximum makes of NaN.
            if mode == 0 and np.isposinf(met).any():
                return "two boxes have an infinite intersection"
    return None


def bound(call: OpCall) -> Mapping[str, Bound]:
    """Every side meets two roundings, every area a third; sums, difference and quotient one each, a reciprocal more."""
    magnitude = np.empty(call.tensor("ious").dims)
    offset, mode = call.param("offset"), call.param("mode")
    with np.errstate(all="ignore"):
        for rows, one, other in pairs(call):
            ratio = DOCUMENT.ratio(one, other, offset, mode)
            met, value = ratio.w * ratio.h, ratio.value()
            # Ends may be farther apart than a side is long, by the offset.
            met_off = np.where(met == 0, 0, 5 * met + offset * (ratio.w + ratio.h))
            divisor_off = 5 * ratio.own if mode else 6 * (ratio.own + ratio.other) + met_off
            off = (met_off + value * divisor_off) / ratio.divisor() + 4 * value
            magnitude[rows] = np.nan_to_num(off, posinf=0.0)
    # Twice, for what roundings of rounded numbers add.
    return {"ious": Bound(magnitude, 2)}


def theory(call: OpCall) -> Theory:
    """25 operations per pair, 23 without the second area; all tensors."""
    touched = sum(call.tensor(name).desc.nbytes for name in (*BOXES, "ious"))
    return Theory(touched, (23 if call.param("mode") else 25) * call.tensor("ious").desc.count)


# Mistakes that kernels make about the formula, the parameters and the boxes.


def _wrong(**steps: Any) -> Suspect:
    formula = replace(DOCUMENT, **steps)
    return lambda call: overlaps(call, formula)


def _divided(divisor: Callable[[Ratio], Array]) -> Suspect:
    """Over something else than the document's divisor."""
    return _wrong(value=lambda ratio: ratio.w * ratio.h / divisor(ratio))


def _transposed(call: OpCall) -> Mapping[str, Array]:
    right = overlaps(call)["ious"]
    return {"ious": np.ascontiguousarray(right.T).reshape(right.shape)}


def _param(**read: Callable[[int], int]) -> Suspect:
    """A parameter is taken for another value of it."""
    return as_read(
        reference, lambda call: with_params(call, **{name: other(call.param(name)) for name, other in read.items()})
    )


def _row(index: int) -> Callable[[Array], Array]:
    return lambda boxes: np.broadcast_to(boxes[index], boxes.shape).copy()


def _from_centres(boxes: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1, dtype=boxes.dtype)


def _of_both(change: Callable[[Array], Array]) -> Suspect:
    return as_read(reference, misread(bbox1=change, bbox2=change))


SUSPECTS: Final = {
    "the second area divides": _divided(lambda ratio: ratio.other),
    "the smaller area divides": _divided(lambda ratio: np.minimum(ratio.own, ratio.other)),
    "the larger area divides": _divided(lambda ratio: np.maximum(ratio.own, ratio.other)),
    "the sum of areas divides": _divided(lambda r: r.own + (0 if r.mode else r.other)),
    "the intersection is taken off twice": _divided(lambda r: r.divisor() - (0 if r.mode else r.w * r.h)),
    "the modes are exchanged": _param(mode=lambda mode: 1 - mode),
    "the offset is ignored": _param(offset=lambda _: 0),
    "the offset is added to areas alone": _wrong(met_offset=0.0),
    "the offset is added to the intersection alone": _wrong(own_offset=0.0),
    "the offset is added twice": _wrong(own_offset=2.0, met_offset=2.0),
    "the offset is 0.5": _wrong(own_offset=0.5, met_offset=0.5),
    "the offset is subtracted": _wrong(own_offset=-1.0, met_offset=-1.0),
    "boxes are x1, x2, y1, y2": _wrong(columns=(0, 2, 1, 3)),
    "boxes are centres and sides": _of_both(_from_centres),
    "boxes are x, y, width, height": _of_both(lambda b: np.concatenate([b[:, :2], b[:, :2] + b[:, 2:]], 1)),
    "intersections are as wide as the hull": _wrong(hull=True),
    "negative sides are not clamped": _wrong(clamp=lambda w, h: (w, h)),
    "negative widths are not clamped": _wrong(clamp=lambda w, h: (w, np.maximum(h, 0))),
    "the sign of sides is ignored": _wrong(clamp=lambda w, h: (np.abs(w), np.abs(h))),
    "sides are at least 1": _wrong(clamp=lambda w, h: (np.maximum(w, 1), np.maximum(h, 1))),
    "the distance 1 − IoU is written": _wrong(value=lambda ratio: 1 - ratio.value()),
    "the generalised IoU is written": _wrong(value=lambda ratio: ratio.value() - 1 + ratio.union() / ratio.hull),
    "intersections are written": _wrong(value=lambda ratio: ratio.w * ratio.h),
    "ious is transposed": _transposed,
    "every row is that of box 0 of bbox1": as_read(reference, misread(bbox1=_row(0))),
    "every column is that of box 0 of bbox2": as_read(reference, misread(bbox2=_row(0))),
    "coordinates have no sign": _of_both(np.abs),
}


# One element as §1.2 and §3.2 define it.


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The formula in fractions; floats where a side is infinite."""
    offset, is_union = call.param("offset"), call.param("mode") == 0

    def ious(row: int, column: int | None = None) -> Fraction | float:
        (x1, y1, x2, y2), (u1, v1, u2, v2) = (
            [fraction(value) for value in call.array(name)[at]]
            for name, at in zip(BOXES, (row, row if column is None else column), strict=True)
        )
        met = max(min(x2, u2) - max(x1, u1) + offset, 0) * max(min(y2, v2) - max(y1, v1) + offset, 0)
        area = (x2 - x1 + offset) * (y2 - y1 + offset)
        if is_union:
            area = area + (u2 - u1 + offset) * (v2 - v1 + offset) - met
        divisor = max(area, Fraction(offset))
        if divisor == 0:
            return float("inf") if met > 0 else float("nan")
        quotient: Fraction | float = met / divisor
        return quotient

    return {"ious": ious}


# The kernel that the numpy backend runs: §3.1's tiles in float32, without maxima: an intersection is as wide as the
# least of four differences of ends.

_PARTS: Final = 12


def kernel(call: OpCall) -> Status:
    """Check the call, then one box of bbox1 after the other against tiles of bbox2."""
    answer = _answer_of_checks(call)
    if answer is not None:
        return answer
    first, second, ious = (array.astype(np.float32) for array in call.arrays(*BOXES, "ious"))
    tile = max(1, call.handle.nram_bytes // _PARTS // 4) if call.handle is not None else 1
    result = call.array("ious")
    with np.errstate(all="ignore"):
        for start in range(0, len(second), tile):
            part = slice(start, start + tile)
            if call.param("aligned"):
                result[part] = _of_tile(first[part].T, second[part].T, call)
                continue
            for row, box in enumerate(first):
                ious[row, part] = _of_tile(box, second[part].T, call)
            result[:, part] = ious[:, part]
    return Status.SUCCESS


def _of_tile(box: Array, boxes: Array, call: OpCall) -> Array:
    offset, zero = np.float32(call.param("offset")), np.float32(0)
    sides = []
    for low, high in ((0, 2), (1, 3)):
        own, other = box[high] - box[low], boxes[high] - boxes[low]
        least = np.minimum(np.minimum(own, other), np.minimum(box[high] - boxes[low], boxes[high] - box[low]))
        sides.append((own + offset, other + offset, np.where(least + offset < zero, zero, least + offset)))
    (w1, w2, w), (h1, h2, h) = sides
    divisor = w1 * h1
    if call.param("mode") == 0:
        divisor = divisor + (w2 * h2 - w * h)
    quotient: Array = w * h / np.maximum(divisor, offset)
    return quotient


def _answer_of_checks(call: OpCall) -> Status | None:
    bad, first, second, ious = Status.BAD_PARAM, call.inputs["bbox1"], call.inputs["bbox2"], call.outputs["ious"]
    mode, aligned, offset = (call.param(name) for name in ("mode", "aligned", "offset"))
    if call.handle is None or first is None or second is None or ious is None:
        return bad
    if first.dtype not in FLOATS or not first.dtype is second.dtype is ious.dtype:
        return bad
    if not len(first.dims) == len(second.dims) == 2:
        return bad
    every = (first, second, ious)
    if any(arg.desc.is_strided for arg in every):
        return Status.NOT_SUPPORTED
    (rows, corners), (others, other_corners) = first.dims, second.dims
    if mode not in (0, 1) or (rows and corners != 4) or (others and other_corners != 4) or offset not in (0, 1):
        return bad
    if ious.dims[:1] != (rows,) or (aligned and rows != others):
        return bad
    if aligned and rows == 0:
        return Status.SUCCESS if ious.dims[-1] == 1 else bad
    if ious.dims != ((rows,) if aligned else (rows, others)):
        return bad
    if rows * others == 0:
        return Status.SUCCESS
    if any(arg.desc.is_large for arg in every):
        return Status.NOT_SUPPORTED
    return bad if any(arg.null for arg in every) else None


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


def _smaller(name: str) -> Reduction:
    def without(call: OpCall, start: int, stop: int) -> RecipeOutput:
        aligned = is_aligned(call)
        lost = BOXES if aligned else (name,)
        arrays = {one: without_rows(call.array(one), start, stop) for one in lost}
        dims = list(call.tensor("ious").dims)
        dims[0 if aligned else BOXES.index(name)] -= stop - start
        return changed(call, arrays, outputs={"ious": tuple(dims)})

    return Reduction(lambda call: call.tensor(name).dims[0], without)


_SCALARS: Final = (*scalar("mode"), *scalar("aligned", type=CType.BOOL), *scalar("offset"))

OPERATOR = Operator(
    name="bbox_overlaps",
    released_name="bbox_overlaps",
    op_type=("BBOX_OVERLAPS", 2041),
    summary="Intersection over union, or over the first area, of all pairs of rectangles, or of those in equal rows.",
    inputs=(TensorSpec("bbox1", "[M, 4]", FLOATS, None), TensorSpec("bbox2", "[N, 4]", FLOATS, None)),
    # §1.5.1.
    outputs=(OutputSpec("ious", SHAPE, dict.fromkeys(FLOATS, diff1_and_diff2(3e-3)), None),),
    params=ParamMessage(
        "bbox_overlaps_param",
        2041,
        "BboxOverlapsParam",
        (
            ParamField("mode", 1, default=0, allowed=(0, 1)),
            ParamField("aligned", 2, "bool", default=False),
            ParamField("offset", 3, default=0, allowed=(0, 1)),
        ),
    ),
    axes={"rows": axis("M", of="bbox1"), "boxes": axis("N", of="bbox2")},
    checks=CHECKS,
    reference=reference,
    bound=bound,
    left_open={"undefined": find_undefined, "subnormal": find_subnormal},
    theory=theory,
    kernel=kernel,
    suspects=SUSPECTS,
    reductions={"rows": _smaller("bbox1"), "boxes": _smaller("bbox2")},
    c_api=c_function("mluOpBboxOverlaps", arguments=(HANDLE, *_SCALARS, *tensor(*BOXES, "ious"))),
    exact=elements,
    torch_kernel=torch_kernel,
)
