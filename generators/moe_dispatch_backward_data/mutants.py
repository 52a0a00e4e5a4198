"""Implementations with one plausible mistake each; the small cases must catch every one."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, OpCall

from .._shared import moe_dispatch as moe
from .._shared.wrong_moe_dispatch import computed, flushing, moe_mutants
from . import OPERANDS, OPERATOR, gradients


def _scattered(call: OpCall) -> Array:
    """The sample's place and the slot are exchanged."""
    samples, slots = moe.routed(call)
    grad, dispatch = np.zeros_like(call.array("grad_input")), call.array("dispatch")
    fits = (slots < len(grad)) & (samples < len(dispatch))
    grad[slots[fits]] = call.array("gates")[samples[fits], None] * dispatch[samples[fits]]
    return grad


MUTANTS: Final = (
    *moe_mutants(OPERATOR, gradients, OPERANDS, "samples"),
    computed(OPERATOR, "scattered", "scatters rows instead of gathering them", _scattered),
)
VARIANTS: Final = {"subnormal": (flushing(OPERATOR, OPERANDS),)}
