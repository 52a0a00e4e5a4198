"""Enumerations that are tables."""

from enum import Enum
from typing import Self


class TableEnum(Enum):
    """Each member is a row: the first column is its `value`, a word; `__init__` takes all of them."""

    # Each member is there once; what Enum has instead runs in Python at every look-up.
    __hash__ = object.__hash__

    def __new__(cls, word: str, *_columns: object) -> Self:
        member = object.__new__(cls)
        member._value_ = word
        return member
