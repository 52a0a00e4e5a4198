"""dynamic_point_to_voxel_forward: points of one voxel become one row, the mean or the maximum of their features."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
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
    ParamMessage,
    QueryChecks,
    SizedAxis,
    Status,
    TensorArg,
    TensorSpec,
    Theory,
    axis,
    c_api,
    checks,
    diff1_and_diff2,
    exact,
)
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction, total
from mluops_gtest.authoring.left_open import find_subnormal
from mluops_gtest.authoring.sums import exact_sums, largest_magnitude, lattice_exponent, lattice_unit, sums_are_exact
from mluops_gtest.authoring.suspects import Suspect, as_read, misread, with_params

from .._shared.reduced_voxels import MAX, MEAN, REDUCE_ARGUMENT, crowd, reduce_type

# §1.5.1
CRITERIA = diff1_and_diff2(3e-3)

# What is checked: §3.7 in the released library's order.

CHECKS = (
    checks.handle("§3.7"),
    checks.arch("released"),
    checks.descriptors(doc="§3.7"),
    checks.ranks(doc="§1.1"),
    checks.strided(doc="§1.4: no strides"),
    checks.dtypes("feats", doc="§1.4: float features"),
    checks.dtypes("coors", doc="§1.4: int32 coordinates"),
    checks.dtypes("point2voxel_map", doc="§3.7: int"),
    checks.dtypes(
        "voxel_feats = feats",
        "voxel_coors = coors",
        "voxel_points_count = point2voxel_map",
        "voxel_num = point2voxel_map",
        doc="§1.4: float features, int32 coordinates",
    ),
    checks.params(doc="§1.1: mean or max"),
    # The header says that voxel_num[0] equals voxel_feats[0]; §1.4 is right: there is one number.
    checks.dims("coors.0", "point2voxel_map.0", "voxel_coors.0", "voxel_points_count.0", "voxel_num.0", doc="§1.4"),
    checks.dims("voxel_feats.1", "voxel_coors.1 = coors.1", "coors.1", doc="§1.4"),
    # §3.7, dim check 5 prints num_points ≥ num_feats; §1.4 is right: M ≤ N, and C may be anything.
    checks.require(
        "points_below_voxels",
        lambda call: call.tensor("feats").dims[0] >= call.tensor("voxel_feats").dims[0],
        "there must be at least as many points as rows for voxels (N ≥ M)",
        "§1.4",
    ),
    checks.large("feats", "coors", doc="§3.7: feats and coors alone"),
    checks.empty("feats", "coors", doc="§1.1: returns at once"),
    checks.workspace("released"),
    checks.pointers(doc="§3.7"),
)

# Which points share a voxel: §1.2, steps 1 to 3.


@dataclass(frozen=True, slots=True)
class Voxels:
    """The voxels of a set of points, ascending; `points` are the valid points voxel by voxel."""

    coors: Array  # int32 [V, 3]
    of_point: Array  # int64 [N], −1 where the point is invalid
    points: Array  # int64 [valid points]
    starts: Array  # int64 [V]: where in `points` each voxel begins
    sizes: Array  # int64 [V]: points of each voxel

    @property
    def count(self) -> int:
        """V."""
        return len(self.coors)

    @property
    def rows_needed(self) -> int:
        """Rows that are written: the invalid points are one more class until §1.2, step 3 removes it."""
        return self.count + (len(self.points) < len(self.of_point))


def is_invalid(coors: Array) -> Array:
    """bool [N]: any of the three coordinates is below 0."""
    # §3.1.2, kernel 1 prints `gt 0`, which would drop coordinate 0; §1.2 is right: 0 is valid.
    return np.asarray((coors < 0).any(axis=1))


def voxels_of(coors: Array) -> Voxels:
    """The distinct rows of valid points in ascending order, column 0 first; int32 [N, 3], compared as integers."""
    # §1.2, step 3 and §3.1.1, kernel 3: the invalid class is dropped if there is one; a first voxel that is real stays.
    valid = np.flatnonzero(~is_invalid(coors))
    # Exact integers: §3.1.2, kernel 1 passes them through float32, where 2^24 and 2^24 + 1 are one voxel.
    points = valid[np.lexsort(coors[valid, ::-1].T)]
    rows = coors[points]
    starts = np.flatnonzero(np.append(np.ones(min(len(rows), 1), bool), (rows[1:] != rows[:-1]).any(axis=1)))
    sizes = np.diff(starts, append=len(rows))
    of_point = np.full(len(coors), -1, np.int64)
    # §1.2's example prints the map before dropping as [0,0,2,1,1]; by its own rule it is [0,0,2,2,1].
    of_point[points] = np.repeat(np.arange(len(starts)), sizes)
    return Voxels(rows[starts], of_point, points, starts, sizes)


# What the document takes for granted: there is a row for every class of points; and what it leaves open.


def precondition(call: OpCall) -> str | None:
    """§3.1.1: kernel 2 writes a row for every voxel, and one for the invalid points that kernel 3 then removes."""
    rows = call.tensor("voxel_feats").dims[0]
    voxels = voxels_of(call.array("coors"))
    if voxels.rows_needed <= rows:
        return None
    invalid = "" if voxels.rows_needed == voxels.count else " and the class of invalid points"
    return f"{voxels.count} voxels{invalid} need {voxels.rows_needed} rows (§1.2), there are {rows}"


def find_nan_under_max(call: OpCall, _baseline: Baseline) -> str | None:
    """§1.2 allows NaN in feats and does not say what a maximum makes of it; those of invalid points reach nobody."""
    valid = call.array("feats")[~is_invalid(call.array("coors"))]
    is_open = call.param("reduce_type") == MAX and np.isnan(valid).any()
    return "a maximum is taken over NaN" if is_open else None


# The oracle: points sorted by voxel, every voxel reduced exactly.


def reference(call: OpCall) -> Baseline:
    """All five outputs. Rows at or behind the number of voxels are nobody's: −Inf or 0, −1 and 0."""
    feats, rows = call.array("feats"), call.tensor("voxel_feats").dims[0]
    voxels = voxels_of(call.array("coors"))
    mean = call.param("reduce_type") == MEAN
    voxel_feats = np.full((rows, feats.shape[1]), 0 if mean else -np.inf, "<f4")
    voxel_coors = np.full((rows, 3), -1, "<i4")
    voxel_points_count = np.zeros(rows, "<i4")
    if voxels.count:
        # §1.2's example exchanges its two voxels in the last lines: row v belongs to voxel_coors[v].
        voxel_feats[: voxels.count] = (_means if mean else _maxima)(feats[voxels.points], voxels)
        voxel_coors[: voxels.count] = voxels.coors
        voxel_points_count[: voxels.count] = voxels.sizes
    return Baseline(
        {
            "voxel_feats": voxel_feats,
            "voxel_coors": voxel_coors,
            "point2voxel_map": voxels.of_point.astype("<i4"),
            "voxel_points_count": voxel_points_count,
            "voxel_num": np.array([voxels.count], "<i4"),
        }
    )


def marked(call: OpCall) -> Array:
    """coors with −1, −1, −1 for every invalid point: what §1.2, step 1 leaves when it works in place."""
    coors = call.array("coors")
    return np.where(is_invalid(coors)[:, None], np.int32(-1), coors)


def theory(call: OpCall) -> Theory:
    """One operation per feature of a valid point, for the mean one more per result; rows behind the voxels are free."""
    points, channels = call.tensor("feats").dims
    voxels = voxels_of(call.array("coors"))
    ops = len(voxels.points) * channels
    if call.param("reduce_type") == MEAN:
        ops += voxels.count * channels
    read = points * channels + 3 * points
    written = voxels.count * (channels + 3 + 1) + points + 1
    return Theory(io_bytes=DType.FLOAT.itemsize * (read + written), ops=ops)


def _maxima(gathered: Array, voxels: Voxels) -> Array:
    """On bit patterns, where −0 lies below +0: the answer depends on no machine and no order."""
    # §1.2: features may be NaN. Beside a number it is ignored; a voxel of NaN alone stays at the start, −Inf.
    ascending = _flipped(np.where(np.isnan(gathered), np.float32(-np.inf), gathered).view("<i4"))
    maxima: Array = _flipped(np.maximum.reduceat(ascending, voxels.starts, axis=0)).view("<f4")
    return maxima


def _flipped(patterns: Array) -> Array:
    """Patterns of negative floats descend with the value; with the lower 31 bits inverted all of them ascend."""
    flipped: Array = patterns ^ ((patterns >> 31) & np.int32(0x7FFFFFFF))
    return flipped


def _means(gathered: Array, voxels: Voxels) -> Array:
    """§1.2, step 4: the exact sum, then one division by the number of points."""
    with np.errstate(invalid="ignore", over="ignore"):
        # + 0.0: a sum of negative zeros is +0, whichever way it was taken.
        means = ((_sums(gathered, voxels) + 0.0) / voxels.sizes[:, None]).astype("<f4")
    means[np.isnan(means)] = np.nan
    return means


def _sums(gathered: Array, voxels: Voxels) -> Array:
    """float64 [V, C], rounded at most once; NaN and infinities follow IEEE."""
    longest = int(voxels.sizes.max())
    if sums_are_exact(lattice_exponent(gathered), largest_magnitude(gathered), longest):
        sums: Array = np.add.reduceat(gathered.astype(np.float64), voxels.starts, axis=0)
        return sums
    ends = voxels.starts + voxels.sizes
    return np.stack([exact_sums(gathered[a:b]) for a, b in zip(voxels.starts, ends, strict=True)])


# What arithmetic allows: a maximum is one of the features, a mean is a sum in any order and one division (§1.2).


def bound(call: OpCall) -> dict[str, Bound]:
    """Mean of |features| of every voxel, a rounding per point, and two where it divides by way of a reciprocal."""
    if call.param("reduce_type") != MEAN:
        return {"voxel_feats": Bound(0.0)}
    voxels, feats = voxels_of(call.array("coors")), call.array("feats")
    magnitude = np.zeros(call.tensor("voxel_feats").dims)
    sizes = np.ones((len(magnitude), 1))
    if voxels.count:
        sizes[: voxels.count, 0] = voxels.sizes
        gathered = np.abs(feats[voxels.points], dtype=np.float64)
        magnitude[: voxels.count] = np.add.reduceat(gathered, voxels.starts, axis=0)
    unit = lattice_unit(feats[voxels.points])
    return {"voxel_feats": Bound(magnitude / sizes, sizes, unit=unit / sizes, afterwards=2)}


# The features as a kernel sees them that loses a point.


def _point_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    """The point adds nothing and never wins; that it is counted does not save it."""
    feats = call.array("feats").copy()
    feats[index] = 0 if call.param("reduce_type") == MEAN else -np.inf
    return {"feats": feats}


def _member_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    return _point_lost(call, int(crowd(voxels_of(call.array("coors")).of_point)[index]))


# Mistakes that kernels make about the points of a voxel, and about which voxels there are.


def _reduced(reduction: Callable[[Array, Voxels], Array], mode: int | None = None) -> Suspect:
    """voxel_feats by a reduction of the valid points' features, voxel by voxel, in calls of that mode."""

    def outputs(call: OpCall) -> Mapping[str, Array]:
        if mode is not None and call.param("reduce_type") != mode:
            return {}
        right = reference(call).outputs["voxel_feats"]
        voxels = voxels_of(call.array("coors"))
        if voxels.count:
            with np.errstate(invalid="ignore", over="ignore"):
                right[: voxels.count] = reduction(call.array("feats")[voxels.points].astype(np.float64), voxels)
        return {"voxel_feats": right}

    return outputs


def _sums_of_points(rows: Array, voxels: Voxels) -> Array:
    sums: Array = np.add.reduceat(rows, voxels.starts, axis=0)
    return sums


def _first_met(call: OpCall) -> Mapping[str, Array]:
    outputs = dict(reference(call).outputs)
    voxels = voxels_of(call.array("coors"))
    order = np.argsort(voxels.points[voxels.starts], kind="stable")
    places = np.argsort(order)
    for name in ("voxel_feats", "voxel_coors", "voxel_points_count"):
        outputs[name] = np.concatenate([outputs[name][order], outputs[name][voxels.count :]])
    # Behind the places of the voxels is that of the invalid points, whose number is −1.
    outputs["point2voxel_map"] = np.append(places, -1)[voxels.of_point].astype("<i4")
    return outputs


def _zero_is_invalid(coors: Array) -> Array:
    return np.where((coors == 0).any(axis=1)[:, None], np.int32(-1), coors)


SUSPECTS = {
    "the sum is not divided by the number of points": _reduced(_sums_of_points, MEAN),
    "the mean divides by one point more": _reduced(
        lambda rows, voxels: _sums_of_points(rows, voxels) / (voxels.sizes[:, None] + 1), MEAN
    ),
    "the mean is taken for the maximum": as_read(reference, lambda call: with_params(call, reduce_type=MEAN)),
    "the maximum is taken for the mean": as_read(reference, lambda call: with_params(call, reduce_type=MAX)),
    "the last point of every voxel wins": _reduced(lambda rows, voxels: rows[voxels.starts + voxels.sizes - 1]),
    "the smallest feature of every voxel is taken": _reduced(
        lambda rows, voxels: np.fmin.reduceat(rows, voxels.starts, axis=0), MAX
    ),
    "voxels stand in the order in which points meet them": _first_met,
    # §3.1.2's `gt 0`.
    "points with a coordinate 0 are invalid": as_read(reference, misread(coors=_zero_is_invalid)),
}


# One element of each output as §1.2 defines it: voxels are the distinct rows of valid points, ascending.


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """What the points with the same coordinates have in common; rows behind the last voxel are nobody's."""
    feats = call.array("feats")
    rows = [tuple(row) for row in call.array("coors").tolist()]
    # A point is valid if none of its coordinates is negative.
    voxels = sorted({row for row in rows if min(row) >= 0})
    number = {voxel: place for place, voxel in enumerate(voxels)}
    voxel_of = np.array([number.get(row, -1) for row in rows])

    def voxel_feats(voxel: int, channel: int) -> Fraction | float:
        values = feats[np.flatnonzero(voxel_of == voxel), channel]
        if call.param("reduce_type") == MEAN:
            return total(values.astype(np.float64)) / len(values)
        # A NaN is ignored beside a number; of NaN alone the start remains.
        return fraction(max(values[~np.isnan(values)].tolist(), default=-np.inf))

    return {
        "voxel_feats": voxel_feats,
        "voxel_coors": lambda voxel, axis: voxels[voxel][axis],
        "point2voxel_map": lambda point: int(voxel_of[point]),
        "voxel_points_count": lambda voxel: int(np.count_nonzero(voxel_of == voxel)),
        "voxel_num": lambda _: len(voxels),
    }


# The kernel that the numpy backend runs: ranks column by column, then a tournament in each voxel; in float32.

_TABLES = ("feats", "coors", "voxel_feats", "voxel_coors")


def kernel(call: OpCall) -> Status:
    """Check the call, then follow the four steps of §1.2; coors itself is left as it is."""
    early = early_status(call)
    if early is None:
        _compute(call)
    return Status.SUCCESS if early is None else early


def early_status(call: OpCall) -> Status | None:
    """The status of a call that is refused or has nothing to do; None where it must be computed."""
    if call.handle is None:
        return Status.BAD_PARAM
    if call.handle.arch < 370:
        return Status.ARCH_MISMATCH
    tensors = {name: arg for name, arg in (*call.inputs.items(), *call.outputs.items()) if arg is not None}
    if len(tensors) < 7 or any(len(arg.dims) != (2 if name in _TABLES else 1) for name, arg in tensors.items()):
        return Status.BAD_PARAM
    if any(arg.desc.is_strided for arg in tensors.values()):
        return Status.NOT_SUPPORTED
    if any(arg.dtype is not (DType.FLOAT if "feats" in name else DType.INT32) for name, arg in tensors.items()):
        return Status.BAD_PARAM
    if call.param("reduce_type") not in (1, 2) or not _shapes_fit(tensors):
        return Status.BAD_PARAM
    if max(tensors["feats"].desc.count, tensors["coors"].desc.count) >= 1 << 31:
        return Status.NOT_SUPPORTED
    if 0 in tensors["feats"].dims:
        return Status.SUCCESS
    if call.workspace_size and call.workspace is None:
        return Status.BAD_PARAM
    return Status.BAD_PARAM if any(arg.null for arg in tensors.values()) else None


def _shapes_fit(tensors: dict[str, TensorArg]) -> bool:
    points, channels = tensors["feats"].dims
    rows = tensors["voxel_feats"].dims[0]
    wanted = {
        "feats": (points, channels),
        "coors": (points, 3),
        "voxel_feats": (rows, channels),
        "voxel_coors": (rows, 3),
        "point2voxel_map": (points,),
        "voxel_points_count": (rows,),
        "voxel_num": (1,),
    }
    return rows <= points and all(arg.dims == wanted[name] for name, arg in tensors.items())


def _compute(call: OpCall) -> None:
    coors = call.array("coors")
    coors = np.where(coors.min(axis=1, keepdims=True) < 0, np.int32(-1), coors)
    rows, voxel_of, counts = _unique(coors)
    if rows[0, 0] < 0:
        rows, counts = rows[1:], counts[1:]
        voxel_of -= 1
    voxels = len(rows)
    call.array("voxel_num")[...] = voxels
    call.array("point2voxel_map")[...] = voxel_of
    call.array("voxel_coors")[:voxels] = rows
    call.array("voxel_points_count")[:voxels] = counts
    voxel_feats = call.array("voxel_feats")
    with np.errstate(invalid="ignore", over="ignore"):
        if call.param("reduce_type") == 2:
            winners = _tournament(call.array("feats"), voxel_of, np.fmax)
            # A maximum begins at −Inf: that is what a voxel without any number keeps.
            np.fmax(winners, np.float32(-np.inf), out=voxel_feats[:voxels])
        else:
            sums = _tournament(call.array("feats"), voxel_of, np.add)
            np.divide(sums, counts[:, None].astype(np.float32), out=voxel_feats[:voxels])


def _unique(coors: Array) -> tuple[Array, Array, Array]:
    """The distinct rows in ascending order, the position of every row among them, and how often each occurs."""
    rank = np.zeros(len(coors), np.int64)
    for column in coors.T:
        # Rows that are equal so far share a rank, which the next column refines: both factors are at most N.
        levels, place = np.unique(column, return_inverse=True)
        _, rank = np.unique(rank * len(levels) + place, return_inverse=True)
    counts = np.bincount(rank)
    rows = np.empty((len(counts), 3), np.int32)
    rows[rank] = coors
    return rows, rank, counts


def _tournament(feats: Array, voxel_of: Array, meet: Callable[[Array, Array], Array]) -> Array:
    """Neighbours in a voxel meet in pairs, round after round, until every voxel has one row left."""
    points = np.argsort(voxel_of, kind="stable")[np.count_nonzero(voxel_of < 0) :]
    rows, voxels = feats[points], voxel_of[points]
    while (together := voxels[1:] == voxels[:-1]).any():
        places = np.arange(len(voxels))
        firsts = np.append(True, ~together)
        odd = (places - np.maximum.accumulate(np.where(firsts, places, 0))) % 2 == 1
        second = np.flatnonzero(odd)
        rows[second - 1] = meet(rows[second - 1], rows[second])
        rows, voxels = rows[~odd], voxels[~odd]
    return rows


# With torch: unique rows, then scatter_reduce_ for the maximum or index_add_ for the mean.


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write the voxels, where each point went, and the reduced features."""
    import torch

    coors, feats = inputs["coors"], inputs["feats"]
    # A point counts if no coordinate is below 0 (§1.2; §3.1.2's `gt 0` is a slip).
    points = (coors >= 0).all(dim=1).nonzero().squeeze(1)
    outputs["point2voxel_map"].fill_(-1)
    outputs["voxel_num"].zero_()
    if len(points) == 0:
        return
    rows, voxels, counts = torch.unique(coors[points], dim=0, return_inverse=True, return_counts=True)
    outputs["voxel_num"].fill_(len(rows))
    outputs["voxel_coors"][: len(rows)] = rows
    outputs["voxel_points_count"][: len(rows)] = counts.to(torch.int32)
    outputs["point2voxel_map"][points] = voxels.to(torch.int32)
    gathered, reduced = feats.index_select(0, points), outputs["voxel_feats"][: len(rows)]
    if call.param("reduce_type") == MAX:
        # amax hands NaN on; here it loses against every number, and against the start.
        gathered = gathered.masked_fill(gathered.isnan(), -torch.inf)
        reduced.fill_(-torch.inf).scatter_reduce_(0, voxels[:, None].expand_as(gathered), gathered, "amax")
    else:
        reduced.zero_().index_add_(0, voxels, gathered).div_(counts[:, None])


# §1.5.1: integers are exact, so diff3 = 0.
_INDICES = {DType.INT32: exact()}

OPERATOR = Operator(
    name="dynamic_point_to_voxel_forward",
    released_name="dynamic_point_to_voxel_forward",
    op_type=("DYNAMIC_POINT_TO_VOXEL_FORWARD", 405),
    summary="Groups points by voxel coordinate and reduces their features to the mean or the maximum.",
    inputs=(
        TensorSpec("feats", "[N, C]", (DType.FLOAT,)),
        # §1.2, step 1: the rows of invalid points may be set to −1 in place.
        TensorSpec("coors", "[N, 3]", (DType.INT32,), may_become=marked),
    ),
    outputs=(
        OutputSpec("voxel_feats", "[M, C]", {DType.FLOAT: CRITERIA}, rows_owned="voxel_num"),
        OutputSpec("voxel_coors", "[M, 3]", _INDICES, rows_owned="voxel_num"),
        OutputSpec("point2voxel_map", "[N]", _INDICES),
        OutputSpec("voxel_points_count", "[M]", _INDICES, rows_owned="voxel_num"),
        OutputSpec("voxel_num", "[1]", _INDICES),
    ),
    params=ParamMessage(
        field="dynamic_point_to_voxel_forward_param",
        number=4012,
        message="DynamicPointToVoxelForwardParam",
        fields=(reduce_type(MEAN, MAX),),
    ),
    axes={
        "points": axis("N", of="feats", lost=_point_lost),
        "channels": axis("C", of="feats"),
        "voxels": axis("M", of="voxel_feats"),
    },
    checks=CHECKS,
    subsumed={"coors_empty": "coors has 3·N elements, and N = 0 leaves feats empty too"},
    # As released: the query sees two descriptors, and refuses nothing else of them.
    queries={
        "mluOpGetDynamicPointToVoxelForwardWorkspaceSize": QueryChecks(
            ("handle_null", "arch", "feats_desc_null", "coors_desc_null", SIZE_NULL)
        )
    },
    reference=reference,
    bound=bound,
    precondition=precondition,
    left_open={"undefined": find_nan_under_max, "subnormal": find_subnormal},
    kernel=kernel,
    suspects=SUSPECTS,
    theory=theory,
    sizes={
        # Rows behind the voxels are nobody's.
        "voxels": SizedAxis("voxel_feats", 0, count=lambda call: voxels_of(call.array("coors")).count),
        "points_of_a_voxel": SizedAxis(
            "feats", count=lambda call: int(voxels_of(call.array("coors")).sizes.max()), without=_member_lost
        ),
    },
    # §3.1.2, kernel 4: atomic adds, in no fixed order.
    order_free=True,
    # §2.2; coors is writable as in the released header.
    c_api=c_api.c_function(
        "mluOpDynamicPointToVoxelForward",
        query="mluOpGetDynamicPointToVoxelForwardWorkspaceSize",
        arguments=(
            c_api.HANDLE,
            *REDUCE_ARGUMENT,
            *c_api.tensor("feats"),
            *c_api.tensor("coors", writable=True),
            c_api.WORKSPACE,
            c_api.WORKSPACE_SIZE,
            *c_api.tensor("voxel_feats", "voxel_coors", "point2voxel_map", "voxel_points_count", "voxel_num"),
        ),
        query_arguments=(c_api.HANDLE, *c_api.descriptor("feats", "coors"), c_api.ASKED_SIZE),
    ),
    exact=elements,
    torch_kernel=torch_kernel,
)
