"""Scans find the same bytes, whoever looks."""

import numpy as np
import pytest

from mluops_gtest.core.buffers import fill, first_difference, pattern_of, places_holding, places_touched
from mluops_gtest.core.tensor import DType
from tests.support.native_core import NATIVE, NUMPY, going

SIZES = (0, 1, 7, 8, 100, 16383, 16384, 16385, 40_001)
ONE_OF_EACH_SIZE = (DType.INT8, DType.BFLOAT16, DType.FLOAT, DType.DOUBLE, DType.COMPLEX128)


@pytest.mark.parametrize("way", [NUMPY, NATIVE])
@pytest.mark.parametrize("size", SIZES)
def test_the_first_byte_that_differs_is_found_at_any_place(size: int, way: str) -> None:
    left = np.arange(size).astype(np.uint8)
    with going(way):
        assert first_difference(left, left.copy()) is None
        for place in {0, size // 2, size - 1} if size else ():
            right = left.copy()
            right[place:] ^= 0x80
            assert first_difference(left, right) == place
            assert first_difference(left[1:], right[1:]) == (max(place - 1, 0) if size > 1 else None)


@pytest.mark.parametrize("way", [NUMPY, NATIVE])
@pytest.mark.parametrize("dtype", ONE_OF_EACH_SIZE, ids=lambda dtype: dtype.value)
def test_places_that_hold_the_poison_and_those_that_were_written(dtype: DType, way: str) -> None:
    pattern = pattern_of(dtype, None)
    room = np.zeros(100 * dtype.itemsize + 1, np.uint8)
    # Unaligned on purpose.
    data = room[1:]
    fill(data, pattern)
    values = data.view(dtype.storage)
    with going(way):
        assert places_holding(values, pattern).tolist() == list(range(100))
        assert places_touched(values, pattern).tolist() == []
        values[[3, 99]] = 0
        assert places_touched(values, pattern).tolist() == [3, 99]
        values[:] = 0
        assert places_holding(values, pattern).tolist() == []
        assert places_touched(values[::2], pattern).tolist() == list(range(50))
        assert places_touched(values[:0], pattern).tolist() == []
