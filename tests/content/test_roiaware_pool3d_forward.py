"""roiaware_pool3d_forward: literal loops beside reference, kernel and single elements; the rulings, one call each."""

import math

import numpy as np
import pytest

from mluops_gtest.authoring import Draw, DType, call_of
from tests.support.operator_calls import BOTH, OPERATORS, by_definition, poisoned_call

FORWARD = OPERATORS["roiaware_pool3d_forward"]
MAX, AVERAGE = 0, 1


def forward_call(made):
    p = made.params
    cells = (p["boxes_num"], p["out_x"], p["out_y"], p["out_z"])
    dims = dict.fromkeys(("argmax", "pooled_features"), (*cells, p["channels"]))
    return poisoned_call(FORWARD, p, made.inputs, {**dims, "pts_idx_of_voxels": (*cells, p["max_pts_each_voxel"])})


def by_loops(made):
    """mmcv's loops over boxes and points, in float64."""
    p, (rois, pts, features) = made.params, (made.inputs[name].astype(float) for name in ("rois", "pts", "pts_feature"))
    grid, most = (p["out_x"], p["out_y"], p["out_z"]), p["max_pts_each_voxel"]
    listed = np.zeros((len(rois), *grid, most), int)
    pooled = np.zeros((len(rois), *grid, features.shape[1]))
    argmax = np.full(pooled.shape, -1 if p["pool_method"] == MAX else 0)
    for n, (cx, cy, cz, dx, dy, dz, rz) in enumerate(rois):
        for m, (x, y, z) in enumerate(pts):
            turned = complex(x - cx, y - cy) * complex(math.cos(rz), -math.sin(rz))
            if abs(z - cz - dz / 2) > dz / 2 or abs(turned.real) >= dx / 2 or abs(turned.imag) >= dy / 2:
                continue
            places = ((turned.real + dx / 2) / (dx / grid[0]), (turned.imag + dy / 2) / (dy / grid[1]))
            places = (*places, (z - cz) / (dz / grid[2]))
            cell = tuple(min(max(int(a), 0), count - 1) for a, count in zip(places, grid, strict=True))
            row = listed[(n, *cell)]
            if row[0] < most - 1:
                row[0] += 1
                row[row[0]] = m
    for cell in np.argwhere(listed[..., 0] > 0).tolist():
        numbers = listed[tuple(cell)][1 : 1 + listed[(*cell, 0)]]
        for c in range(features.shape[1]):
            values = features[numbers, c].tolist()
            if p["pool_method"] == AVERAGE:
                pooled[(*cell, c)] = math.fsum(values) / len(values)
            elif max(values) > -math.inf:
                pooled[(*cell, c)], argmax[(*cell, c)] = max(values), numbers[values.index(max(values))]
    return {"argmax": argmax, "pts_idx_of_voxels": listed, "pooled_features": pooled}


@pytest.mark.parametrize("method", [MAX, AVERAGE])
@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
@pytest.mark.parametrize(
    ("recipe", "args"),
    [
        ("scene", {"objects": 2}),
        ("scene", {"headings": (0.5, -2.0)}),
        ("cells", {"counts": (3, 0, 5)}),
        ("borders", {}),
    ],
)
def test_forward_is_mmcvs_loops(method, dtype, recipe, args) -> None:
    params = {"pool_method": method, "max_pts_each_voxel": 5, "out_y": 2}
    if recipe == "borders":
        args = {"exponent": -6}
    values = "ties" if method == MAX and recipe == "cells" else "full"
    made = FORWARD.recipes[recipe](Draw(7), params, dtype, **args, values=values)
    wanted = by_loops(made)
    for compute in (*BOTH, by_definition):
        outputs = compute(FORWARD, forward_call(made))
        for name in ("argmax", "pts_idx_of_voxels"):
            np.testing.assert_array_equal(outputs[name], wanted[name])
        epsilon = np.finfo(dtype.storage).eps
        np.testing.assert_allclose(
            outputs["pooled_features"].astype(float), wanted["pooled_features"], rtol=8 * epsilon, atol=4 * epsilon
        )


def small(points, features, method=MAX, most=3, grid=(2, 1, 2), box=(0, 0, 1, 4, 2, 2, 0)):
    """Reference and kernel of one box; points [P, 3] have features [P]."""
    arrays = {
        "rois": np.array([box], "<f4"),
        "pts": np.array(points, "<f4"),
        "pts_feature": np.array(features, "<f4")[:, None],
    }
    params = {"pool_method": method, "boxes_num": 1, "pts_num": len(points), "channels": 1, "max_pts_each_voxel": most}
    params |= dict(zip(("out_x", "out_y", "out_z"), grid, strict=True))
    dims = dict.fromkeys(("argmax", "pooled_features"), (1, *grid, 1))
    for compute in BOTH:
        yield compute(FORWARD, poisoned_call(FORWARD, params, arrays, {**dims, "pts_idx_of_voxels": (1, *grid, most)}))


def test_cz_is_the_bottom_and_the_top_belongs_to_the_last_cell() -> None:
    points = [(-1, 0, 1), (-1, 0, 3), (1, 0, 2), (1, 0, 0.9375), (1, 0, 3.0625), (2, 0, 2), (-1, 1, 2)]
    for outputs in small(points, [1, 2, 3, 4, 5, 6, 7]):
        assert outputs["pts_idx_of_voxels"][0, :, 0].tolist() == [[[1, 0, 0], [1, 1, 0]], [[0, 0, 0], [1, 2, 0]]]
        assert outputs["pooled_features"][0, :, 0, :, 0].tolist() == [[1, 2], [0, 3]]
        assert outputs["argmax"][0, :, 0, :, 0].tolist() == [[0, 1], [-1, 2]]


def test_a_list_is_its_count_and_one_point_fewer() -> None:
    for outputs in small([(-1, 0, 1.5)] * 4, [-5, -5, 9, 9]):
        assert outputs["pts_idx_of_voxels"][0, 0, 0, 0].tolist() == [2, 0, 1]
        assert (outputs["pooled_features"][0, 0, 0, 0, 0], outputs["argmax"][0, 0, 0, 0, 0]) == (-5, 0)
    for outputs in small([(-1, 0, 1.5)] * 4, [-5, -4, 9, 9], AVERAGE):
        assert outputs["pooled_features"][0, 0, 0, 0, 0] == -4.5
        assert not outputs["argmax"].any()


def test_a_maximum_of_minus_infinity_is_none() -> None:
    for outputs in small([(-1, 0, 1.5), (1, 0, 1.5)], [-np.inf, np.inf]):
        assert outputs["argmax"][0, :, 0, 0, 0].tolist() == [-1, 1]
        assert outputs["pooled_features"][0, :, 0, 0, 0].tolist() == [0, np.inf]


def test_a_point_in_a_box_without_height_is_not_defined() -> None:
    made = FORWARD.recipes["cells"](Draw(0), {}, DType.FLOAT, counts=(1,))
    made.inputs["rois"][0, 5] = 0
    made.inputs["rois"][0, 2] = made.inputs["pts"][0, 2]
    assert FORWARD.broken(call_of(FORWARD.name, made.params, made.inputs)) is not None
