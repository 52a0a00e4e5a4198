"""Implementations with one plausible mistake each; the small cases must catch every one."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status

from .._shared.wrong_pairs import Rows, right_rows
from .._shared.wrong_products import ProductLoop, right_weights

# §3.1
LOOP: Final = ProductLoop("features", "features_out", to=1)


def _last_row_missing(call: OpCall, total: Array) -> None:
    del call
    total[-1] = 0


def _even_offsets_missing_the_last(call: OpCall, total: Array) -> None:
    """Released code alternates between the output and a temporary; the last sum stays in the temporary."""
    used = [k for k, count in enumerate(call.param("indice_num")) if count > 0]
    if len(used) % 2 == 0:
        features, weights = call.array("features").astype(np.float32), right_weights(call).astype(np.float32)
        total[...] = 0
        for k in used[:-1]:
            inputs, outputs = right_rows(call)[k]
            np.add.at(total, outputs, features[inputs] @ weights[k])


def _divided_by_pairs(call: OpCall, total: Array) -> None:
    met = np.zeros(len(total), np.float32)
    for _, outputs in right_rows(call):
        np.add.at(met, outputs, np.float32(1))
    total /= np.maximum(met, 1)[:, None]


def _refuses_even_kernels(call: OpCall) -> Status:
    """As backward data does."""
    is_even = call.param("sub_m") == 1 and len(call.param("indice_num")) % 2 == 0
    return Status.BAD_PARAM if is_even else LOOP.right(call)


def _centre_before_the_middle(call: OpCall) -> list[Rows]:
    """Multiplies all rows for offset (K − 1) // 2 without looking at its pairs, which is K // 2 for an odd K alone."""
    met = right_rows(call)
    if call.param("sub_m") == 1:
        every_row = np.arange(call.tensor("features").dims[0])
        met[(len(met) - 1) // 2] = every_row, every_row
    return met


MUTANTS: Final = (
    *LOOP.mutants(),
    Mutant("even_kernel_refused", "refuses sub_m with an even number of kernel offsets", _refuses_even_kernels),
    LOOP.variant(
        "centre_before_the_middle",
        "takes offset (K − 1) // 2 for the middle one with sub_m",
        rows=_centre_before_the_middle,
    ),
    LOOP.variant("last_row", "does not reach the last output row", spoil=_last_row_missing),
    LOOP.variant("mean", "divides by the number of pairs of a row", spoil=_divided_by_pairs),
    LOOP.variant(
        "result_in_temporary",
        "alternates between two buffers, and an even number of offsets ends in the wrong one",
        spoil=_even_offsets_missing_the_last,
    ),
)

# Right implementations that the document allows; the cases of each tag alone tell them apart.
VARIANTS: Final = {"subnormal": LOOP.flushing()}
