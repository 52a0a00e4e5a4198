"""Implementations with one plausible mistake each."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from mluops_gtest.authoring import Array, DType, Mutant, OpCall, Status, mistakes
from mluops_gtest.authoring.copy_of import wrong_copies
from mluops_gtest.authoring.suspects import misread

from .._shared.boxes import local
from .._shared.wrong_boxes import boxes_behind, every_suspect, narrow_pairs
from . import OPERATOR, copies, inside, pooled, sources

# A tile of points in the first kernel, for the mistakes about tiles; small, so that stored cases have several.
_TILE = 8


def _write(call: OpCall, outputs: dict[str, Array] | None = None) -> Status:
    right = OPERATOR.reference(call).outputs if outputs is None else outputs
    for name, values in right.items():
        call.array(name)[...] = values
    return Status.SUCCESS


def _right(call: OpCall) -> Status:
    return _write(call)


def _reads(name: str, message: str, change: Callable[[OpCall], OpCall]) -> Mutant:
    """The right answer to another call."""
    return Mutant(name, message, lambda call: _write(call, dict(OPERATOR.reference(change(call)).outputs)))


def _geometry(name: str, message: str, change: Callable[[OpCall], OpCall]) -> Mutant:
    """Points are tested as in another call, and copied as they are; halves hold no less."""

    def run(call: OpCall) -> Status:
        is_float = call.tensor("points").dtype is DType.FLOAT
        return _write(call, dict(pooled(call, sources(change(call) if is_float else call))))

    return Mutant(name, message, run)


def _chooses(name: str, message: str, rows: Callable[[OpCall], Array]) -> Mutant:
    """Other points in the rows."""
    return Mutant(name, message, lambda call: _write(call, dict(pooled(call, rows(call)))))


def _nearest(call: OpCall) -> Array:
    points, boxes = call.arrays("points", "boxes3d")
    rows = sources(call)
    is_inside = inside(call)
    for batch, box in np.argwhere(rows[..., 0] >= 0):
        found = np.flatnonzero(is_inside[batch, :, box])
        away = np.square(np.stack(local(points[batch, found], boxes[batch, box], bottom=True))).sum(axis=0)
        rows[batch, box] = np.resize(found[np.argsort(away, kind="stable")], rows.shape[2])
    return rows


def _turns_of_tile(indices: Array, samples: int) -> Array:
    """What is missing comes from the last tile that has points inside."""
    last = indices[indices >= indices[-1] // _TILE * _TILE]
    return np.concatenate([indices, np.resize(last, max(0, samples - len(indices)))])[:samples]


def _counter_goes_on(call: OpCall) -> Array:
    """The counter of a box is not reset between batches: rows that batch 0 filled are passed over."""
    rows, is_inside = sources(call), inside(call)
    counts = is_inside.sum(axis=1)
    for batch in range(1, len(rows)):
        for box in range(rows.shape[1]):
            first = min(int(counts[:batch, box].sum()), rows.shape[2])
            rows[batch, box] = np.concatenate([np.full(first, -1), rows[batch, box, : rows.shape[2] - first]])
    return rows


def _first_box_alone(call: OpCall) -> Array:
    """A point goes to the first box that holds it, as in points_in_boxes."""
    rows, is_inside = sources(call), inside(call)
    first = is_inside & (np.cumsum(is_inside, axis=2) == 1)
    for batch, box in np.ndindex(rows.shape[:2]):
        found = np.flatnonzero(first[batch, :, box])
        rows[batch, box] = np.resize(found, rows.shape[2]) if len(found) else -1
    return rows


def _is_empty(call: OpCall) -> Array:
    empty: Array = OPERATOR.reference(call).outputs["pooled_empty_flag"] == 1
    return empty


def _counts_as_flag(call: OpCall) -> None:
    call.array("pooled_empty_flag")[...] = inside(call).sum(axis=1)


def _padded_flag(call: OpCall) -> None:
    call.array("pooled_empty_flag")[...] = inside(call).sum(axis=1) < call.tensor("pooled_features").dims[2]


def _copied_wrongly() -> Iterator[Mutant]:
    """Mistakes of anyone who copies, with the right flags."""

    def with_flags(one: Mutant) -> Callable[[OpCall], Status]:
        def run(call: OpCall) -> Status:
            call.array("pooled_empty_flag")[...] = _is_empty(call)
            return one.run(call)

        return run

    for one in wrong_copies("pooled_features", copies, row="batch"):
        # Batches by the dozen are in cases that are made on demand.
        if one.anew is None and one.name != "batch_tail_lost":
            yield Mutant(one.name, one.message, with_flags(one))


MUTANTS = (
    *every_suspect(OPERATOR),
    _chooses("nearest_first", "takes the points nearest to the centre", _nearest),
    _chooses("turns_of_tile", "goes through the points of the last tile again", partial(sources, pick=_turns_of_tile)),
    _chooses("counter_goes_on", "does not reset the counter between batches", _counter_goes_on),
    _chooses("first_box_alone", "gives a point to one box alone", _first_box_alone),
    mistakes.left("flag_0_left", "flags of 0 are not written", _right, "pooled_empty_flag", lambda c: ~_is_empty(c)),
    mistakes.left("flag_1_left", "flags of 1 are not written", _right, "pooled_empty_flag", _is_empty),
    mistakes.left("empty_rows_left", "rows of empty boxes are not written", _right, "pooled_features", _is_empty),
    mistakes.spoilt("counts_as_flag", "writes the number of points as flag", _right, _counts_as_flag),
    mistakes.spoilt("padded_flag", "flags every box with fewer points than S", _right, _padded_flag),
    *(_geometry(*wrong) for wrong in narrow_pairs("points", "boxes3d") if "half" not in wrong[0]),
    *(_reads(*wrong) for wrong in boxes_behind("boxes3d") if not wrong[0].endswith("_64")),
    *_copied_wrongly(),
    _reads("next_batch", "takes the boxes of the next batch", misread(boxes3d=lambda b: np.roll(b, -1, axis=0))),
    _reads(
        "next_features", "takes the next point's features", misread(point_features=lambda f: np.roll(f, -1, axis=1))
    ),
    *mistakes.tails_left(_right, "pooled_features", 1, "boxes", (16,)),
    *mistakes.tails_left(_right, "pooled_features", 2, "samples", (16, 32)),
    *mistakes.tails_left(_right, "pooled_features", 3, "columns", (16,)),
    mistakes.part_left(_right, "pooled_features", 2, "samples"),
    mistakes.cached_by_shape(_right),
    mistakes.first_length_kept(_right, "pooled_features", 2, "samples"),
    *(mistakes.input_cleared(_right, name) for name in ("points", "point_features", "boxes3d")),
)
