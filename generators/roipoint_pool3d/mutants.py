"""Implementations with one plausible mistake each."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from mluops_gtest.authoring import Array, DType, Mutant, OpCall, mistakes
from mluops_gtest.authoring.copy_of import wrong_copies
from mluops_gtest.authoring.suspects import misread

from .._shared.boxes import local
from .._shared.wrong_boxes import NARROW, boxes_behind, every_suspect, reads, writes
from . import INPUTS, OPERATOR, copies, inside, is_empty, pooled, sources

_ROWS, _FLAG = "pooled_features", "pooled_empty_flag"
# A tile of points in the first kernel, for the mistakes about tiles; small, so that stored cases have several.
_TILE = 8

_right = writes(lambda call: OPERATOR.reference(call).outputs)


def _narrow(name: str, word: str) -> Mutant:
    """Points are tested with less precision, and copied as they are; halves hold no less."""
    read = misread(**{name: NARROW[word]})

    def answer(call: OpCall) -> Mapping[str, Array]:
        return pooled(call, sources(call, inside(read(call) if call.tensor(name).dtype is DType.FLOAT else call)))

    return Mutant(f"{word}_{name}", f"rounds {name} to {word}", writes(answer))


def _chooses(name: str, message: str, rows: Callable[[OpCall], Array]) -> Mutant:
    """Other points in the rows."""
    return Mutant(name, message, writes(lambda call: pooled(call, rows(call))))


def _nearest(call: OpCall) -> Array:
    points, boxes = call.arrays("points", "boxes3d")
    rows, is_inside = sources(call), inside(call)
    for batch, box in np.argwhere(is_inside.any(axis=1)):
        members = np.flatnonzero(is_inside[batch, :, box])
        away = np.square(np.stack(local(points[batch, members], boxes[batch, box], bottom=True))).sum(axis=0)
        rows[batch, box] = np.resize(members[np.argsort(away, kind="stable")], rows.shape[2])
    return rows


def _turns_of_tile(indices: Array, samples: int) -> Array:
    """What is missing comes from the last tile that has points inside."""
    last = indices[indices >= indices[-1] // _TILE * _TILE]
    return np.concatenate([indices, np.resize(last, max(0, samples - len(indices)))])[:samples]


def _counter_goes_on(call: OpCall) -> Array:
    """The counter of a box is not reset between batches: rows that earlier batches filled are passed over."""
    rows, counts = sources(call), inside(call).sum(axis=1)
    places = np.arange(rows.shape[2]) - (np.cumsum(counts, axis=0) - counts)[..., None]
    return np.where(places < 0, -1, np.take_along_axis(rows, np.maximum(places, 0), axis=2))


def _copied_wrongly() -> Iterator[Mutant]:
    """Mistakes of anyone who copies, with the right flags."""

    def write_flags(call: OpCall) -> None:
        call.array(_FLAG)[...] = is_empty(call)

    for one in wrong_copies(_ROWS, copies, row="batch"):
        # Batches by the dozen are in cases that are made on demand.
        if one.anew is None and one.name != "batch_tail_lost":
            yield mistakes.spoilt(one.name, one.message, one.run, write_flags)


MUTANTS = (
    *every_suspect(OPERATOR),
    _chooses("nearest_first", "takes the points nearest to the centre", _nearest),
    _chooses("turns_of_tile", "goes through the points of the last tile again", partial(sources, pick=_turns_of_tile)),
    _chooses("counter_goes_on", "does not reset the counter between batches", _counter_goes_on),
    mistakes.left("flag_0_left", "flags of 0 are not written", _right, _FLAG, lambda call: ~is_empty(call)),
    mistakes.left("flag_1_left", "flags of 1 are not written", _right, _FLAG, is_empty),
    *(_narrow(name, word) for word in NARROW for name in ("points", "boxes3d")),
    *boxes_behind(OPERATOR, "boxes3d", (4, 16)),
    *_copied_wrongly(),
    reads(OPERATOR, "next_features", "takes the next features", point_features=lambda one: np.roll(one, -1, axis=1)),
    *mistakes.tails_left(_right, _ROWS, 1, "boxes", (16,)),
    *mistakes.tails_left(_right, _ROWS, 2, "samples", (16, 32)),
    *mistakes.tails_left(_right, _ROWS, 3, "columns", (16,)),
    mistakes.part_left(_right, _ROWS, 2, "samples"),
    mistakes.cached_by_shape(_right),
    mistakes.first_length_kept(_right, _ROWS, 2, "samples"),
    *(mistakes.input_cleared(_right, name) for name in INPUTS),
)
