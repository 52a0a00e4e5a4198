"""Implementations with one plausible mistake each; the small cases must catch every one."""

from functools import partial
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.mistakes import left
from mluops_gtest.authoring.roundings import FLUSHED_WRITE
from mluops_gtest.authoring.wrong_sums import Terms, wrong_sum

from .._shared.wrong_interpolation import interpolation_mutants
from . import DIRECTION, terms

variant = partial(wrong_sum, output="grad_features", terms=terms)


def _dense(contributions: Terms) -> Array:
    """A matrix product with zeros for all cells that a point does not name."""
    named = (contributions.places == np.arange(contributions.number)[:, None]).astype(np.float32)
    return np.einsum("me,ec->mc", named, contributions.products)  # type: ignore[no-any-return]


def _into_first_batch(result: Array, total: Array) -> None:
    result[...] = 0
    result[0] = total.sum(axis=0)


def _where_not_zero(result: Array, total: Array) -> None:
    np.copyto(result, total.astype(result.dtype), where=total != 0)


def _untouched(call: OpCall) -> Array:
    """bool [B, C, M]: no index names the cell."""
    result = call.array("grad_features")
    named = [np.isin(np.arange(result.shape[2]), indices) for indices in call.array("indices")]
    return np.broadcast_to(~np.array(named)[:, None], result.shape)


MUTANTS: Final = (
    *interpolation_mutants(DIRECTION, terms),
    variant("batches_summed", "adds every batch to the first", write=_into_first_batch),
    left(
        "untouched_unwritten",
        "does not write cells that no index names",
        variant("", "").run,
        "grad_features",
        _untouched,
    ),
    variant("zeros_unwritten", "does not write sums of 0", write=_where_not_zero),
    variant("nan_spread", "multiplies zeros with the cells that a point does not name", add=_dense),
)


# Right implementations that the document allows; the cases of each tag alone tell them apart.


_NAME, _MESSAGE, _WRITE = FLUSHED_WRITE

VARIANTS: Final = {"subnormal": (variant(_NAME, _MESSAGE, write=_WRITE),)}
