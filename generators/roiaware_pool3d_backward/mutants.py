"""Implementations with one plausible mistake each; the stored cases must catch every one."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, mistakes, roundings
from mluops_gtest.authoring.suspects import misread

from . import GRAD, INPUTS, OPERATOR, kernel, terms


def _add_one(call: OpCall) -> None:
    """Terms are added to what the buffer held, which was cleared to 1."""
    call.array(GRAD)[...] += call.array(GRAD).dtype.type(1)


def _narrow_lists(lists: Array) -> Array:
    return np.append(lists[..., :1], lists[..., 1:] % 64, axis=-1)


_read_half = misread(grad_out=roundings.through_half)
_read_narrow = misread(argmax=lambda argmax: np.where(argmax < 0, argmax, argmax % 64), pts_idx_of_voxels=_narrow_lists)

MUTANTS: Final[tuple[Mutant, ...]] = (
    *mistakes.suspected(OPERATOR),
    mistakes.left(
        *("unnamed_left", "does not clear points that no cell names", kernel, GRAD), lambda call: terms(call).met == 0
    ),
    mistakes.spoilt("cleared_to_1", "grad_in starts at 1", kernel, _add_one),
    Mutant("half_grads", "rounds grad_out to half", lambda call: kernel(_read_half(call))),
    Mutant("narrow_points", "keeps numbers of points in 6 bits", lambda call: kernel(_read_narrow(call))),
    mistakes.sum_goes_on(kernel, GRAD),
    *mistakes.tails_left(kernel, GRAD, 1, "channels", (16, 32)),
    *mistakes.tails_left(kernel, GRAD, 0, "points", (16, 32)),
    mistakes.part_left(kernel, GRAD, 0, "points"),
    mistakes.part_left(kernel, GRAD, 1, "channels"),
    mistakes.cached_by_shape(kernel),
    mistakes.first_length_kept(kernel, GRAD, 0, "points"),
    mistakes.first_param_kept(kernel, "pool_method"),
    *(mistakes.input_cleared(kernel, name) for name in INPUTS),
)
