"""What all causes share, and the values that several of them carry."""

import msgspec

from mluops_gtest.base.frozen import snake_case


class CauseBase(msgspec.Struct, frozen=True, tag_field="kind", tag=snake_case):
    """One reason; equal ones are the same cause."""


class Places(msgspec.Struct, frozen=True):
    """Which of the `size` elements of an output are meant: how many, and the flat indices of the first and the last."""

    count: int
    size: int
    # None where none is, although the output is beyond its criteria: a threshold below 0.
    first: int | None
    last: int | None


class Excess(msgspec.Struct, frozen=True):
    """A criterion that an output does not keep."""

    criterion: str
    value: float
    threshold: float
