"""Data types and layouts: their names, their numbers in the case schema and in the C API, their storage.

Descriptors and tensors: what is known of a buffer, and the buffer's values.

What an output is held to: a kind of difference and the threshold it must not exceed.

What kernels compute in, by the words that backends declare and results name.

Digests by which stored values are known.
"""

import hashlib
import json
import math
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from mluops_gtest.base.files import pieces
from mluops_gtest.base.frozen import TableEnum, Value

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

    @property
    def is_float(self) -> bool:
        """A real floating-point type that numpy computes with (half, float, double)."""
        return self.storage.kind == "f"

    @property
    def is_real(self) -> bool:
        """A real floating-point type, bfloat16 too, of which numpy has the bits alone."""
        return self.is_float or self is DType.BFLOAT16

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


_INTEGER_WORDS = "int8 int16 int31 int32 int64 uint8 uint16 uint32 uint64 bool"
_INTEGERS = frozenset(DType.named(word) for word in _INTEGER_WORDS.split())


def widened(values: Array, dtype: DType) -> Array:
    """The values in a type that numpy computes with: bfloat16 as float32, a pair of halves as complex64, both exact."""
    import numpy as np  # late, as all of numpy in the model

    if dtype is DType.BFLOAT16:
        return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype is DType.COMPLEX_HALF:
        parts = np.ascontiguousarray(values).reshape(-1).view("<f2").astype("<f4")
        return parts.view("<c8").reshape(values.shape)
    return values


def narrowed(values: Array, dtype: DType) -> Array:
    """The numbers rounded to nearest even in what holds a tensor of that type; a NaN stays one."""
    import numpy as np  # late, as all of numpy in the model

    with np.errstate(over="ignore", invalid="ignore"):
        if dtype is not DType.BFLOAT16:
            return values.astype(dtype.storage)
        if values.dtype.itemsize > 4:
            values = _rounded_to_odd(values)
        bits = np.ascontiguousarray(values, "<f4").view("<u4")
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet, rounded).astype("<u2").reshape(values.shape)


def _rounded_to_odd(values: Array) -> Array:
    """float32 numbers that round to anything narrower as the float64 ones would."""
    import numpy as np  # late, as all of numpy in the model

    nearest = np.asarray(values).astype("<f4")
    toward = np.where(np.abs(nearest) > np.abs(values), np.nextafter(nearest, np.float32(0)), nearest)
    odd = (toward.view("<u4") | np.uint32(1)).view("<f4")
    return np.where(np.isfinite(values) & (toward != values), odd, nearest)


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

    @property
    def schema_name(self) -> str:
        """The enumerator in case files, e.g. LAYOUT_NCHW."""
        return f"LAYOUT_{self.name}"


# A tensor of this many elements or more is "large": every operator answers NOT_SUPPORTED.
LARGE_ELEMENTS: Final = 2**31


class TensorDesc(Value):
    """Element type, layout, dims and (where given) strides, counted in elements."""

    dtype: DType
    layout: Layout
    dims: tuple[int, ...]
    strides: tuple[int, ...] | None = None

    @property
    def count(self) -> int:
        """Number of elements, an exact integer however large."""
        return math.prod(self.dims)

    @property
    def is_empty(self) -> bool:
        """Some axis has length zero."""
        return 0 in self.dims

    @property
    def is_large(self) -> bool:
        """2^31 elements or more."""
        return math.prod(self.dims) >= LARGE_ELEMENTS

    @property
    def is_strided(self) -> bool:
        """Some axis of a length other than 1 has another stride than in a contiguous tensor; never so when empty."""
        if self.strides is None or self.is_empty:
            return False
        dense = contiguous(self.dims)
        # The stride of an axis of length 1 is never taken, so it may be any number.
        return any(d != 1 and s != c for d, s, c in zip(self.dims, self.strides, dense, strict=True))

    @property
    def extent(self) -> int:
        """Elements from the first to the last that the descriptor reaches."""
        if self.strides is None or 0 in self.dims:
            return math.prod(self.dims)
        return 1 + sum((d - 1) * s for d, s in zip(self.dims, self.strides, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer behind the descriptor."""
        return self.extent * self.dtype.itemsize

    def view(self, flat: Array) -> Array:
        """The tensor's elements in `flat`, a buffer of `extent` elements, as an array of shape `dims`."""
        if self.strides is None or not self.is_strided:
            return flat.reshape(self.dims)
        from numpy.lib.stride_tricks import as_strided  # late, as all of numpy in the model

        size = flat.itemsize
        # numpy would multiply also the stride that is never taken, and overflow.
        steps = tuple(s * size if d > 1 else 0 for d, s in zip(self.dims, self.strides, strict=True))
        return as_strided(flat, self.dims, steps)

    @property
    def steps(self) -> tuple[tuple[int, int], ...]:
        """Stride and length of every axis that has more than one place, also where no strides are given."""
        strides = contiguous(self.dims) if self.strides is None else self.strides
        return tuple((s, d) for d, s in zip(self.dims, strides, strict=True) if d != 1)

    @property
    def is_dense(self) -> bool:
        """In some order of its axes it is contiguous, without gaps."""
        ordered = sorted(self.steps)
        return all(s == math.prod(d for _, d in ordered[:place]) for place, (s, _) in enumerate(ordered))

    @property
    def overlaps(self) -> bool:
        """Two elements have one place."""
        if not self.is_strided or self.count > self.extent:
            return self.is_strided
        axes, reach = sorted(self.steps), 0
        for stride, length in axes:
            if stride <= reach:
                break
            reach += (length - 1) * stride
        else:
            return False
        import numpy as np  # late, as all of numpy in the model

        # Axes that reach into each other may keep their elements apart all the same.
        places = np.zeros(1, np.int64)
        for stride, length in axes:
            places = np.unique(np.add.outer(places, stride * np.arange(length)))
        return len(places) < self.count

    def resized(self, dims: tuple[int, ...]) -> "TensorDesc":
        """The same type and layout with other dims: axes in the same order in memory, gaps between them as long."""
        if self.strides is None or not self.is_strided or len(dims) != len(self.dims):
            return replace(self, dims=dims, strides=None)
        strides, reach, new_reach = list(self.strides), 0, 0
        for axis in sorted(range(len(dims)), key=lambda axis: strides[axis]):
            length, stride = self.dims[axis], strides[axis]
            if length > 1 and stride:
                strides[axis] = stride - reach + new_reach if stride >= reach else stride
                reach, new_reach = length * stride, dims[axis] * strides[axis]
        return replace(self, dims=dims, strides=tuple(strides))


def contiguous(dims: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a dense row-major tensor."""
    return tuple(math.prod(dims[axis + 1 :]) for axis in range(len(dims)))


class Tensor(Value):
    """A named descriptor with its values: a flat array of `extent` storage elements, or None."""

    id: str
    desc: TensorDesc
    data: Array | None = None
    # Of an input that is no argument of the call: the output whose buffer holds these values when the call begins.
    becomes: str = ""

    def holding(self, array: Array) -> "Tensor":
        """The tensor with these values, an array of shape `dims`, laid out as its descriptor says.

        The same values lie in the gaps; where places are shared, the first ones lie there.
        """
        import numpy as np

        flat = np.ascontiguousarray(array, self.desc.dtype.storage).reshape(-1)
        if not self.desc.is_strided:
            return replace(self, data=flat)
        data = np.resize(flat, self.desc.extent)
        if not self.desc.overlaps:
            self.desc.view(data)[...] = array
        return replace(self, data=data)

    def without_values(self) -> "Tensor":
        """The tensor without values; one without elements has them all."""
        import numpy as np

        return replace(self, data=np.empty(0, self.desc.dtype.storage) if self.desc.is_empty else None)

    @property
    def values(self) -> Array:
        """The elements as an array of shape `dims`; only for a tensor that has data."""
        if self.data is None:
            raise ValueError(f"tensor {self.id!r} carries no values")
        return self.desc.view(self.data)


class CriterionKind(TableEnum):
    """The criteria of the case schema; `value` is the word in results, `schema_number` the enumerator."""

    MAPE = ("mape", 1)
    SMAPE = ("smape", 2)
    MAXAPE = ("maxape", 3)
    SMAXAPE = ("smaxape", 4)
    NRMSE = ("nrmse", 5)
    DIFF1 = ("diff1", 6)
    DIFF2 = ("diff2", 7)
    DIFF3 = ("diff3", 8)
    DIFF3_2 = ("diff3_2", 9)
    DIFF4 = ("diff4", 10)
    DIFF_KL = ("diff_kl", 11)

    def __init__(self, _word: str, schema_number: int) -> None:
        self.schema_number = schema_number

    @property
    def canonical(self) -> "CriterionKind":
        """The kind that has the formula: MAPE is diff1, MAXAPE is diff3."""
        return _SYNONYMS.get(self, self)

    @property
    def has_formula(self) -> bool:
        """SMAPE, SMAXAPE and NRMSE are names without a formula; a case naming one is an error."""
        return self not in (CriterionKind.SMAPE, CriterionKind.SMAXAPE, CriterionKind.NRMSE)


_SYNONYMS = {CriterionKind.MAPE: CriterionKind.DIFF1, CriterionKind.MAXAPE: CriterionKind.DIFF3}


class Criterion(Value):
    """`kind` must be at most `threshold`; equality passes."""

    kind: CriterionKind
    threshold: float


def exact() -> tuple[Criterion, ...]:
    """diff3 = 0."""
    return (Criterion(CriterionKind.DIFF3, 0.0),)


def diff1_and_diff2(threshold: float) -> tuple[Criterion, ...]:
    """diff1 and diff2 at most `threshold`."""
    return (Criterion(CriterionKind.DIFF1, threshold), Criterion(CriterionKind.DIFF2, threshold))


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


PRECISIONS: Final = tuple(precision.value for precision in Precision)
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
        return Precision.named(named)

    def excused(self, operator: str, dtype: DType) -> Precision:
        """The same, or half where half data may be computed in half, too: nothing is declared of that data type."""
        by_type = self.declared.get(operator) if isinstance(self.declared, dict) else None
        is_named = isinstance(by_type, dict) and dtype.value in by_type
        declared = self.of(operator, dtype)
        # Both hold half factors as they are, so that half allows no less.
        can_be_half = dtype is DType.HALF and declared in (Precision.FLOAT, Precision.TF32)
        return Precision.HALF if can_be_half and not is_named else declared


_DIGITS: Final = 32


def digest_bytes(data: bytes | memoryview) -> str:
    """SHA-256 of a file's bytes, shortened alike."""
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


def digest_tensors(tensors: Iterable[Tensor]) -> str:
    """SHA-256 of id, type, dims, strides and bytes of these tensors in order, shortened to 32 digits."""
    import numpy as np  # late, as all of numpy in the model

    digest = hashlib.sha256()
    for tensor in tensors:
        desc, data = tensor.desc, tensor.data
        digest.update(_head(tensor.id, desc.dtype.value, desc.dims, desc.strides, data is not None))
        if data is not None:
            for _, piece in pieces(np.ascontiguousarray(data).reshape(-1).view(np.uint8)):
                digest.update(piece.data)
    return digest.hexdigest()[:_DIGITS]


# Many cases of a run have the same descriptors.
@lru_cache(1024)
def _head(name: str, dtype: str, dims: tuple[int, ...], strides: tuple[int, ...] | None, has_data: bool) -> bytes:
    return json.dumps([name, dtype, dims, strides, has_data]).encode() + b"\n"
