"""ball_query: finds, for every centre, the first points of a cloud that lie in a spherical shell around it."""

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from typing import Any

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
    Status,
    TensorArg,
    TensorSpec,
    Theory,
    axis,
    exact,
)
from mluops_gtest.authoring.c_api import c_function
from mluops_gtest.authoring.checks import (
    descriptors,
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
)
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction, squared_distances_to
from mluops_gtest.authoring.left_open import find_subnormal
from mluops_gtest.authoring.sums import lattice_exponent
from mluops_gtest.authoring.suspects import Suspect, as_read, with_inputs, with_params

from .._shared.points import lattice_fault, squared_distances

# The parameter checks in the released library's order: §3.7's conditions, the scalars before everything else.


# Devices up to this one address the cloud with 32 bits: §3.7's 2^31 elements hold on newer ones alone.
_LAST_NARROW_ARCH = 370
_NARROW_LIMIT = 536895361
_LIMIT = 1 << 31


def _cloud_fits(call: OpCall) -> bool:
    narrow = call.handle is not None and call.handle.arch <= _LAST_NARROW_ARCH
    return call.tensor("xyz").desc.count < (_NARROW_LIMIT if narrow else _LIMIT)


CHECKS = (
    # NaN is not ≥ 0, −0 is.
    params("min_radius", doc="§3.7 (1)"),
    params("max_radius", doc="§3.7 (2)"),
    params("nsample", doc="§3.7 (3)"),
    handle("§3.7"),
    descriptors(doc="§3.7"),
    ranks(doc="§3.7 (8-10)"),
    dims("xyz.0", doc="§3.7 (11)"),
    dims("idx.0", doc="§3.7 (12)"),
    dims("idx.1", doc="§3.7 (13)"),
    dims("new_xyz.2", doc="§3.7 (14)"),
    dims("xyz.2", doc="§3.7 (15)"),
    dims("idx.2", doc="§3.7 (16)"),
    # Before the types, unlike in the other operators on points.
    strided(doc="§1.4: no strides"),
    dtypes("new_xyz", doc="§3.7 (4)"),
    dtypes("xyz = new_xyz", doc="§3.7 (5, 7)"),
    dtypes("idx", doc="§3.7 (6)"),
    large("new_xyz", "idx", doc="§3.7 (17, 19)"),
    require(
        "xyz_large",
        _cloud_fits,
        f"xyz must have fewer than {_NARROW_LIMIT} elements up to MLU{_LAST_NARROW_ARCH}, fewer than 2^31 beyond",
        "§3.7 (18)",
        Status.NOT_SUPPORTED,
    ),
    # §1.1: no centre is an error, no point is not; its second "new_xyz" means xyz, as §3.7 prints it.
    empty("new_xyz", doc="§1.1, §3.7", status=Status.BAD_PARAM),
    empty("xyz", doc="§1.1, §3.7"),
    # nsample = 0: nothing to write.
    empty("idx", doc="§3.7 (3)"),
    pointers(doc="§3.7"),
)


# What the document takes for granted: no rounding decides whether a point is inside.


# Unit roundoffs. §3.1 rounds three differences, three squares and two sums, so a distance errs by five of them; the
# squared bound may be rounded once, and whoever compares roots rounds once more and doubles that.
_ROUNDOFF = {DType.FLOAT: 2.0**-24, DType.HALF: 2.0**-11}
_ROUNDINGS = 8


def precondition(call: OpCall) -> str | None:
    """Every float evaluation of the distances, in any order, finds the same points (§1.5.1 asks for equal indices)."""
    if lattice_fault(call.array("new_xyz"), call.array("xyz")) is None and _bounds_are_sharp(call):
        return None
    return _undecided(call)


def _bounds_are_sharp(call: OpCall) -> bool:
    """However a radius is squared, the same distances of the lattice lie below; 0 itself always counts."""
    unit = Fraction(4) ** min(lattice_exponent(call.array(name)) for name in ("new_xyz", "xyz"))
    for name in ("min_radius", "max_radius"):
        finite = [Fraction(square) for square in _squares(call, name) if math.isfinite(square)]
        if len({max(1, math.ceil(square / unit)) for square in finite}) > 1:
            return False
    return True


def _squares(call: OpCall, name: str) -> list[float]:
    """The square in exact arithmetic, in float, and in the type of the tensors."""
    radius, storage = np.float32(call.param(name)), call.tensor("xyz").dtype.storage
    with np.errstate(over="ignore", under="ignore"):
        own = radius.astype(storage)
        return [float(radius) ** 2, float(radius * radius), float((radius * radius).astype(storage)), float(own * own)]


def _undecided(call: OpCall) -> str | None:
    """The first pair whose distance rounding may carry across a bound, or to 0 or infinity."""
    new_xyz, xyz, dtype = call.array("new_xyz"), call.array("xyz"), call.tensor("xyz").dtype
    bounds = [float(bound) for bound in squared_radii(call)]
    for batch, rows, columns in blocks(call):
        squared = squared_distances(new_xyz[batch, rows], xyz[batch, columns])
        for doubt, found in _doubts(squared, dtype, bounds).items():
            if found.any():
                row, column = np.argwhere(found)[0].tolist()
                return f"{doubt}: centre [{batch}, {rows.start + row}], point {columns.start + column}"
    return None


def _doubts(squared: Array, dtype: DType, bounds: list[float]) -> dict[str, Array]:
    """Where a squared distance is too close to what decides."""
    limits = np.finfo(dtype.storage)
    least, largest, error = float(limits.tiny), float(limits.max), _ROUNDINGS * _ROUNDOFF[dtype]
    near = np.zeros(squared.shape, bool)
    with np.errstate(invalid="ignore"):
        for bound in bounds:
            if 0 < bound < math.inf:
                # Squares below the smallest normal number may become 0, on any two of the axes.
                near |= np.abs(squared - bound) <= error * np.maximum(squared, bound) + 2 * least
        return {
            # An infinite distance comes from an infinite coordinate, and is outside whatever rounds.
            "rounding decides on which side of the sphere a point is": near & np.isfinite(squared),
            "two points are so near that their distance may become 0": (squared > 0) & (squared < 3 * least),
            "a squared distance below the bound may become infinite": (
                (squared > largest * (1 - error)) & (squared < bounds[1])
            ),
        }


def _point_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    """A point that is not finite is inside of no ball (§1.2)."""
    xyz = call.array("xyz").copy()
    xyz[:, index] = np.nan
    return {"xyz": xyz}


# The oracle: every centre against every point in float64; and the figures for efficiency.


# Distances held at a time: 512 KiB of float64 stay in the cache.
_PAIRS = 1 << 16


def reference(call: OpCall) -> Baseline:
    """The first nsample points in the shell of every centre; 0 where there is none, as the caller leaves it (§1.2)."""
    batches, centres, _ = call.tensor("new_xyz").dims
    idx = np.zeros((batches, centres, call.param("nsample")), "<i4")
    for batch, rows, inside in shells(call):
        idx[batch, rows] = first_inside(inside, call.param("nsample"))
    return Baseline({"idx": idx})


def empty_rows(call: OpCall) -> Array:
    """bool [B, M]: no point is in the shell, so the row keeps what the caller put there."""
    empty = np.empty(call.tensor("new_xyz").dims[:2], bool)
    for batch, rows, inside in shells(call):
        empty[batch, rows] = ~inside.any(axis=1)
    return empty


def squared_radii(call: OpCall) -> tuple[np.float32, np.float32]:
    """The bounds of the shell as the device has them: float products of floats."""
    # §1.3's inner and outer diameter are radii. A square that overflows is infinite: every finite distance is below.
    with np.errstate(over="ignore", under="ignore"):
        low, high = (np.square(np.float32(call.param(name))) for name in ("min_radius", "max_radius"))
    return low, high


def blocks(call: OpCall) -> Iterator[tuple[int, slice, slice]]:
    """Batches, centres and points in blocks of bounded size: all points of some centres before the next centres."""
    batches, centres, _ = call.tensor("new_xyz").dims
    points = call.tensor("xyz").dims[1]
    height = max(1, _PAIRS // points)
    for batch in range(batches):
        for row in range(0, centres, height):
            for point in range(0, points, _PAIRS):
                yield batch, slice(row, min(row + height, centres)), slice(point, min(point + _PAIRS, points))


def in_shell(distance: Array, low: np.float32, high: np.float32) -> Array:
    """bool: the squared distance is one of the shell between these squared radii."""
    # §3.1 step 6: a coincident point always counts, also where the shell excludes it (the prose forgets it);
    # min_radius itself is inside, max_radius is not; min_radius may be the larger one, then nothing else counts.
    # NaN fails all three, Inf is never below the upper bound.
    inside: Array = (distance == 0) | ((distance >= low) & (distance < high))
    return inside


def shells(
    call: OpCall, holds: Callable[[Array, np.float32, np.float32], Array] = in_shell
) -> Iterator[tuple[int, slice, Array]]:
    """Some centres of a batch at a time, with bool [m, N]: the point lies in the centre's shell."""
    new_xyz, xyz = call.array("new_xyz"), call.array("xyz")
    low, high = squared_radii(call)
    inside = np.empty((0, 0), bool)
    for batch, rows, columns in blocks(call):
        if columns.start == 0:
            inside = np.empty((rows.stop - rows.start, xyz.shape[1]), bool)
        # Exact on lattices. Elsewhere float64 errs by some 2^-50, and legal data keep much farther from both bounds
        # (precondition.py): this is the answer of exact arithmetic.
        distance = squared_distances(new_xyz[batch, rows], xyz[batch, columns])
        inside[:, columns] = holds(distance, low, high)
        if columns.stop == xyz.shape[1]:
            yield batch, rows, inside


def first_inside(inside: Array, nsample: int) -> Array:
    """int32 [m, nsample]: the columns that are inside, ascending; the first of them again behind the last (§3.1)."""
    rows, width = inside.shape
    # By index within the batch, not by distance: the hits of a row stand side by side.
    hits = np.flatnonzero(inside)
    bounds = np.searchsorted(hits, np.arange(rows + 1) * width)
    found = bounds[:-1] < bounds[1:]
    first, behind = bounds[:-1][found, None], bounds[1:][found, None]
    place = first + np.arange(nsample)
    idx = np.zeros((rows, nsample), "<i4")
    idx[found] = hits[np.where(place < behind, place, first)] % width
    return idx


def theory(call: OpCall) -> Theory:
    """Eight operations for each distance and two comparisons; all three tensors are touched."""
    batches, centres, _ = call.tensor("new_xyz").dims
    points = call.tensor("xyz").dims[1]
    touched = sum(call.tensor(name).desc.nbytes for name in ("new_xyz", "xyz", "idx"))
    return Theory(io_bytes=touched, ops=10 * batches * centres * points)


# Mistakes that kernels make about the shell, about which points are listed, and about batches.


def _by_shell(holds: Callable[[Array, np.float32, np.float32], Array]) -> Suspect:
    """The first points for which that holds of the squared distance and the squared radii."""

    def outputs(call: OpCall) -> Mapping[str, Array]:
        idx = np.zeros(call.tensor("idx").dims, "<i4")
        for batch, rows, inside in shells(call, holds):
            idx[batch, rows] = first_inside(inside, idx.shape[2])
        return {"idx": idx}

    return outputs


def _filled_with_0(call: OpCall) -> Mapping[str, Array]:
    idx = np.zeros(call.tensor("idx").dims, "<i4")
    for batch, rows, inside in shells(call):
        first = first_inside(inside, idx.shape[2])
        idx[batch, rows] = np.where(np.arange(idx.shape[2]) < inside.sum(axis=1)[:, None], first, 0)
    return {"idx": idx}


def _nearest_first(call: OpCall) -> Mapping[str, Array]:
    idx = np.zeros(call.tensor("idx").dims, "<i4")
    for batch, rows, inside in shells(call):
        distances = squared_distances(call.array("new_xyz")[batch, rows], call.array("xyz")[batch])
        order = np.argsort(np.where(inside, distances, np.inf), axis=1, kind="stable")
        listed = np.take_along_axis(inside, order, axis=1)
        idx[batch, rows] = _padded(np.where(listed, order, order[:, :1]), idx.shape[2])
        idx[batch, rows][~inside.any(axis=1)] = 0
    return {"idx": idx}


def _padded(order: Array, nsample: int) -> Array:
    """The first nsample columns; the first again where there are fewer."""
    missing = max(0, nsample - order.shape[1])
    return np.concatenate([order[:, :nsample], np.repeat(order[:, :1], missing, axis=1)], axis=1)


def _through_batches(call: OpCall) -> Mapping[str, Array]:
    idx = reference(call).outputs["idx"]
    first = np.arange(idx.shape[0], dtype="<i4") * call.tensor("xyz").dims[1]
    for batch, rows, inside in shells(call):
        idx[batch, rows][inside.any(axis=1)] += first[batch]
    return {"idx": idx}


def _from_the_last(call: OpCall) -> Mapping[str, Array]:
    xyz = call.array("xyz")
    idx = reference(with_inputs(call, xyz=np.ascontiguousarray(xyz[:, ::-1]))).outputs["idx"]
    for batch, rows, inside in shells(call):
        met = inside.any(axis=1)
        idx[batch, rows][met] = xyz.shape[1] - 1 - idx[batch, rows][met]
    return {"idx": idx}


def _changed(change: Callable[[Array], Array], *names: str) -> Suspect:
    """The clouds of these names as another function sees them."""
    return as_read(
        reference,
        lambda call: with_inputs(call, **{name: np.ascontiguousarray(change(call.array(name))) for name in names}),
    )


def _first_batch(cloud: Array) -> Array:
    return np.broadcast_to(cloud[:1], cloud.shape)


def _axes_first(cloud: Array) -> Array:
    return cloud.reshape(cloud.shape[0], 3, cloud.shape[1]).swapaxes(1, 2)


def _without_axis(axis: int) -> Callable[[Array], Array]:
    return lambda cloud: np.where(np.arange(3) == axis, cloud.dtype.type(0), cloud)


def _without_point(index: int) -> Callable[[Array], Array]:
    """A point at NaN is in no shell."""

    def changed(cloud: Array) -> Array:
        points = np.arange(cloud.shape[1]) == index % cloud.shape[1]
        return np.where(points[:, None], cloud.dtype.type(np.nan), cloud)

    return changed


SUSPECTS = {
    "points on the outer sphere are inside": _by_shell(lambda d, low, high: (d == 0) | ((d >= low) & (d <= high))),
    "points on the inner sphere are outside": _by_shell(lambda d, low, high: (d == 0) | ((d > low) & (d < high))),
    "a point at the centre counts only where the shell holds it": _by_shell(
        lambda d, low, high: (d >= low) & (d < high)
    ),
    "min_radius is ignored": as_read(reference, lambda call: with_params(call, min_radius=0.0)),
    "rows are filled up with 0": _filled_with_0,
    "the nearest points are taken, not the first": _nearest_first,
    "indices count through all batches": _through_batches,
    "every batch searches the points of batch 0": _changed(_first_batch, "xyz"),
    "every batch has the centres of batch 0": _changed(_first_batch, "new_xyz"),
    "xyz is read as [B, 3, N]": _changed(_axes_first, "xyz"),
    "new_xyz is read as [B, 3, M]": _changed(_axes_first, "new_xyz"),
    "x is ignored": _changed(_without_axis(0), "xyz", "new_xyz"),
    "y is ignored": _changed(_without_axis(1), "xyz", "new_xyz"),
    "z is ignored": _changed(_without_axis(2), "xyz", "new_xyz"),
    "the first point is missing": _changed(_without_point(0), "xyz"),
    "the last point is missing": _changed(_without_point(-1), "xyz"),
    "points are listed from the last one on": _from_the_last,
    "indices count within a tile of 64": lambda call: {"idx": reference(call).outputs["idx"] % 64},
    "points at the centre are outside": _by_shell(lambda d, low, high: (d > 0) & (d >= low) & (d < high)),
    "max_radius is ignored": _by_shell(lambda d, low, _: (d == 0) | ((d >= low) & (d < np.inf))),
}


# One index as §3.1 lists it: the first nsample points in the shell, the first of them again behind the last.


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """Points by index; 0 in the row of a centre without any, as the caller leaves it."""
    centres, cloud = call.array("new_xyz"), call.array("xyz")
    # The bounds of the shell are float products of floats; one that overflows leaves nothing out.
    with np.errstate(over="ignore", under="ignore"):
        low, high = (fraction(np.square(np.float32(call.param(f"{name}_radius")))) for name in ("min", "max"))
    distances_in = cache(lambda batch: squared_distances_to(cloud[batch]))

    def is_inside(squared: Fraction | None) -> bool:
        # A point that coincides always counts; the inner sphere belongs to the shell, the outer one does not.
        return squared is not None and (squared == 0 or (low <= squared and (high == math.inf or squared < high)))

    @cache
    def inside(batch: int, centre: int) -> list[int]:
        distances = distances_in(batch)(centres[batch, centre])
        return [place for place, squared in enumerate(distances) if is_inside(squared)]

    def idx(batch: int, centre: int, sample: int) -> int:
        found = inside(batch, centre)
        return 0 if not found else found[sample] if sample < len(found) else found[0]

    return {"idx": idx}


# The kernel that the numpy backend runs: §3.1's tiles of points, float32 throughout.


# Centres that are handled together, and distances held at a time: what fits into a second-level cache.
CENTRES = 1024
PAIRS = 1 << 18


def kernel(call: OpCall) -> Status:
    """Check the call, then fill the row of every centre tile by tile."""
    status, computes = _verdict(call)
    if computes:
        _query(call)
    return status


def _query(call: OpCall) -> None:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        shell = [np.square(np.float32(call.param(name))) for name in ("min_radius", "max_radius")]
        for centres, points, rows in zip(call.array("new_xyz"), call.array("xyz"), call.array("idx"), strict=True):
            cloud = np.ascontiguousarray(points.T, np.float32)
            for first in range(0, len(centres), CENTRES):
                block = slice(first, first + CENTRES)
                _fill(rows[block], centres[block].astype(np.float32), cloud, *shell)


def _fill(rows: Array, centres: Array, cloud: Array, low: np.float32, high: np.float32) -> None:
    """§3.1 step 9: the first hit fills its row, every later one overwrites the next entry until the row is full."""
    found = np.zeros(len(rows), np.int64)
    waiting = np.arange(len(rows))
    tile = PAIRS // len(rows)
    for base in range(0, cloud.shape[1], tile):
        x, y, z = cloud[:, base : base + tile, None]
        distance = (x - centres[waiting, 0]) ** 2
        distance += (y - centres[waiting, 1]) ** 2
        distance += (z - centres[waiting, 2]) ** 2
        inside = ((distance >= low) & (distance < high)) | (distance == 0)
        point, column = np.nonzero(inside)
        if len(point) == 0:
            continue
        # Centres in the columns: a stable sort keeps the points of each in ascending order.
        order = np.argsort(column, kind="stable")
        row, hit = waiting[column[order]], base + point[order]
        hits = np.bincount(row, minlength=len(rows))
        fresh = (found == 0) & (hits > 0)
        entry = found[row] + np.arange(len(row)) - (np.cumsum(hits) - hits)[row]
        leads = fresh[row] & (entry == 0)
        rows[row[leads]] = hit[leads, None]
        fits = entry < rows.shape[1]
        rows[row[fits], entry[fits]] = hit[fits]
        found += hits
        waiting = np.flatnonzero(found < rows.shape[1])
        if len(waiting) == 0:
            return


def _verdict(call: OpCall) -> tuple[Status, bool]:
    """The status, and whether there is anything to compute."""
    nsample = call.param("nsample")
    if not (call.param("min_radius") >= 0 and call.param("max_radius") >= 0 and nsample >= 0):
        return Status.BAD_PARAM, False
    new_xyz, xyz, idx = call.inputs["new_xyz"], call.inputs["xyz"], call.outputs["idx"]
    if call.handle is None or new_xyz is None or xyz is None or idx is None:
        return Status.BAD_PARAM, False
    if not _shapes_agree(new_xyz.dims, xyz.dims, idx.dims, nsample):
        return Status.BAD_PARAM, False
    tensors = (new_xyz, xyz, idx)
    if any(arg.desc.is_strided for arg in tensors):
        return Status.NOT_SUPPORTED, False
    if not _types_agree(*tensors):
        return Status.BAD_PARAM, False
    if any(arg.desc.is_large for arg in tensors) or (call.handle.arch <= 370 and xyz.desc.count > 536895360):
        return Status.NOT_SUPPORTED, False
    if new_xyz.desc.is_empty:
        return Status.BAD_PARAM, False
    if xyz.dims[1] == 0 or nsample == 0:
        return Status.SUCCESS, False
    if any(arg.null for arg in tensors):
        return Status.BAD_PARAM, False
    return Status.SUCCESS, True


def _shapes_agree(new_xyz: tuple[int, ...], xyz: tuple[int, ...], idx: tuple[int, ...], nsample: int) -> bool:
    if len(new_xyz) != 3 or len(xyz) != 3:
        return False
    return new_xyz[2] == xyz[2] == 3 and xyz[0] == new_xyz[0] and idx == (*new_xyz[:2], nsample)


def _types_agree(new_xyz: TensorArg, xyz: TensorArg, idx: TensorArg) -> bool:
    return new_xyz.dtype in (DType.HALF, DType.FLOAT) and xyz.dtype is new_xyz.dtype and idx.dtype is DType.INT32


# With torch: the smallest indices inside, found by a partial sort of all indices.


# Distances at a time.
_TORCH_PAIRS = 1 << 22


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write the rows of all centres with a point in their shell; the others keep what they hold."""
    import torch

    # Squared in float, as the device does it.
    low, high = (float(torch.tensor(call.param(name)).float().square()) for name in ("min_radius", "max_radius"))
    for centres, points, rows in zip(inputs["new_xyz"], inputs["xyz"], outputs["idx"], strict=True):
        step = max(1, _TORCH_PAIRS // len(points))
        for block, part in zip(centres.split(step), rows.split(step), strict=True):
            _fill_rows(part, block.float(), points.float(), low, high)


def _fill_rows(rows: Any, centres: Any, points: Any, low: float, high: float) -> None:
    import torch

    distance = (centres[:, None] - points).square_().sum(-1)
    inside = (distance == 0) | ((distance >= low) & (distance < high))
    # What is outside sorts behind every index.
    beyond = len(points)
    numbers = torch.where(inside, torch.arange(beyond, dtype=rows.dtype, device=points.device), beyond)
    entries = min(rows.shape[1], beyond)
    first = numbers.topk(entries, largest=False, sorted=True).values
    found = first[:, 0] < beyond
    listed = first[found]
    lead = listed[:, :1]
    filled = lead.expand(-1, rows.shape[1]).clone()
    filled[:, :entries] = torch.where(listed < beyond, listed, lead)
    rows[found] = filled


_FLOATS = (DType.FLOAT, DType.HALF)

OPERATOR = Operator(
    name="ball_query",
    released_name="ball_query",
    op_type=("BALL_QUERY", 20231025),
    summary="Lists for each centre the first nsample points, by index, between min_radius and max_radius.",
    # §2.2's order; §1.3 and the caller in Python name xyz first.
    inputs=(TensorSpec("new_xyz", "[B, M, 3]", _FLOATS), TensorSpec("xyz", "[B, N, 3]", _FLOATS)),
    # §1.2: the caller clears idx, and a row without a point in the shell keeps what it held.
    outputs=(OutputSpec("idx", "[B, M, nsample]", {DType.INT32: exact()}, preset=0, kept=empty_rows),),
    params=ParamMessage(
        field="ball_query_param",
        number=4008,
        message="BallQueryParam",
        fields=(
            ParamField("min_radius", 1, "float", default=0.0, least=0),
            ParamField("max_radius", 2, "float", default=1.0, least=0),
            ParamField("nsample", 3, default=1, least=0),
        ),
    ),
    axes={
        "points": axis("N", of="xyz", lost=_point_lost),
        "centres": axis("M", of="new_xyz"),
        "batches": axis("B", of="new_xyz"),
        "samples": axis("nsample", of="idx"),
    },
    checks=CHECKS,
    reference=reference,
    precondition=precondition,
    left_open={"subnormal": find_subnormal},
    kernel=kernel,
    suspects=SUSPECTS,
    theory=theory,
    c_api=c_function("mluOpBallQuery"),
    exact=elements,
    torch_kernel=torch_kernel,
)
