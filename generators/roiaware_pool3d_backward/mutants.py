"""Implementations with one plausible mistake each; the stored cases must catch every one."""

from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Mutant, OpCall, Status, mistakes
from mluops_gtest.authoring.roundings import through_half
from mluops_gtest.authoring.suspects import with_inputs

from .._shared.wrong_boxes import every_suspect
from . import OPERATOR, kernel
from .suspects import terms

_GRAD: Final = "grad_in"


def _unnamed(call: OpCall) -> Any:
    """Elements that no cell names."""
    if OPERATOR.answer(call).check is not None:
        return slice(0)
    return terms(call).met == 0


def _doubled(call: OpCall) -> None:
    """Terms are added to what the buffer held, which was cleared to 1."""
    if OPERATOR.answer(call).check is None:
        call.array(_GRAD)[...] += call.array(_GRAD).dtype.type(1)


def _half_grads(call: OpCall) -> Status:
    if OPERATOR.answer(call).check is not None:
        return kernel(call)
    return kernel(with_inputs(call, grad_out=through_half(call.array("grad_out"))))


def _narrow_points(call: OpCall) -> Status:
    """Indices in 8 bits."""
    if OPERATOR.answer(call).check is not None:
        return kernel(call)
    argmax, lists = call.arrays("argmax", "pts_idx_of_voxels")
    lists = np.concatenate([lists[..., :1], lists[..., 1:] % 64], axis=-1)
    return kernel(with_inputs(call, argmax=np.where(argmax < 0, argmax, argmax % 64), pts_idx_of_voxels=lists))


MUTANTS: Final[tuple[Mutant, ...]] = (
    *every_suspect(OPERATOR),
    mistakes.left("unnamed_left", "does not clear points that no cell names", kernel, _GRAD, _unnamed),
    mistakes.spoilt("cleared_to_1", "grad_in starts at 1", kernel, _doubled),
    Mutant("half_grads", "rounds grad_out to half", _half_grads),
    Mutant("narrow_points", "keeps numbers of points in 6 bits", _narrow_points),
    mistakes.sum_goes_on(kernel, _GRAD),
    *mistakes.tails_left(kernel, _GRAD, 1, "channels", (16, 32)),
    *mistakes.tails_left(kernel, _GRAD, 0, "points", (16, 32)),
    mistakes.part_left(kernel, _GRAD, 0, "points"),
    mistakes.cached_by_shape(kernel),
    mistakes.first_length_kept(kernel, _GRAD, 0, "points"),
    mistakes.first_param_kept(kernel, "pool_method"),
    mistakes.input_cleared(kernel, "grad_out"),
    mistakes.input_cleared(kernel, "argmax"),
)
