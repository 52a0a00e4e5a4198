"""points_in_boxes: the rulings, and the turned corners of boxes beside reference, kernel and exact elements."""

import numpy as np
import pytest

from mluops_gtest.authoring import Draw, DType
from tests.support.operator_calls import BOTH, OPERATORS, by_definition, poisoned_call

OPERATOR = OPERATORS["points_in_boxes"]
ALL = (*BOTH, by_definition)
UNIT = 2.0**-17


def call_for(points, boxes):
    points, boxes = np.array(points, "<f4"), np.array(boxes, "<f4")
    return poisoned_call(OPERATOR, {}, {"points": points, "boxes": boxes}, {"points_indices": points.shape[:2]})


def by_corners(points, boxes):
    """A point is left of all four sides, each moved outwards by the margin, and between the ends."""
    indices = np.full(points.shape[:2], -1)
    for batch, number in np.ndindex(points.shape[:2]):
        x, y, z = points[batch, number].astype(float)
        for t, (cx, cy, cz, dx, dy, dz, rz) in enumerate(boxes[batch].astype(float)):
            half = np.array([dx / 2 + 1e-5, dy / 2 + 1e-5])
            corners = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) * half
            east = cx + corners[:, 0] * np.cos(rz) - corners[:, 1] * np.sin(rz)
            north = cy + corners[:, 0] * np.sin(rz) + corners[:, 1] * np.cos(rz)
            along = np.roll(east, -1) - east, np.roll(north, -1) - north
            if (along[0] * (y - north) > along[1] * (x - east)).all() and cz - dz / 2 <= z <= cz + dz / 2:
                indices[batch, number] = t
                break
    return indices


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("recipe", "args"),
    [
        ("scene", {"points": 40, "boxes": 6, "batches": 2, "reach": 5.0}),
        ("turned", {"headings": (0.5, -1.25, 3.0, 100.0, -0.01), "each": 8}),
        ("nested", {"lengths": (2, 1, 3), "each": 9}),
    ],
)
def test_all_agree_with_the_corners_of_the_boxes(seed, recipe, args) -> None:
    made = OPERATOR.recipes[recipe](Draw(seed), {}, DType.FLOAT, **args).inputs
    expected = by_corners(made["points"], made["boxes"])
    assert (expected >= 0).sum() > 5
    for compute in ALL:
        np.testing.assert_array_equal(compute(OPERATOR, call_for(**made))["points_indices"], expected)


BOX = [1, 2, 3, 2, 4, 6, 0]


@pytest.mark.parametrize(
    ("point", "inside", "boxes"),
    [
        # §3.1's margin of 1e-5 is between one and two units, on the sides alone.
        ((2, 2, 3), True, [BOX]),
        ((2 + UNIT, 2, 3), True, [BOX]),
        ((2 + 2 * UNIT, 2, 3), False, [BOX]),
        ((1, -UNIT, 3), True, [BOX]),
        ((1, -2 * UNIT, 3), False, [BOX]),
        # z faces are closed and not widened; cz is the centre.
        ((1, 2, 6), True, [BOX]),
        ((1, 2, 0), True, [BOX]),
        ((1, 2, 6 + UNIT), False, [BOX]),
        ((1, 2, -UNIT), False, [BOX]),
        ((2 + UNIT, 4 + UNIT, 6), True, [BOX]),
        # Lengths of 0, and negative ones that the margin makes positive.
        ((1, 2, 3), True, [[1, 2, 3, 0, 0, 0, 0]]),
        ((1, 2, 3), True, [[1, 2, 3, -2 * UNIT, 1, 1, 0]]),
        ((1, 2, 3), False, [[1, 2, 3, -3 * UNIT, 1, 1, 0]]),
        ((1, 2, 3), False, [[1, 2, 3, 1, 1, -UNIT, 0]]),
        # ±Inf is in no finite box.
        ((np.inf, 2, 3), False, [BOX]),
        ((1, 2, -np.inf), False, [BOX]),
        # Headings turn from x towards y.
        ((1, 1, 0), True, [[0, 0, 0, 4, 0.5, 1, np.pi / 4]]),
        ((1, -1, 0), False, [[0, 0, 0, 4, 0.5, 1, np.pi / 4]]),
    ],
)
def test_what_is_inside(point, inside, boxes) -> None:
    for compute in ALL:
        result = compute(OPERATOR, call_for([[point]], [boxes]))["points_indices"]
        assert result.tolist() == [[0 if inside else -1]]


def test_the_first_box_of_the_points_own_batch_is_named() -> None:
    far = [50, 0, 0, 1, 1, 1, 0]
    boxes = [[far, BOX, BOX], [BOX, far, BOX], [far, far, far]]
    for compute in ALL:
        result = compute(OPERATOR, call_for([[[1, 2, 3], [50, 0, 0]]] * 3, boxes))["points_indices"]
        assert result.tolist() == [[1, 0], [0, 1], [-1, 0]]


def test_points_on_which_rounding_decides_are_not_defined() -> None:
    assert OPERATOR.broken(call_for([[[2, 2, 3]]], [[BOX]])) is None
    turned = [*BOX[:6], 0.5]
    assert OPERATOR.broken(call_for([[[1, 2, 3]]], [[turned]])) is None
    on_side = [1 + np.cos(0.5), 2 + np.sin(0.5), 3]
    assert "rounding decides" in str(OPERATOR.broken(call_for([[on_side]], [[turned]])))
