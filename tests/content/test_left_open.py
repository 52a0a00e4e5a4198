"""What documents leave open needs its tag in a declared case; test_operators.py looks at what is drawn."""

import pytest
from msgspec.structs import replace

from mluops_gtest.base.errors import DeclarationError
from mluops_gtest.catalog.make import make_case
from mluops_gtest.core.operator_parts import VARIANTS


@pytest.mark.parametrize(
    ("case_id", "tag", "reason"),
    [
        ("indice_convolution_backward_data/nonfinite_grad_idle_float", "undefined", "output_grad has NaN"),
        ("indice_convolution_backward_data/nonfinite_overflow_half", "undefined", "input_grad has NaN or an infinity"),
        ("indice_convolution_backward_filter/nonfinite_feature_idle_half", "undefined", "features has NaN"),
        ("dynamic_scatter_backward/nonfinite_gradients", "undefined", "grad_voxel_feats has NaN"),
        ("dynamic_point_to_voxel_forward/nonfinite_max_nan", "undefined", "a maximum is taken over NaN"),
        ("dynamic_point_to_voxel_forward/layouts_ok", "undefined", "no check looks at the layout of feats"),
        ("masked_im2col_forward/other_layouts_ok", "undefined", "no check looks at the layout of mask_h_idx"),
        ("voxel_pooling_forward/tiny_sums", "subnormal", "input_features has a subnormal float"),
        ("three_interpolate_forward/tiny_results_float", "subnormal", "output has a subnormal float"),
    ],
)
def test_a_case_of_what_is_left_open_needs_its_tag(catalogue, operators, case_id, tag, reason):
    draft = catalogue.drafts[case_id]
    operator = operators[draft.operator]
    assert tag in draft.tags
    make_case(draft, operator)
    without = replace(draft, tags=tuple(one for one in draft.tags if one != tag))
    with pytest.raises(DeclarationError, match=rf"{draft.where}.*{reason}.*Tag the case `{tag}`"):
        make_case(without, operator)


@pytest.mark.parametrize(
    ("name", "tag", "variant"),
    [
        ("indice_convolution_backward_data", "undefined", "kahan"),
        ("indice_convolution_backward_data", "subnormal", "tiny_floats_flushed"),
        ("indice_convolution_backward_filter", "undefined", "zeros_for_nobody"),
    ],
)
def test_a_right_variant_is_told_by_its_tag(operators, name, tag, variant):
    """That it passes every other case, and that one of the tag tells it, is a rule of the audit."""
    assert variant in {one.name for one in operators.part(name, VARIANTS)[tag]}
