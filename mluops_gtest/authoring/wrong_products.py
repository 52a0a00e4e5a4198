"""Wrong ways to multiply rows with matrices and add them up elsewhere, as sparse convolutions do it; for mutants."""

from collections.abc import Callable, Iterator
from typing import Final, Literal

import numpy as np

from mluops_gtest.authoring.interpolation import shortened
from mluops_gtest.authoring.mistakes import (
    cached_by_shape,
    input_cleared,
    left,
    part_left,
    sum_goes_on,
    tails_left,
)
from mluops_gtest.authoring.roundings import FLUSHED_WRITE, WRONG_WRITES, flushed
from mluops_gtest.authoring.wrong_pairs import Rows, right_rows, wrong_pairs
from mluops_gtest.authoring.wrong_weights import right_weights, wrong_weights
from mluops_gtest.base.frozen import Value
from mluops_gtest.core.call import OpCall, Status
from mluops_gtest.core.operator import Mutant
from mluops_gtest.core.tensor import Array

_TILES: Final = (16, 32, 64)


def _add(total: Array, rows: Array, part: Array) -> None:
    np.add.at(total, rows, part)


def _overwrite(total: Array, rows: Array, part: Array) -> None:
    total[rows] = part


def _largest(total: Array, rows: Array, part: Array) -> None:
    np.maximum.at(total, rows, part)


def _as_it_is(values: Array) -> Array:
    return values


def _write(output: Array, total: Array) -> None:
    output[...] = total


class ProductLoop(Value):
    """The plain loop in float32: rows of `read` times the matrix of each offset are added to rows of `written`.

    `to` is the side of a pair that names the written row; towards the input rows (0) the matrices are transposed.
    """

    read: str
    written: str
    to: Literal[0, 1]

    def variant(
        self,
        name: str,
        message: str,
        *,
        weights: Callable[[OpCall], Array] = right_weights,
        rows: Callable[[OpCall], list[Rows]] = right_rows,
        multiply: Callable[[Array, Array], Array] = np.matmul,
        scatter: Callable[[Array, Array, Array], None] = _add,
        rounded: Callable[[Array], Array] = _as_it_is,
        spoil: Callable[[OpCall, Array], None] | None = None,
        write: Callable[[Array, Array], None] = _write,
    ) -> Mutant:
        """The loop with one part exchanged, or its sums spoilt."""

        def run(call: OpCall) -> Status:
            total = np.zeros(call.tensor(self.written).dims, np.float32)
            values = rounded(call.array(self.read).astype(np.float32))
            # Poison that a wrong index reaches may be a NaN.
            with np.errstate(invalid="ignore", over="ignore"):
                matrices = self._towards(rounded(weights(call).astype(np.float32)))
                for pairs, matrix in zip(rows(call), matrices, strict=True):
                    scatter(total, pairs[self.to], multiply(values[pairs[1 - self.to]], matrix))
                if spoil is not None:
                    spoil(call, total)
                write(call.array(self.written), total)
            return Status.SUCCESS

        return Mutant(name, message, run)

    def right(self, call: OpCall) -> Status:
        """Nothing is wrong."""
        return self.variant("", "").run(call)

    def mutants(self) -> Iterator[Mutant]:
        """Every mistake that both directions share."""
        rows_in, rows_out = (self.read, self.written) if self.to == 1 else (self.written, self.read)
        yield from (self.variant(one.name, one.message, weights=one.weights) for one in wrong_weights(2 - self.to))
        yield from (self.variant(one.name, one.message, rows=one.rows) for one in wrong_pairs(rows_in, rows_out))
        yield from (self.variant(name, message, write=write) for name, message, write in WRONG_WRITES)
        yield self.variant("overwrites", "updates rows instead of adding to them", scatter=_overwrite)
        yield self.variant("maximum", "takes the largest product of an offset instead of the sum", scatter=_largest)
        yield self.variant("bfloat16_products", "multiplies in bfloat16", rounded=lambda values: shortened(values, 8))
        yield self.variant("tf32_products", "multiplies in TF32", rounded=lambda values: shortened(values, 11))
        yield from tails_left(self.right, self.written, 0, "rows", tiles=_TILES)
        yield from tails_left(self.right, self.written, 1, "channels", tiles=_TILES)
        yield part_left(self.right, self.written, 0, "rows")
        message = "does not zero rows that receive nothing"
        yield left("rows_without_pairs", message, self.right, self.written, self._rows_without_pairs)
        yield Mutant("output_not_zeroed", "adds to what the output held before", self._adds_to_what_was_there)
        yield Mutant("own_type", "accumulates half in half", self._accumulates_in_own_type)
        yield input_cleared(self.right, self.read)
        yield cached_by_shape(self.right)
        yield sum_goes_on(self.right, self.written)

    def flushing(self) -> tuple[Mutant, ...]:
        """Right ones, on devices without subnormal floats."""
        name, message, write = FLUSHED_WRITE
        factors = self.variant("tiny_factors_flushed", "takes subnormal factors for 0", rounded=flushed)
        return factors, self.variant(name, message, write=write)

    def _towards(self, weights: Array) -> Array:
        return weights if self.to == 1 else weights.swapaxes(1, 2)

    def _rows_without_pairs(self, call: OpCall) -> Array:
        received = np.zeros(call.tensor(self.written).dims[0], np.bool_)
        for pairs in right_rows(call):
            received[pairs[self.to]] = True
        return ~received

    def _adds_to_what_was_there(self, call: OpCall) -> Status:
        before = call.array(self.written).copy()
        status = self.right(call)
        with np.errstate(invalid="ignore", over="ignore"):
            call.array(self.written)[...] += before
        return status

    def _accumulates_in_own_type(self, call: OpCall) -> Status:
        values, result = call.array(self.read), call.array(self.written)
        total = np.zeros_like(result)
        for pairs, matrix in zip(right_rows(call), self._towards(right_weights(call)), strict=True):
            for channel in range(values.shape[1]):
                np.add.at(total, pairs[self.to], values[pairs[1 - self.to], channel, None] * matrix[channel])
        result[...] = total
        return Status.SUCCESS
