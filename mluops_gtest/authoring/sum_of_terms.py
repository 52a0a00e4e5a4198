"""Sums of terms: what an operator that adds computes, said once; reference, bound, suspects and theory follow.

def terms(call: OpCall) -> SumOfTerms:
    features, indices, weights = (call.array(name) for name in ("features", "indices", "weights"))
    return SumOfTerms(features, source=indices, factor=weights)

OPERATOR = Operator(…, definition=define_sums("output", terms, term="cell", place="point"))
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Final, TypeVar, cast

import numpy as np

from mluops_gtest.authoring.rows import blended, native_add_rows, scattered
from mluops_gtest.authoring.sums import largest_magnitude, lattice_exponent, lattice_unit, odd_sums, sums_are_exact
from mluops_gtest.core.call import OpCall
from mluops_gtest.core.declaration import Baseline, Bound, Definition, Theory, count_bytes
from mluops_gtest.core.tensor import Array

__all__ = ["SumOfTerms", "define_sums"]

# Products or sums in progress: 1 MiB of float64 stays in the cache.
_BLOCK: Final = 1 << 17
# The same where sums are exact whatever cancels: products sorted by sum for each block, so that blocks are larger.
_EXACT_BLOCK: Final = 1 << 21
_FLOAT32_BITS: Final = 24

_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class SumOfTerms:
    """In each of B batches, values[b, source[b, n, k]] · factor[b, n, k] is a term of the sum target[b, n, k].

    Without `source`, the K terms of n have value n. Without `target`, they make sum n, which begins with its first
    term; others begin with 0. A target of −1 is no sum.
    """

    # [B, S, C]; where channels lie first, a view of them.
    values: Array
    source: Array | None = None
    target: Array | None = None
    factor: Array | None = None
    # Sums per batch, where there are targets.
    count: int = 0
    # Gives [B, sums, C] the output's axes, for any number of channels.
    shaped: Callable[[Array], Array] = np.asarray

    @property
    def shape(self) -> tuple[int, ...]:
        """B, N and K."""
        named = self.target if self.source is None else self.source
        if named is None:
            raise ValueError("SumOfTerms(…) has neither source nor target; say which value or which sum a term has")
        return named.shape

    @property
    def sums_per_batch(self) -> int:
        """How many sums a batch has."""
        return self.shape[1] if self.target is None else self.count

    @property
    def operands(self) -> tuple[Array, ...]:
        """What is multiplied, in the order in which it lies in memory."""
        return tuple(of.ravel(order="K") for of in (self.values, self.factor) if of is not None)

    @property
    def met(self) -> Array:
        """int [B, sums]: how many terms each sum has."""
        batches, (_, _, targets) = self.shape[0], self.entries()
        return np.bincount(targets, minlength=batches * self.sums_per_batch).reshape(batches, -1)

    @property
    def operations(self) -> int:
        """A product for each term with a factor, and an addition for each but those with which a sum begins."""
        begun = math.prod(self.shape[:2]) if self.target is None else 0
        return int(self.values.shape[2] * (self.met.sum() * len(self.operands) - begun))

    @property
    def float64_is_exact(self) -> bool:
        """No float64 sum of the terms rounds, whatever the order."""
        exponent, largest = sum(map(lattice_exponent, self.operands)), math.prod(map(largest_magnitude, self.operands))
        return sums_are_exact(exponent, largest, int(self.met.max()))

    def entries(self) -> tuple[Array, Array, Array]:
        """The numbers of the terms that are in a sum, and those of their values and sums in all batches."""
        batches, number, _ = self.shape
        batch, each = np.arange(batches)[:, None, None], np.arange(number)[:, None]
        target = np.broadcast_to(each if self.target is None else self.target, self.shape)
        source = batch * self.values.shape[1] + (each if self.source is None else self.source)
        numbers, places = np.flatnonzero(target >= 0), (batch * self.sums_per_batch + target).reshape(-1)
        sources = np.broadcast_to(source, self.shape).reshape(-1)
        # Mostly all terms are in a sum, and to choose them takes longer than to see that.
        return (
            (numbers, sources, places) if len(numbers) == len(places) else (numbers, sources[numbers], places[numbers])
        )

    def products(self, numbers: Array, sources: Array) -> Array:
        """float64 [T, C]: the terms of these numbers and values."""
        # A product of two float32 values has at most 48 bits: float64 holds it.
        products = self.values.reshape(-1, self.values.shape[2])[sources].astype(np.float64)
        return products if self.factor is None else products * self.factor.reshape(-1)[numbers, None]

    def sums(self) -> Array:
        """The sums in the type of the values, exact and rounded once: the same bits on every machine."""
        # A sum beyond the largest number becomes infinite, and infinite inputs may make NaN: answers, not accidents.
        with np.errstate(over="ignore", invalid="ignore"):
            sums = self._by_rows()
            if sums is None:
                sums = self._in_float64() if self.float64_is_exact else self._rounded_once()
        shaped = np.ascontiguousarray(self.shaped(sums))
        # Which NaN an operation gives differs between processors.
        for batch in shaped:
            np.copyto(batch, shaped.dtype.type(np.nan), where=np.isnan(batch))
        return shaped

    def bound(self) -> Bound:
        """What arithmetic allows: Σ|terms| of every sum, in any order; a term meets its product and the additions."""
        with np.errstate(over="ignore", invalid="ignore"):
            magnitude = self._by_rows(magnitudes=True)
            magnitude = self._in_float64(magnitudes=True) if magnitude is None else magnitude
        met = self.shape[2] if self.target is None else self.shaped(self.met[..., None])
        magnitude = np.ascontiguousarray(self.shaped(magnitude))
        # To look at the sums is worth it only where they are fewer.
        unit = lattice_unit(*self.operands, of_sums=magnitude if magnitude.size < self.values.size else None)
        return Bound(magnitude, met, unit=unit, products=self.factor is not None)

    def columns(self, most: int) -> Array:
        """float64 [T, n]: the terms of sums, padded with zeros; beyond about `most`, of the first channels alone."""
        met = self.met
        each_channel = max(1, int(met.max()) * int(np.count_nonzero(met)))
        _, _, padded = replace(self, values=self.values[..., : max(1, most // each_channel)])._by_crowd()
        # Where one channel is too much, of sums of every crowd some.
        terms = padded(slice(None, None, max(1, each_channel // most)))
        return terms.reshape(len(terms), -1)

    def without(self, lost: Array) -> "SumOfTerms":
        """The sums without these terms, bool [B, N, K]."""
        target = np.arange(self.shape[1])[:, None] if self.target is None else self.target
        return replace(self, target=np.where(lost, -1, target), count=self.sums_per_batch)

    def outermost(self, *, last: bool) -> Array:
        """bool [B, N, K]: the term is the first of its sum, or the last."""
        numbers, _, targets = (of[::-1] if last else of for of in self.entries())
        outermost = np.zeros(self.shape, bool)
        outermost.reshape(-1)[numbers[np.unique(targets, return_index=True)[1]]] = True
        return outermost

    def _by_rows(self, *, magnitudes: bool = False) -> Array | None:
        """The sums by the native core, row after row; None where that does not fit, and where one may have rounded."""
        values, channels = self.values, self.values.shape[2]
        fits = values.dtype == np.float32 and values.flags.c_contiguous
        # The native core begins with 0.
        if not fits or self.target is None or self.factor is not None:
            return None
        sums = np.zeros((self.shape[0] * self.sums_per_batch, channels))
        _, sources, targets = self.entries()
        added = native_add_rows(sums, targets, values.reshape(-1, channels), sources, absolute=magnitudes)
        if added is None:
            return None
        # math.frexp gives 0.1xxx · 2^e, so the last of the 24 bits weighs 2^(e − 24).
        lowest, most = math.frexp(added.smallest)[1] - _FLOAT32_BITS, int(np.bincount(targets).max(initial=0))
        exact = magnitudes or (math.isfinite(added.largest) and sums_are_exact(lowest, added.largest, most))
        return sums.astype(np.float32).reshape(len(values), -1, channels) if exact else None

    def _in_float64(self, *, magnitudes: bool = False) -> Array:
        """The sums, or those of magnitudes as float32, added in float64 in order, block by block."""
        values, count = self.values.swapaxes(1, 2), self.sums_per_batch
        sums = np.empty((*values.shape[:2], count), np.float32 if magnitudes else values.dtype)
        step = max(1, _BLOCK // max(math.prod(self.shape[1:]), count))
        for batch, (of_batch, out) in enumerate(zip(values, sums, strict=True)):
            add = self._adder(batch, magnitudes)
            for first in range(0, len(out), step):
                rows = of_batch[first : first + step].astype(np.float64, order="C")
                out[first : first + step] = add(np.abs(rows, out=rows) if magnitudes else rows)[:, :count]
        return sums.swapaxes(1, 2)

    def _adder(self, batch: int, magnitudes: bool) -> Callable[[Array], Array]:
        """Gives the sums of rows, float64 [c, S]; one behind the last where a target is none."""
        factor = np.ones(self.shape[1:]) if self.factor is None else self.factor[batch].astype(np.float64)
        factor = np.abs(factor) if magnitudes else factor
        if self.source is not None and self.target is None:
            # Only what a source names is read: 0 · Inf is NaN by IEEE, but a value that nobody names spreads nothing.
            sources, by_term = np.ascontiguousarray(self.source[batch].T), np.ascontiguousarray(factor.T)
            return lambda rows: blended(rows, sources, by_term)
        target = cast("Array", self.target)[batch]
        targets, width = np.where(target < 0, self.count, target), self.count + int((target < 0).any())
        if self.source is None:
            return lambda rows: scattered(rows, targets, factor, width)
        source, column = self.source[batch].reshape(-1), (-1, 1)
        return lambda rows: scattered(rows[:, source], targets.reshape(column), factor.reshape(column), width)

    def _rounded_once(self) -> Array:
        """The sums whatever cancels, the most crowded first."""
        sums = np.zeros((self.shape[0] * self.sums_per_batch, self.values.shape[2]), self.values.dtype)
        places, counts, padded = self._by_crowd()
        first = 0
        while first < len(places):
            chosen = slice(first, first + max(1, _EXACT_BLOCK // (counts[first] * sums.shape[1])))
            terms = padded(chosen)
            exact = odd_sums(terms.reshape(len(terms), -1)).reshape(terms.shape[1:])
            # What begins with 0 is never −0.
            sums[places[chosen]] = exact if self.target is None else exact + 0.0
            first = chosen.stop
        return sums.reshape(self.shape[0], -1, sums.shape[1])

    def _by_crowd(self) -> tuple[Array, Array, Callable[[slice], Array]]:
        """The sums that have terms, the most crowded first, and of how many; what gives their terms, [T, sums, C]."""
        numbers, sources, targets = self.entries()
        order = np.argsort(targets, kind="stable")
        places, starts, counts = np.unique(targets[order], return_index=True, return_counts=True)
        crowd = np.argsort(-counts, kind="stable")
        places, starts, counts = places[crowd], starts[crowd], counts[crowd]

        def padded(chosen: slice) -> Array:
            met = counts[chosen]
            rank = np.arange(met.sum()) - np.repeat(np.cumsum(met) - met, met)
            entries = order[np.repeat(starts[chosen], met) + rank]
            terms = np.zeros((met.max(initial=0), len(met), self.values.shape[2]))
            terms[rank, np.repeat(np.arange(len(met)), met)] = self.products(numbers[entries], sources[entries])
            return terms

        return places, counts, padded


def define_sums(
    output: str, terms: Callable[[OpCall], SumOfTerms], *, term: str = "term", place: str = "sum"
) -> Definition:
    """The output is these sums; suspects call a term and the place of a sum by these words."""

    def follow(make: Callable[[SumOfTerms, OpCall], _Made]) -> Callable[[OpCall], _Made]:
        # Errors and the audit name the author's function.
        return wraps(terms)(lambda call: make(terms(call), call))

    def lost(which: Callable[[SumOfTerms], Array]) -> Callable[[OpCall], Mapping[str, Array]]:
        return follow(lambda of, _: {output: of.without(which(of)).sums()})

    return Definition(
        reference=follow(lambda of, _: Baseline({output: of.sums()})),
        bound=follow(lambda of, _: {output: of.bound()}),
        suspects={
            f"the last {term} of every {place} wins": lost(lambda of: ~of.outermost(last=True)),
            f"the first {term} of every {place} is missing": lost(lambda of: of.outermost(last=False)),
            f"the last {term} of every {place} is missing": lost(lambda of: of.outermost(last=True)),
        },
        theory=follow(lambda of, call: Theory(count_bytes(call).io_bytes, of.operations)),
    )
