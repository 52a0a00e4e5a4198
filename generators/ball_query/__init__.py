"""ball_query: finds, for every centre, the first points of a cloud that lie in a spherical shell around it."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import cache, partial
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
    TensorSpec,
    Theory,
    axis,
    c_api,
    checks,
    exact,
)
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction, squared_distances_to
from mluops_gtest.authoring.left_open import find_subnormal
from mluops_gtest.authoring.sums import lattice_exponent
from mluops_gtest.authoring.suspects import Suspect, as_read, misread

from .._shared.points import (
    axes_first,
    first_batch,
    lattice_fault,
    squared_distances,
    without_axis,
    without_point,
)

# Devices up to this one address the cloud with 32 bits: §3.7's 2^31 elements hold on newer ones alone.
_LAST_NARROW_ARCH = 370
_NARROW_LIMIT = 536895361


def _cloud_fits(call: OpCall) -> bool:
    is_narrow = call.handle is not None and call.handle.arch <= _LAST_NARROW_ARCH
    return call.tensor("xyz").desc.count < (_NARROW_LIMIT if is_narrow else 1 << 31)


# The released library's order: §3.7's conditions, the parameters before everything else.
CHECKS = (
    # NaN is not ≥ 0, −0 is.
    checks.params(doc="§3.7 (1-3)"),
    checks.handle("§3.7"),
    checks.descriptors(doc="§3.7"),
    checks.ranks(doc="§3.7 (8-10)"),
    checks.dims("xyz.0", "idx.0", "idx.1", "new_xyz.2", "xyz.2", "idx.2", doc="§3.7 (11-16)"),
    # Before the types, unlike in the other operators on points.
    checks.strided(doc="§1.4: no strides"),
    checks.dtypes("new_xyz", "xyz = new_xyz", "idx", doc="§3.7 (4-7)"),
    checks.large("new_xyz", "idx", doc="§3.7 (17, 19)"),
    checks.require(
        "xyz_large",
        _cloud_fits,
        f"xyz must have fewer than {_NARROW_LIMIT} elements up to MLU{_LAST_NARROW_ARCH}, fewer than 2^31 beyond",
        "§3.7 (18)",
        Status.NOT_SUPPORTED,
    ),
    # §1.1: no centre is an error, no point is not; its second "new_xyz" means xyz, as §3.7 prints it.
    checks.empty("new_xyz", doc="§1.1, §3.7", status=Status.BAD_PARAM),
    checks.empty("xyz", doc="§1.1, §3.7"),
    # nsample = 0: nothing to write.
    checks.empty("idx", doc="§3.7 (3)"),
    checks.pointers(doc="§3.7"),
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
    storage = call.tensor("xyz").dtype.storage
    for name in ("min_radius", "max_radius"):
        radius = np.float32(call.param(name))
        with np.errstate(over="ignore", under="ignore"):
            own = radius.astype(storage)
            # In exact arithmetic, in float, and in the type of the tensors.
            squares = [np.float64(radius) ** 2, radius * radius, (radius * radius).astype(storage), own * own]
        least = {max(1, math.ceil(Fraction(float(square)) / unit)) for square in squares if np.isfinite(square)}
        if len(least) > 1:
            return False
    return True


def _undecided(call: OpCall) -> str | None:
    """The first pair whose distance rounding may carry across a bound, or to 0 or infinity."""
    bounds = [float(bound) for bound in squared_radii(call)]
    for batch, first, squared in _distances(call):
        for doubt, found in _doubts(squared, call.tensor("xyz").dtype, bounds).items():
            if found.any():
                centre, point = np.argwhere(found)[0].tolist()
                return f"{doubt}: centre [{batch}, {first + centre}], point {point}"
    return None


def _doubts(squared: Array, dtype: DType, bounds: list[float]) -> dict[str, Array]:
    """Where a squared distance is too close to what decides."""
    limits = np.finfo(dtype.storage)
    least, error = float(limits.tiny), _ROUNDINGS * _ROUNDOFF[dtype]
    safe = float(limits.max) * (1 - error)
    near = np.zeros(squared.shape, bool)
    with np.errstate(invalid="ignore"):
        for bound in bounds:
            if 0 < bound < math.inf:
                # Squares below the smallest normal number may become 0, on any two of the axes.
                near |= np.abs(squared - bound) <= error * np.maximum(squared, bound) + 2 * least
        return {
            # An infinite distance comes from an infinite coordinate, and is outside whatever rounds.
            "rounding decides on which side of the sphere a point is (§3.1 step 6)": near & np.isfinite(squared),
            "two points are so near that their distance may become 0": (squared > 0) & (squared < 3 * least),
            "a squared distance below the bound may become infinite": (squared > safe) & (squared < bounds[1]),
        }


# The oracle: every centre against every point in float64.

# Distances held at a time: 512 KiB of float64 stay in the cache.
_PAIRS = 1 << 16

Shell = Callable[[Array, np.float32, np.float32], Any]


def squared_radii(call: OpCall) -> tuple[np.float32, np.float32]:
    """The bounds of the shell as the device has them: float products of floats."""
    # §1.3's inner and outer diameter are radii. A square that overflows is infinite: every finite distance is below.
    with np.errstate(over="ignore", under="ignore"):
        low, high = (np.square(np.float32(call.param(name))) for name in ("min_radius", "max_radius"))
    return low, high


def distances(new_xyz: Array, xyz: Array) -> Iterator[tuple[int, int, Array]]:
    """A batch, the first of some of its centres, and how far these are from all points: squared, [m, N]."""
    height = max(1, _PAIRS // max(1, xyz.shape[1]))
    for batch, first in itertools.product(range(len(new_xyz)), range(0, new_xyz.shape[1], height)):
        # Exact on lattices. Elsewhere float64 errs by some 2^-50, and the precondition keeps legal data much farther
        # from both bounds: this is the answer of exact arithmetic.
        yield batch, first, squared_distances(new_xyz[batch, first : first + height], xyz[batch])


def _distances(call: OpCall) -> Iterator[tuple[int, int, Array]]:
    return distances(call.array("new_xyz"), call.array("xyz"))


def in_shell(distance: Array, low: np.float32, high: np.float32) -> Array:
    """bool: the squared distance is one of the shell between these squared radii."""
    # §3.1 step 6: a coincident point always counts, also where the shell excludes it (the prose forgets it);
    # min_radius itself is inside, max_radius is not; min_radius may be the larger one, then nothing else counts.
    # NaN fails all three, Inf is never below the upper bound.
    inside: Array = (distance == 0) | ((distance >= low) & (distance < high))
    return inside


def first_inside(inside: Array, _squared: Array, nsample: int) -> Array:
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


def _rows(
    call: OpCall, shell: Shell = in_shell, listed: Callable[[Array, Array, int], Array] = first_inside
) -> dict[str, Array]:
    """idx, with what is listed of the points in the shell of every centre; 0 where there is none."""
    idx = np.zeros((*call.tensor("new_xyz").dims[:2], call.param("nsample")), "<i4")
    radii = squared_radii(call)
    for batch, first, squared in _distances(call):
        inside = shell(squared, *radii)
        rows = listed(inside, squared, idx.shape[2])
        idx[batch, first : first + len(rows)] = np.where(inside.any(axis=1)[:, None], rows, 0)
    return {"idx": idx}


def reference(call: OpCall) -> Baseline:
    """The first nsample points in the shell of every centre; 0 where there is none, as the caller leaves it (§1.2)."""
    return Baseline(_rows(call))


def empty_rows(call: OpCall) -> Array:
    """bool [B, M]: no point is in the shell, so the row keeps what the caller put there."""
    none = [~in_shell(squared, *squared_radii(call)).any(axis=1) for _, _, squared in _distances(call)]
    return np.concatenate(none).reshape(call.tensor("new_xyz").dims[:2])


def theory(call: OpCall) -> Theory:
    """Eight operations for each distance and two comparisons; all three tensors are touched."""
    batches, centres, _ = call.tensor("new_xyz").dims
    points = call.tensor("xyz").dims[1]
    touched = sum(call.tensor(name).desc.nbytes for name in ("new_xyz", "xyz", "idx"))
    return Theory(io_bytes=touched, ops=10 * batches * centres * points)


# Mistakes that kernels make about the shell, about which points are listed, and about batches.


def _filled_with_0(inside: Array, squared: Array, nsample: int) -> Array:
    is_listed = np.arange(nsample) < inside.sum(axis=1)[:, None]
    return np.where(is_listed, first_inside(inside, squared, nsample), 0)


def _nearest_first(inside: Array, squared: Array, nsample: int) -> Array:
    order = np.argsort(np.where(inside, squared, np.inf), axis=1, kind="stable")
    places = first_inside(np.take_along_axis(inside, order, axis=1), squared, nsample)
    return np.take_along_axis(order, places, axis=1)


def _from_the_last(inside: Array, squared: Array, nsample: int) -> Array:
    last: Array = inside.shape[1] - 1 - first_inside(inside[:, ::-1], squared, nsample)
    return last


def _through_batches(call: OpCall) -> Mapping[str, Array]:
    idx = _rows(call)["idx"]
    first = np.arange(len(idx), dtype="<i4") * call.tensor("xyz").dims[1]
    return {"idx": np.where(empty_rows(call)[..., None], idx, idx + first[:, None, None])}


SUSPECTS: Mapping[str, Suspect] = {
    "points on the outer sphere are inside": partial(
        _rows, shell=lambda d, low, high: in_shell(d, low, high) | (d == high)
    ),
    "points on the inner sphere are outside": partial(
        _rows, shell=lambda d, low, high: (d == 0) | ((d > low) & (d < high))
    ),
    "a point at the centre counts only where the shell holds it": partial(
        _rows, shell=lambda d, low, high: (d >= low) & (d < high)
    ),
    "min_radius is ignored": partial(_rows, shell=lambda d, _, high: in_shell(d, np.float32(0), high)),
    "rows are filled up with 0": partial(_rows, listed=_filled_with_0),
    "the nearest points are taken, not the first": partial(_rows, listed=_nearest_first),
    "indices count through all batches": _through_batches,
    "every batch searches the points of batch 0": as_read(reference, misread(xyz=first_batch)),
    "every batch has the centres of batch 0": as_read(reference, misread(new_xyz=first_batch)),
    "xyz is read as [B, 3, N]": as_read(reference, misread(xyz=axes_first)),
    "new_xyz is read as [B, 3, M]": as_read(reference, misread(new_xyz=axes_first)),
    **{
        f"{name} is ignored": as_read(reference, misread(xyz=without_axis(axis), new_xyz=without_axis(axis)))
        for axis, name in enumerate("xyz")
    },
    "the first point is missing": as_read(reference, misread(xyz=without_point(0))),
    "the last point is missing": as_read(reference, misread(xyz=without_point(-1))),
    "points are listed from the last one on": partial(_rows, listed=_from_the_last),
    "indices count within a tile of 64": lambda call: {"idx": _rows(call)["idx"] % 64},
    "points at the centre are outside": partial(_rows, shell=lambda d, low, high: (d > 0) & (d >= low) & (d < high)),
    "max_radius is ignored": partial(_rows, shell=lambda d, low, _: in_shell(d, low, np.float32(np.inf))),
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
    status = _answer_of_checks(call)
    if status is not None:
        return status
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        shell = [np.square(np.float32(call.param(name))) for name in ("min_radius", "max_radius")]
        for centres, points, rows in zip(call.array("new_xyz"), call.array("xyz"), call.array("idx"), strict=True):
            cloud = np.ascontiguousarray(points.T, np.float32)
            for first in range(0, len(centres), CENTRES):
                block = slice(first, first + CENTRES)
                _fill(rows[block], centres[block].astype(np.float32), cloud, *shell)
    return Status.SUCCESS


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


def _answer_of_checks(call: OpCall) -> Status | None:
    """The status of a call that computes nothing; None for one that does."""
    new_xyz, xyz, idx = call.inputs["new_xyz"], call.inputs["xyz"], call.outputs["idx"]
    nsample = call.param("nsample")
    has_params = call.param("min_radius") >= 0 and call.param("max_radius") >= 0 and nsample >= 0
    if not has_params or call.handle is None or new_xyz is None or xyz is None or idx is None:
        return Status.BAD_PARAM
    if not len(new_xyz.dims) == len(xyz.dims) == 3 or idx.dims != (*new_xyz.dims[:2], nsample):
        return Status.BAD_PARAM
    if xyz.dims[0] != new_xyz.dims[0] or not xyz.dims[2] == new_xyz.dims[2] == 3:
        return Status.BAD_PARAM
    tensors = (new_xyz, xyz, idx)
    if any(arg.desc.is_strided for arg in tensors):
        return Status.NOT_SUPPORTED
    if not (new_xyz.dtype in (DType.HALF, DType.FLOAT) and xyz.dtype is new_xyz.dtype and idx.dtype is DType.INT32):
        return Status.BAD_PARAM
    if any(arg.desc.is_large for arg in tensors) or (call.handle.arch <= 370 and xyz.desc.count > 536895360):
        return Status.NOT_SUPPORTED
    if new_xyz.desc.is_empty:
        return Status.BAD_PARAM
    if xyz.dims[1] == 0 or nsample == 0:
        return Status.SUCCESS
    return Status.BAD_PARAM if any(arg.null for arg in tensors) else None


# With torch: the smallest indices inside, found by a partial sort of all indices.

# Distances at a time.
_TORCH_PAIRS = 1 << 22


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write the rows of all centres with a point in their shell; the others keep what they hold."""
    import torch

    # Squared in float, as the device does it.
    low, high = (float(torch.tensor(call.param(name)).float().square()) for name in ("min_radius", "max_radius"))
    for centres, points, rows in zip(inputs["new_xyz"], inputs["xyz"], outputs["idx"], strict=True):
        beyond = len(points)
        numbers = torch.arange(beyond, dtype=rows.dtype, device=points.device)
        step, entries = max(1, _TORCH_PAIRS // beyond), min(rows.shape[1], beyond)
        for block, part in zip(centres.split(step), rows.split(step), strict=True):
            distance = (block.float()[:, None] - points.float()).square_().sum(-1)
            inside = (distance == 0) | ((distance >= low) & (distance < high))
            # What is outside sorts behind every index.
            first = torch.where(inside, numbers, beyond).topk(entries, largest=False, sorted=True).values
            found = first[:, 0] < beyond
            lead = first[found, :1]
            filled = lead.expand(-1, rows.shape[1]).clone()
            filled[:, :entries] = torch.where(first[found] < beyond, first[found], lead)
            part[found] = filled


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
        "points": axis("N", of="xyz", lost=lambda call, index: {"xyz": without_point(index)(call.array("xyz"))}),
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
    c_api=c_api.c_function("mluOpBallQuery"),
    exact=elements,
    torch_kernel=torch_kernel,
)
