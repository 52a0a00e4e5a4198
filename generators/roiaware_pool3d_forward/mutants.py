"""Implementations with one plausible mistake each; the stored cases must catch every one."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, mistakes, roundings

from .._shared import roiaware as roi
from . import ARGMAX, LISTS, OPERATOR, POOLED, kernel


def _narrow(call: OpCall) -> None:
    call.array(POOLED)[...] = roundings.through_half(call.array(POOLED))


def _minus_one_of_mean(call: OpCall) -> None:
    if not roi.is_max(call):
        call.array(ARGMAX)[...] = -1


def _empty(call: OpCall) -> Array:
    """bool: the cell has no points."""
    return np.asarray(call.array(LISTS)[..., 0] == 0)


MUTANTS: Final[tuple[Mutant, ...]] = (
    *mistakes.suspected(OPERATOR),
    mistakes.left("empty_features_left", "features of empty cells are not written", kernel, POOLED, _empty),
    mistakes.left("empty_argmax_left", "argmax of empty cells is not written", kernel, ARGMAX, _empty),
    mistakes.left("empty_lists_left", "lists of empty cells are not written", kernel, LISTS, _empty),
    mistakes.left(
        *("tail_left", "places behind the points are not written", kernel, LISTS),
        lambda call: np.arange(call.param("max_pts_each_voxel")) > call.array(LISTS)[..., :1],
    ),
    mistakes.spoilt("argmax_of_mean", "the mean comes with an argmax of −1", kernel, _minus_one_of_mean),
    mistakes.left(
        *("half_cleared_argmax", "the mean clears one element", kernel, ARGMAX),
        lambda call: np.indices(call.tensor(ARGMAX).dims).any(axis=0) & (not roi.is_max(call)),
    ),
    mistakes.spoilt("half_features", "features are rounded to half", kernel, _narrow),
    *mistakes.tails_left(kernel, POOLED, 4, "channels", (16, 32)),
    mistakes.part_left(kernel, POOLED, 4, "channels"),
    mistakes.part_left(kernel, LISTS, 4, "places"),
    mistakes.cached_by_shape(kernel),
    mistakes.first_length_kept(kernel, LISTS, 0, "boxes"),
    mistakes.first_param_kept(kernel, "pool_method"),
    mistakes.input_cleared(kernel, "rois"),
    mistakes.input_cleared(kernel, "pts_feature"),
)
