"""Implementations with one plausible mistake each; the stored cases must catch every one."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Mutant, OpCall, mistakes
from mluops_gtest.authoring.roundings import through_half

from .._shared import roiaware as roi
from .._shared.wrong_boxes import every_suspect
from . import OPERATOR, kernel

# What integer outputs hold before the call.
_POISON: Final = int.from_bytes(b"\xa5" * 4, "little", signed=True)
_LISTED, _POOLED, _ARGMAX = "pts_idx_of_voxels", "pooled_features", "argmax"


def _empty(call: OpCall) -> Any:
    """The cells without points."""
    return call.array(_LISTED)[..., 0] == 0 if OPERATOR.answer(call).check is None else slice(0)


def _tail(call: OpCall) -> Any:
    """Places behind the points of a cell."""
    rows = call.array(_LISTED)
    return np.arange(rows.shape[-1]) > rows[..., :1] if OPERATOR.answer(call).check is None else slice(0)


def _argmax_of_mean(first: int, value: int) -> Callable[[OpCall], None]:
    """The mean comes with that number in argmax, from one element on."""

    def spoil(call: OpCall) -> None:
        if OPERATOR.answer(call).check is None and not roi.is_max(call):
            call.array(_ARGMAX).reshape(-1)[first:] = value

    return spoil


def _narrow(call: OpCall) -> None:
    result = call.array(_POOLED)
    if OPERATOR.answer(call).check is None:
        result[...] = through_half(result)


MUTANTS: Final[tuple[Mutant, ...]] = (
    *every_suspect(OPERATOR),
    mistakes.left("empty_features_left", "features of empty cells are not written", kernel, _POOLED, _empty),
    mistakes.left("empty_argmax_left", "argmax of empty cells is not written", kernel, _ARGMAX, _empty),
    mistakes.left("empty_lists_left", "lists of empty cells are not written", kernel, _LISTED, _empty),
    mistakes.left("tail_left", "places behind the points are not written", kernel, _LISTED, _tail),
    mistakes.spoilt("argmax_of_mean", "the mean comes with an argmax of −1", kernel, _argmax_of_mean(0, -1)),
    mistakes.spoilt("half_cleared_argmax", "the mean clears one element", kernel, _argmax_of_mean(1, _POISON)),
    mistakes.spoilt("half_features", "features are rounded to half", kernel, _narrow),
    *mistakes.tails_left(kernel, _POOLED, 4, "channels", (16, 32)),
    mistakes.part_left(kernel, _POOLED, 4, "channels"),
    mistakes.part_left(kernel, _LISTED, 4, "places"),
    mistakes.cached_by_shape(kernel),
    mistakes.first_length_kept(kernel, _LISTED, 0, "boxes"),
    mistakes.first_param_kept(kernel, "pool_method"),
    mistakes.input_cleared(kernel, "rois"),
    mistakes.input_cleared(kernel, "pts_feature"),
)
