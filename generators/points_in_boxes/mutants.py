"""Implementations with one plausible mistake each."""

import numpy as np

from mluops_gtest.authoring import Mutant, mistakes, narrowing

from .._shared.wrong_boxes import NARROW, boxes_behind, reads, writes
from . import OPERATOR, first_boxes, indices

_OUTPUT = "points_indices"
_right = writes(indices)
_in_8_bits = writes(lambda call: indices(call, choose=lambda hits: narrowing.wrapped(8)(first_boxes(hits))))

MUTANTS = (
    *mistakes.suspected(OPERATOR),
    *boxes_behind(OPERATOR, "boxes", (4, 16, 64)),
    *(reads(OPERATOR, f"{word}_points", f"rounds points to {word}", points=narrow) for word, narrow in NARROW.items()),
    *(reads(OPERATOR, f"{word}_boxes", f"rounds boxes to {word}", boxes=narrow) for word, narrow in NARROW.items()),
    reads(OPERATOR, "next_point", "takes the next point", points=lambda points: np.roll(points, -1, axis=1)),
    mistakes.left("none_left", "−1 is not written", _right, _OUTPUT, lambda call: call.array(_OUTPUT) < 0),
    Mutant("int8_index", "keeps the index in 8 bits", _in_8_bits),
    # More than 1024 points are in cases that are made on demand.
    *mistakes.tails_left(_right, _OUTPUT, 1, "points", (16, 32, 64, 128)),
    mistakes.part_left(_right, _OUTPUT, 1, "points"),
    mistakes.part_left(_right, _OUTPUT, 0, "batches"),
    mistakes.cached_by_shape(_right),
    mistakes.first_length_kept(_right, _OUTPUT, 1, "points"),
    *(mistakes.input_cleared(_right, name) for name in ("points", "boxes")),
)
