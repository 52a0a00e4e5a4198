"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, DType, Mutant, OpCall, Status, mistakes
from mluops_gtest.authoring.copy_of import wrong_copies
from mluops_gtest.authoring.suspects import with_inputs

from . import OPERATOR, copies, moved_table, rotation_table, with_planes

# (rotations counted from 0, orientations, all rotations) → the layers, or the places of the ring, that each moves.
Move = Callable[[Array, int, int], Array]


def _layers(turns: Array, orientations: int, rotations: int) -> Array:
    return turns * orientations // rotations


def _steps(turns: Array, _: int, rotations: int) -> Array:
    return turns * 8 // rotations


def _write(call: OpCall, output: Array) -> Status:
    call.array("output")[...] = output
    return Status.SUCCESS


def _turned(call: OpCall, layers: Move = _layers, steps: Move = _steps) -> Status:
    """Write output by the rule, of which one half may be wrong."""
    orientations, height, _, rotations = call.tensor("indices").dims
    turns = np.arange(rotations)
    moves = (move(turns, orientations, rotations) for move in (layers, steps))
    return _write(call, copies(with_inputs(call, indices=moved_table(orientations, height, *moves))).copied())


def _shifted(call: OpCall, by: int) -> Status:
    """Every element so many places further, those behind the end at the beginning."""
    return _write(call, np.roll(copies(call).copied().reshape(-1), by).reshape(call.tensor("output").dims))


def _centre_moves(call: OpCall) -> Status:
    table = call.array("indices").copy()
    if table.shape[1] == 3:
        table[:, (0, 1), (0, 1)] = table[:, (1, 0), (1, 0)]
    return _write(call, copies(with_inputs(call, indices=table)).copied())


def _square_layers(call: OpCall) -> Status:
    """Filters of 1×1 keep their orientations in place."""
    return _turned(call, lambda *at: _layers(*at) * (call.tensor("input").dims[3] == 3))


def _halves_alone(call: OpCall) -> Status:
    """Two rotations keep the orientations of floats in place."""
    is_right = call.tensor("input").dtype is DType.HALF or call.tensor("indices").dims[3] != 2
    return _turned(call, lambda *at: _layers(*at) * is_right)


def _rows_for_columns(call: OpCall) -> Status:
    table = np.ascontiguousarray(call.array("indices").swapaxes(1, 2))
    return _write(call, copies(with_inputs(call, indices=table)).copied())


def _rotations_outside(call: OpCall) -> Status:
    """The table is read as [R, A, h, w]."""
    dims = call.tensor("indices").dims
    table = np.moveaxis(rotation_table(dims[0], dims[1], dims[3]).reshape(dims[3], -1), 0, 1).reshape(dims)
    try:
        return _write(call, copies(with_inputs(call, indices=np.ascontiguousarray(table))).copied())
    except IndexError:
        return Status.SUCCESS


def _scratch(call: OpCall) -> Status:
    """§3.1's 45° planes before their cells move are left in the last input plane of the last rotation."""
    _write(call, copies(call).copied())
    filters, planes, orientations, height, _ = call.tensor("input").dims
    rotated = call.array("output").reshape(filters, -1, planes, orientations, height, height)
    if rotated.shape[1] == 8:
        rotated[:, 7, -1] = np.roll(call.array("input")[:, -1], orientations // 8, axis=1)
    return Status.SUCCESS


def _tail(axis: int, tile: int) -> Callable[[OpCall], Status]:
    """What lies behind whole tiles of that axis of input is not written."""

    def run(call: OpCall) -> Status:
        length = call.tensor("input").dims[axis]
        first = length // tile * tile or length
        filters, planes, orientations, height, _ = call.tensor("input").dims
        shape = (filters, -1, planes, orientations, height, height)
        where = (slice(None),) * (2 * axis) + (slice(None, first),)
        call.array("output").reshape(shape)[where] = copies(call).copied().reshape(shape)[where]
        return Status.SUCCESS

    return run


_right: Final = _turned

MUTANTS: Final = (
    *mistakes.suspected(
        OPERATOR,
        {
            "counter_clockwise": "filters turn counter-clockwise",
            "gathered": "indices name where an entry comes from",
            "layers_stay": "orientations stay where they are",
            "layers_backwards": "orientations move backwards",
            "cells_stay": "entries keep their place in the plane",
            "not_turned": "nothing turns",
            "rotations_outermost": "rotations are the outermost axis",
            "orientations_outside": "orientations are outside of input planes",
        },
    ),
    *(
        Mutant(name, message, partial(_turned, layers=layers))
        for name, message, layers in (
            ("layers_rounded", "layers move by θ·A/360 rounded", lambda k, a, r: np.floor(k * a / r + 0.5).astype(int)),
            ("layers_rounded_up", "layers move by θ·A/360 rounded up", lambda k, a, r: -(-k * a // r)),
            ("one_layer_each", "every rotation moves one layer", lambda k, _, __: k),
            ("layers_of_8", "layers move as if there were 8 rotations", lambda k, a, _: k * a // 8),
            ("layer_per_quarter", "45° moves as many layers as 90°", lambda k, a, r: -(-k * 4 // r) * a // 4),
            ("first_turn_late", "layers move from the second rotation on", lambda k, a, r: k * a // r * (k > 1)),
        )
    ),
    *(
        Mutant(name, message, partial(_turned, steps=steps))
        for name, message, steps in (
            ("quarters_only", "45° turns as far as 90°", lambda k, _, r: -(-k * 4 // r) * 2),
            ("eighths_lost", "45° does not turn", lambda k, _, r: k * 4 // r * 2),
            ("twice_as_far", "every rotation turns twice as far", lambda k, _, r: k * 16 // r),
            ("eighth_each", "every rotation turns by 45°", lambda k, _, __: k),
            ("quarter_each", "every rotation turns by 90°", lambda k, _, __: 2 * k),
            ("four_twice", "8 rotations are 4, written twice", lambda k, _, r: k * 8 // r % 8 // 2 * 2),
            ("half_turn_lost", "rotations of 180° and more begin again", lambda k, _, r: k * 8 // r % 4),
        )
    ),
    Mutant(
        "turned_twice_by_4",
        "the second four of 8 rotations repeat the first",
        partial(_turned, layers=lambda k, a, r: k % 4 * a // r, steps=lambda k, _, r: k % 4 * 8 // r),
    ),
    Mutant("counted_from_0", "indices count from 0", partial(_shifted, by=1)),
    Mutant("one_too_low", "indices count from 2", partial(_shifted, by=-1)),
    Mutant("layers_of_1x1_stay", "filters of 1×1 keep their orientations in place", _square_layers),
    Mutant("layers_of_floats_stay", "two rotations keep the orientations of floats in place", _halves_alone),
    Mutant("centre_moves", "the centre moves with the ring", _centre_moves),
    Mutant("rows_for_columns", "the table's rows are taken for columns", _rows_for_columns),
    Mutant("table_by_rotation", "the table is read as [R, A, h, w]", _rotations_outside),
    Mutant("scratch_left", "scratch is left in the last rotation", _scratch),
    Mutant(
        "planes_first", "input planes are outside of filters", lambda call: _write(call, with_planes(call, 2, 1, 0, 3))
    ),
    *(
        Mutant(f"{what}_tail_{tile}", f"{what} behind whole tiles of {tile} are not written", _tail(axis, tile))
        for axis, what in enumerate(("filters", "planes"))
        for tile in (4, 64)
    ),
    # Nothing is copied from nowhere.
    *(mutant for mutant in wrong_copies("output", copies, row="filter") if mutant.name != "outside_not_written"),
    mistakes.part_left(_right, "output", 0, "rotated filters"),
    mistakes.first_length_kept(_right, "output", 0, "rotated filters"),
    mistakes.input_cleared(_right, "input"),
)
