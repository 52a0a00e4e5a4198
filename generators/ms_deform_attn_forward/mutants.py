"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, mistakes, roundings, suspects

from .._shared.interpolation import shortened
from . import INPUTS, OPERATOR, kernel

_COL: Final = "data_col"


def _is_empty(call: OpCall) -> bool:
    return call.tensor("data_attn_weight").desc.is_empty


def _rounded(name: str) -> Mutant:
    read = suspects.misread(**{name: lambda values: shortened(values, 11)})
    run = lambda call: kernel(call if _is_empty(call) else read(call))  # noqa: E731
    return Mutant(f"tf32_{name}", f"rounds {name} to tf32", run)


def _changed(name: str, message: str, change: Callable[[Array], Array]) -> Mutant:
    def spoil(call: OpCall) -> None:
        call.array(_COL)[...] = change(call.array(_COL))

    return mistakes.spoilt(name, message, kernel, spoil)


def _added(call: OpCall) -> Status:
    before = call.array(_COL).copy()
    status = kernel(call)
    with np.errstate(all="ignore"):
        call.array(_COL)[...] += before
    return status


def _whole_steps(call: OpCall) -> Status:
    step, batches = call.param("im2col_step"), call.tensor("data_value").dims[0]
    return Status.BAD_PARAM if step > 0 and batches % step else kernel(call)


MUTANTS: Final = (
    *mistakes.suspected(OPERATOR),
    *map(_rounded, (INPUTS[0], *INPUTS[3:])),
    _changed("half_sums", "rounds sums to half", roundings.through_half),
    _changed("nan_cleared", "writes 0 for NaN", roundings.nan_cleared),
    Mutant("adds_to_col", "adds to what data_col held", _added),
    Mutant(
        "empty_left",
        "writes nothing without levels or points",
        lambda call: Status.SUCCESS if _is_empty(call) else kernel(call),
    ),
    Mutant("whole_steps", "refuses an im2col_step that is larger than B", _whole_steps),
    *mistakes.tails_left(kernel, _COL, 1, "queries", (16,)),
    *mistakes.tails_left(kernel, _COL, 3, "channels", (16,)),
    mistakes.part_left(kernel, _COL, 1, "queries"),
    mistakes.cached_by_shape(kernel),
    mistakes.sum_goes_on(kernel, _COL),
    mistakes.first_length_kept(kernel, _COL, 1, "queries"),
    *(mistakes.input_cleared(kernel, name) for name in (INPUTS[0], *INPUTS[3:])),
)
