"""Implementations with one plausible mistake each; the small cases must catch every one."""

from typing import Final

from .._shared.wrong_products import ProductLoop

# §1.2.2
LOOP: Final = ProductLoop("output_grad", "input_grad", to=0)


MUTANTS: Final = tuple(LOOP.mutants())
