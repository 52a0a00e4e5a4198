"""three_nn_forward: the three nearest known points of every unknown point, their squared distances and indices."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from heapq import nsmallest
from typing import Any

import numpy as np

from mluops_gtest.authoring import (
    SIZE_NULL,
    Array,
    Baseline,
    Bound,
    DType,
    OpCall,
    Operator,
    OutputSpec,
    QueryChecks,
    Status,
    TensorSpec,
    Theory,
    axis,
    checks,
    diff1_and_diff2,
    dtype_of,
    exact,
)
from mluops_gtest.authoring.c_api import ASKED_SIZE, HANDLE, c_function, descriptor
from mluops_gtest.authoring.exact_numbers import ExactElement, overflows, squared_distances_to
from mluops_gtest.authoring.left_open import find_subnormal
from mluops_gtest.authoring.sums import lattice_exponent
from mluops_gtest.authoring.suspects import Suspect, as_read, misread

from .._shared.points import (
    LEAST_EXPONENT,
    axes_first,
    first_batch,
    lattice_fault,
    nearest,
    without_axis,
    without_point,
)

_FLOATS = (DType.FLOAT, DType.HALF)

# The released order; neither the device's architecture nor a layout is checked.
CHECKS = (
    checks.handle("§3.8 (1)"),
    checks.descriptors(doc="§3.8 (1)"),
    checks.ranks(doc="§3.8 (3)"),
    # M is free: the header's known[1] = N is a slip.
    checks.dims("known.0", "dist2.0", "idx.0", "dist2.1", "idx.1", doc="§3.8 (3)"),
    checks.dims("unknown.2", "known.2", "dist2.2", "idx.2", doc="§3.8 (3)"),
    checks.dtypes("unknown", doc="§3.8 (4)"),
    checks.dtypes("known = unknown", "dist2 = unknown", doc="§1.4"),
    checks.dtypes("idx", doc="§1.3"),
    checks.strided(doc="§1.4"),
    checks.large(doc="released"),
    checks.empty("unknown", "dist2", "idx", doc="§1.1", status=Status.BAD_PARAM),
    # §1.1: without known points nothing is written, not even +Inf and 0.
    checks.empty("known", doc="§1.1"),
    # §3.8 lists the pointers second; the released order has them last, so an early answer does not look at them.
    checks.workspace("§3.8 (6)"),
    checks.pointers(doc="§3.8 (2)"),
)
_OF_UNKNOWN = "has as many elements as unknown, which is asked first"

# The released query looks at known alone. Whether it may refuse more of it than the rank is said nowhere.
_OPEN = (
    checks.dim("known", 2, 3, "axis 2 of known must be 3", "§3.8 (3)"),
    checks.dtype("known", _FLOATS, "§3.8 (4)"),
    *checks.contiguous(["known"], "§1.4"),
    *checks.not_large(["known"], "§3.8"),
)
_QUERY = QueryChecks(
    ("handle_null", "known_desc_null", SIZE_NULL, "known_rank", *_OPEN), silent=tuple(check.name for check in _OPEN)
)


# A squared distance errs by at most 5·2^-24 = 3.0e-7 or 5·2^-11 = 2.44e-3 of its value, fused or not, and of two both
# do.
_APART = {DType.FLOAT: 4e-6, DType.HALF: 2.0**-7}


def nearest_stand_apart(unknown: Array, known: Array) -> Array:
    """bool [B, N]: no float evaluation can change which three points are nearest, nor their order."""
    dtype = dtype_of(known)
    # Subnormal squares may be lost, three in either distance.
    exponent, limits = min(map(lattice_exponent, (unknown, known))), np.finfo(dtype.storage)
    lost = 6 * float(limits.tiny) if exponent < LEAST_EXPONENT[dtype] else 0.0
    squared, _ = nearest(unknown, known, 4)
    if dtype is DType.FLOAT:
        # Too far for any evaluation in float32: no distance at all. In half it depends on who evaluates.
        squared[squared > 2 * float(limits.max)] = np.inf
    there = np.isfinite(squared)
    near, far = squared[..., :-1], np.where(there, squared, 0)[..., 1:]
    # Two points at the query's own place are equal for everybody.
    apart = ~there[..., 1:] | (near <= far * (1 - _APART[dtype]) - lost) | (far == 0)
    fits = ~there | (squared <= float(limits.max) * (1 - _APART[dtype]))
    rows: Array = np.logical_and.reduce(apart & fits[..., :3], axis=-1)
    return rows


def precondition(call: OpCall) -> str | None:
    """Every evaluation in the tensors' type finds the same neighbours in the same order.

    §1.1 asks for distances in half or float and leaves open how they are rounded; where that decides who is nearest, or
    whether a half distance overflows, two right kernels differ.
    """
    unknown, known = call.array("unknown"), call.array("known")
    if lattice_fault(unknown, known) is None or (apart := nearest_stand_apart(unknown, known)).all():
        return None
    batch, point = np.argwhere(~apart)[0]
    return f"how distances are rounded decides which points are nearest to unknown[{batch}, {point}], or in which order"


def reference(call: OpCall) -> Baseline:
    """dist2 and idx of a valid call."""
    unknown, known = call.array("unknown"), call.array("known")
    # §1.2: the squared distance itself, ascending; the framework's wrapper takes the root, the operator does not.
    # Equal distances by index, and equal points are neighbours each: a strict < keeps the first.
    # §1.2: a point with NaN or Inf is nobody's neighbour and has none.
    squared, indices = nearest(unknown, known)
    with np.errstate(over="ignore"):
        dist2 = squared.astype(unknown.dtype)
    # A float distance that overflows is no neighbour either. With fewer than three the rest is +Inf and 0.
    idx = np.where(np.isfinite(dist2), indices, 0)
    # §3.1's listing blanks the minimum in the results instead of the distances, which would give one point thrice, and
    # forgets where a tile begins; indices count within the batch.
    return Baseline({"dist2": dist2, "idx": idx.astype("<i4")})


def theory(call: OpCall) -> Theory:
    """All four tensors; three subtractions, three squares and two additions per pair."""
    batch, points, _ = call.tensor("known").dims
    touched = sum(call.tensor(name).desc.nbytes for name in (*call.inputs, *call.outputs))
    return Theory(touched, 8 * batch * call.tensor("unknown").dims[1] * points)


def bound(call: OpCall) -> dict[str, Bound]:
    """Three squares, added in any order: the difference rounds and is squared, the square and two additions round."""
    unknown, known = call.array("unknown"), call.array("known")
    squared, _ = nearest(unknown, known)
    # Beyond 2^100 a unit no longer matters, and its square would overflow.
    exponent = min(lattice_exponent(unknown), lattice_exponent(known), 100)
    return {"dist2": Bound(np.where(np.isfinite(squared), squared, 0.0), 5, unit=math.ldexp(1.0, 2 * exponent))}


def _answered(change: Callable[[Array, Array, OpCall], tuple[Array, Array]]) -> Suspect:
    """The right answer, dist2 and idx, changed; what is missing stays so."""

    def suspect(call: OpCall) -> Mapping[str, Array]:
        right = reference(call).outputs
        dist2, idx = change(right["dist2"], right["idx"], call)
        return {"dist2": dist2, "idx": np.where(np.isfinite(dist2), idx, 0).astype("<i4")}

    return suspect


def _by_index(dist2: Array, idx: Array, _: OpCall) -> tuple[Array, Array]:
    # Missing neighbours stay behind.
    order = np.argsort(np.where(np.isfinite(dist2), idx, np.iinfo(np.int32).max), axis=-1)
    return np.take_along_axis(dist2, order, axis=-1), np.take_along_axis(idx, order, axis=-1)


def _last_of_equals(call: OpCall) -> Mapping[str, Array]:
    backwards = reference(misread(known=lambda cloud: cloud[:, ::-1])(call)).outputs
    found = np.isfinite(backwards["dist2"])
    idx = np.where(found, call.tensor("known").dims[1] - 1 - backwards["idx"], 0)
    return {"dist2": backwards["dist2"], "idx": idx.astype("<i4")}


SUSPECTS = {
    "the roots are taken of squared distances": _answered(lambda dist2, idx, _: (np.sqrt(dist2), idx)),
    "of equal distances the highest index comes first": _last_of_equals,
    "the three neighbours are ordered by index": _answered(_by_index),
    "indices count through all batches": _answered(
        lambda dist2, idx, call: (dist2, idx + call.tensor("known").dims[1] * np.arange(len(idx))[:, None, None])
    ),
    "every batch searches the known points of batch 0": as_read(reference, misread(known=first_batch)),
    "every batch has the unknown points of batch 0": as_read(reference, misread(unknown=first_batch)),
    "known is read as [B, 3, M]": as_read(reference, misread(known=axes_first)),
    "unknown is read as [B, 3, N]": as_read(reference, misread(unknown=axes_first)),
    "indices count within a tile of 64": _answered(lambda dist2, idx, _: (dist2, idx % 64)),
    **{
        f"{name} is ignored": as_read(reference, misread(known=without_axis(axis), unknown=without_axis(axis)))
        for axis, name in enumerate("xyz")
    },
    "the first known point is missing": as_read(reference, misread(known=without_point(0))),
    "the last known point is missing": as_read(reference, misread(known=without_point(-1))),
}


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """Each neighbour as §1.2 defines it: known points sorted by squared distance, equals by index, then +Inf and 0."""
    unknown, known = call.array("unknown"), call.array("known")
    distances_in = cache(lambda batch: squared_distances_to(known[batch]))

    @cache
    def three(batch: int, point: int) -> list[tuple[Fraction | float, int]]:
        distances = distances_in(batch)(unknown[batch, point])
        candidates = ((squared, place) for place, squared in enumerate(distances) if squared is not None)
        # Distances first, then indices; whatever overflows is behind all that do not.
        found = [one for one in nsmallest(3, candidates) if not overflows(one[0], unknown.itemsize)]
        return [*found, *[(math.inf, 0)] * (3 - len(found))]

    return {"dist2": lambda b, n, rank: three(b, n)[rank][0], "idx": lambda b, n, rank: three(b, n)[rank][1]}


# The kernel that the numpy backend runs: §3.1 in float32, tile by tile, three minima each.
# §3.1's split: known points of a tile, and pairs that meet at once: 256 KiB of distances stay in the cache.
TILE, PAIRS = 4096, 1 << 16


def kernel(call: OpCall) -> Status:
    """Check the call, then write the three nearest of every unknown point."""
    status, computes = _verdict(call)
    if computes:
        unknown, known = (call.array(name).astype(np.float32, copy=False) for name in ("unknown", "known"))
        step = PAIRS // min(TILE, known.shape[1])
        for batch in range(len(unknown)):
            # Step 1: one row per axis.
            axes = np.ascontiguousarray(known[batch].T)
            for first in range(0, unknown.shape[1], step):
                rows = slice(first, first + step)
                call.array("dist2")[batch, rows], call.array("idx")[batch, rows] = _nearest(unknown[batch, rows], axes)
    return status


def _nearest(points: Array, axes: Array) -> tuple[Array, Array]:
    """Three distances and indices per point: those of each tile are sorted in behind those of the tiles before."""
    rows = np.arange(len(points))
    dist2, idx = np.full((len(rows), 3), np.inf, np.float32), np.zeros((len(rows), 3), np.int64)
    for base in range(0, axes.shape[1], TILE):
        tile, values, places = _distances(points, axes[:, base : base + TILE]), [*dist2.T], [*idx.T]
        for _ in range(3):
            # Step 5: take the first least, and blank it in the distances each time.
            place = tile.argmin(axis=1)
            values, places = [*values, tile[rows, place]], [*places, place + base]
            tile[rows, place] = np.inf
        # Stable: of equal distances the earlier tile's come first.
        order = np.argsort(np.stack(values), axis=0, kind="stable")[:3].T
        dist2, idx = (np.take_along_axis(np.stack(one, axis=1), order, axis=1) for one in (values, places))
    idx[np.isinf(dist2)] = 0
    return dist2, idx


def _distances(points: Array, axes: Array) -> Array:
    """float32 [rows, tile]; +Inf where the pair has none."""
    with np.errstate(over="ignore", invalid="ignore"):
        total: Array = points[:, 0, None] - axes[0]
        total *= total
        for axis in (1, 2):
            difference = points[:, axis, None] - axes[axis]
            difference *= difference
            total += difference
    # NaN − x and Inf − Inf are NaN, which argmin would take for the least.
    total[np.isnan(total)] = np.inf
    return total


def _verdict(call: OpCall) -> tuple[Status, bool]:
    """The status, and whether there is anything to compute."""
    tensors = [arg for arg in (*call.inputs.values(), *call.outputs.values()) if arg is not None]
    if call.handle is None or len(tensors) < 4 or any(len(arg.dims) != 3 for arg in tensors[:2]):
        return Status.BAD_PARAM, False
    unknown, known = tensors[:2]
    batch, queries, _ = unknown.dims
    rows, dtype = (batch, queries, 3), unknown.dtype
    described = [(rows, dtype), ((batch, known.dims[1], 3), dtype), (rows, dtype), (rows, DType.INT32)]
    if dtype not in _FLOATS or [(arg.dims, arg.dtype) for arg in tensors] != described:
        return Status.BAD_PARAM, False
    if any(arg.desc.is_strided or arg.desc.is_large for arg in tensors):
        return Status.NOT_SUPPORTED, False
    if unknown.desc.is_empty:
        return Status.BAD_PARAM, False
    if known.desc.is_empty:
        return Status.SUCCESS, False
    if (call.workspace is None and call.workspace_size > 0) or any(arg.null for arg in tensors):
        return Status.BAD_PARAM, False
    return Status.SUCCESS, True


# Pairs per step on the processor: torch would spread more over threads, which wait for each other at every operation.
_PAIRS = 1 << 15
# The bits of +Inf: floats from 0 on order as their bits do.
_INFINITE = 0x7F800000


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:  # noqa: ARG001 - all operators are called alike
    """Pack distance and index of every pair into one integer, and take the three least of every row."""
    import torch

    dist2, idx = outputs["dist2"], outputs["idx"]
    points = inputs["known"].shape[1]
    place = torch.arange(points, device=idx.device)
    step = max(1, _PAIRS // points) if idx.device.type == "cpu" else max(1, (_PAIRS << 9) // points)
    for batch, (unknown, known) in enumerate(zip(inputs["unknown"].float(), inputs["known"].float(), strict=True)):
        axes = known.T.contiguous()
        for rows in torch.arange(len(unknown), device=idx.device).split(step):
            keys = (_squared(unknown[rows], axes).view(torch.int32).long() << 32) | place
            least = keys.topk(min(3, points), largest=False, sorted=True).values
            # Fewer than three: +Inf and 0.
            least = torch.nn.functional.pad(least, (0, 3 - least.shape[1]), value=_INFINITE << 32)
            bits = (least >> 32).int()
            dist2[batch, rows] = bits.view(torch.float32).to(dist2.dtype)
            idx[batch, rows] = torch.where(bits < _INFINITE, least & 0xFFFFFFFF, 0).int()


def _squared(points: Any, axes: Any) -> Any:
    """float32 [rows, M]; +Inf where a pair has no distance (§1.2)."""
    total = (points[:, 0, None] - axes[0]).square_()
    for number in (1, 2):
        total += (points[:, number, None] - axes[number]).square_()
    return total.nan_to_num_(nan=math.inf, posinf=math.inf)


OPERATOR = Operator(
    name="three_nn_forward",
    released_name="three_nn_forward",
    op_type=("THREE_NN_FORWARD", 2003),
    summary="Finds the three nearest known points of every unknown point of the same batch.",
    inputs=(TensorSpec("unknown", "[B, N, 3]", _FLOATS), TensorSpec("known", "[B, M, 3]", _FLOATS)),
    outputs=(
        # §1.5.1 scales by the error of a GPU, which no case holds. Full mantissas: 1e-5 for float, because 3e-3 lets
        # differences pass that were rounded to bfloat16. Cases on a lattice declare diff3 = 0.
        OutputSpec("dist2", "[B, N, 3]", {DType.FLOAT: diff1_and_diff2(1e-5), DType.HALF: diff1_and_diff2(3e-3)}),
        OutputSpec("idx", "[B, N, 3]", {DType.INT32: exact()}),
    ),
    axes={
        "known": axis("M", of="known", lost=lambda call, index: {"known": without_point(index)(call.array("known"))}),
        "unknown": axis("N", of="unknown"),
        "batches": axis("B", of="unknown"),
    },
    checks=CHECKS,
    subsumed=dict.fromkeys(("dist2_large", "idx_large", "dist2_empty", "idx_empty"), _OF_UNKNOWN),
    queries={"mluOpGetThreeNNForwardWorkspaceSize": _QUERY},
    reference=reference,
    bound=bound,
    precondition=precondition,
    left_open={"subnormal": find_subnormal},
    kernel=kernel,
    suspects=SUSPECTS,
    theory=theory,
    # The workspace stands between inputs and outputs.
    c_api=c_function(
        "mluOpThreeNNForward",
        query="mluOpGetThreeNNForwardWorkspaceSize",
        query_arguments=(HANDLE, *descriptor("known"), ASKED_SIZE),
    ),
    exact=elements,
    torch_kernel=torch_kernel,
)
