"""How calls become smaller: what shares a symbol loses the same places, who names a place is renumbered."""

import numpy as np
import pytest

from mluops_gtest.authoring import call_of
from mluops_gtest.authoring.reductions import changed, renumbered
from mluops_gtest.core.buffers import bind_values
from mluops_gtest.core.declaration import RecipeOutput
from mluops_gtest.core.operator_parts import REDUCTIONS


@pytest.fixture
def load(load_case, operators):
    """Makes the call of a declared case."""

    def call(case_id):
        case = load_case(case_id)
        return bind_values(case, operators[case.operator])

    return call


@pytest.fixture
def reduced(load, operators):
    """Makes the call of a declared case, and what is left of it without some places of a quantity."""

    def reduce(case_id, quantity, start, stop):
        call = load(case_id)
        return call, operators.part(call.operator, REDUCTIONS)[quantity].without(call, start, stop)

    return reduce


def shapes(made):
    return {name: array.shape for name, array in made.inputs.items()}


def test_places_behind_the_lost_ones_move_up():
    assert renumbered(np.array([0, 1, 2, 3, 4, 9]), 1, 3).tolist() == [0, 0, 0, 1, 2, 7]
    assert renumbered(np.array([-1, 0, 1]), 0, 1).tolist() == [-1, 0, 0]


def test_a_symbol_shrinks_every_tensor_and_the_parameter_of_its_name(reduced):
    call, made = reduced("voxel_pooling_forward/bevdepth_twin", "points", 10, 90)
    assert shapes(made) == {"geom_xyz": (2, 16, 3), "input_features": (2, 16, 5)}
    assert made.params["num_points"] == 16
    assert made.outputs == {"output_features": (2, 8, 8, 5), "pos_memo": (2, 16, 3)}
    kept = [*range(10), *range(90, 96)]
    np.testing.assert_array_equal(made.inputs["geom_xyz"], call.array("geom_xyz")[:, kept])


def test_a_smaller_grid_renumbers_the_points(reduced):
    call, made = reduced("voxel_pooling_forward/bevdepth_twin", "width", 0, 7)
    before, after = call.array("geom_xyz"), made.inputs["geom_xyz"]
    assert made.params["num_voxel_x"] == 1
    np.testing.assert_array_equal(after[..., 1:], before[..., 1:])
    inside = (before[..., 0] >= 0) & (before[..., 0] < 8)
    assert (after[..., 0][inside] == 0).all()


def test_a_symbol_in_a_product_shrinks_the_axis_in_proportion(reduced):
    call, made = reduced("masked_im2col_forward/many_channels_1025_float", "channels", 1, 1025)
    rows, masks = call.tensor("data_col").dims
    assert made.outputs["data_col"] == (rows // 1025, masks)
    assert made.inputs["feature"].shape[1] == 1


def test_a_lost_row_takes_its_pairs_with_it(reduced):
    _, made = reduced("indice_convolution_forward/centerpoint_0_twin_float", "rows_in", 0, 15)
    pairs, counts = made.inputs["indice_pairs"], made.params["indice_num"]
    assert made.inputs["features"].shape[0] == pairs.shape[2] == 1
    assert max(counts) == 1
    for offset, count in enumerate(counts):
        assert (pairs[offset, 0, :count] == 0).all()
        assert (pairs[offset, :, count:] == -1).all()


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("indice_convolution_forward", "centre_meets_all_1"),
        ("indice_convolution_backward_data", "centerpoint_2_twin_float"),
    ],
)
def test_with_sub_m_both_sides_lose_the_same_rows_and_the_kernel_its_ends(load, operators, name, case):
    call = load(f"{name}/{case}")
    operator, reductions = operators[name], operators.part(name, REDUCTIONS)
    assert call.param("sub_m") == 1
    assert reductions["rows_out"].without(call, 0, 1) is None
    for quantity, stop in (("rows_in", 2), ("kernel_w", 1)):
        made = reductions[quantity].without(call, 0, stop)
        assert broken(operator, call, made) is None, quantity


def broken(operator, call, made: RecipeOutput):
    """What the smaller call lacks."""
    layouts = {one: call.tensor(one).layout for one in (*call.inputs, *call.outputs)}
    outputs = {one: np.zeros(dims, call.tensor(one).dtype.storage) for one, dims in made.outputs.items()}
    return operator.broken(call_of(operator.name, made.params, made.inputs, outputs, layouts))


def test_lost_points_are_no_longer_counted(reduced):
    call, made = reduced("dynamic_scatter_backward/sorted_map_50", "points", 1, 50)
    counts = made.inputs["voxel_points_count"]
    names = made.inputs["point2voxel_map"]
    assert made.inputs["feats"].shape[0] == len(names) == 1
    number = int(call.array("voxel_num")[0])
    wanted = np.bincount(names[names >= 0], minlength=len(counts))
    np.testing.assert_array_equal(counts[:number], wanted[:number])


def test_sites_of_a_lost_plane_go_and_the_output_space_follows(reduced):
    call, made = reduced("get_indice_pairs/network_down_41x1440x1440_twin", "space_d", 1, 41)
    assert made.params["input_space"][0] == 1
    assert made.params["output_space"] != call.param("output_space")
    assert (made.inputs["indices"][:, 1] == 0).all()
    assert "out_indices" not in made.outputs


def test_a_call_changed_in_nothing_is_the_same_call(load):
    call = load("ball_query/random_8_float")
    made = changed(call)
    assert made.params == call.params
    assert made.outputs == {"idx": call.tensor("idx").dims}
    assert all(made.inputs[name] is call.array(name) for name in call.inputs)
