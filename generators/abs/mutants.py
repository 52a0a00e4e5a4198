"""Implementations with one plausible mistake each; the small cases must catch every one.

A sign that is kept on −0 shows with --bitwise alone, so none is here.
"""

from mluops_gtest.authoring import OpCall, mistakes
from mluops_gtest.authoring.roundings import flushed

from .._shared.wrong_elementwise import mutants
from . import OPERATOR, WRONG, kernel


def _flush(call: OpCall) -> None:
    y = call.array("y")
    if y.dtype.kind == "f":
        y[...] = flushed(y)


MUTANTS = (
    *mutants(OPERATOR, WRONG, alike=False),
    mistakes.spoilt("flushes_denormals", "denormals become 0", kernel, _flush),
)
