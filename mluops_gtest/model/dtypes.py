"""Data types and layouts: their names, their numbers in the case schema and in the C API, their storage."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

from mluops_gtest.model.table_enum import TableEnum

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]
else:
    # numpy takes longer to import than a list of all cases takes: values of the model need it once they hold data.
    Array = Any


class DType(TableEnum):
    """One element type; `value` is the word users type, `storage` the numpy type that holds its bits."""

    HALF = ("half", 1, 1, "<f2", 0x7EA5)
    FLOAT = ("float", 2, 2, "<f4", 0x7FA5A5A5)
    INT8 = ("int8", 3, 3, "i1", None)
    INT16 = ("int16", 4, 4, "<i2", None)
    INT31 = ("int31", 5, 5, "<i4", None)
    INT32 = ("int32", 6, 6, "<i4", None)
    BFLOAT16 = ("bfloat16", 7, 17, "<u2", 0x7FA5)
    DOUBLE = ("double", 8, 14, "<f8", 0x7FF5A5A5A5A5A5A5)
    UINT8 = ("uint8", 9, 7, "u1", None)
    UINT16 = ("uint16", 10, 13, "<u2", None)
    UINT32 = ("uint32", 11, 11, "<u4", None)
    BOOL = ("bool", 12, 8, "u1", None)
    COMPLEX64 = ("complex64", 13, None, "<c8", 0x7FA5A5A57FA5A5A5)
    COMPLEX128 = ("complex128", 14, None, "<c16", None)
    INT64 = ("int64", 16, 9, "<i8", None)
    UINT64 = ("uint64", 17, 12, "<u8", None)
    # A pair of halves has no numpy type; the pair's bits are kept in one 32-bit word, real part low.
    COMPLEX_HALF = ("complex_half", 18, 15, "<u4", 0x7EA57EA5)
    COMPLEX_FLOAT = ("complex_float", 19, 16, "<c8", 0x7FA5A5A57FA5A5A5)
    COMPLEX_DOUBLE = ("complex_double", 20, None, "<c16", None)
    FLOAT8_E4M3FN = ("float8_e4m3fn", 21, None, "u1", None)
    FLOAT8_E5M2 = ("float8_e5m2", 22, None, "u1", None)
    INT4X2 = ("int4x2", 23, None, "u1", None)
    FLOAT8_E8M0FNU = ("float8_e8m0fnu", 24, None, "u1", None)
    INT8_Q1_6 = ("int8_q1_6", 25, None, "i1", None)

    def __init__(self, _word: str, schema_number: int, c_number: int | None, storage: str, poison: int | None) -> None:
        self.schema_number = schema_number
        self.c_number = c_number
        self._code = storage
        self.itemsize = size = int(storage.lstrip("<")[1:])
        # Integers and types without a pattern of their own get 0xA5 in every byte.
        self.poison = poison.to_bytes(size, "little") if poison is not None else b"\xa5" * size

    @cached_property
    def storage(self) -> "np.dtype[Any]":
        """The numpy type that holds the bits of an element."""
        import numpy as np

        return np.dtype(self._code)

    @staticmethod
    def named(word: str) -> "DType":
        """The type that users call so."""
        return _DTYPES[word]

    @property
    def is_float(self) -> bool:
        """A real floating-point type that numpy computes with (half, float, double)."""
        return self.storage.kind == "f"

    @property
    def is_integer(self) -> bool:
        """Compared exactly: integers, bool."""
        return self in _INTEGERS

    @property
    def schema_name(self) -> str:
        """The enumerator in case files, e.g. DTYPE_FLOAT."""
        return f"DTYPE_{self.name}"

    @property
    def bits(self) -> "np.dtype[Any]":
        """The unsigned integer type of the same size, to look at bits; 16-byte types have none."""
        import numpy as np

        return np.dtype(f"<u{self.itemsize}") if self.itemsize > 1 else np.dtype("u1")


_DTYPES = {member.value: member for member in DType}
_INTEGERS = frozenset(
    {
        DType.INT8,
        DType.INT16,
        DType.INT31,
        DType.INT32,
        DType.INT64,
        DType.UINT8,
        DType.UINT16,
        DType.UINT32,
        DType.UINT64,
        DType.BOOL,
    }
)


class Layout(TableEnum):
    """How the axes of a tensor are named; `value` is the word users type."""

    NCHW = ("NCHW", 1, 0)
    NHWC = ("NHWC", 2, 1)
    HWCN = ("HWCN", 3, 2)
    NDHWC = ("NDHWC", 4, 3)
    ARRAY = ("ARRAY", 5, 4)
    TNC = ("TNC", 6, 6)
    NTC = ("NTC", 7, 7)
    NCDHW = ("NCDHW", 8, 5)
    NC = ("NC", 9, 8)
    NLC = ("NLC", 10, 9)
    NCL = ("NCL", 11, 10)

    def __init__(self, _word: str, schema_number: int, c_number: int) -> None:
        self.schema_number = schema_number
        self.c_number = c_number

    @staticmethod
    def named(word: str) -> "Layout":
        """The layout that users call so."""
        return _LAYOUTS[word]

    @property
    def schema_name(self) -> str:
        """The enumerator in case files, e.g. LAYOUT_NCHW."""
        return f"LAYOUT_{self.name}"


_LAYOUTS = {member.value: member for member in Layout}
