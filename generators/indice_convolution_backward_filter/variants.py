"""Right implementations that the document allows; the cases of each tag alone tell them apart."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Mutant, OpCall, Status
from mluops_gtest.authoring.roundings import FLUSHED_WRITE, flushed

from .._shared.wrong_pairs import right_rows
from .mutants import right_factors, rounded, variant

_NAME, _MESSAGE, _WRITE = FLUSHED_WRITE


def _multiplies_all_rows(call: OpCall) -> Status:
    """One row of zeros per input row without a partner, as a dense product has it."""
    features, grads = right_factors(call)
    result = call.array("filters_grad")
    sums = np.zeros((len(call.param("indice_num")), *result.shape[-2:]), np.float32)
    for k, (inputs, outputs) in enumerate(right_rows(call)):
        partners = np.zeros((len(features), grads.shape[1]), np.float32)
        partners[inputs] = grads[outputs]
        sums[k] = features.T @ partners
    result[...] = sums.reshape(result.shape)
    return Status.SUCCESS


VARIANTS: Final = {
    "subnormal": (
        variant("tiny_factors_flushed", "takes subnormal features and gradients for 0", factors=rounded(flushed)),
        variant(_NAME, _MESSAGE, write=_WRITE),
    ),
    "undefined": (
        Mutant(
            "zeros_for_nobody", "multiplies rows without a partner by zeros, and 0 · NaN is NaN", _multiplies_all_rows
        ),
    ),
}
