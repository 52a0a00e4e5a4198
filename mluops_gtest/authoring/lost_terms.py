"""Sums that lose terms: what comes out where many add to one place and do not take turns."""

from collections.abc import Callable, Mapping

import numpy as np

from mluops_gtest.base.frozen import Value
from mluops_gtest.core.call import OpCall
from mluops_gtest.core.tensor import Array


class Terms(Value):
    """sums[places[t]] += values[t] for every t in its order; values is [T, columns], sums [count, columns]."""

    values: Array
    places: Array
    count: int

    def last_alone(self) -> Array:
        """Of every place the last term."""
        result = np.zeros((self.count, self.values.shape[1]))
        result[self.places] = self.values
        return result

    def without(self, which: int) -> Array:
        """The sums without the first term of every place (which 0), or without the last (−1)."""
        order = np.argsort(self.places, kind="stable")
        ascending = self.places[order]
        edges = np.flatnonzero(np.diff(ascending)) + 1
        lost = order[np.concatenate(([0], edges)) if which == 0 else np.concatenate((edges - 1, [len(order) - 1]))]
        kept = np.delete(np.arange(len(order)), lost)
        result = np.zeros((self.count, self.values.shape[1]))
        np.add.at(result, self.places[kept], self.values[kept])
        return result


def lost_terms(
    output: str, term: str, place: str, terms: Callable[[OpCall], Terms], shaped: Callable[[Array, OpCall], Array]
) -> Mapping[str, Callable[[OpCall], Mapping[str, Array]]]:
    """`suspects` of an operator that adds `terms` to an output; `shaped` gives the sums the output's axes."""

    def made(sums: Callable[[Terms], Array]) -> Callable[[OpCall], Mapping[str, Array]]:
        def outputs(call: OpCall) -> Mapping[str, Array]:
            with np.errstate(over="ignore", invalid="ignore"):
                given = terms(call)
                result = sums(given) if len(given.places) else np.zeros((given.count, given.values.shape[1]))
                return {output: shaped(result, call).astype(call.tensor(output).dtype.storage)}

        return outputs

    return {
        f"the last {term} of every {place} wins": made(Terms.last_alone),
        f"the first {term} of every {place} is missing": made(lambda given: given.without(0)),
        f"the last {term} of every {place} is missing": made(lambda given: given.without(-1)),
    }
