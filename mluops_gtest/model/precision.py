"""What kernels compute in, by the words that backends declare and results name."""

from collections.abc import Mapping
from typing import Final

from mluops_gtest.model.table_enum import TableEnum
from mluops_gtest.value import Value


class Precision(TableEnum):
    """What a kernel computes in; `value` is the word that a backend declares."""

    # Significant bits of sums, and how much of a factor is lost before it is multiplied.
    FLOAT = ("float", 24, 0.0)
    # Ten bits behind the point; hardware rounds factors or cuts them off.
    TF32 = ("tf32", 24, 2.0**-10)
    BFLOAT16 = ("bfloat16", 24, 2.0**-7)
    HALF = ("half", 11, 2.0**-10)

    def __init__(self, _word: str, bits: int, factor_loss: float) -> None:
        self.bits = bits
        self.factor_loss = factor_loss


_PRECISIONS: Final = {precision.value: precision for precision in Precision}
PRECISIONS: Final = tuple(_PRECISIONS)


class WorkingPrecision(Value):
    """What a backend declares: one word, or one per operator."""

    declared: str | Mapping[str, str] = Precision.FLOAT.value

    def of(self, operator: str) -> Precision:
        """What it computes that operator in; float where it declares nothing."""
        word = self.declared if isinstance(self.declared, str) else self.declared.get(operator, Precision.FLOAT.value)
        return _PRECISIONS[word]
