"""Implementations with one plausible mistake each."""

from collections.abc import Callable, Iterator

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, mistakes
from mluops_gtest.authoring.narrowing import wrapped
from mluops_gtest.authoring.suspects import misread

from .._shared.boxes import local
from .._shared.wrong_boxes import boxes_behind, every_suspect, narrow_pairs
from . import OPERATOR


def _right(call: OpCall) -> Status:
    return _write(call, OPERATOR.reference(call).outputs["points_indices"])


def _write(call: OpCall, indices: Array) -> Status:
    call.array("points_indices")[...] = indices
    return Status.SUCCESS


def _reads(name: str, message: str, change: Callable[[OpCall], OpCall]) -> Mutant:
    """The right answer to another call."""
    return Mutant(name, message, lambda call: _write(call, OPERATOR.reference(change(call)).outputs["points_indices"]))


def _as_narrow_index(call: OpCall) -> Status:
    _right(call)
    return _write(call, wrapped(8)(call.array("points_indices")))


def _none_is_the_one_before(call: OpCall) -> Status:
    """The box of the point before stays in the register."""
    _right(call)
    indices = call.array("points_indices")
    last = np.maximum.accumulate(np.where(indices < 0, -1, np.arange(indices.shape[1])), axis=1)
    return _write(call, np.where(last < 0, -1, np.take_along_axis(indices, np.maximum(last, 0), axis=1)))


def _with_shapes(call: OpCall, inside: Callable[[Array, Array], Array]) -> Status:
    """The first box that holds the point by a test of places in half lengths; z as it is asked."""
    points, boxes = call.arrays("points", "boxes")
    for some, objects, indices in zip(points, boxes, call.array("points_indices"), strict=True):
        for number, point in enumerate(some):
            x, y, z = local(point[None], objects, bottom=False)
            half = objects[:, 3:6].astype(np.float64).T / 2 + np.array([[1e-5], [1e-5], [0.0]])
            found = np.flatnonzero(inside(np.abs(np.stack([x, y, z])), half))
            indices[number] = found[0] if len(found) else -1
    return Status.SUCCESS


def _of_other_shapes() -> Iterator[Mutant]:
    """What is quicker to ask than three sides."""
    shapes: tuple[tuple[str, str, Callable[[Array, Array], Array]], ...] = (
        ("either_side", "asks for one of the sides", lambda a, h: (a[:2] < h[:2]).any(axis=0) & (a[2] <= h[2])),
        ("sides_alone", "takes dx for dz", lambda a, h: (a[:2] < h[:2]).all(axis=0) & (a[2] <= h[0])),
        ("ellipse", "asks for an ellipse", lambda a, h: (a[0] * h[1]) ** 2 + (a[1] * h[0]) ** 2 < (h[0] * h[1]) ** 2),
        ("circle", "asks for the circle around", lambda a, h: np.hypot(*a[:2]) < np.hypot(*h[:2])),
    )

    def of(inside: Callable[[Array, Array], Array]) -> Callable[[OpCall], Status]:
        def run(call: OpCall) -> Status:
            # Large clouds tell no more, and take long.
            small = call.tensor("points").desc.count * call.tensor("boxes").desc.count < 1 << 18
            return _with_shapes(call, inside) if small else _right(call)

        return run

    return (Mutant(name, message, of(inside)) for name, message, inside in shapes)


MUTANTS = (
    *every_suspect(OPERATOR),
    mistakes.left(
        "none_left", "−1 is not written", _right, "points_indices", lambda call: call.array("points_indices") < 0
    ),
    *(_reads(*wrong) for wrong in narrow_pairs("points", "boxes")),
    *(_reads(*wrong) for wrong in boxes_behind("boxes")),
    Mutant("int8_index", "keeps the index in 8 bits", _as_narrow_index),
    Mutant("none_is_the_one_before", "a point in no box has that of the point before", _none_is_the_one_before),
    *_of_other_shapes(),
    _reads("next_batch", "takes the boxes of the next batch", misread(boxes=lambda boxes: np.roll(boxes, -1, axis=0))),
    _reads("next_point", "takes the next point", misread(points=lambda points: np.roll(points, -1, axis=1))),
    # More than 1024 points are in cases that are made on demand.
    *mistakes.tails_left(_right, "points_indices", 1, "points", (16, 32, 64, 128)),
    mistakes.part_left(_right, "points_indices", 1, "points"),
    mistakes.part_left(_right, "points_indices", 0, "batches"),
    mistakes.cached_by_shape(_right),
    mistakes.first_length_kept(_right, "points_indices", 1, "points"),
    mistakes.input_cleared(_right, "points"),
    mistakes.input_cleared(_right, "boxes"),
)
