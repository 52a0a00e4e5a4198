"""Implementations with one plausible mistake each; the small cases must catch every one.

A sign that is kept on −0 shows with --bitwise alone, so none is here.
"""

from typing import Final

from mluops_gtest.authoring import mistakes

from .._shared.wrong_elementwise import element_mutants, stride_mutants
from . import OPERATOR, WRONG

MUTANTS: Final = (
    *mistakes.suspected(OPERATOR, {name: words for name, words, _ in WRONG}),
    *element_mutants(OPERATOR, "y"),
    *stride_mutants(OPERATOR, "x", "y"),
)
