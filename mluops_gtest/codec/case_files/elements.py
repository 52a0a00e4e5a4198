"""Between the value fields of a file and the elements of a tensor: numbers, bit patterns, hexadecimal digits."""

import binascii
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from mluops_gtest.errors import CaseFileError
from mluops_gtest.model.dtypes import Array, DType


class ElementPart(NamedTuple):
    """What a value of the file stands for: a whole element, or half of a complex one."""

    kind: str  # real | bfloat | integer | bits
    storage: "np.dtype[Any]"
    per_element: int = 1

    @property
    def bits(self) -> "np.dtype[Any]":
        """The unsigned integer of the same size."""
        return _unsigned(self.storage.itemsize)


@cache
def _unsigned(size: int) -> "np.dtype[Any]":
    return np.dtype(f"<u{size}")


_COMPLEX: Final = {
    DType.COMPLEX_HALF: ElementPart("real", np.dtype("<f2"), 2),
    DType.COMPLEX64: ElementPart("real", np.dtype("<f4"), 2),
    DType.COMPLEX_FLOAT: ElementPart("real", np.dtype("<f4"), 2),
    DType.COMPLEX128: ElementPart("real", np.dtype("<f8"), 2),
    DType.COMPLEX_DOUBLE: ElementPart("real", np.dtype("<f8"), 2),
}


@cache
def part_of(dtype: DType) -> ElementPart:
    """The part that one value of a file fills in a tensor of this type."""
    if dtype in _COMPLEX:
        return _COMPLEX[dtype]
    if dtype is DType.BFLOAT16:
        return ElementPart("bfloat", dtype.storage)
    if dtype.is_float:
        return ElementPart("real", dtype.storage)
    # The 8-bit floats and the packed or fixed-point integers: only their bits are stored.
    return ElementPart("integer" if dtype.is_integer else "bits", dtype.storage)


def decode(field: str, values: Array, dtype: DType) -> Array:
    """The elements that the entries of a value field make."""
    part = part_of(dtype)
    if len(values) % part.per_element:
        raise CaseFileError(f"{field} has {len(values)} entries; {dtype.value} takes two per element")
    if field == "value_h":
        parts = _from_digits(values, part, dtype)
    elif field == "value_f":
        parts = from_reals(values, dtype)
    else:
        parts = _from_integers(field, values, part, dtype)
    return np.ascontiguousarray(parts).view(dtype.storage)


def _from_digits(digits: Array, part: ElementPart, dtype: DType) -> Array:
    wanted = 2 * part.storage.itemsize
    raw = _unhexlified(digits) if digits.itemsize == wanted else None
    if raw is None:
        # Rare, and only now looked for: entries of another length.
        raw = _unhexlified(_padded(digits, wanted, dtype))
    if raw is None:
        raise CaseFileError("value_h has an entry that is not hexadecimal")
    # The most significant digit comes first.
    return np.frombuffer(raw, part.bits.newbyteorder(">")).astype(part.bits).view(part.storage)


def _unhexlified(digits: Array) -> bytes | None:
    """The bytes; None where an entry is shorter than the others, or not hexadecimal."""
    try:
        return binascii.unhexlify(np.ascontiguousarray(digits).data)
    except binascii.Error:
        return None


def _padded(digits: Array, wanted: int, dtype: DType) -> Array:
    """Entries of `wanted` digits: zeros are put before shorter ones, and taken away from longer ones."""
    lengths = np.char.str_len(digits)
    width = max(wanted, int(lengths.max(initial=0)))
    chars = np.ascontiguousarray(digits).view(np.uint8).reshape(len(digits), -1)
    padded = np.full((len(digits), width), ord("0"), np.uint8)
    for length in np.unique(lengths).tolist():
        rows = lengths == length
        padded[rows, width - length :] = chars[rows, :length]
    beyond = (padded[:, : width - wanted] != ord("0")).any(axis=1)
    if beyond.any():
        wrong = int(lengths[beyond][0])
        raise CaseFileError(f"value_h has an entry of {wrong} digits; {dtype.value} takes {wanted}")
    return np.ascontiguousarray(padded[:, width - wanted :])


def from_reals(values: Array, dtype: DType) -> Array:
    """Parts from floating-point numbers: rounded to the type, or exactly the integers they are."""
    part = part_of(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        if part.kind == "real":
            return values.astype(part.storage, copy=False)
        if part.kind == "bfloat":
            return _bfloat(values.astype("<f4"))
        if part.kind == "bits":
            raise CaseFileError(f"{dtype.value} cannot be given as numbers; store its bits as value_h or value_i")
        limits = np.iinfo(part.storage)
        fits = (values >= float(limits.min)) & (values < float(limits.max) + 1) & (values == np.floor(values))
        if not fits.all():
            raise CaseFileError(f"{values[~fits][0]} is not a value of {dtype.value}")
        return values.astype(part.storage)


def _bfloat(values: Array) -> Array:
    """The upper half of a float, rounded to nearest even; a NaN stays one."""
    bits = values.view("<u4")
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet, rounded).astype("<u2")


# Where integers are the bits of a floating-point part: field → sizes of the part in bytes.
_PATTERNS: Final = {"value_i": (2, 4), "value_l": (8,), "value_ui": (), "value_ul": ()}


def _from_integers(field: str, values: Array, part: ElementPart, dtype: DType) -> Array:
    size = part.storage.itemsize
    if part.kind in ("real", "bfloat"):
        if size not in _PATTERNS[field] and not (part.kind == "bfloat" and field == "value_ui"):
            raise CaseFileError(f"{field} does not hold {dtype.value}; its bits go to {_field_for(part)}")
        # Of a 32-bit entry the low half is the pattern of a 16-bit type.
        return values.astype(part.bits).view(part.storage)
    if values.dtype.itemsize == size:
        return values.view(part.storage)
    limits = np.iinfo(part.storage)
    if len(values) and (int(values.min()) < limits.min or int(values.max()) > limits.max):
        wrong = next(v for v in (int(values.min()), int(values.max())) if not limits.min <= v <= limits.max)
        raise CaseFileError(f"{field} has {wrong}, which does not fit {dtype.value}")
    return values.astype(part.storage)


def _field_for(part: ElementPart) -> str:
    fields = ["value_h"] + [field for field, sizes in _PATTERNS.items() if part.storage.itemsize in sizes]
    return " or ".join(fields)


_INTEGER_FIELDS: Final = {DType.INT64: "value_l", DType.UINT64: "value_ul", DType.UINT32: "value_ui"}


def encode(data: Array, dtype: DType) -> tuple[str, Array]:
    """The value field that our files use for this type, and its entries; every bit survives."""
    part = part_of(dtype)
    if part.kind in ("real", "bfloat"):
        bits = np.ascontiguousarray(data).view(part.bits).astype(part.bits.newbyteorder(">"))
        return "value_h", np.frombuffer(bits.tobytes().hex().encode(), f"S{2 * part.storage.itemsize}")
    field = _INTEGER_FIELDS.get(dtype, "value_i")
    return field, data if field != "value_i" else data.astype("<i4")
