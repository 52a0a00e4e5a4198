"""Every mistake that an operator suspects is named where an implementation makes it.

Mutants that mistakes.suspected() makes are no independent implementation: of these only the telling is tested.
"""

from dataclasses import replace

import numpy as np
import pytest

from generators._shared.connections import weights_by_offset
from generators._shared.wrong_interpolation import WRONG_TRIPLES
from generators._shared.wrong_pairs import wrong_pairs
from generators._shared.wrong_products import wrong_weights
from generators.abs import WRONG as WRONG_ABS
from generators.div import WRONG as WRONG_DIV
from generators.sqrt import WRONG as WRONG_SQRT
from mluops_gtest.authoring.mistakes import suspected
from mluops_gtest.authoring.suspects import with_inputs, with_params
from mluops_gtest.catalog.selection import Selected
from mluops_gtest.catalog.source import StoredCases
from mluops_gtest.core.explanation import AsIf, RoundedInputs
from mluops_gtest.core.operator_parts import MUTANTS
from mluops_gtest.core.readings import format_explanation
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from tests.conftest import ROOT
from tests.support.planted_run import Spoiled, default_cases
from tests.support.predicted_by_law import rounded_call

WEIGHTS = {
    "depth_mirrored", "height_mirrored", "width_mirrored", "width_slowest", "height_for_width", "weights_of_first",
    "weights_of_next", "channels_last_as_array", "array_as_channels_last", "two_dimensional", "weights_transposed",
}  # fmt: skip
PAIRS = {
    "rows_exchanged", "inputs_twice", "outputs_twice", "positions", "sorted_apart", "stride_of_counts", "first_count",
    "one_pair", "first_pair", "last_pair", "stops_at_empty", "skips_empty", "first_offset", "last_offset",
    "pairs_of_next", "pairs_repeated", "stride_of_outputs", "middle_of_all",
}  # fmt: skip
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


def misread_elements(wrong, case, others):
    """Each mistake of an element, by its mutant in that case or another."""
    return tuple((words, f"as if {words}", others.get(words, case)) for words in wrong)


def misread_triples(*others):
    """Mistakes of both interpolations in reading their triples, with cases that tell; `others` are told otherwise."""
    cases = {
        "weights_normalised": "channels_65",
        "weights_sum_to_one": "channels_65",
        "weights_absolute": "channels_65",
        "weights_within_1": "negative_zero_float",
        "negative_dropped": "nonfinite_weight_inf_float",
    }
    others = {*others, "weights_ignored", "repeated_once", "byte_indices", "tile_base_lost", "cell_tail", "point_tail"}
    for name, message, _ in WRONG_TRIPLES:
        if name not in others:
            yield f"it {message}", name, cases.get(name, "propagation_512x16x64_twin_float")


def misread_rows(names, summed, **cases):
    """Mistakes of a convolution about matrices and pairs, with cases that tell."""
    for one in (*wrong_weights(summed), *wrong_pairs("", "")):
        if one.name in names:
            yield f"it {one.message}", one.name, cases.get(one.name, "centerpoint_0_twin_float")


# Operator → the mistake in the operator's words, who makes it (a mutant or a function), and a case that tells.
MISTAKES = {
    "abs": misread_elements(
        WRONG_ABS,
        "released_twin_float",
        {
            "the sign bit of integers is cleared": "released_twin_int32",
            "negative integers are complemented": "released_twin_int32",
            "integers pass through float": "released_twin_int32",
            "results are |re| + |im|": "released_twin_complex_float",
            "results are the larger of |re| and |im|": "released_twin_complex_float",
            "results are |re|": "released_twin_complex_float",
            "a real part −Inf keeps its sign": "values_inf_complex_float",
            "real parts come before imaginary ones": "released_twin_complex_float",
            "squares of parts are made in float": "values_wide_complex_float",
            "NaN becomes 0": "values_nan_float",
            "infinities become the largest number": "values_inf_float",
        },
    ),
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
        ("every batch has the centres of batch 0", "first_centres", "random_1_float"),
        ("xyz is read as [B, 3, N]", "xyz_axes_first", "radius_45_and_a_half"),
        ("new_xyz is read as [B, 3, M]", "new_xyz_axes_first", "centres_3"),
        ("x is ignored", "x_dropped", "pointnet2_second_twin"),
        ("y is ignored", "y_dropped", "pointnet2_second_twin"),
        ("z is ignored", "z_dropped", "pointnet2_second_twin"),
        ("the first point is missing", "first_point_skipped", "pointnet2_second_twin"),
        ("the last point is missing", "last_point_skipped", "pointnet2_second_twin"),
        ("points are listed from the last one on", "descending", "pointnet2_second_twin"),
        ("indices count within a tile of 64", "tile_base_lost", "points_127"),
        ("points at the centre are outside", "coincident_skipped", "pointnet2_second_twin"),
        ("max_radius is ignored", "max_ignored", "pointnet2_second_twin"),
    ),
    "div": misread_elements(
        WRONG_DIV,
        "released_twin_float",
        {
            "0 / y is NaN": "zeros_half",
            "FAST is computed with 4 bits": "released_fast_twin_float",
            "results are exp(log |x| − log |y|) in float": "values_full_float",
        },
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
        ("the gradient of the next voxel is taken", "gradients_of_next", "network_mvxnet_twin"),
        ("what channel 0 says holds for all", "channel_0_decides", "network_mvxnet_twin"),
        ("the gradient is averaged over the points of a voxel", "divides_by_count", "network_mvxnet_twin"),
        ("channels of the gradient are counted from the last one", "gradients_reversed", "network_mvxnet_twin"),
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
        *misread_rows(
            {*WEIGHTS, *PAIRS, "first_output_channel", "last_output_channel"},
            2,
            **dict.fromkeys(("height_mirrored", "width_mirrored"), "rows_9_from_4"),
            **dict.fromkeys(
                ("depth_mirrored", "width_slowest", "height_for_width", "weights_of_first"), "layout_cube_ndhwc"
            ),
            **dict.fromkeys(("stops_at_empty", "skips_empty"), "tail_minus_one_float"),
            channels_last_as_array="layout_cube_ndhwc",
            weights_transposed="centerpoint_3_twin_float",
            sorted_apart="rows_without_pairs_half",
            first_offset="rows_without_pairs_float",
            pairs_repeated="sub_m_kernel_1x3x1",
            stride_of_outputs="race_every_offset_float",
        ),
    ),
    "indice_convolution_forward": (
        *(
            (mistake.format("pair of every row"), pairs_of_rows(mistake, "features", 1, "features_out"), case)
            for mistake in (LAST_WINS, FIRST_MISSING, LAST_MISSING)
            for case in ("centerpoint_0_twin_float",)
        ),
        ("the matrix of the opposite offset is taken", "kernel_mirrored", "centerpoint_0_twin_float"),
        ("the matrix of every offset is transposed", "weights_transposed", "centerpoint_3_twin_float"),
        *misread_rows(
            {*WEIGHTS, *PAIRS, "first_input_channel", "last_input_channel"},
            1,
            channels_last_as_array="layout_ndhwc_cube",
            two_dimensional="centerpoint_3_twin_float",
            weights_transposed="centerpoint_1_twin_float",
            sorted_apart="tail_minus_one_float",
            pairs_repeated="sub_m_kernel_1x3x1",
            stride_of_outputs="channels_7_to_1",
        ),
    ),
    "indice_convolution_backward_filter": (
        (LAST_WINS.format("pair of every offset"), pairs_of_offsets(LAST_WINS), "centerpoint_0_twin_float"),
        (FIRST_MISSING.format("pair of every offset"), pairs_of_offsets(FIRST_MISSING), "centerpoint_0_twin_float"),
        (LAST_MISSING.format("pair of every offset"), "last_pair", "centerpoint_0_twin_float"),
        ("sums are divided by indice_num", "mean", "centerpoint_0_twin_float"),
        ("the rows of every pair are exchanged", "rows_exchanged", "centerpoint_2_twin_half"),
        ("the opposite offset's pairs are taken", "kernel_mirrored", "centerpoint_0_twin_float"),
        ("the matrix of every offset is transposed", "transposed", "centerpoint_0_twin_float"),
        *misread_rows(
            {*PAIRS, "tail_is_row_0"}
            - {"rows_exchanged", "first_pair", "last_pair", "stops_at_empty", "first_offset", "last_offset"},
            1,
            **dict.fromkeys(("sorted_apart", "pairs_of_next"), "rows_4_to_17"),
            skips_empty="tail_minus_one_float",
            pairs_repeated="sub_m_kernel_1x3x1",
        ),
    ),
    "masked_col2im_forward": (
        ("mask_h_idx and mask_w_idx are exchanged", "swapped_where_it_fits", "retinanet_twin_float"),
        ("column j goes to pixel j, whatever the masks say", "masks_ignored", "retinanet_twin_float"),
        ("masks are sorted without their columns", "masks_sorted", "masks_63_float"),
        ("mask_h_idx is sorted without mask_w_idx", "axes_sorted_apart", "width_2"),
        ("masks are counted from 1", "counted_from_one", "retinanet_twin_float"),
        ("masks name the row above", "row_below", "retinanet_twin_float"),
        ("masks name the column to the left", "column_beside", "retinanet_twin_float"),
        ("a row of im has H elements", "height_as_row_length", "height_2"),
        ("mask_w_idx is the row", "swapped_masks", "width_2"),
        ("col is read as [m, C]", "col_transposed", "retinanet_twin_float"),
        ("every channel is the first one", "first_channel_everywhere", "retinanet_twin_float"),
    ),
    "masked_im2col_forward": (
        ("windows begin at the mask position, without the padding", "pad_ignored", "retinanet_3x3_twin_float"),
        ("mask_h_idx and mask_w_idx are exchanged", "swapped_masks", "retinanet_3x3_twin_float"),
        ("rows stand by kernel offset, then by channel", "kernel_major_rows", "retinanet_3x3_twin_float"),
        ("masks are counted from 1", "counted_from_one", "retinanet_3x3_twin_float"),
        ("masks are taken in the order of the image", "masks_sorted", "random_half_4"),
        ("mask_h_idx is sorted without mask_w_idx", "axes_sorted_apart", "random_half_4"),
        ("windows begin at the mask position plus the padding", "pad_added", "retinanet_3x3_twin_float"),
        ("pad_h and pad_w are exchanged", "pads_swapped", "random_half_4"),
        ("pad_h holds for both axes", "one_pad", "random_half_4"),
        ("masks name the middle of the window", "centred", "random_half_4"),
        ("kernel_h and kernel_w are exchanged", "kernel_swapped", "random_half_4"),
        ("feature is read as NHWC", "channels_last", "retinanet_3x3_twin_float"),
        ("feature is read as NCWH", "columns_first", "random_half_4"),
        ("every channel is the first one", "first_channel_everywhere", "retinanet_3x3_twin_float"),
    ),
    "sqrt": misread_elements(
        WRONG_SQRT,
        "released_twin_float",
        {
            "x · 1/√x is NaN for 0": "zeros_half",
            "bits of integers are read as floats": "released_twin_int32",
            "integers pass through half": "released_twin_int32",
            "bits of bfloat16 are read as half": "released_twin_bfloat16",
            "FAST is computed with 4 bits": "released_fast_twin_float",
            "results are exp(½ · log x) in float": "values_wide_int32",
        },
    ),
    "three_interpolate_backward": (
        *(
            (mistake.format("contribution of every cell"), contributions_of_cells(mistake), case)
            for mistake in (LAST_WINS, FIRST_MISSING, LAST_MISSING)
            for case in ("propagation_512x16x64_twin_float",)
        ),
        ("every weight is 1", "weights_ignored", "propagation_512x16x64_twin_float"),
        *misread_triples(),
    ),
    "three_interpolate_forward": (
        (LAST_WINS.format("cell of every point"), cells_of_points((0, 0, 1)), "propagation_512x16x64_twin_float"),
        (FIRST_MISSING.format("cell of every point"), cells_of_points((0, 1, 1)), "propagation_512x16x64_twin_float"),
        (LAST_MISSING.format("cell of every point"), "third_left_out", "propagation_512x16x64_twin_float"),
        ("every weight is 1/3", "mean_of_three", "propagation_512x16x64_twin_float"),
        ("every weight is 1", weights_of_1, "propagation_512x16x64_twin_float"),
        *misread_triples("mean_of_three", "third_left_out"),
    ),
    "three_nn_forward": (
        ("the roots are taken of squared distances", "root", "network_twin_lattice_float"),
        ("of equal distances the highest index comes first", "last_of_equals", "network_twin_lattice_half"),
        ("the three neighbours are ordered by index", "by_index", "network_twin_lattice_float"),
        ("indices count through all batches", "batch_offset", "network_twin_lattice_float"),
        ("every batch searches the known points of batch 0", "first_batch_known", "network_twin_lattice_float"),
        ("every batch has the unknown points of batch 0", "first_batch_unknown", "network_twin_lattice_float"),
        ("indices count within a tile of 64", "tile_base_lost", "known_127_float"),
        ("known is read as [B, 3, M]", "known_axes_first", "network_twin_lattice_float"),
        ("unknown is read as [B, 3, N]", "unknown_axes_first", "network_twin_lattice_float"),
        ("x is ignored", "x_dropped", "network_twin_lattice_float"),
        ("y is ignored", "y_dropped", "network_twin_lattice_float"),
        ("z is ignored", "z_dropped", "network_twin_lattice_float"),
        ("the first known point is missing", "first_known_skipped", "network_twin_lattice_float"),
        ("the last known point is missing", "last_known_skipped", "network_twin_lattice_float"),
    ),
    "voxel_pooling_forward": (
        *(
            (mistake.format("point of every cell"), points_of_cells(mistake), "bevdepth_twin")
            for mistake in (LAST_WINS, FIRST_MISSING, LAST_MISSING)
        ),
        ("input_features is read as [B, C, N]", "features_channels_first", "bevdepth_twin"),
        ("every batch is pooled into the first", "batch_ignored", "bevdepth_twin"),
        ("pos_memo is (x, y, z)", "memo_xyz", "bevdepth_twin"),
        ("the first point of every cell wins", "first_wins", "bevdepth_twin"),
        ("the mean of the points is taken", "mean", "bevdepth_twin"),
        ("the largest feature of the points is taken", "largest", "bevdepth_twin"),
    ),
}


# Of all others the mistakes are made of the suspects' own words.
OTHERS = sorted({path.parent.name for path in ROOT.glob("generators/[!_]*/__init__.py")} - set(MISTAKES))


def explained(catalogue, case, run, **options):
    """What is told of the outputs of a case that `run` computes."""
    draft = catalogue.drafts[case]
    operator = catalogue.operators[draft.operator]

    def spoil(call, outputs, before):
        for output, array in outputs.items():
            array[...] = before[output]
        run(operator, call)

    source = StoredCases(catalogue, (Selected(draft.id, draft.operator, draft.tags, draft=draft),))
    executor = CaseRun(InlineCaller(Spoiled(catalogue.operators, spoil)), Options(**options))
    return executor.run_case(source.load(draft.id), operator)


def test_every_operator_suspects_something_and_all_of_it_is_tried(operators):
    suspects = {name: set(operators[name].suspects) for name in operators}
    tried = {name: {mistake for mistake, *_ in made} for name, made in MISTAKES.items()}
    assert tried == {name: words for name, words in suspects.items() if name in MISTAKES}
    assert all(suspects.values())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", OTHERS)
def test_most_of_the_other_suspects_are_named_where_they_are_made(catalogue, name):
    """Nothing else is suspected there. The rest come to the same as another one, or to a plainer law."""
    operator = catalogue.operators[name]
    unseen = {mutant.name: mutant.run for mutant in suspected(operator, {words: words for words in operator.suspects})}
    ids, load = default_cases(catalogue, name)
    smoke = [one for one in ids if "smoke" in catalogue.drafts[one].tags]
    cases = map(load, [*smoke, *(one for one in ids if one not in smoke)])
    while len(unseen) > len(operator.suspects) / 2:
        case = next(cases)
        for words, run in list(unseen.items()):
            backend = Spoiled(catalogue.operators, lambda call, outputs, before, run=run: run(call))
            result = CaseRun(InlineCaller(backend), Options()).run_case(case, operator)
            laws = {one.fitted[0].law for one in result.explained if one.fitted}
            if AsIf(words) in laws and {law for law in laws if isinstance(law, AsIf)} == {AsIf(words)}:
                del unseen[words]


@pytest.mark.parametrize(
    ("name", "mistake", "made_by", "case"),
    [pytest.param(name, *made, id=f"{name}-{made[0]}") for name, all_made in MISTAKES.items() for made in all_made],
)
def test_a_suspect_is_named_for_the_mistake_that_it_describes(catalogue, name, mistake, made_by, case):
    if isinstance(made_by, str):
        ours = catalogue.operators.part(name, MUTANTS)
        mutants = {key: mutant.run for mutant in ours for key in (mutant.name, mutant.message)}
        result = explained(catalogue, f"{name}/{case}", lambda _, call: mutants[made_by](call))
    else:
        result = explained(catalogue, f"{name}/{case}", made_by)
    told = [explanation.fitted[0].law for explanation in result.explained]
    assert AsIf(mistake) in told
    assert {law for law in told if isinstance(law, AsIf)} == {AsIf(mistake)}


@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize(("precision", "told"), [("bfloat16", "bfloat16"), ("tf32", "half or tf32")])
@pytest.mark.parametrize(
    "case", ["three_interpolate_forward/propagation_512x16x64_twin_float", "voxel_pooling_forward/bevdepth_twin"]
)
def test_inputs_that_are_narrowed_on_the_way_are_named(catalogue, case, precision, told, truncated):
    def narrowed(operator, call):
        operator.kernel(rounded_call(call, precision, truncated=truncated))

    result = explained(catalogue, case, narrowed, elementwise=True)
    laws = [one.law for one in result.explained]
    assert laws in ([RoundedInputs(told, truncated)], [RoundedInputs(precision, truncated)])


def test_a_wrong_number_of_sites_comes_before_what_follows_from_it(catalogue):
    def one_site_too_few(operator, call):
        operator.kernel(call)
        sites = call.array("out_indices")
        call.scalars["num_act_out"] -= 1
        sites[-1] = -1
        pairs = call.array("indice_pairs")
        pairs[pairs == len(sites) - 1] = -1

    case = "get_indice_pairs/stride_2_needs_a_remainder_of_zero"
    result = explained(catalogue, case, one_site_too_few)
    assert next(one.output for one in result.explained) == "num_act_out"
    assert len(result.explained) > 1
    sites = int(result.explained[0].samples[0].baseline)
    assert format_explanation(result.explained[0]) == f"num_act_out is {sites - 1} instead of {sites}"
    assert result.reason.startswith("num_act_out")
