"""Rows multiplied with matrices and summed up elsewhere, as sparse convolutions do it: exact, rounded once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.authoring.blas_threads import each
from mluops_gtest.authoring.lost_terms import Terms, lost_terms
from mluops_gtest.authoring.rows import add_rows, wide_rows
from mluops_gtest.authoring.sums import (
    assert_conditioned,
    exact_sums,
    largest_magnitude,
    lattice_exponent,
    lattice_unit,
    sums_are_exact,
)
from mluops_gtest.authoring.suspects import Suspect
from mluops_gtest.base.frozen import Value
from mluops_gtest.core.call import OpCall
from mluops_gtest.core.operator import Bound
from mluops_gtest.core.tensor import Array, Criterion

# Sums in progress: 1 MiB of float64 stays in the cache of a thread while all matrices add to the same rows.
_BLOCK_SUMS: Final = 1 << 17
# What is looked at for conditioning: small cases wholly, network cases by their first rows.
_CONDITION_ROWS: Final = 1024
_CONDITION_PRODUCTS: Final = 1 << 20


class Products(Value):
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
    largest = largest_magnitude(products.rows) * largest_magnitude(products.matrices)
    exponent = lattice_exponent(products.rows) + lattice_exponent(products.matrices)
    return sums_are_exact(exponent, largest, products.longest_sum)


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
        **lost_terms(output, "pair", "row", lambda call: _terms_of_pairs(products_of(call)), lambda sums, _: sums),
        "the matrix of the opposite offset is taken": misread(
            lambda given: replace(given, matrices=given.matrices[::-1])
        ),
        "the matrix of every offset is transposed": misread(_transposed),
    }


def _transposed(products: Products) -> Products | None:
    _, rows, columns = products.matrices.shape
    return replace(products, matrices=products.matrices.swapaxes(1, 2)) if rows == columns else None


def _terms_of_pairs(products: Products) -> Terms:
    """One term per pair, offset by offset: its row times its matrix."""
    parts = [
        products.rows[sources].astype(np.float64) @ matrix.astype(np.float64)
        for (_, sources), matrix in zip(products.meetings, products.matrices, strict=True)
    ]
    targets = np.concatenate([np.zeros(0, np.int64), *(meeting[0] for meeting in products.meetings)])
    return Terms(np.concatenate([np.zeros((0, products.shape[1])), *parts]), targets, products.count)
