"""Outputs whose elements are copies: said once, the reference, the bound, suspects and wrong implementations follow."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mluops_gtest.authoring.mistakes import cached_by_shape
from mluops_gtest.authoring.roundings import WRONG_COPIES
from mluops_gtest.core.call import OpCall, Status
from mluops_gtest.core.declaration import Baseline, Bound, Definition, Mutant
from mluops_gtest.core.tensor import Array

# What kernels cut axes into.
_TILE: Final = 64


@dataclass(frozen=True, slots=True)
class CopyOf:
    """out[r, i] = values[r, source[i]], or `outside` where source is −1; values [R, S], source [n], out of `shape`.

    Rows may be copied from places of their own, source [R, n]; values [R, S, L] are copied L at a time.
    """

    values: Array
    source: Array
    shape: tuple[int, ...]
    outside: float = 0.0

    def copied(self) -> Array:
        """The output, with the bits of the values."""
        if self.source.ndim == 1:
            return self._of(self.values, self.source).reshape(self.shape)
        out = np.empty((*self.source.shape, *self.values.shape[2:]), self.values.dtype)
        for row, source in enumerate(self.source):
            out[row] = self._of(self.values[row : row + 1], source)[0]
        return out.reshape(self.shape)

    def _of(self, values: Array, source: Array) -> Array:
        inside = np.flatnonzero(source >= 0)
        if 2 * len(inside) <= len(source):
            out = np.full((len(values), len(source), *values.shape[2:]), self.outside, values.dtype)
            out[:, inside] = values[:, source[inside]]
            return out
        # What is copied from nowhere is copied from a place of its own, in front of the values.
        padded = np.empty((len(values), values.shape[1] + 1, *values.shape[2:]), values.dtype)
        padded[:, 0], padded[:, 1:] = self.outside, values
        # All indices are in range; "clip" spares numpy the check of each.
        return np.take(padded, source + 1, axis=1, mode="clip")

    @property
    def is_copied(self) -> Array:
        """bool, of `shape`: the element is copied from somewhere."""
        runs = (self.source >= 0).reshape(*self.source.shape, *(1,) * (self.values.ndim - 2))
        return np.broadcast_to(runs, (len(self.values), self.source.shape[-1], *self.values.shape[2:])).reshape(
            self.shape
        )


Copies = Callable[[OpCall], CopyOf]


def _first_row_everywhere(copy: CopyOf) -> CopyOf:
    return replace(copy, values=np.broadcast_to(copy.values[:1], copy.values.shape))


def _where_copied(copy: CopyOf, values: Array, others: Array) -> Array:
    return np.where(copy.is_copied, values, others)


def define_copies(output: str, copies: Copies, *, row: str = "channel") -> Definition:
    """The output is what `copies` says of a call; `row` is the word for a row of its values."""

    @functools.wraps(copies)
    def reference(call: OpCall) -> Baseline:
        return Baseline({output: copies(call).copied()})

    @functools.wraps(copies)
    def first_row(call: OpCall) -> Mapping[str, Array]:
        return {output: _first_row_everywhere(copies(call)).copied()}

    return Definition(reference, Bound.copied(output), {f"every {row} is the first one": first_row})


def wrong_copies(output: str, copies: Copies, *, row: str = "channel") -> tuple[Mutant, ...]:
    """Mistakes of anyone who copies: about rows, bits, what is outside, what the output held, an earlier call."""

    def written(change: Callable[[CopyOf, Array], Array]) -> Callable[[OpCall], Status]:
        def run(call: OpCall) -> Status:
            call.array(output)[...] = change(copies(call), call.array(output))
            return Status.SUCCESS

        return run

    def without_rows(first: Callable[[int], int]) -> Callable[[CopyOf, Array], Array]:
        def change(copy: CopyOf, _: Array) -> Array:
            out = copy.copied()
            out.reshape(copy.values.shape[0], -1)[first(len(copy.values)) :] = copy.outside
            return out

        return change

    def through(narrow: Callable[[Array], Array]) -> Callable[[CopyOf, Array], Array]:
        return lambda copy, _: replace(copy, values=narrow(copy.values)).copied()

    def onto(copy: CopyOf, held: Array) -> Array:
        with np.errstate(all="ignore"):
            return _where_copied(copy, held + copy.copied(), held)

    mistakes = (
        (f"first_{row}_everywhere", f"every {row} shows the first one", lambda c, _: _first_row_everywhere(c).copied()),
        (f"last_{row}_lost", f"the last {row} is not copied", without_rows(lambda rows: rows - 1)),
        (
            f"{row}_tail_lost",
            f"{row}s behind whole tiles of {_TILE} are lost",
            without_rows(lambda rows: rows // _TILE * _TILE or rows),
        ),
        *((name, message, through(copy)) for name, message, copy in WRONG_COPIES),
        (f"adds_to_{output}", f"values are added to what {output} held", onto),
        (
            "outside_not_written",
            f"what is copied from nowhere keeps what {output} held",
            lambda c, held: _where_copied(c, c.copied(), held),
        ),
    )
    right = written(lambda copy, _: copy.copied())
    return (*(Mutant(name, words, written(change)) for name, words, change in mistakes), cached_by_shape(right))
