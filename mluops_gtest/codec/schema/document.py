"""A case file as it is written: the schema's fields, with the long value fields as arrays beside them."""

from collections.abc import Iterable
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct, field

from mluops_gtest.model.dtypes import Array
from mluops_gtest.value import Value

# The widest element is a double: 16 hexadecimal digits.
MAX_DIGITS: Final = 16


class ValueField(NamedTuple):
    """A repeated field that may be millions long: its place in Tensor and the array type that holds it."""

    name: str
    number: int
    # None: strings of hexadecimal digits, held as bytes of a common width (`S8`, …).
    storage: "np.dtype[Any] | None"

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest integer the field holds."""
        return _limits(self.storage)


@cache
def _limits(storage: "np.dtype[Any]") -> tuple[int, int]:
    limits = np.iinfo(storage)
    return int(limits.min), int(limits.max)


# In the order in which a reader takes them: the first that is present holds the tensor's values.
VALUE_FIELDS: Final = (
    ValueField("value_h", 9, None),
    ValueField("value_f", 7, np.dtype("<f4")),
    ValueField("value_i", 8, np.dtype("<i4")),
    ValueField("value_l", 17, np.dtype("<i8")),
    ValueField("value_ui", 18, np.dtype("<u4")),
    ValueField("value_ul", 19, np.dtype("<u8")),
)


class Unknown(Value):
    """Something in the file that the schema does not know: a field, or an enumerator of a known field."""

    where: str  # "line 3, column 5" in a text, the message it stands in in a binary file
    field: str  # its name in a text, its number in a binary file
    # The enumerator, where the field is known and its value is not.
    value: str | None = None

    def __str__(self) -> str:
        if self.value is None:
            return f"field {self.field} ({self.where})"
        return f"{self.field}: {self.value} ({self.where})"


class TensorDocument(Struct):
    """One tensor of the file: the protobuf message without its value fields, and those as arrays."""

    message: Any
    values: dict[str, Array] = field(default_factory=dict)
    unknown: list[Unknown] = field(default_factory=list)


class Document(Struct):
    """One case file: the Node without its tensors, and the tensors in order."""

    node: Any
    inputs: list[TensorDocument] = field(default_factory=list)
    outputs: list[TensorDocument] = field(default_factory=list)
    unknown: list[Unknown] = field(default_factory=list)

    @property
    def tensors(self) -> list[TensorDocument]:
        """Inputs, then outputs."""
        return self.inputs + self.outputs

    def all_unknown(self) -> list[Unknown]:
        """Everything in the file that the schema does not know."""
        return [*self.unknown, *(item for tensor in self.tensors for item in tensor.unknown)]


def joined(parts: list[Array]) -> Array:
    """One array of all parts; a single part is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def shortened(digits: bytes) -> bytes:
    """A value_h of any length in 1 to MAX_DIGITS digits; ValueError if more than leading zeros would be lost."""
    if len(digits) <= MAX_DIGITS:
        return digits or b"0"
    if digits[:-MAX_DIGITS].strip(b"0"):
        raise ValueError(f"{len(digits)} digits; the widest element takes {MAX_DIGITS}")
    return digits[-MAX_DIGITS:]


def few(items: Iterable[object], most: int = 5) -> str:
    """The first of many, for a message."""
    words = [str(item) for item in items]
    rest = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + rest
