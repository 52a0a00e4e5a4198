"""Implementations that add terms with one plausible mistake each; for mutants of an operator that is a SumOfTerms."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.authoring.mistakes import Run
from mluops_gtest.authoring.roundings import clamped, nan_cleared
from mluops_gtest.authoring.sum_of_terms import SumOfTerms
from mluops_gtest.core.call import OpCall, Status
from mluops_gtest.core.declaration import Mutant
from mluops_gtest.core.tensor import Array

__all__ = ["Terms", "added", "wrong_sum", "wrong_sums"]

# Terms that one instruction takes, and those of a tile.
_VECTOR: Final = 16
_TILE: Final = 64


class Terms(NamedTuple):
    """The terms values · factors, float32 [T, C] and [T, 1], in order; term t goes to `places[t]` of `number` sums."""

    values: Array
    factors: Array
    places: Array
    number: int

    @property
    def products(self) -> Array:
        """float32 [T, C]."""
        return self.values * self.factors

    @property
    def zeros(self) -> Array:
        """Sums without terms."""
        return np.zeros((self.number, self.values.shape[1]), self.values.dtype)

    def become(self, products: Array) -> "Terms":
        """Other terms in their places."""
        return self._replace(values=products, factors=np.ones((len(products), 1), products.dtype))

    def part(self, which: slice) -> "Terms":
        """Some of the terms."""
        return Terms(self.values[which], self.factors[which], self.places[which], self.number)

    def parts(self, length: int) -> Iterator["Terms"]:
        """So many terms after the other."""
        return (self.part(slice(first, first + length)) for first in range(0, len(self.places), max(1, length)))


def added(terms: Terms) -> Array:
    """The sums, [number, C], in order."""
    sums = terms.zeros
    np.add.at(sums, terms.places, terms.products)
    return sums


def wrong_sum(
    name: str,
    message: str,
    output: str,
    terms: Callable[[OpCall], SumOfTerms],
    *,
    read: Callable[[OpCall], OpCall] = lambda call: call,
    add: Callable[[Terms], Array] = added,
    write: Callable[[Array, Array], None] = np.copyto,
    right: Run = lambda _: Status.SUCCESS,
) -> Mutant:
    """The sums in float32, of the call as it is read; `right` writes all other outputs."""

    def run(call: OpCall) -> Status:
        status = right(call)
        with np.errstate(all="ignore"):
            of = terms(read(call))
            numbers, sources, places = of.entries()
            (batches, _, channels), factor = of.values.shape, np.ones(1) if of.factor is None else of.factor
            factors = np.broadcast_to(factor, of.shape).reshape(-1, 1)[numbers].astype(np.float32)
            values = of.values.reshape(-1, channels)[sources].astype(np.float32)
            sums = add(Terms(values, factors, places, batches * of.sums_per_batch))
            write(call.array(output), of.shaped(sums.reshape(batches, -1, channels)))
        return status

    return Mutant(name, message, run)


# Each is a mutant by its name, and its docstring the message.


def last_wins(terms: Terms) -> Array:
    """terms are assigned instead of added"""
    sums = terms.zeros
    sums[terms.places] = terms.products
    return sums


def first_wins(terms: Terms) -> Array:
    """the first term of a sum alone counts"""
    return last_wins(terms.part(slice(None, None, -1)))


def last_twice(terms: Terms) -> Array:
    """the last term of a sum is added twice"""
    return added(terms) + last_wins(terms)


def largest(terms: Terms) -> Array:
    """a sum is its largest term"""
    sums = last_wins(terms.become(np.full_like(terms.values, -np.inf)))
    np.maximum.at(sums, terms.places, terms.products)
    return sums


def mean(terms: Terms) -> Array:
    """a sum is divided by the number of its terms"""
    counts = np.bincount(terms.places, minlength=terms.number)
    return added(terms) / np.maximum(counts, 1).astype(np.float32)[:, None]


def sum_beside(terms: Terms) -> Array:
    """terms are added to the sum behind their own"""
    return added(terms._replace(places=np.minimum(terms.places + 1, terms.number - 1)))


def factors_ignored(terms: Terms) -> Array:
    """values are added without their factors"""
    return added(terms.become(terms.values))


def lost_in_a_vector(terms: Terms) -> Array:
    """of 16 terms that are added at once, one per sum survives"""
    sums = terms.zeros
    for part in terms.parts(_VECTOR):
        sums[part.places] += part.products
    return sums


def lost_between_tiles(terms: Terms, length: int = _TILE) -> Array:
    """each tile of 64 terms overwrites the sums before it"""
    sums = terms.zeros
    for part in terms.parts(length):
        sums[part.places] = added(part)[part.places]
    return sums


def lost_between_threads(terms: Terms) -> Array:
    """two threads overwrite each other's sums"""
    return lost_between_tiles(terms, -(-len(terms.places) // 2))


def half_sums(terms: Terms) -> Array:
    """terms are added in half where the type is float"""
    return added(terms.become(terms.products.astype(np.float16)))


def nan_skipped(terms: Terms) -> Array:
    """NaN counts as 0"""
    return added(terms.become(nan_cleared(terms.products)))


def infinite_clamped(terms: Terms) -> Array:
    """infinities become the largest float"""
    return clamped(added(terms.become(clamped(terms.products))))


def zero_times_inf(terms: Terms) -> Array:
    """terms whose factor is 0 are left out, and 0 · Inf is NaN"""
    return added(terms.become(np.where(terms.factors == 0, np.float32(0), terms.products)))


def inf_times_zero(terms: Terms) -> Array:
    """terms whose value is 0 are left out, and 0 · Inf is NaN"""
    return added(terms.become(np.where(terms.values == 0, np.float32(0), terms.products)))


_ADDITIONS: Final = (
    *(last_wins, first_wins, last_twice, largest, mean, sum_beside, lost_in_a_vector, lost_between_tiles),
    *(lost_between_threads, half_sums, nan_skipped, infinite_clamped),
)
_OF_PRODUCTS: Final = (factors_ignored, zero_times_inf, inf_times_zero)


def wrong_sums(
    output: str, terms: Callable[[OpCall], SumOfTerms], *, products: bool = True, right: Run = lambda _: Status.SUCCESS
) -> tuple[Mutant, ...]:
    """The mutants by name that follow from the definition; with those of factors where terms are products."""
    return tuple(
        wrong_sum(add.__name__, add.__doc__ or "", output, terms, add=add, right=right)
        for add in (*_ADDITIONS, *(_OF_PRODUCTS if products else ()))
    )
