"""The order of summation is the documented one, written out number by number."""

import numpy as np
import pytest

from mluops_gtest.core.tensor import CriterionKind, DType
from mluops_gtest.judging.blocks import CELL, LANES, cell_sums, sums, total
from mluops_gtest.judging.criteria import compare
from tests.support.native_core import NATIVE, NUMPY, going


def numbers(count: int) -> list[float]:
    words = np.random.Philox(key=count).random_raw(count)
    return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).tolist()


def in_documented_order(cell: list[float]) -> float:
    lanes = [0.0] * 256
    for place, number in enumerate(cell):
        lanes[place % 256] += number
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [lanes[i] + lanes[half + i] for i in range(half)]
    return lanes[0]


@pytest.mark.parametrize("count", [1, LANES, LANES + 1, 5 * LANES + 3, CELL - 1, CELL, CELL + 1, 3 * CELL + 700])
def test_cells_are_added_in_lanes_and_lanes_in_halves(count: int) -> None:
    x = numbers(count)
    cells = [x[start : start + 32768] for start in range(0, count, 32768)]
    assert cell_sums(np.array([x, x])) == [list(map(in_documented_order, cells))] * 2
    squares = [in_documented_order([number * number for number in cell]) for cell in cells]
    assert sums(np.array([x, x]), 1) == [(list(map(in_documented_order, cells)), squares)]


@pytest.mark.parametrize("way", [NUMPY, NATIVE])
def test_diff1_and_diff2_are_quotients_of_such_sums(way: str) -> None:
    count = CELL + 3 * LANES + 5
    e, b = np.array(numbers(count)), np.array(numbers(count)[::-1])
    cells = [slice(start, start + CELL) for start in range(0, count, CELL)]
    difference = [in_documented_order(np.abs(e - b)[cell].tolist()) for cell in cells]
    weight = [in_documented_order((b * b)[cell].tolist()) for cell in cells]
    squared = [in_documented_order(((e - b) * (e - b))[cell].tolist()) for cell in cells]
    with going(way):
        found = compare(e, b, DType.DOUBLE, (CriterionKind.DIFF1, CriterionKind.DIFF2)).readings
    plain = [in_documented_order(b[cell].tolist()) for cell in cells]
    assert found[CriterionKind.DIFF1] == total(difference) / (total(plain) + 1e-9)
    assert found[CriterionKind.DIFF2] == (total(squared) / (total(weight) + 1e-9)) ** 0.5
