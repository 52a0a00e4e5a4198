"""How the elements of each data type are seen as real numbers: the view, the parts, diff3's threshold."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np

from mluops_gtest.errors import ContentError
from mluops_gtest.model.dtypes import Array, DType

# diff3 looks at |e−b| instead of the relative error where |b| is below this; 16-bit types have the coarse one.
_SMALL: Final = 1e-6
_SMALL_16_BIT: Final = 1e-4

_COMPLEX: Final = {
    DType.COMPLEX_HALF: "<f2",
    DType.COMPLEX64: "<f4",
    DType.COMPLEX_FLOAT: "<f4",
    DType.COMPLEX128: "<f8",
    DType.COMPLEX_DOUBLE: "<f8",
}


@dataclass(frozen=True, slots=True)
class Elements:
    """A data type as real numbers: `parts` of them make one element, two for complex types."""

    real: "np.dtype[Any]"
    parts: int = 1
    # Where diff3 turns from relative to absolute; None: an integer, compared exactly.
    small: float | None = None
    # bfloat16 has no numpy type: `real` holds the upper 16 bits of a float32.
    upper_half: bool = False
    # The bits of a part as a signed integer: equality needs no sign, the distance in ulp does.
    pattern: "np.dtype[Any]" = field(init=False)
    # What the C library calls a part.
    native: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pattern", np.dtype(f"i{self.real.itemsize}"))
        name = "bfloat16" if self.upper_half else f"{self.real.kind}{self.real.itemsize}"
        object.__setattr__(self, "native", name)

    @property
    def exact(self) -> bool:
        """Integers: any difference counts."""
        return self.small is None

    @property
    def wide(self) -> bool:
        """64-bit integers, which float64 cannot hold."""
        return self.small is None and self.real.itemsize == 8

    def values(self, parts: Array) -> Array:
        """The numbers that stored parts stand for, in a type that numpy computes with."""
        if not self.upper_half:
            return parts
        widened: Array = (parts.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return widened


@cache
def elements_of(dtype: DType) -> Elements:
    """How that data type is compared, or an error for a type without arithmetic."""
    if dtype.is_integer:
        return Elements(dtype.storage)
    if dtype is DType.BFLOAT16:
        return Elements(dtype.storage, small=_SMALL_16_BIT, upper_half=True)
    if dtype.is_float:
        return Elements(dtype.storage, small=_small(dtype.storage))
    if dtype in _COMPLEX:
        real = np.dtype(_COMPLEX[dtype])
        return Elements(real, parts=2, small=_small(real))
    raise ContentError(
        f"Outputs of type {dtype.value} cannot be compared: no criterion is defined for it."
        " Allowed: integers, bool, half, bfloat16, float, double, complex types; store the output as one of these."
    )


def widened(values: Array, dtype: DType) -> Array:
    """The values in a type that numpy computes with: bfloat16 as float32, a pair of halves as complex64, both exact."""
    if dtype is DType.BFLOAT16:
        return elements_of(dtype).values(values)
    if dtype is DType.COMPLEX_HALF:
        parts = np.ascontiguousarray(values).reshape(-1).view("<f2").astype("<f4")
        return parts.view("<c8").reshape(values.shape)
    return values


def value_text(value: object, dtype: DType) -> str:
    """One element for people; a NaN with its bits."""
    stored = np.asarray(value)
    scalar = widened(stored, dtype)
    if scalar.dtype.kind == "f" and np.isnan(scalar):
        return f"nan (0x{int(stored.view(dtype.bits)):0{2 * dtype.itemsize}x})"
    return str(scalar)


def _small(real: "np.dtype[Any]") -> float:
    return _SMALL_16_BIT if real.itemsize == 2 else _SMALL
