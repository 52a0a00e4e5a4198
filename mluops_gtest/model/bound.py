"""What arithmetic allows: how far each element of a right output may be from the exact answer, in any order."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.model.dtypes import Array
from mluops_gtest.value import Value


class Precision(Enum):
    """What a kernel computes in; `value` is the word that a backend declares."""

    # Significant bits of sums, and how much of a factor is lost before it is multiplied.
    FLOAT = ("float", 24, 0.0)
    # Ten bits behind the point; hardware rounds factors or cuts them off.
    TF32 = ("tf32", 24, 2.0**-10)
    BFLOAT16 = ("bfloat16", 24, 2.0**-7)
    HALF = ("half", 11, 2.0**-10)

    bits: int
    factor_loss: float

    def __new__(cls, word: str, bits: int, factor_loss: float) -> "Precision":
        """Spread one row of the table over the member."""
        member = object.__new__(cls)
        member._value_ = word
        member.bits = bits
        member.factor_loss = factor_loss
        return member


_PRECISIONS: Final = {precision.value: precision for precision in Precision}
PRECISIONS: Final = tuple(_PRECISIONS)


class WorkingPrecision(Value):
    """What a backend declares: one word, or one per operator."""

    declared: str | Mapping[str, str] = Precision.FLOAT.value

    def of(self, operator: str) -> Precision:
        """What it computes that operator in; float where it declares nothing."""
        word = self.declared if isinstance(self.declared, str) else self.declared.get(operator, Precision.FLOAT.value)
        return _PRECISIONS[word]


class Bound(Value):
    """How far an output may be off before its last rounding; arrays broadcast to the output's shape.

    A sum of terms of which each meets at most `roundings` roundings is off by at most γ(roundings) · Σ|terms|. Where
    every term is a multiple of `unit` and Σ|terms| has no more units than the mantissa holds, no partial sum rounds;
    units below the smallest number that is not 0 do round.
    """

    # Σ|terms| of each element, or a little more; 0 where a right answer is a copy or a maximum of inputs.
    magnitude: Array | float
    # How many roundings one term can meet: the number of terms, with its product and the additions behind it.
    roundings: Array | int = 0
    # 0: the terms have no common unit.
    unit: Array | float = 0.0
    # Roundings behind the sum that no lattice avoids: a division by a count, or its reciprocal and a product.
    afterwards: int = 0
    # Terms are products of two inputs, which a narrower unit may round first.
    products: bool = False

    @staticmethod
    def copied(*outputs: str) -> "Callable[[object], dict[str, Bound]]":
        """What arithmetic allows an operator that copies inputs to these outputs, or chooses among them: nothing."""
        return lambda _: dict.fromkeys(outputs, Bound(0.0))

    def part(self, index: Any, dims: tuple[int, ...]) -> "Bound":
        """The bound of output[index], where the output has these dims."""

        def of(values: Any) -> Any:
            return np.broadcast_to(values, dims)[index] if np.ndim(values) else values

        return replace(self, magnitude=of(self.magnitude), roundings=of(self.roundings), unit=of(self.unit))
