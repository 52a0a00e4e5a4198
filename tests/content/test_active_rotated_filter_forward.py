"""active_rotated_filter_forward: the table, the rulings, literal loops beside reference and kernel."""

import itertools

import numpy as np
import pytest

from generators.active_rotated_filter_forward import (
    ORIENTATIONS,
    ROTATIONS,
    SIDES,
    refuse_symmetric,
    rotation_table,
)
from mluops_gtest.authoring import Draw, DType
from tests.support.operator_calls import BOTH, OPERATORS, by_definition, counting, poisoned_call

OPERATOR = OPERATORS["active_rotated_filter_forward"]
# §1.2: where the nine cells of a plane go when it turns by 45°, 90°, … 315°, counted from 1.
TURNS = ("123456789", "236159478", "369258147", "698357214", "987654321", "874951632", "741852963", "412753896")

of_every_shape = pytest.mark.parametrize(
    ("orientations", "height", "rotations"), list(itertools.product(ORIENTATIONS, SIDES, ROTATIONS))
)


def call_for(filters: np.ndarray, table: np.ndarray):
    out, planes, orientations, height, _ = filters.shape
    dims = (out * table.shape[3], planes * orientations, height, height)
    return poisoned_call(OPERATOR, {}, {"input": filters, "indices": table}, {"output": dims})


def by_loops(filters: np.ndarray, table: np.ndarray) -> np.ndarray:
    """mmcv's loops: each entry is written to the place that the table names, for each rotation."""
    out, planes, orientations, height, width = filters.shape
    rotations = table.shape[3]
    entries = orientations * height * width
    output = np.empty((out * rotations, planes * orientations * height * width), filters.dtype)
    for o, i, a, y, x, k in itertools.product(*map(range, (*filters.shape, rotations))):
        output[o * rotations + k, i * entries + table[a, y, x, k] - 1] = filters[o, i, a, y, x]
    return output.reshape(out * rotations, planes * orientations, height, width)


@of_every_shape
def test_the_table_is_the_documents_for_every_shape(orientations, height, rotations) -> None:
    table = rotation_table(orientations, height, rotations)
    assert table.shape == (orientations, height, height, rotations)
    for a, place, k in itertools.product(range(orientations), range(height**2), range(rotations)):
        angle = 360 * k // rotations
        layer = (a + angle * orientations // 360) % orientations
        moved = int(TURNS[angle // 45][place]) if height == 3 else 1
        assert table.reshape(orientations, -1, rotations)[a, place, k] == layer * height**2 + moved


@of_every_shape
def test_reference_and_kernel_are_mmcvs_loops(orientations, height, rotations) -> None:
    filters = counting(2, 2, orientations, height, height)
    table = rotation_table(orientations, height, rotations)
    for compute in BOTH:
        np.testing.assert_array_equal(compute(OPERATOR, call_for(filters, table))["output"], by_loops(filters, table))


def test_single_elements_are_mmcvs_loops() -> None:
    filters, table = counting(2, 3, 4, 3, 3), rotation_table(4, 3, 8)
    np.testing.assert_array_equal(by_definition(OPERATOR, call_for(filters, table))["output"], by_loops(filters, table))


def test_the_reference_follows_any_permutation_and_says_that_it_is_not_the_rules() -> None:
    filters, table = counting(2, 3, 2, 3, 3), rotation_table(2, 3, 4)
    rng = np.random.default_rng(3)
    for k in range(4):
        table[..., k] = rng.permutation(18).reshape(2, 3, 3) + 1
    call = call_for(filters, table)
    np.testing.assert_array_equal(OPERATOR.reference(call).outputs["output"], by_loops(filters, table))
    assert OPERATOR.broken(call) is None
    assert OPERATOR.left_open["undefined"](call, OPERATOR.reference(call)) is not None


@pytest.mark.parametrize("value", [0, 2, 19, -1])
def test_what_is_no_permutation_is_not_defined(value: int) -> None:
    table = rotation_table(2, 3, 4)
    table[0, 0, 0, 1] = value
    if value == 2:  # That is where it goes already.
        table[0, 0, 0, 1] = 5
    assert "rotation 1 is no permutation" in str(OPERATOR.broken(call_for(counting(1, 1, 2, 3, 3), table)))


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
def test_all_entries_of_a_filter_differ(dtype: DType) -> None:
    for seed in range(5):
        made = OPERATOR.recipes["rotated"](Draw(seed), {}, dtype, filters=2, planes=3, orientations=128)
        filters = made.inputs["input"].reshape(6, -1)
        assert np.isfinite(filters).all()
        assert all(len(np.unique(one)) == 1152 for one in filters)


def test_a_symmetric_filter_is_refused() -> None:
    with pytest.raises(ValueError, match="is the same when it is turned"):
        refuse_symmetric(np.ones((1, 1, 2, 1, 1), np.uint16), rotation_table(2, 1, 2))
    refuse_symmetric(np.ones((1, 1, 1, 1, 1), np.uint16), rotation_table(1, 1, 8))
