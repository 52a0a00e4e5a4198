"""Implementations with one plausible mistake each."""

from functools import partial

import numpy as np

from mluops_gtest.authoring import Mutant, OpCall, copy_of, mistakes, suspects

from .._shared.wrong_boxes import NARROW, boxes_behind, reads, writes
from . import INPUTS, OPERATOR, copies, is_empty, pooled, sources

_ROWS, _FLAG = "pooled_features", "pooled_empty_flag"
_right = writes(pooled)


def _test_points_as(word: str) -> Mutant:
    """Points are tested with less precision, and copied as they are."""
    read = suspects.misread(points=NARROW[word])
    return Mutant(
        f"{word}_points", f"rounds points to {word}", writes(partial(pooled, choose=lambda call: sources(read(call))))
    )


def _write_flags(call: OpCall) -> None:
    call.array(_FLAG)[...] = is_empty(call)


MUTANTS = (
    *mistakes.suspected(OPERATOR),
    mistakes.left("flag_0_left", "flags of 0 are not written", _right, _FLAG, lambda call: ~is_empty(call)),
    mistakes.left("flag_1_left", "flags of 1 are not written", _right, _FLAG, is_empty),
    *map(_test_points_as, NARROW),
    *(reads(OPERATOR, f"{word}_boxes", f"rounds boxes to {word}", boxes3d=narrow) for word, narrow in NARROW.items()),
    *boxes_behind(OPERATOR, "boxes3d", (4, 16)),
    *(
        mistakes.spoilt(one.name, one.message, one.run, _write_flags)
        for one in copy_of.wrong_copies(_ROWS, copies, row="batch")
        # Batches by the dozen are in cases that are made on demand.
        if one.anew is None and one.name != "batch_tail_lost"
    ),
    reads(OPERATOR, "next_features", "takes the next features", point_features=lambda one: np.roll(one, -1, axis=1)),
    *mistakes.tails_left(_right, _ROWS, 1, "boxes", (16,)),
    *mistakes.tails_left(_right, _ROWS, 2, "samples", (16, 32)),
    *mistakes.tails_left(_right, _ROWS, 3, "columns", (16,)),
    mistakes.part_left(_right, _ROWS, 2, "samples"),
    mistakes.cached_by_shape(_right),
    mistakes.first_length_kept(_right, _ROWS, 2, "samples"),
    *(mistakes.input_cleared(_right, name) for name in INPUTS),
)
