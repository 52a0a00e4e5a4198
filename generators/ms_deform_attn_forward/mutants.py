"""Implementations with one plausible mistake each; the small cases must catch every one."""

import re
from collections.abc import Callable
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, mistakes
from mluops_gtest.authoring.suspects import misread, with_inputs

from .._shared.interpolation import shortened
from . import INPUTS, OPERATOR, SUSPECTS, kernel, sums

_COL: Final = "data_col"


def _written(name: str, message: str, answer: Callable[[OpCall], Array]) -> Mutant:
    """Writes something else to calls that compute."""

    def spoil(call: OpCall) -> None:
        if OPERATOR.answer(call).check is None:
            with np.errstate(all="ignore"):
                call.array(_COL)[...] = answer(call)

    return mistakes.spoilt(name, message, kernel, spoil)


def _rounded(tensor: str, bits: int) -> Callable[[OpCall], Array]:
    read = misread(**{tensor: lambda values: shortened(values, bits)})
    return lambda call: sums(read(call))[_COL]


def _head_of_query(call: OpCall) -> Array:
    values = call.array("data_value")
    col = np.empty(call.tensor("data_col").dims, np.float32)
    for head in range(values.shape[2]):
        read = with_inputs(call, data_value=np.repeat(values[:, :, head : head + 1], values.shape[2], axis=2))
        col[:, head :: values.shape[2]] = sums(read)["data_col"][:, head :: values.shape[2]]
    return col


def _added(call: OpCall) -> Status:
    """The old content stays in the sums."""
    before = call.array(_COL).copy()
    status = kernel(call)
    with np.errstate(all="ignore"):
        call.array(_COL)[...] += before
    return status


def _when_empty(name: str, message: str, status: Status) -> Mutant:
    """Answers at once without levels or points."""
    return Mutant(name, message, lambda c: status if c.tensor("data_attn_weight").desc.is_empty else kernel(c))


def _whole_steps(call: OpCall) -> Status:
    """im2col_step itself must divide B."""
    step, batches = call.param("im2col_step"), call.tensor("data_value").dims[0]
    return Status.BAD_PARAM if step > 0 and batches % step else kernel(call)


def _clear_nan(call: OpCall) -> None:
    col = call.array(_COL)
    col[np.isnan(col)] = 0


MUTANTS: Final = (
    *mistakes.suspected(
        OPERATOR, {re.sub(r"\W+", "_", words.lower()).strip("_").replace("−", ""): words for words in SUSPECTS}
    ),
    *(
        _written(f"{kind}_{name.split('_', 1)[1]}", f"rounds {name} to {kind}", _rounded(name, bits))
        for kind, bits in (("tf32", 11), ("bfloat16", 8))
        for name in (INPUTS[0], *INPUTS[3:])
    ),
    _written("half_sums", "rounds sums to half", lambda call: sums(call)[_COL].astype(np.float16)),
    _written("mean", "divides by the number of points", lambda c: sums(c)[_COL] / max(1, c.array(INPUTS[4]).shape[4])),
    _written("head_of_query", "takes the head that the number of the query says", _head_of_query),
    Mutant("adds_to_col", "adds to what data_col held", _added),
    _when_empty("empty_left", "writes nothing without levels or points", Status.SUCCESS),
    _when_empty("empty_refused", "refuses calls without levels or points", Status.BAD_PARAM),
    Mutant("whole_steps", "refuses an im2col_step that is larger than B", _whole_steps),
    mistakes.spoilt("nan_cleared", "writes 0 for NaN", kernel, _clear_nan),
    *mistakes.tails_left(kernel, _COL, 1, "queries", (16,)),
    *mistakes.tails_left(kernel, _COL, 3, "channels", (16,)),
    mistakes.part_left(kernel, _COL, 1, "queries"),
    mistakes.cached_by_shape(kernel),
    mistakes.sum_goes_on(kernel, _COL),
    mistakes.first_length_kept(kernel, _COL, 1, "queries"),
    *(mistakes.input_cleared(kernel, name) for name in (INPUTS[0], *INPUTS[3:])),
)
