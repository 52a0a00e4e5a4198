"""Every mistake that an operator suspects is named where an independent implementation makes it."""

from dataclasses import replace

import numpy as np
import pytest

from mluops_gtest.authoring.filters import weights_by_offset
from mluops_gtest.authoring.suspects import with_inputs, with_params
from mluops_gtest.content.selection import Selected
from mluops_gtest.engine.caller import InlineCaller
from mluops_gtest.engine.execute import Executor, Options
from mluops_gtest.generate.source import StoredCases
from mluops_gtest.model.explanation import AsIf
from mluops_gtest.model.parts import MUTANTS
from tests.support.planted_run import Spoiled

LAST_WINS, FIRST_MISSING, LAST_MISSING = "the last {} wins", "the first {} is missing", "the last {} is missing"


def first_at(places):
    """bool: no earlier place is the same."""
    _, first = np.unique(places, return_index=True)
    found = np.zeros(len(places), bool)
    found[first] = True
    return found


def last_at(places):
    return first_at(places[::-1])[::-1]


def only(which):
    return {LAST_WINS: last_at, FIRST_MISSING: lambda p: ~first_at(p), LAST_MISSING: lambda p: ~last_at(p)}[which]


def points_of_cells(which):
    """The kernel sees no other points; pos_memo stays as it is for all of them."""

    def run(operator, call):
        operator.kernel(call)
        memo = call.array("pos_memo").copy()
        inside = np.flatnonzero(memo[..., 0].ravel() >= 0)
        cells = memo.reshape(-1, 3)[inside] @ (10**6, 10**3, 1)
        geometry = np.full_like(call.array("geom_xyz").reshape(-1, 3), -1)
        kept = inside[only(which)(cells)]
        geometry[kept] = call.array("geom_xyz").reshape(-1, 3)[kept]
        operator.kernel(with_inputs(call, geom_xyz=geometry.reshape(memo.shape)))
        call.array("pos_memo")[...] = memo

    return run


def cells_of_points(weights_kept):
    """The other weights of every point are 0."""

    def run(operator, call):
        weights = call.array("weights") * np.array(weights_kept, call.array("weights").dtype)
        operator.kernel(with_inputs(call, weights=weights))

    return run


def weights_of_1(operator, call):
    operator.kernel(with_inputs(call, weights=np.ones_like(call.array("weights"))))


def contributions_of_cells(which):
    def run(operator, call):
        indices = call.array("indices")
        places = (np.arange(len(indices))[:, None, None] * 10**6 + indices).ravel()
        weights = call.array("weights") * only(which)(places).reshape(indices.shape)
        operator.kernel(with_inputs(call, weights=weights.astype(call.array("weights").dtype)))

    return run


def pairs_of_rows(which, rows, target, output):
    """Pair by pair; `target` is the row of indice_pairs that receives."""

    def run(operator, call):
        weights = weights_by_offset(call.array("filters"), call.tensor("filters").layout).astype(np.float64)
        numbers = call.param("indice_num")
        pairs = np.concatenate([call.array("indice_pairs")[k, :, :n] for k, n in enumerate(numbers)], axis=1)
        offsets = np.repeat(np.arange(len(numbers)), numbers)
        result = np.zeros(call.tensor(output).dims)
        for pair, offset in zip(pairs.T[only(which)(pairs[target])], offsets[only(which)(pairs[target])], strict=True):
            matrix = weights[offset] if target == 1 else weights[offset].T
            result[pair[target]] += call.array(rows)[pair[1 - target]].astype(np.float64) @ matrix
        call.array(output)[...] = result

    return run


def pairs_of_offsets(which):
    """Every offset as far as the kernel sees its pairs."""
    part = {LAST_WINS: slice(-1, None), FIRST_MISSING: slice(1, None)}[which]

    def run(operator, call):
        pairs, numbers = call.array("indice_pairs").copy(), list(call.param("indice_num"))
        for k, number in enumerate(numbers):
            kept = pairs[k, :, :number][:, part]
            numbers[k] = kept.shape[1]
            pairs[k, :, : numbers[k]] = kept
        operator.kernel(with_params(with_inputs(call, indice_pairs=pairs), indice_num=tuple(numbers)))

    return run


def without_pad(operator, call):
    """As many sites as there is room for."""
    room = np.zeros((1000, 4), np.int32)
    sites = replace(call.tensor("out_indices"), desc=call.tensor("out_indices").desc.resized(room.shape), array=room)
    operator.kernel(replace(with_params(call, pad=(0, 0, 0)), outputs={**call.outputs, "out_indices": sites}))


# Operator → the mistake in the operator's words, who makes it (a mutant or a function), and a case that tells.
MISTAKES = {
    "ball_query": (
        ("points on the outer sphere are inside", "inclusive_max", "ball_at_its_bounds_float"),
        ("points on the inner sphere are outside", "exclusive_min", "shell_at_its_bounds_float"),
        (
            "a point at the centre counts only where the shell holds it",
            "coincident_like_any_other",
            "shell_at_its_bounds_float",
        ),
        ("min_radius is ignored", "min_ignored", "shell_at_its_bounds_float"),
        ("rows are filled up with 0", "filled_with_0", "pointnet2_first_twin"),
        ("the nearest points are taken, not the first", "nearest_first", "pointnet2_first_twin"),
        ("indices count through all batches", "batch_in_index", "pointnet2_first_twin"),
        ("every batch searches the points of batch 0", "first_cloud", "pointnet2_second_twin"),
    ),
    "dynamic_point_to_voxel_forward": (
        ("the sum is not divided by the number of points", "summed", "document_example_mean"),
        ("the mean divides by one point more", "divided_by_one_more", "document_example_mean"),
        ("the mean is taken for the maximum", "always_mean", "document_example_max"),
        ("the maximum is taken for the mean", "always_maximum", "document_example_mean"),
        ("the last point of every voxel wins", "last_point_wins", "random_max_1"),
        ("the smallest feature of every voxel is taken", "minimum", "document_example_max"),
        ("voxels stand in the order in which points meet them", "first_appearance", "document_example_mean"),
        ("points with a coordinate 0 are invalid", "zero_invalid", "random_mean_1"),
    ),
    "dynamic_scatter_backward": (
        ("the last point with the maximum gets the gradient", "last_index_wins", "ties_in_every_channel"),
        ("every point with the maximum gets the gradient", "every_tie_wins", "ties_in_every_channel"),
        ("voxel 0 counts as no voxel", "drops_voxel_0", "random_1"),
        ("rows at and behind voxel_num count as voxels", "uses_rows_behind_voxel_num", "random_1"),
    ),
    "get_indice_pairs": (
        ("dilation is ignored", "dilation_ignored", "dilation_2_along_0"),
        ("pad is ignored", without_pad, "network_subm_41x1440x1440_twin"),
        ("sub_m pads by half the kernel, whatever pad says", "sub_m_centred", "sub_m_pad_0"),
        (
            "output sites stand in the order in which they are met",
            "first_seen_order",
            "network_down_41x1440x1440_twin",
        ),
        ("the pairs of an offset ascend by output row", "by_output_row", "stride_2_needs_a_remainder_of_zero"),
        ("kernel offsets are numbered from the depth on", "depth_fastest", "network_subm_41x1440x1440_twin"),
    ),
    "indice_convolution_backward_data": (
        *(
            (mistake.format("pair of every row"), pairs_of_rows(mistake, "output_grad", 0, "input_grad"), case)
            for mistake in (LAST_WINS, FIRST_MISSING, LAST_MISSING)
            for case in ("centerpoint_0_twin_float",)
        ),
        ("the matrix of the opposite offset is taken", "kernel_mirrored", "centerpoint_0_twin_float"),
        ("the matrix of every offset is transposed", "weights_transposed", "centerpoint_0_twin_float"),
    ),
    "indice_convolution_forward": (
        *(
            (mistake.format("pair of every row"), pairs_of_rows(mistake, "features", 1, "features_out"), case)
            for mistake in (LAST_WINS, FIRST_MISSING, LAST_MISSING)
            for case in ("centerpoint_0_twin_float",)
        ),
        ("the matrix of the opposite offset is taken", "kernel_mirrored", "centerpoint_0_twin_float"),
        ("the matrix of every offset is transposed", "weights_transposed", "centerpoint_3_twin_float"),
    ),
    "indice_convolution_backward_filter": (
        (LAST_WINS.format("pair of every offset"), pairs_of_offsets(LAST_WINS), "centerpoint_0_twin_float"),
        (FIRST_MISSING.format("pair of every offset"), pairs_of_offsets(FIRST_MISSING), "centerpoint_0_twin_float"),
        (LAST_MISSING.format("pair of every offset"), "last_pair", "centerpoint_0_twin_float"),
        ("sums are divided by indice_num", "mean", "centerpoint_0_twin_float"),
        ("the rows of every pair are exchanged", "rows_exchanged", "centerpoint_2_twin_half"),
        ("the opposite offset's pairs are taken", "kernel_mirrored", "centerpoint_0_twin_float"),
        ("the matrix of every offset is transposed", "transposed", "centerpoint_0_twin_float"),
    ),
    "masked_col2im_forward": (
        ("mask_h_idx and mask_w_idx are exchanged", "swapped_where_it_fits", "retinanet_twin_float"),
        ("column j goes to pixel j, whatever the masks say", "masks_ignored", "retinanet_twin_float"),
    ),
    "masked_im2col_forward": (
        ("windows begin at the mask position, without the padding", "pad_ignored", "retinanet_3x3_twin_float"),
        ("mask_h_idx and mask_w_idx are exchanged", "swapped_masks", "retinanet_3x3_twin_float"),
        ("rows stand by kernel offset, then by channel", "kernel_major_rows", "retinanet_3x3_twin_float"),
    ),
    "three_interpolate_backward": (
        *(
            (mistake.format("contribution of every cell"), contributions_of_cells(mistake), case)
            for mistake in (LAST_WINS, FIRST_MISSING, LAST_MISSING)
            for case in ("propagation_512x16x64_twin_float",)
        ),
        ("every weight is 1", "weights_ignored", "propagation_512x16x64_twin_float"),
    ),
    "three_interpolate_forward": (
        (LAST_WINS.format("cell of every point"), cells_of_points((0, 0, 1)), "propagation_512x16x64_twin_float"),
        (FIRST_MISSING.format("cell of every point"), cells_of_points((0, 1, 1)), "propagation_512x16x64_twin_float"),
        (LAST_MISSING.format("cell of every point"), "third_left_out", "propagation_512x16x64_twin_float"),
        ("every weight is 1/3", "mean_of_three", "propagation_512x16x64_twin_float"),
        ("every weight is 1", weights_of_1, "propagation_512x16x64_twin_float"),
    ),
    "three_nn_forward": (
        ("the roots are taken of squared distances", "root", "network_twin_lattice_float"),
        ("of equal distances the highest index comes first", "last_of_equals", "network_twin_lattice_half"),
        ("the three neighbours are ordered by index", "by_index", "network_twin_lattice_float"),
        ("indices count through all batches", "batch_offset", "network_twin_lattice_float"),
        ("every batch searches the known points of batch 0", "first_batch_known", "network_twin_lattice_float"),
    ),
    "voxel_pooling_forward": tuple(
        (mistake.format("point of every cell"), points_of_cells(mistake), "bevdepth_twin")
        for mistake in (LAST_WINS, FIRST_MISSING, LAST_MISSING)
    ),
}


def test_every_operator_suspects_something_and_all_of_it_is_tried(operators):
    suspects = {name: set(operators[name].suspects) for name in operators}
    assert {name: {mistake for mistake, *_ in made} for name, made in MISTAKES.items()} == suspects
    assert all(suspects.values())


@pytest.mark.parametrize(
    ("name", "mistake", "made_by", "case"),
    [pytest.param(name, *made, id=f"{name}-{made[0]}") for name, all_made in MISTAKES.items() for made in all_made],
)
def test_a_suspect_is_named_for_the_mistake_that_it_describes(catalogue, name, mistake, made_by, case):
    operator = catalogue.operators[name]
    if isinstance(made_by, str):
        mutants = {mutant.name: mutant.run for mutant in catalogue.operators.part(name, MUTANTS)}
        run = mutants[made_by]
    else:
        run = lambda call: made_by(operator, call)  # noqa: E731

    def spoil(call, outputs, before):
        for output, array in outputs.items():
            array[...] = before[output]
        run(call)

    draft = catalogue.drafts[f"{name}/{case}"]
    source = StoredCases(catalogue, (Selected(draft.id, name, draft.tags, draft=draft),))
    executor = Executor(InlineCaller(Spoiled(catalogue.operators, spoil)), Options())
    result = executor.execute(source.load(draft.id), operator)
    told = [explanation.fitted[0].law for explanation in result.explained]
    assert AsIf(mistake) in told
    assert {law for law in told if isinstance(law, AsIf)} == {AsIf(mistake)}
