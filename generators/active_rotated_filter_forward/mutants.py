"""Implementations with one plausible mistake each; the small cases must catch every one."""

import re
from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, mistakes
from mluops_gtest.authoring.copy_of import wrong_copies
from mluops_gtest.authoring.suspects import with_inputs

from . import OPERATOR, SUSPECTS, copies, moved_table

# (rotations counted from 0, orientations, all rotations) → the layers, or the places of the ring, that each moves.
Move = Callable[[Array, int, int], Array]


def _layers(turns: Array, orientations: int, rotations: int) -> Array:
    return turns * orientations // rotations


def _steps(turns: Array, _: int, rotations: int) -> Array:
    return turns * 8 // rotations


def _by_table(call: OpCall, table: Array) -> Status:
    call.array("output")[...] = copies(with_inputs(call, indices=table)).copied()
    return Status.SUCCESS


def _turned(call: OpCall, layers: Move = _layers, steps: Move = _steps) -> Status:
    """Write output by the rule, of which one half may be wrong."""
    orientations, height, _, rotations = call.tensor("indices").dims
    moves = (move(np.arange(rotations), orientations, rotations) for move in (layers, steps))
    return _by_table(call, moved_table(orientations, height, *moves))


def _square_layers(call: OpCall) -> Status:
    return _turned(call, lambda *at: _layers(*at) * (call.tensor("input").dims[3] == 3))


def _centre_moves(call: OpCall) -> Status:
    table = call.array("indices").copy()
    if table.shape[1] == 3:
        table[:, (0, 1), (0, 1)] = table[:, (1, 0), (1, 0)]
    return _by_table(call, table)


def _from_0(call: OpCall) -> None:
    """Every element is one place further, the last one at the beginning."""
    output = call.array("output")
    output[...] = np.roll(output, 1)


def _scratch(call: OpCall) -> None:
    """§3.1's 45° planes before their cells move are left in the last input plane of the last rotation."""
    filters, planes, orientations, height, _ = call.tensor("input").dims
    rotated = call.array("output").reshape(filters, -1, planes, orientations, height, height)
    if rotated.shape[1] == 8:
        rotated[:, 7, -1] = np.roll(call.array("input")[:, -1], orientations // 8, axis=1)


MUTANTS: Final = (
    *mistakes.suspected(OPERATOR, {re.sub(r"\W+", "_", words): words for words in SUSPECTS}),
    *(
        Mutant(name, message, partial(_turned, layers=layers))
        for name, message, layers in (
            ("layers_rounded", "layers move by θ·A/360 rounded", lambda k, a, r: np.floor(k * a / r + 0.5).astype(int)),
            ("layers_rounded_up", "layers move by θ·A/360 rounded up", lambda k, a, r: -(-k * a // r)),
            ("one_layer_each", "every rotation moves one layer", lambda k, _, __: k),
            ("layers_of_8", "layers move as if there were 8 rotations", lambda k, a, _: k * a // 8),
        )
    ),
    *(
        Mutant(name, message, partial(_turned, steps=steps))
        for name, message, steps in (
            ("quarters_only", "45° turns as far as 90°", lambda k, _, r: -(-k * 4 // r) * 2),
            ("eighth_each", "every rotation turns by 45°", lambda k, _, __: k),
            ("half_turn_lost", "rotations of 180° and more begin again", lambda k, _, r: k * 8 // r % 4),
        )
    ),
    Mutant(
        "four_twice",
        "8 rotations are 4, written twice",
        partial(_turned, layers=lambda k, a, r: k % 4 * a // min(r, 4), steps=lambda k, _, r: k % 4 * 8 // min(r, 4)),
    ),
    Mutant("layers_of_1x1_stay", "filters of 1×1 keep their orientations in place", _square_layers),
    Mutant("centre_moves", "the centre moves with the ring", _centre_moves),
    mistakes.spoilt("counted_from_0", "indices count from 0", _turned, _from_0),
    mistakes.spoilt("scratch_left", "scratch is left in the last rotation", _turned, _scratch),
    # Nothing is copied from nowhere.
    *(mutant for mutant in wrong_copies("output", copies, row="filter") if mutant.name != "outside_not_written"),
    *mistakes.tails_left(_turned, "output", 0, "rotated_filters", (4, 64)),
    *mistakes.tails_left(_turned, "output", 1, "rotated_planes", (4, 64)),
    mistakes.part_left(_turned, "output", 0, "rotated filters"),
    mistakes.first_length_kept(_turned, "output", 0, "rotated filters"),
    mistakes.input_cleared(_turned, "input"),
)
