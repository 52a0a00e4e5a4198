"""roipoint_pool3d: the rulings, and numpy's fancy indexing beside reference, kernel and exact elements."""

import numpy as np
import pytest

from mluops_gtest.authoring import Draw, DType
from tests.support.operator_calls import BOTH, OPERATORS, bits_of, by_definition, poisoned_call

OPERATOR = OPERATORS["roipoint_pool3d"]
ALL = (*BOTH, by_definition)
UNIT = 2.0**-17


def call_for(points, point_features, boxes3d, samples):
    dims = (*boxes3d.shape[:2], samples, 3 + point_features.shape[2])
    inputs = {"points": points, "point_features": point_features, "boxes3d": boxes3d}
    outputs = {"pooled_features": dims, "pooled_empty_flag": dims[:2]}
    return poisoned_call(OPERATOR, {"num_sampled_points": samples}, inputs, outputs)


def by_indexing(points, point_features, boxes3d, samples):
    """float64 complex numbers turn the points; np.resize is cyclic."""
    table = np.concatenate([points, point_features], axis=2)
    pooled = np.zeros((*boxes3d.shape[:2], samples, table.shape[2]), table.dtype)
    for batch, box in np.ndindex(boxes3d.shape[:2]):
        cx, cy, bottom, dx, dy, dz, rz = boxes3d[batch, box].astype(float)
        x, y, z = points[batch].astype(float).T
        local = ((x - cx) + 1j * (y - cy)) * np.exp(-1j * rz)
        above = z - bottom
        inside = (abs(local.real) < dx / 2) & (abs(local.imag) < dy / 2) & (above >= 0) & (above <= dz)
        if inside.any():
            pooled[batch, box] = table[batch, np.resize(inside.nonzero()[0], samples)]
    return pooled, (pooled == 0).all(axis=(2, 3))


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
@pytest.mark.parametrize("samples", [1, 4, 9])
@pytest.mark.parametrize(
    ("recipe", "args"),
    [
        ("counted", {"points": 30, "counts": (0, 1, 3, 4, 5, 9), "channels": 2, "batches": 2}),
        ("turned", {"headings": (0.5, -1.25, 3.0, -0.01), "each": 6}),
        ("nested", {"lengths": (2, 1, 3), "each": 7}),
        ("scene", {"points": 190, "boxes": 5, "channels": 1}),
    ],
)
def test_all_agree_with_fancy_indexing(dtype, samples, recipe, args) -> None:
    made = OPERATOR.recipes[recipe](Draw(5), {"num_sampled_points": samples}, dtype, **args).inputs
    pooled, flags = by_indexing(**made, samples=samples)
    assert not flags.all()
    for compute in ALL:
        outputs = compute(OPERATOR, call_for(**made, samples=samples))
        np.testing.assert_array_equal(outputs["pooled_features"], pooled)
        np.testing.assert_array_equal(outputs["pooled_empty_flag"], flags)


BOX = [1, 2, 3, 2, 4, 6, 0]


def pooled_of(compute, points, boxes, samples, features=None):
    """Of one batch; feature n of point n is n + 1."""
    cloud = np.array([points], "<f4")
    values = np.arange(1, len(points) + 1, dtype="<f4")[None, :, None] if features is None else features
    outputs = compute(OPERATOR, call_for(cloud, values, np.array([boxes], "<f4"), samples))
    return outputs["pooled_features"][0], outputs["pooled_empty_flag"][0].tolist()


@pytest.mark.parametrize(
    ("point", "inside"),
    [
        # cz is the bottom; top and bottom are closed and not widened, sides are open.
        ((1, 2, 3), True),
        ((1, 2, 9), True),
        ((1, 2, 3 - UNIT), False),
        ((1, 2, 9 + UNIT), False),
        ((1, 2, 0), False),
        ((2, 2, 5), False),
        ((2 - UNIT, 2, 5), True),
        ((1, 0, 5), False),
        ((1, UNIT, 5), True),
        ((np.inf, 2, 5), False),
        ((1, 2, np.inf), False),
    ],
)
def test_what_is_inside(point, inside) -> None:
    for compute in ALL:
        rows, flags = pooled_of(compute, [point], [BOX], 2)
        assert flags == [int(not inside)]
        np.testing.assert_array_equal(rows[0], [[*point, 1] if inside else [0] * 4] * 2)


def test_all_points_inside_are_gone_through_again() -> None:
    far, one, two = (90, 0, 0), (1, 2, 4), (1.5, 2, 4)
    for compute in ALL:
        rows, flags = pooled_of(compute, [far, one, far, two], [BOX, [50, 50, 0, 1, 1, 1, 0]], 5)
        assert rows[0].tolist() == [[*one, 2], [*two, 4], [*one, 2], [*two, 4], [*one, 2]]
        assert flags == [0, 1]
        assert bits_of(rows[1]).max() == 0
        assert pooled_of(compute, [one, two, one], [BOX], 2)[0][0].tolist() == [[*one, 1], [*two, 2]]


def test_the_bits_of_features_survive() -> None:
    bits = np.array([0x7F812345, 0xFFC00001, 0x80000000, 1, 0x7F800000, 0xFF800000], "<u4")
    features = np.resize(bits, (1, 1, 6)).view("<f4")
    for compute in BOTH:
        rows, _ = pooled_of(compute, [(1, 2, 4)], [BOX], 1, features)
        assert bits_of(rows[0, 0, 3:]).tolist() == bits.tolist()
