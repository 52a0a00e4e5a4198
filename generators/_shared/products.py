"""Sums of products of rows and matrices, as sparse convolutions and interpolations have them.

The numbers that fill the two factors; the sums for references, exact and rounded once; in float32 for kernels, apart
from them; and what comes out where pairs are lost.
"""

import ctypes
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any, Final, Literal, TypeVar

import numpy as np

from mluops_gtest.authoring import Array, Bound, Criterion, DType, Layout, OpCall, Stream
from mluops_gtest.authoring.rows import add_rows, wide_rows
from mluops_gtest.authoring.sum_of_terms import SumOfTerms, define_sums
from mluops_gtest.authoring.sums import (
    assert_conditioned,
    exact_sums,
    largest_magnitude,
    lattice_exponent,
    lattice_unit,
    sums_are_exact,
)
from mluops_gtest.authoring.suspects import Suspect

# lattice: few enough bits that float64 sums are exact; exact: so few that float32 sums are, and every lost term shows.
# The others have every mantissa bit random:
# full: one exponent; wide: many exponents; cancelling: neighbouring terms nearly cancel; positive: one sign;
# leading: positive, and the first and the last product are so large that half adds no other to them.
# The next two have few bits, and factors that are normal numbers. tiny: products are multiples of the smallest number
# above 0, and no sum reaches the normal ones. quarters: of a quarter of it, for sums of one product, which must be
# rounded up, down and from the middle between two numbers.
# lifted: the first factor is subnormal, the second so large that their products are not.
Values = Literal["lattice", "exact", "full", "wide", "cancelling", "positive", "leading", "tiny", "quarters", "lifted"]
# Those of which a device may lose all.
SUBNORMAL: Final = ("tiny", "quarters", "lifted")

_FLOAT64_BITS: Final = 53
_FLOAT32_BITS: Final = 24
_MANTISSA_BITS: Final = {DType.FLOAT: 24, DType.HALF: 11}
# Products of two such values stay normal and their sums finite.
_WIDE: Final = {DType.FLOAT: (-12, 12), DType.HALF: (-5, 3)}
# Neighbouring factors differ by 1/16 to 1/8, so two products leave about a fifth of one: mild enough that even vector
# lanes that sum the even and the odd terms apart stay far within 1e-5.
_DIFFERENCE: Final = 2.0**-4
# Other products stay below 1/4; from 512 on that is half a step of half. From either end a sum begins there.
_LEADING: Final = {1: 2.0**7, -1: 2.0**6}
# By the sign of the factor: the two exponents add up to that of the smallest number above 0, 2^-149 or 2^-24.
_TINY_SCALE: Final = {DType.FLOAT: {1: 75, -1: 149 - 75}, DType.HALF: {1: 12, -1: 24 - 12}}
# That many of the smallest number make the smallest normal one.
_SUBNORMAL_BITS: Final = {DType.FLOAT: 23, DType.HALF: 10}
# Products of up to 15 · 15 quarters: so small that one step of rounding is some percent of them.
_QUARTERS_BITS: Final = 4
# By the sign of the factor: up to 15 of the smallest number above 0, and what makes normal numbers of them.
_LIFTED_SCALE: Final = {DType.FLOAT: {1: 149, -1: -120}, DType.HALF: {1: 24, -1: -10}}
_LIFTED_BITS: Final = 4


def draw_factor(
    stream: Stream,
    values: Values,
    dtype: DType,
    shape: tuple[int, ...],
    *,
    terms: int,
    axis: int = -1,
    sign: Literal[1, -1] = 1,
) -> Array:
    """One factor of sums of up to `terms` products along `axis`; of the two factors one has sign 1, the other −1."""
    storage = dtype.storage.str
    match values:
        case "lattice" | "exact":
            within = _FLOAT32_BITS if values == "exact" else _FLOAT64_BITS
            return stream.lattice(shape, lattice_bits(dtype, terms, within), dtype=storage)
        case "full":
            return stream.mantissas(shape, dtype=storage)
        case "wide":
            return stream.mantissas(shape, _WIDE[dtype], dtype=storage)
        case "positive":
            return _positive(stream, shape, storage)
        case "leading":
            drawn = _positive(stream, shape, storage)
            np.moveaxis(drawn, axis, -1)[..., [0, -1]] *= drawn.dtype.type(_LEADING[sign])
            return drawn
        case "cancelling":
            drawn = stream.mantissas(shape, dtype=storage)
            _cancel(np.moveaxis(drawn, axis, -1), sign)
            return drawn
        case "tiny":
            bits = (_SUBNORMAL_BITS[dtype] - math.ceil(math.log2(terms))) // 2
            if bits < 1:
                raise ValueError(f"sums of {terms} products of the smallest numbers are normal numbers; give fewer")
            return stream.lattice(shape, bits, _TINY_SCALE[dtype][sign], dtype=storage)
        case "quarters":
            if terms > 1:
                raise ValueError(f"quarters are for sums of one product, not of {terms}: others round on the way")
            return stream.lattice(shape, _QUARTERS_BITS, _TINY_SCALE[dtype][sign] + 1, dtype=storage)
        case "lifted":
            return stream.lattice(shape, _LIFTED_BITS, _LIFTED_SCALE[dtype][sign], dtype=storage)


def lattice_bits(dtype: DType, terms: int, within: int = _FLOAT64_BITS) -> int:
    """The most bits per factor that keep sums of `terms` products exact: 2·bits + ⌈log2 terms⌉ ≤ 53, or `within`."""
    return min(_MANTISSA_BITS[dtype], (within - math.ceil(math.log2(terms))) // 2)


def _positive(stream: Stream, shape: tuple[int, ...], storage: str) -> Array:
    # In [1/4, 1/2), so that thousands of products stay far below the largest half.
    return np.abs(stream.mantissas(shape, (-2, -2), dtype=storage))


def _cancel(values: Array, sign: int) -> None:
    """Let each odd term nearly repeat the even one before it, in the second factor with the opposite sign."""
    pairs = values.shape[-1] // 2
    even, odd = values[..., : 2 * pairs : 2], values[..., 1 : 2 * pairs : 2]
    # Rounded element by element, so the same on every machine.
    odd[...] = sign * even * (1 + values.dtype.type(_DIFFERENCE) * np.abs(odd))


# Left to itself BLAS shares every single product among its threads, and these meet in it again and again: where the
# machine is busy they wait longer than they multiply, and what lies between two products has one thread alone. So a
# thread of ours takes the place of each of BLAS, and they do not wait for each other.
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# The number of threads belongs to the process.
_ALONE: Final = Lock()
# numpy's own wheels rename the functions of the OpenBLAS that they bring, and those with 64-bit integers.
_NAMES: Final = [f"{prefix}openblas_%s_num_threads{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "")]


def each(work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
    """`work` on every item, on as many threads as BLAS would take; the results in order."""
    if len(items) < 2:
        return list(map(work, items))
    from concurrent.futures import ThreadPoolExecutor

    # What numpy warns of is set for each thread.
    settings = np.geterr()

    def as_here(item: _Item) -> _Result:
        with np.errstate(**settings):
            return work(item)

    with _one_per_product() as threads, ThreadPoolExecutor(threads) as pool:
        return list(pool.map(as_here, items))


@contextmanager
def _one_per_product() -> Iterator[int]:
    """Inside, a product takes one thread; how many there were. 1 where BLAS is another one, which is left alone."""
    functions = _openblas()
    if functions is None:
        yield 1
        return
    number, set_number = functions
    with _ALONE:
        before = number()
        set_number(1)
        try:
            yield before
        finally:
            set_number(before)


@cache
def _openblas() -> tuple[Any, Any] | None:
    """How many threads the OpenBLAS of numpy takes for a product, and how to change that."""
    try:
        library = ctypes.CDLL(import_module("numpy._core._multiarray_umath").__file__)
    except (ImportError, OSError):
        return None
    for name in _NAMES:
        if hasattr(library, name % "set"):
            return getattr(library, name % "get"), getattr(library, name % "set")
    return None


# Sums in progress: 1 MiB of float64 stays in the cache of a thread while all matrices add to the same rows.
_BLOCK_SUMS: Final = 1 << 17
# What is looked at for conditioning: small cases wholly, network cases by their first rows.
_CONDITION_ROWS: Final = 1024
_CONDITION_PRODUCTS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Products:
    """sums[to] += rows[source] · matrices[k] for every pair (to, source) of meetings[k], an array [2, n].

    rows is [S, I], matrices [K, I, O], sums [count, O]; rows and matrices have the same type.
    """

    rows: Array
    matrices: Array
    meetings: tuple[Array, ...]
    count: int

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the sums."""
        return self.count, self.matrices.shape[2]

    @property
    def terms(self) -> Array:
        """How many products each row sums, [count]."""
        received = np.zeros(self.count, np.int64)
        for targets, _ in self.meetings:
            received += np.bincount(targets, minlength=self.count)
        received *= self.matrices.shape[1]
        return received

    @property
    def longest_sum(self) -> int:
        """The most products that any element sums."""
        return int(self.terms.max())


def summed(products: Products) -> Array:
    """The sums, +0 where there is nothing to add, in the type of the rows: the same bits on every machine."""
    # Sums beyond the largest half become infinite, and infinite inputs may make NaN: answers, not accidents.
    with np.errstate(over="ignore", invalid="ignore"):
        sums = by_matrix_products(products) if float64_is_exact(products) else one_by_one(products)
    # Which NaN an operation gives differs between processors.
    sums[np.isnan(sums)] = np.nan
    return sums


def bound_of(products: Products) -> Bound:
    """What arithmetic allows each sum: any order, a product and an addition per term."""
    # float32 has room for sums of halves that leave the range of half.
    rows, matrices = (np.abs(values).astype(np.float32) for values in (products.rows, products.matrices))
    with np.errstate(over="ignore", invalid="ignore"):
        magnitude = by_matrix_products(replace(products, rows=rows, matrices=matrices))
    return Bound(magnitude, products.terms[:, None], unit=lattice_unit(products.rows, products.matrices), products=True)


def float64_is_exact(products: Products) -> bool:
    """Every sum is exact in float64 in any order, so BLAS may choose one."""
    return products_are_exact(products.rows, products.matrices, products.longest_sum)


def products_are_exact(left: Array, right: Array, terms: int) -> bool:
    """No float64 sum of so many products of a value of each array ever rounds."""
    largest = largest_magnitude(left) * largest_magnitude(right)
    return sums_are_exact(lattice_exponent(left) + lattice_exponent(right), largest, terms)


def by_matrix_products(products: Products) -> Array:
    """The sums in float64 in an order that BLAS chooses, rounded once; exact where float64 is."""
    count, columns = products.shape
    result = np.empty(products.shape, products.rows.dtype)
    step = max(1, min(count, _BLOCK_SUMS // columns))
    meetings = [_ascending(meeting) for meeting in products.meetings]
    bounds = [np.searchsorted(meeting[0], range(0, count + step, step)) for meeting in meetings]
    longest = max((int(np.diff(bound).max()) for bound in bounds), default=0)
    rows, matrices = products.rows.astype(np.float32, copy=False), products.matrices.astype(np.float64)
    # Used again and again: the first touch of fresh memory would take as long as gathering and adding.
    idle: list[tuple[Array, Array, Array]] = []

    def fill(block: int) -> None:
        try:
            sums, gathered, multiplied = idle.pop()
        except IndexError:
            sums = np.empty((step, columns), np.float64)
            gathered, multiplied = (np.empty((longest, width), np.float64) for width in matrices.shape[1:])
        start = block * step
        sums[...] = 0
        for meeting, bound, matrix in zip(meetings, bounds, matrices, strict=True):
            targets, sources = meeting[:, bound[block] : bound[block + 1]]
            part = wide_rows(rows, sources, gathered[: len(sources)])
            add_rows(sums, targets - start, np.matmul(part, matrix, out=multiplied[: len(sources)]))
        result[start : start + step] = sums[: count - start]
        idle.append((sums, gathered, multiplied))

    each(fill, range(-(-count // step)))
    return result


def one_by_one(products: Products) -> Array:
    """The sums as exact numbers, rounded once."""
    result = np.zeros(products.shape, products.rows.dtype)
    for row, terms in terms_by_row(products):
        result[row] = exact_sums(terms)
    return result


def terms_by_row(products: Products) -> Iterator[tuple[int, Array]]:
    """Per row that receives anything, ascending: the row and its products as float64 [T, O], all exact."""
    offsets = np.repeat(np.arange(len(products.meetings)), [meeting.shape[1] for meeting in products.meetings])
    targets, sources = np.concatenate([np.empty((2, 0), np.int64), *products.meetings], axis=1)
    order = np.argsort(targets, kind="stable")
    ascending = targets[order]
    received = np.unique(ascending)
    starts, ends = (np.searchsorted(ascending, received, side) for side in ("left", "right"))
    for row, start, end in zip(received, starts, ends, strict=True):
        part = order[start:end]
        rows = products.rows[sources[part]].astype(np.float64)
        matrices = products.matrices[offsets[part]]
        # The product of two float32 values has at most 48 bits, and float64 holds 53.
        yield int(row), (rows[:, :, None] * matrices).reshape(-1, matrices.shape[2])


def refuse_unless_conditioned(products: Products, criteria: Sequence[Criterion], *, lattice: bool) -> None:
    """Lattice data must be exact in float64, and any order of float32 additions must stay far within the criteria."""
    if lattice and not float64_is_exact(products):
        raise ValueError("the lattice is too fine: float64 sums of these products round")
    terms = _leading_terms(products)
    if terms.size:
        assert_conditioned(terms, exact_sums(terms), criteria)


def _leading_terms(products: Products) -> Array:
    """The products of the first rows as columns [T, n], padded with zeros."""
    longest = products.longest_sum
    first = min(_CONDITION_ROWS, max(1, _CONDITION_PRODUCTS // max(1, longest * products.shape[1])))
    leading = replace(products, meetings=tuple(meeting[:, meeting[0] < first] for meeting in products.meetings))
    found = [terms for _, terms in terms_by_row(leading)]
    padded = np.zeros((longest, len(found), products.shape[1]))
    for column, terms in enumerate(found):
        padded[: len(terms), column] = terms
    return padded.reshape(longest, len(found) * products.shape[1])


def _ascending(meeting: Array) -> Array:
    """The pairs by target; where they stand so already, nothing is copied."""
    targets = meeting[0]
    return meeting if (targets[1:] >= targets[:-1]).all() else meeting[:, np.argsort(targets, kind="stable")]


def products_suspects(output: str, products_of: Callable[[OpCall], Products]) -> Mapping[str, Suspect]:
    """`suspects` of an operator whose output are these sums: lost pairs, and matrices that are exchanged."""

    def misread(change: Callable[[Products], Products | None]) -> Suspect:
        def outputs(call: OpCall) -> Mapping[str, Array]:
            products = change(products_of(call))
            return {} if products is None else {output: summed(products)}

        return outputs

    return {
        **define_sums(output, lambda call: _terms_of_pairs(products_of(call)), term="pair", place="row").suspects,
        "the matrix of the opposite offset is taken": misread(
            lambda given: replace(given, matrices=given.matrices[::-1])
        ),
        "the matrix of every offset is transposed": misread(_transposed),
    }


def _transposed(products: Products) -> Products | None:
    _, rows, columns = products.matrices.shape
    return replace(products, matrices=products.matrices.swapaxes(1, 2)) if rows == columns else None


def _terms_of_pairs(products: Products) -> SumOfTerms:
    """One term per pair, offset by offset: its row times its matrix."""
    parts = [
        products.rows[sources].astype(np.float64) @ matrix.astype(np.float64)
        for (_, sources), matrix in zip(products.meetings, products.matrices, strict=True)
    ]
    targets = np.concatenate([np.zeros(0, np.int64), *(meeting[0] for meeting in products.meetings)])
    values = np.concatenate([np.zeros((0, products.shape[1])), *parts])[None]
    return SumOfTerms(
        values,
        target=targets[None, :, None],
        count=products.count,
        shaped=lambda sums: sums[0].astype(products.rows.dtype),
    )


def stacked_weights(filters: Array, layout: Layout, *, to: Literal[0, 1]) -> Array:
    """Under each other the matrices of all offsets as kernels take them, [K·I, O] float32; `to` as in `gather_sums`."""
    dims = filters.shape
    match layout:
        case Layout.NHWC | Layout.NDHWC:
            by_offset = filters.reshape(dims[0], -1, dims[-1]).transpose(1, 2, 0)
        case Layout.NCHW | Layout.NCDHW:
            by_offset = filters.reshape(dims[0], dims[1], -1).transpose(2, 1, 0)
        case _:
            by_offset = filters.reshape(-1, dims[-2], dims[-1])
    matrices = by_offset if to == 1 else by_offset.swapaxes(1, 2)
    return np.ascontiguousarray(matrices, np.float32).reshape(-1, matrices.shape[2])


# Gathered values per block of rows: 4 MiB of float32, however many offsets and channels there are.
_BLOCK_VALUES: Final = 1 << 20


def gather_sums(
    rows: Array, matrices: Array, pairs: Array, counts: Sequence[int], result: Array, *, to: Literal[0, 1]
) -> None:
    """Write to each row of `result` the sum of the rows that it meets, times their matrices, [K·I, O] in one array.

    `to` is the side of indice_pairs that names rows of `result`.
    """
    partners = _partners(pairs, counts, to, len(result), nobody=len(rows))
    # Zeros for a partner that is missing are harmless only where the matrices are finite: 0 · ∞ is NaN.
    gather = _all_offsets_at_once if np.isfinite(matrices).all() else _offset_by_offset
    # Rounding a sum beyond the largest half gives an infinity, as the device does.
    with np.errstate(over="ignore", invalid="ignore"):
        gather(rows, matrices, partners, result)


def _partners(pairs: Array, counts: Sequence[int], to: int, count: int, nobody: int) -> Array:
    """[count, K]: the row that a row of the result meets at each offset, `nobody` where it meets none."""
    partners = np.full((count, len(counts)), nobody, np.int32)
    for k, used in enumerate(counts):
        partners[pairs[k, to, :used], k] = pairs[k, 1 - to, :used]
    return partners


def _all_offsets_at_once(rows: Array, matrices: Array, partners: Array, result: Array) -> None:
    """One product per block of rows; a row of zeros behind the last one stands for nobody."""
    padded = np.concatenate([rows, np.zeros((1, rows.shape[1]), np.float32)])
    step = max(1, _BLOCK_VALUES // len(matrices))
    for start in range(0, len(result), step):
        block = partners[start : start + step]
        result[start : start + step] = padded[block].reshape(len(block), -1) @ matrices


def _offset_by_offset(rows: Array, matrices: Array, partners: Array, result: Array) -> None:
    """Only rows that have a partner are multiplied."""
    sums = np.zeros(result.shape, np.float32)
    for column, matrix in zip(partners.T, np.split(matrices, partners.shape[1]), strict=True):
        met = np.flatnonzero(column < len(rows))
        sums[met] += rows[column[met]] @ matrix
    result[...] = sums
