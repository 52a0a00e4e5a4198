"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, mistakes, suspects
from mluops_gtest.authoring.copy_of import wrong_copies

from . import OPERATOR, copies, kernel, moved_table


def _copy_by(call: OpCall, table: Array) -> Status:
    call.array("output")[...] = copies(suspects.with_inputs(call, indices=table)).copied()
    return Status.SUCCESS


def _turn(call: OpCall, moves: Callable[[int, int, int, Array], tuple[Array, Array]]) -> Status:
    """By layers and steps of orientations, height, all rotations and their numbers."""
    orientations, height, _, rotations = call.tensor("indices").dims
    layers, steps = moves(orientations, height, rotations, np.arange(rotations))
    return _copy_by(call, moved_table(orientations, height, layers, steps))


def _turn_centre(call: OpCall) -> Status:
    table = call.array("indices").copy()
    if table.shape[1] == 3:
        table[:, (0, 1), (0, 1)] = table[:, (1, 0), (1, 0)]
    return _copy_by(call, table)


def _count_from_0(call: OpCall) -> None:
    # Every element is one place further, the last one at the beginning.
    call.array("output")[...] = np.roll(call.array("output"), 1)


def _leave_scratch(call: OpCall) -> None:
    # §3.1's 45° planes before their cells move, in the last input plane of the last rotation.
    filters, planes, orientations, height, _ = call.tensor("input").dims
    rotated = call.array("output").reshape(filters, -1, planes, orientations, height, height)
    if rotated.shape[1] == 8:
        rotated[:, 7, -1] = np.roll(call.array("input")[:, -1], orientations // 8, axis=1)


MUTANTS: Final = (
    *mistakes.suspected(OPERATOR),
    *(
        Mutant(name, message, partial(_turn, moves=moves))
        for name, message, moves in (
            ("layers_rounded", "θ·A/360 is rounded", lambda a, _, r, k: ((2 * k * a // r + 1) // 2, k * 8 // r)),
            ("layers_rounded_up", "θ·A/360 is rounded up", lambda a, _, r, k: (-(-k * a // r), k * 8 // r)),
            ("layers_of_1x1_stay", "1×1 leaves layers in place", lambda a, h, r, k: ((h > 1) * k * a // r, k * 8 // r)),
            ("one_layer_each", "every rotation moves one layer", lambda _, __, r, k: (k, k * 8 // r)),
            ("eighth_each", "every rotation turns by 45°", lambda a, _, r, k: (k * a // r, k)),
            ("quarters_only", "45° turns as far as 90°", lambda a, _, r, k: (k * a // r, -(-k * 4 // r) * 2)),
            ("four_twice", "8 are 4 twice", lambda a, _, r, k: (k % 4 * a // min(r, 4), k % 4 * 8 // min(r, 4))),
        )
    ),
    Mutant("centre_moves", "the centre moves with the ring", _turn_centre),
    mistakes.spoilt("counted_from_0", "indices count from 0", kernel, _count_from_0),
    mistakes.spoilt("scratch_left", "scratch is left in the last rotation", kernel, _leave_scratch),
    # Nothing is copied from nowhere.
    *(mutant for mutant in wrong_copies("output", copies, row="filter") if mutant.name != "outside_not_written"),
    *mistakes.tails_left(kernel, "output", 0, "rotated_filters", (4, 16, 32, 64, 128)),
    *mistakes.tails_left(kernel, "output", 1, "rotated_planes", (4, 16, 32, 64, 128)),
    mistakes.part_left(kernel, "output", 0, "rotated filters"),
    mistakes.first_length_kept(kernel, "output", 0, "rotated filters"),
    mistakes.input_cleared(kernel, "input"),
)
