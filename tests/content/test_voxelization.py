"""voxelization: unique rows beside reference, kernel and definition; the rulings; where rounding decides."""

import numpy as np
import pytest

from generators.voxelization import undecided
from mluops_gtest.authoring import Draw, DType
from tests.support.operator_calls import BOTH, OPERATORS, by_definition, poisoned_call

OPERATOR = OPERATORS["voxelization"]
EVERY = (*BOTH, by_definition)
OUTPUTS = ("voxels", "coors", "num_points_per_voxel", "voxel_num")
UNIT = ((1, 1, 1), (0, 0, 0, 4, 3, 2))


def call_for(points, size, limits, most_voxels, most_points):
    points, size, limits = (np.array(one, "<f4") for one in (points, size, limits))
    params = {"max_points": most_points, "max_voxels": most_voxels, "ndim": 3, "deterministic": True}
    dims = ((most_voxels, most_points, points.shape[1]), (most_voxels, 3), (most_voxels,), (1,))
    inputs = {"points": points, "voxel_size": size, "coors_range": limits}
    return poisoned_call(OPERATOR, params, inputs, dict(zip(OUTPUTS, dims, strict=True)))


def by_unique_rows(points, size, limits, most_voxels, most_points):
    """Distinct cells, ranked by their first point."""
    cells = np.floor((points[:, :3].astype(np.float64) - limits[:3]) / size).astype(int)
    grid = np.floor((limits[3:].astype(np.float64) - limits[:3]) / size + 0.5)
    numbers = np.flatnonzero((cells >= 0).all(axis=1) & (cells < grid).all(axis=1))
    rows, first, row_of = np.unique(cells[numbers], axis=0, return_index=True, return_inverse=True)
    chosen = np.argsort(first)[:most_voxels]
    voxels = np.zeros((most_voxels, most_points, points.shape[1]), "<f4")
    coors, met = np.zeros((most_voxels, 3), "<i4"), np.zeros(most_voxels, "<i4")
    for voxel, row in enumerate(chosen):
        mine = numbers[row_of.reshape(-1) == row][:most_points]
        voxels[voxel, : len(mine)], coors[voxel], met[voxel] = points[mine], rows[row, ::-1], len(mine)
    return dict(zip(OUTPUTS, (voxels, coors, met, np.array([len(chosen)])), strict=True))


@pytest.mark.parametrize("where", ["lattice", "full", "near"])
def test_everybody_finds_the_unique_rows(where):
    rng = np.random.default_rng(7)
    for seed in range(12):
        outside = int(rng.integers(0, 15))
        sizes = {"points": outside + int(rng.integers(1, 40)), "features": int(rng.integers(3, 6)), "outside": outside}
        made = OPERATOR.recipes["gridded"](Draw(seed), {}, DType.FLOAT, **sizes, where=where, partial=(3, -3, 1))
        limits = [int(rng.integers(1, made.params[name] + 2)) for name in ("max_voxels", "max_points")]
        for compute in EVERY:
            call = call_for(*made.inputs.values(), *limits)
            assert OPERATOR.broken(call) is None
            for name, values in by_unique_rows(*made.inputs.values(), *limits).items():
                np.testing.assert_array_equal(compute(OPERATOR, call)[name], values, f"{compute.__name__} {name}")


@pytest.mark.parametrize("compute", EVERY)
class TestRulings:
    def test_coors_stand_as_z_y_x(self, compute):
        assert compute(OPERATOR, call_for([[3.5, 2.5, 1.5]], *UNIT, 1, 1))["coors"].tolist() == [[1, 2, 3]]

    def test_lower_faces_are_inside_and_upper_ones_outside(self, compute):
        points = [[0, 0, 0], [4, 0, 0], [0, 3, 0], [0, 0, 2], [-0.5, 0, 0], [3, 2, 1]]
        outputs = compute(OPERATOR, call_for(points, *UNIT, 3, 2))
        assert outputs["coors"].tolist() == [[0, 0, 0], [1, 2, 3], [0, 0, 0]]
        assert outputs["voxel_num"].tolist() == [2]

    @pytest.mark.parametrize(("span", "cells"), [(2.375, 2), (2.5, 3), (3.5, 4), (0.5, 1), (0.375, 0)])
    def test_halves_of_the_grid_go_away_from_zero(self, compute, span, cells):
        points = [[x + 0.25, 0, 0] for x in range(6)]
        outputs = compute(OPERATOR, call_for(points, UNIT[0], (0, 0, 0, span, 1, 1), 6, 1))
        assert outputs["voxel_num"].tolist() == [cells]

    def test_voxels_that_are_there_still_take_points_when_no_more_are_made(self, compute):
        points = [[x + 0.5, 0, z] for z, x in enumerate((0, 1, 2, 0, 2, 1, 0))]
        outputs = compute(OPERATOR, call_for(points, (1, 1, 8), (0, 0, 0, 4, 1, 8), 2, 2))
        assert outputs["voxels"][..., 2].tolist() == [[0, 3], [1, 5]]
        assert outputs["num_points_per_voxel"].tolist() == [2, 2]

    def test_everything_else_is_cleared(self, compute):
        assert all(not one.any() for one in compute(OPERATOR, call_for([[9, 9, 9, 7]], *UNIT, 2, 3)).values())


@pytest.mark.parametrize(
    ("x", "size", "low", "is_open"),
    [
        (4.0, 1.0, 0.0, False),  # On a lattice borders are decided,
        (4.0, 0.2, 0.0, True),  # but not where the size is no power of two,
        (4.0, 1.0, -(2.0**-30), True),  # or a difference is no float,
        (-(2.0**-60), 1.0, -1.0, True),  # or the difference is rounded away.
        (-(2.0**-140), 1.0, 0.0, True),  # Some devices take it for 0.
        (4.000001, 0.2, 0.0, True),
        (99.0, 0.2, 0.0, False),  # Far outside nothing is to be decided
        (2.0**31, 1.0, 0.0, True),  # that int32 can hold.
    ],
)
def test_where_rounding_decides(x, size, low, is_open):
    limits = np.array([low, 0, 0, low + 8, 1, 1], "<f4")
    points = np.array([[x, 0.5, 0.5]], "<f4")
    assert undecided(points, np.array([size, 1, 1], "<f4"), limits).tolist() == [is_open]


@pytest.mark.parametrize(
    ("points", "size", "limits", "words"),
    [
        ([[1, 1]], *UNIT, "three coordinates"),
        ([[1, np.nan, 1]], *UNIT, "NaN or infinite"),
        ([[1, 1, 1]], (1, 0, 1), UNIT[1], "longer than 0"),
        ([[1, 1, 1]], (0.7, 1, 1), (0, 0, 0, 0.35, 3, 2), "rounding decides"),
    ],
)
def test_what_the_document_takes_for_granted(points, size, limits, words):
    assert words in str(OPERATOR.broken(call_for(points, size, limits, 1, 1)))
