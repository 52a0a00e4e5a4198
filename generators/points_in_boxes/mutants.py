"""Implementations with one plausible mistake each."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, mistakes
from mluops_gtest.authoring.narrowing import wrapped

from .._shared.boxes import local
from .._shared.wrong_boxes import NARROW, boxes_behind, every_suspect, reads, writes
from . import OPERATOR, TEST, first_boxes

_OUTPUT = "points_indices"


def _indices(call: OpCall) -> Array:
    return OPERATOR.reference(call).outputs[_OUTPUT]


_right = writes(lambda call: {_OUTPUT: _indices(call)})


def _one_before(call: OpCall) -> Mapping[str, Array]:
    """The box of the point before stays in the register."""
    indices = _indices(call)
    last = np.maximum.accumulate(np.where(indices < 0, -1, np.arange(indices.shape[1])), axis=1)
    return {_OUTPUT: np.where(last < 0, -1, np.take_along_axis(indices, np.maximum(last, 0), axis=1))}


# What is quicker to ask than three sides: of distances from the middle and half lengths, both [3, ...].
_SHAPES: tuple[tuple[str, str, Callable[[Array, Array], Array]], ...] = (
    ("either_side", "asks for one of the sides", lambda a, h: (a[:2] < h[:2]).any(axis=0) & (a[2] <= h[2])),
    ("sides_alone", "takes dx for dz", lambda a, h: (a[:2] < h[:2]).all(axis=0) & (a[2] <= h[0])),
    ("ellipse", "asks for an ellipse", lambda a, h: (a[0] * h[1]) ** 2 + (a[1] * h[0]) ** 2 < (h[0] * h[1]) ** 2),
    ("circle", "asks for the circle around", lambda a, h: np.hypot(*a[:2]) < np.hypot(*h[:2])),
)


def _of_shape(call: OpCall, inside: Callable[[Array, Array], Array]) -> Mapping[str, Array]:
    points, boxes = call.array("points")[:, :, None], call.array("boxes")[:, None]
    half = np.moveaxis(boxes[..., 3:6].astype(np.float64) / 2 + (TEST.widened, TEST.widened, 0.0), -1, 0)
    return {_OUTPUT: first_boxes(inside(np.abs(np.stack(local(points, boxes, bottom=TEST.bottom))), half))}


MUTANTS = (
    *every_suspect(OPERATOR),
    *boxes_behind(OPERATOR, "boxes", (4, 16, 64)),
    *(reads(OPERATOR, f"{word}_points", f"rounds points to {word}", points=narrow) for word, narrow in NARROW.items()),
    *(reads(OPERATOR, f"{word}_boxes", f"rounds boxes to {word}", boxes=narrow) for word, narrow in NARROW.items()),
    reads(OPERATOR, "next_point", "takes the next point", points=lambda points: np.roll(points, -1, axis=1)),
    mistakes.left("none_left", "−1 is not written", _right, _OUTPUT, lambda call: call.array(_OUTPUT) < 0),
    Mutant("int8_index", "keeps the index in 8 bits", writes(lambda call: {_OUTPUT: wrapped(8)(_indices(call))})),
    Mutant("none_is_the_one_before", "a point in no box has that of the point before", writes(_one_before)),
    *(Mutant(name, message, writes(partial(_of_shape, inside=inside))) for name, message, inside in _SHAPES),
    # More than 1024 points are in cases that are made on demand.
    *mistakes.tails_left(_right, _OUTPUT, 1, "points", (16, 32, 64, 128)),
    mistakes.part_left(_right, _OUTPUT, 1, "points"),
    mistakes.part_left(_right, _OUTPUT, 0, "batches"),
    mistakes.cached_by_shape(_right),
    mistakes.first_length_kept(_right, _OUTPUT, 1, "points"),
    mistakes.input_cleared(_right, "points"),
    mistakes.input_cleared(_right, "boxes"),
)
