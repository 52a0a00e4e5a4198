"""What kernels compute in, by the words that backends declare and results name."""

from typing import Final

from mluops_gtest.model.dtypes import DType
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
# One word, or one per operator, or per operator and data type of the output.
DeclaredPrecision = str | dict[str, str | dict[str, str]]
# What results are stored in and sums are rounded to.
_ROUNDED: Final = tuple(dtype.value for dtype in (DType.HALF, DType.BFLOAT16, DType.FLOAT, DType.DOUBLE))
PRECISION_WORDS: Final = f"Precisions: {', '.join(PRECISIONS)}; data types: {', '.join(_ROUNDED)}."


def is_precision(declared: object) -> bool:
    """A backend may declare this."""
    if not isinstance(declared, dict):
        return declared in PRECISIONS
    return all(one in PRECISIONS or (isinstance(one, dict) and _is_by_type(one)) for one in declared.values())


def _is_by_type(declared: dict[object, object]) -> bool:
    return all(dtype in _ROUNDED and word in PRECISIONS for dtype, word in declared.items())


class WorkingPrecision(Value):
    """What a backend declares."""

    declared: DeclaredPrecision = Precision.FLOAT.value

    def of(self, operator: str, dtype: DType) -> Precision:
        """What it computes outputs of that type in; float where it declares nothing."""
        named = self.declared
        for name in (operator, dtype.value):
            if isinstance(named, dict):
                named = named.get(name, Precision.FLOAT.value)
        assert isinstance(named, str), "is_precision holds"
        return _PRECISIONS[named]

    def excused(self, operator: str, dtype: DType) -> Precision:
        """The same, or half where half data may be computed in half, too: nothing is declared of that data type."""
        by_type = self.declared.get(operator) if isinstance(self.declared, dict) else None
        is_named = isinstance(by_type, dict) and dtype.value in by_type
        declared = self.of(operator, dtype)
        # Both hold half factors as they are, so that half allows no less.
        can_be_half = dtype is DType.HALF and declared in (Precision.FLOAT, Precision.TF32)
        return Precision.HALF if can_be_half and not is_named else declared
