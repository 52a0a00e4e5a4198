"""Point clouds for operators that look for neighbours, with answers that no rounding can change.

A cloud is integers [B, N, 3] until `placed` makes it coordinates, integer · 2^exponent. Where squared distances are
small enough (`assert_lattice`) every float evaluation of them is exact; on finer data a recipe keeps the rows whose
distances lie far enough apart. Baselines are those of exact arithmetic.
"""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from mluops_gtest.authoring import Array, ContentError, Draw, DType, Stream, dtype_of
from mluops_gtest.authoring.rows import native_distances
from mluops_gtest.authoring.sums import lattice_exponent

# The largest |integer| of a lattice around 0 on which |u|² + |k|² − 2u·k is exact, too: 3·2364² ≤ 2^24, 3·26² ≤ 2^11.
CENTRED = {DType.FLOAT: 1182, DType.HALF: 13}
# The largest |integer| that the type holds with all smaller ones: such coordinates use every mantissa bit.
FULL = {DType.FLOAT: 2**24 - 1, DType.HALF: 2**11 - 1}

_BITS = {DType.FLOAT: 24, DType.HALF: 11}
# The square of a smaller difference is subnormal: a device may take it for 0.
LEAST_EXPONENT = {DType.FLOAT: -63, DType.HALF: -7}
_LARGEST = {dtype: float(np.finfo(dtype.storage).max) for dtype in _BITS}
# float64 errs by at most 5·2^-53 of the value.
_DOUBT = 2.0**-49

_integers = np.frompyfunc(int, 1, 1)

_PARTS = 6
_ROWS = 64  # queries that are looked at together; they stand side by side
_BESIDE = 128  # points to either side of them that bound how far the nearest are
_PAIRS = 1 << 24  # 128 MiB of distances, should they all stand in one plane


def surfaces(draw: Draw, batch: int, count: int, reach: int) -> Array:
    """Integers [B, N, 3] on the surfaces of made-up objects, one a batch, that just fill the ball of radius `reach`."""
    return np.stack([_object(draw, f"object {number}", count, reach) for number in range(batch)])


def _object(draw: Draw, name: str, count: int, reach: int) -> Array:
    """Shells, boxes and tubes of any proportions around the middle; the same to the bit on every machine."""
    # |centre| + |half lengths| < 1 keeps every part inside the ball.
    centres = _uniform(draw.stream(f"{name} centres"), -0.25, 0.25, (_PARTS, 3))
    lengths = _uniform(draw.stream(f"{name} lengths"), 0.1, 0.32, (_PARTS, 3))
    part = draw.stream(f"{name} parts").integers(0, _PARTS, count)
    direction = _uniform(draw.stream(name), -1.0, 1.0, (count, 3))
    x, y, z = np.square(direction).T
    norms = np.stack([np.sqrt(x + y + z), np.abs(direction).max(axis=1), np.sqrt(x + y)])
    surface = direction / norms[part % 3, np.arange(count)][:, None]
    tube = part % 3 == 2
    surface[tube, 2] = direction[tube, 2]
    points = centres[part] + lengths[part] * surface
    x, y, z = np.square(points).T
    units: Array = np.rint(points * (reach / np.sqrt((x + y + z).max()))).astype(np.int64)
    return units


def _uniform(stream: Stream, low: float, high: float, shape: tuple[int, ...]) -> Array:
    """Uniform in (low, high), the ends and 0 left out."""
    values: Array = low + (high - low) * ((stream.lanes(math.prod(shape)) + 0.5) / 2.0**32)
    return values.reshape(shape)


def farthest_sample(cloud: Array, count: int) -> Array:
    """[B, count, 3]: point 0, then each time the first of those farthest from all taken; its beginnings are the coarser
    samples."""
    if count > cloud.shape[1]:
        raise ValueError(f"{count} points cannot be taken from clouds of {cloud.shape[1]}")
    taken = np.empty((len(cloud), count), np.int64)
    for points, indices in zip(cloud, taken, strict=True):
        axes = np.ascontiguousarray(points.T, dtype=np.float64)
        free = np.full(len(points), np.inf)
        chosen = 0
        for place in range(count):
            indices[place] = chosen
            np.minimum(free, _between(axes[:, chosen, None].T, axes)[0], out=free)
            # A twin of a taken point stands at distance 0 and may still be taken.
            free[chosen] = -1
            chosen = int(free.argmax())
    return np.take_along_axis(cloud, taken[..., None], axis=1)


def offsets(draw: Draw, batch: int) -> Array:
    """Integers [B, 1, 3] in 2^20 … 2^21 to add to a cloud: rounding coordinates, or multiplying the square out, then
    finds other neighbours."""
    return draw.stream("offsets").integers(1 << 20, 1 << 21, (batch, 1, 3))


def placed(units: Array, exponent: int, dtype: DType) -> Array:
    """units · 2^exponent as float or half; ValueError where that is not exact."""
    wanted = units * 2.0**exponent
    with np.errstate(over="ignore"):
        coordinates = wanted.astype(dtype.storage)
    if not np.array_equal(coordinates, wanted):
        raise ValueError(f"an integer times 2^{exponent} is not a {dtype.value}; take a smaller reach or exponent")
    return coordinates


def assert_lattice(queries: Array, points: Array) -> None:
    """Every float evaluation of every squared distance within a batch is exact; non-finite coordinates are left out."""
    fault = lattice_fault(queries, points)
    if fault is not None:
        raise ContentError(fault)


def lattice_fault(queries: Array, points: Array) -> str | None:
    """Why `assert_lattice` does not hold, and what to draw instead; None where it does."""
    dtype = dtype_of(points)
    exponent, largest = _exponent(queries, points), _largest(queries, points)
    if largest > Fraction(4) ** exponent * 2 ** _BITS[dtype]:
        return (
            f"A squared distance may be {float(largest / Fraction(4) ** exponent):.0f} units of 4^{exponent}; "
            f"{dtype.value} is exact up to 2^{_BITS[dtype]} of them. Draw a smaller cloud on this lattice."
        )
    if (tiny := _tiny(exponent, dtype)) is not None:
        return tiny
    if largest > _LARGEST[dtype]:
        return f"A squared distance may pass {_LARGEST[dtype]:.6g}, the largest {dtype.value}."
    return None


def refuse_tiny(queries: Array, points: Array) -> None:
    """Squares of differences of the coordinates must be normal numbers."""
    if (tiny := _tiny(_exponent(queries, points), dtype_of(points))) is not None:
        raise ContentError(tiny)


def _tiny(exponent: int, dtype: DType) -> str | None:
    least = LEAST_EXPONENT[dtype]
    if exponent >= least:
        return None
    return (
        f"Two {dtype.value} coordinates may differ by 2^{exponent}, whose square is subnormal; keep multiples of "
        f"2^{least}."
    )


def _exponent(queries: Array, points: Array) -> int:
    return min(lattice_exponent(queries), lattice_exponent(points))


def _largest(queries: Array, points: Array) -> Fraction:
    """A bound on all squared distances within a batch: the largest diagonal of a box around its finite points.

    Exact below 2^53 squared units of the lattice; a larger one never rounds to less than that.
    """
    ends = [_ends(queries), _ends(points)]
    low, high = np.minimum(ends[0][0], ends[1][0]), np.maximum(ends[0][1], ends[1][1])
    # −Inf where a batch has no finite coordinate.
    diagonal = np.square(np.maximum(high - low, 0)).sum(axis=-1)
    return Fraction(float(diagonal.max(initial=0)))


def _ends(cloud: Array) -> tuple[Array, Array]:
    """float64 [B, 3]: the lowest and the highest finite coordinate on every axis; +Inf and −Inf where there is none."""
    finite = np.isfinite(cloud)
    # As float64 from the start: before numpy 2 an infinite `initial` does not fit integer coordinates.
    coordinates = cloud.astype(np.float64, copy=False)
    low = np.min(coordinates, axis=1, where=finite, initial=np.inf)
    high = np.max(coordinates, axis=1, where=finite, initial=-np.inf)
    return low, high


def squared_distances(queries: Array, points: Array) -> Array:
    """float64 [N, M] between points [N, 3] and [M, 3]: exact where `exact_in_float64`, else right to 50 bits; NaN or
    infinite where a coordinate is not finite."""
    return _between(queries.astype(np.float64), np.ascontiguousarray(points.T, dtype=np.float64))


def exact_in_float64(queries: Array, points: Array) -> bool:
    """`squared_distances` between all finite points of the same batch are exact."""
    return _largest(queries, points) < Fraction(4) ** _exponent(queries, points) * 2**53


def exact_squared_distances(queries: Array, points: Array, exponent: int) -> Array:
    """Integers [K] of any length, in units of 4^exponent: how far finite points [K, 3] are from others [K, 3].

    Every coordinate is a multiple of 2^exponent.
    """
    query, point = (_integers(np.ldexp(cloud.astype(np.float64), -exponent)) for cloud in (queries, points))
    squared: Array = np.square(query - point).sum(axis=1)
    return squared


def nearest(queries: Array, points: Array, count: int = 3) -> tuple[Array, Array]:
    """The `count` nearest points of the same batch in exact arithmetic, equals by index: squared distances and indices,
    [B, N, count]; +Inf and 0 where there are fewer.

    A point with a coordinate that is not finite is nobody's neighbour and has none. The distances are float64, rounded
    to odd where they need more bits: narrowing one to float or half rounds as if once.
    """
    squared = np.full((*queries.shape[:2], count), np.inf)
    indices = np.zeros(squared.shape, np.int64)
    exact, exponent = exact_in_float64(queries, points), _exponent(queries, points)
    for batch in range(len(queries)):
        for rows, columns, block in _windows(queries[batch], points[batch], count):
            row, place = _candidates(block, count)
            query, column = rows[row], columns[place]
            if exact:
                distances = block[row, place]
                order = np.lexsort((column, distances, query))
            else:
                true = exact_squared_distances(queries[batch, query], points[batch, column], exponent)
                distances = np.ldexp(_to_odd(true), 2 * exponent)
                order = np.lexsort((column, true, query))
            query, column, distances = query[order], column[order], distances[order]
            rank = np.arange(len(query)) - np.searchsorted(query, query)
            kept = rank < count
            squared[batch, query[kept], rank[kept]] = distances[kept]
            indices[batch, query[kept], rank[kept]] = column[kept]
    return squared, indices


def _windows(queries: Array, points: Array, count: int) -> Iterator[tuple[Array, Array, Array]]:
    """Queries, points and their squared distances: a few queries at a time, with all points that may be nearest."""
    rows, columns = _along_x(queries), _along_x(points)
    axes = np.ascontiguousarray(points[columns].T, dtype=np.float64)
    step = min(_ROWS, max(1, _PAIRS // max(1, len(columns))))
    for start in range(0, len(rows) if len(columns) else 0, step):
        some = rows[start : start + step]
        near = queries[some].astype(np.float64)
        left, right = near[0, 0], near[-1, 0]
        low, high = max(0, int(np.searchsorted(axes[0], left)) - _BESIDE), np.searchsorted(axes[0], right) + _BESIDE
        squared = _between(near, axes[:, low:high])
        if squared.shape[1] < len(columns):
            # Whoever is farther off on x alone than the last of the nearest in this window is not among the nearest.
            reach = np.sqrt(np.partition(squared, count - 1, axis=1)[:, count - 1].max())
            reach = reach * (1 + 2.0**-20) + max(abs(left), abs(right)) * 2.0**-50
            low, high = np.searchsorted(axes[0], left - reach), np.searchsorted(axes[0], right + reach, side="right")
            squared = _between(near, axes[:, low:high])
        yield some, columns[low:high], squared


def _along_x(points: Array) -> Array:
    """The finite ones, ascending in x."""
    finite = np.flatnonzero(np.isfinite(points).all(axis=-1))
    return finite[np.argsort(points[finite, 0], kind="stable")]


def _candidates(squared: Array, count: int) -> tuple[Array, Array]:
    """Row and column of all that may be among the `count` smallest of their row."""
    last = min(count, squared.shape[1]) - 1
    limit = np.partition(squared, last, axis=1)[:, last, None]
    # Flat: numpy takes several times as long to find the places of two axes.
    row, column = np.divmod(np.flatnonzero(squared <= limit * (1 + _DOUBT)), squared.shape[1])
    return row, column


def interpolation(unknown: Array, known: Array) -> tuple[Array, Array]:
    """The three nearest known points of each unknown one, int32 [B, N, 3], and their weights in float64:
    1 / (√d2 + 1e-8), divided by the sum of the three."""
    squared, indices = nearest(unknown, known)
    inverse = 1 / (np.sqrt(squared) + 1e-8)
    total = inverse[..., 0] + inverse[..., 1] + inverse[..., 2]
    return indices.astype("<i4"), inverse / total[..., None]


def _between(queries: Array, axes: Array) -> Array:
    total = np.empty((len(queries), axes.shape[1]), np.float64)
    if native_distances(queries, axes, total):
        return total
    with np.errstate(invalid="ignore"):
        np.subtract(queries[:, 0, None], axes[0], out=total)
        total *= total
        for axis in (1, 2):
            difference = queries[:, axis, None] - axes[axis]
            difference *= difference
            total += difference
    return total


def _to_odd(values: Array) -> Array:
    """float64: each integer where it is one, else the float64 beside it whose last bit is set."""
    rounded = values.astype(np.float64)
    lost = values - _integers(rounded)
    even = rounded.view(np.uint64) & 1 == 0
    odd: Array = np.where(even & (lost != 0), np.nextafter(rounded, np.where(lost > 0, np.inf, 0.0)), rounded)
    return odd


# How kernels misread a cloud [B, N, 3].


def first_batch(cloud: Array) -> Array:
    """Every batch is the first one."""
    return np.broadcast_to(cloud[:1], cloud.shape)


def axes_first(cloud: Array) -> Array:
    """The buffer read as [B, 3, N]."""
    return cloud.reshape(cloud.shape[0], 3, cloud.shape[1]).swapaxes(1, 2)


def without_axis(axis: int) -> Callable[[Array], Array]:
    """A coordinate is 0 everywhere."""
    return lambda cloud: np.where(np.arange(3) == axis, cloud.dtype.type(0), cloud)


def without_point(index: int) -> Callable[[Array], Array]:
    """A point is NaN, which no search finds."""

    def changed(cloud: Array) -> Array:
        is_lost = np.arange(cloud.shape[1]) == index % cloud.shape[1]
        return np.where(is_lost[:, None], cloud.dtype.type(np.nan), cloud)

    return changed
