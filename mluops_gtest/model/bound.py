"""What arithmetic allows: how far each element of a right output may be from the exact answer, in any order."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from mluops_gtest.model.dtypes import Array
from mluops_gtest.value import Value


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
        import numpy as np

        def of(values: Any) -> Any:
            array = np.asarray(values)
            if not array.ndim:
                return values
            # To broadcast takes ten times as long as to look whether there is a need.
            return (array if array.shape == dims else np.broadcast_to(array, dims))[index]

        return replace(self, magnitude=of(self.magnitude), roundings=of(self.roundings), unit=of(self.unit))
