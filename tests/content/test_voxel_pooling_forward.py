"""voxel_pooling_forward: the sums of the reference, the rulings, the recipes."""

import itertools
import math

import numpy as np
import pytest

from generators.voxel_pooling_forward.recipes import INT32_MAX, INT32_MIN, VALUES, assert_any_order, cells_of, ranks
from mluops_gtest.authoring import Draw, DType, OpCall, Status
from mluops_gtest.authoring.sums import lattice_exponent, sums_are_exact
from mluops_gtest.base.errors import ContentError
from mluops_gtest.catalog.declarations import load_declarations
from mluops_gtest.catalog.make import make_case
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.search.audit_declarations import judged
from tests.conftest import ROOT
from tests.support.operator_calls import BOTH, OPERATORS, poisoned_call

OPERATOR = OPERATORS["voxel_pooling_forward"]
SCALARS = ("batch_size", "num_points", "num_channels", "num_voxel_x", "num_voxel_y", "num_voxel_z")
CANONICAL_NAN = 0x7FC00000


def call_for(geometry, features, extents) -> OpCall:
    """A valid call: output_features holds poison, pos_memo its preset."""
    inputs = {"geom_xyz": np.array(geometry, "<i4"), "input_features": np.array(features, "<f4")}
    batches, points, channels = inputs["input_features"].shape
    width, height, depth = extents
    params = dict(zip(SCALARS, (batches, points, channels, width, height, depth), strict=True))
    dims = {"output_features": (batches, height, width, channels), "pos_memo": (batches, points, 3)}
    call = poisoned_call(OPERATOR, params, inputs, dims)
    call.array("pos_memo")[...] = -1
    return call


# The sums of the reference.


@pytest.mark.parametrize(
    "column",
    [
        [2.0**30, 1.0, -(2.0**30)],
        [2.0**40, 2.0**-20, -(2.0**40)],
        [2.0**40, 2.0**-20 + 2.0**-43, -(2.0**40), 3.0],
        [2.0**100, 1.0, -(2.0**100)],
        [2.0**127, 2.0**-149, -(2.0**127)],
    ],
    ids=["exact in float64", "wide", "wide, odd bits", "wider", "the whole range"],
)
def test_what_plain_float64_would_lose_is_kept(column):
    features = np.array(column, "<f4")[:, None]
    for order in itertools.permutations(range(len(column))):
        call = call_for(np.zeros((1, len(column), 3)), features[None, list(order)], (1, 1, 1))
        wanted = np.float32(math.fsum(features[:, 0].tolist()))
        assert OPERATOR.reference(call).outputs["output_features"].item() == wanted


@pytest.mark.parametrize("kind", VALUES)
def test_crowded_cells_are_summed_exactly(kind):
    cells = np.where(np.arange(1100) % 20 == 3, 2, 0)
    features = VALUES[kind](Draw(7), cells, 2)
    geometry = np.stack([cells, np.zeros_like(cells), np.zeros_like(cells)], axis=-1)
    sums = OPERATOR.reference(call_for(geometry[None], features[None], (3, 1, 1))).outputs["output_features"]
    for cell in range(3):
        terms = features[cells == cell].T.astype(np.float64).tolist()
        np.testing.assert_array_equal(sums[0, 0, cell], [np.float32(math.fsum(column)) for column in terms])


def test_every_nan_of_the_baseline_is_the_same_one():
    features = np.array([[[np.inf, np.nan, 1.0], [-np.inf, 1.0, 2.0]]], "<f4")
    features.view("<u4")[0, 0, 1] = 0xFFC12345
    baseline = OPERATOR.reference(call_for([[[0, 0, 0], [0, 0, 0]]], features, (1, 1, 1)))
    bits = baseline.outputs["output_features"].view("<u4").reshape(-1)
    assert bits[:2].tolist() == [CANONICAL_NAN, CANONICAL_NAN]
    assert baseline.outputs["output_features"].reshape(-1)[2] == 3


# The rulings.


@pytest.fixture(params=BOTH)
def one_point(request):
    def compute(x, y, z, extents):
        outputs = request.param(OPERATOR, call_for([[[x, y, z]]], [[[1.0]]], extents))
        return outputs["output_features"][0, :, :, 0], outputs["pos_memo"][0, 0].tolist()

    return compute


def test_zero_is_inside_on_every_axis(one_point):
    output, memo = one_point(0, 0, 0, (2, 2, 1))
    assert output.tolist() == [[1, 0], [0, 0]]
    assert memo == [0, 0, 0]


def test_the_memo_is_batch_y_x_and_a_row_is_y(one_point):
    output, memo = one_point(2, 1, 0, (4, 3, 1))
    assert memo == [0, 1, 2]
    assert output[1, 2] == 1


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("outside", [INT32_MIN, -1, 3, INT32_MAX])
def test_a_point_outside_on_one_axis_does_not_count(one_point, axis, outside):
    point = [1, 1, 1]
    point[axis] = outside
    output, memo = one_point(*point, (3, 3, 3))
    assert not output.any()
    assert memo == [-1, -1, -1]


def test_zero_elements_are_a_bad_parameter_and_not_an_early_success():
    for scalar in SCALARS:
        b, n, c, *extents = (int(name != scalar) for name in SCALARS)
        answer = OPERATOR.answer(call_for(np.zeros((b, n, 3)), np.zeros((b, n, c)), extents))
        assert (answer.status, answer.check) == (Status.BAD_PARAM, scalar)


@pytest.mark.parametrize("channels", [257, 65537])
def test_who_loses_the_last_of_many_channels_fails_by_the_criteria_alone(channels):
    drafts = load_declarations(ROOT / "cases" / "voxel_pooling_forward.yaml", OPERATOR)
    draft = next(draft for draft in drafts if draft.id.endswith(f"/last_of_{channels}_channels"))
    case = make_case(draft, OPERATOR, Draw(draft.seed))

    def lost(call):
        OPERATOR.kernel(call)
        call.array("output_features")[..., -1] = 0
        return Status.SUCCESS

    assert judged("right", OPERATOR.kernel, case, OPERATOR).outcome is Outcome.PASSED
    result = judged("wrong", lost, case, OPERATOR)
    assert result.outcome is Outcome.FAILED


# The recipes.


def test_the_network_has_the_documents_shape():
    draft = next(
        draft
        for draft in load_declarations(ROOT / "cases" / "voxel_pooling_forward.yaml", OPERATOR)
        if "network" in draft.tags
    )
    assert tuple(draft.params[name] for name in SCALARS) == (2, 473088, 80, 128, 128, 1)
    # The points of the network with one channel: everything but the features' size.
    params = {**draft.params, "num_channels": 1}
    made = OPERATOR.recipes[draft.recipe](Draw(draft.seed), params, DType.FLOAT, **draft.args)
    assert made.inputs["geom_xyz"].shape == (2, 473088, 3)
    assert made.outputs["output_features"] == (2, 128, 128, 1)
    cells = cells_of(made.params, made.inputs["geom_xyz"])
    counts = np.bincount(cells[cells >= 0], minlength=2 * 128 * 128)
    # Cameras look outwards: points outside on every axis, far cells sparse, cells near the car crowded.
    assert 0.3 < np.mean(cells >= 0) < 0.8
    assert 0.5 < np.mean(counts > 0) < 1
    assert counts.max() > 20 * np.median(counts[counts > 0])
    assert not np.array_equal(made.inputs["geom_xyz"][0], made.inputs["geom_xyz"][1])
    for axis, extent in enumerate((128, 128, 1)):
        column = made.inputs["geom_xyz"][..., axis]
        assert column.min() < 0
        assert column.max() >= extent


def test_full_data_fill_every_mantissa_bit_and_stay_exact_in_float64():
    features = VALUES["full"](Draw(1), np.zeros(4096, np.int64), 4)
    assert lattice_exponent(features) == -26
    assert sums_are_exact(-26, 2.0, 2**26)
    bits = features.view("<u4")
    assert np.bitwise_or.reduce(bits, axis=None) & 0x7FFFFF == 0x7FFFFF
    assert np.bitwise_and.reduce(bits, axis=None) & 0x7FFFFF == 0
    assert 0.45 < np.mean(features < 0) < 0.55


@pytest.mark.parametrize("kind", VALUES)
def test_every_kind_of_value_is_conditioned_where_cells_are_crowded(kind):
    cells = np.zeros(3000, np.int64)
    assert_any_order(VALUES[kind](Draw(9), cells, 2), cells)


def test_ill_conditioned_data_are_refused():
    features = np.full((3000, 1), 2.0**-26, "<f4")
    features[0], features[-1] = 1, -1
    with pytest.raises(ContentError, match="ill-conditioned"):
        assert_any_order(features, np.zeros(len(features), np.int64))


def test_ranks_count_earlier_points_of_the_same_cell():
    assert ranks(np.array([4, -1, 4, 0, -1, 4])).tolist() == [0, 0, 1, 0, 1, 2]


@pytest.mark.parametrize(
    ("recipe", "params", "args", "message"),
    [
        ("frustum", {"num_points": 5}, {"cameras": 1, "depths": 2, "rows": 1, "columns": 1}, "num_points follows"),
        ("frustum", {}, {"cameras": 7, "depths": 1, "rows": 1, "columns": 1}, "at most 6"),
        ("nonfinite", {"num_points": 1}, {"kind": "nan"}, "no cell holds two points"),
        ("listed", {}, {"x": (2**31,), "y": (0,), "z": (0,)}, "leaves int32"),
    ],
)
def test_a_recipe_says_what_it_cannot_make(recipe, params, args, message):
    with pytest.raises(ValueError, match=message):
        OPERATOR.recipes[recipe](Draw(1), params, DType.FLOAT, **args)


def test_theory_counts_what_must_be_touched():
    call = call_for([[[0, 0, 0], [1, 0, 0], [5, 0, 0]]], np.ones((1, 3, 4)), (2, 3, 1))
    theory = OPERATOR.theory(call)
    assert theory.ops == 2 * 4
    # Coordinates of three points, features and memos of two, all cells.
    assert theory.io_bytes == 4 * (3 * 3 + 2 * 4 + 2 * 3 + 6 * 4)
