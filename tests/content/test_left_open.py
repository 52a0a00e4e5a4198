"""What documents leave open is neither asked of a kernel without its tag nor drawn."""

import numpy as np
import pytest
from msgspec.structs import replace

from mluops_gtest.base.errors import DeclarationError
from mluops_gtest.catalog.make import make_case
from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.call import Status
from mluops_gtest.core.operator_parts import SPACE
from mluops_gtest.search.audit_values import variants_differ
from mluops_gtest.search.draws import Draws
from mluops_gtest.search.mutants import subject_of
from tests.conftest import ROOT

NAMES = sorted(path.parent.name for path in ROOT.glob("generators/[a-z]*/__init__.py"))
# Their documents ask for equality.
COPYING = {"dynamic_scatter_backward", "get_indice_pairs", "masked_col2im_forward", "masked_im2col_forward"}
# Their documents exclude NaN and Inf, or do not speak of them.
FINITE = {
    "dynamic_scatter_backward",
    "indice_convolution_backward_data",
    "indice_convolution_backward_filter",
    "indice_convolution_forward",
}
# The tensors whose layouts documents have checked, and what else is a layout of a tensor's own.
CHECKED = {
    "indice_convolution_backward_data": {"filters"},
    "indice_convolution_forward": {"filters"},
    "masked_col2im_forward": {"im"},
    "masked_im2col_forward": {"feature"},
    "three_interpolate_backward": {"grad_output", "indices", "weights", "grad_features"},
    "three_interpolate_forward": {"features", "indices", "weights", "output"},
}
OWN = {"indice_convolution_backward_filter": {"filters_grad": {"ARRAY", "HWCN"}}}
DEVICES = {None, 200, 220, 270, 290, 370, 590}
CASES = 120


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


def test_cases_name_devices_that_documents_name(catalogue):
    assert [draft.id for draft in catalogue.drafts.values() if draft.expect.arch not in DEVICES] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("indice_convolution_backward_data", "kahan"),
        ("indice_convolution_backward_data", "tiny_floats_flushed"),
        ("indice_convolution_backward_filter", "zeros_for_nobody"),
    ],
)
def test_a_right_variant_passes_and_its_tag_alone_tells_it(name, variant):
    """All of them are held to the same by a rule of the audit."""
    subject = subject_of(Session((str(ROOT),)), name, seeds=0)
    chosen = {tag: tuple(one for one in variants if one.name == variant) for tag, variants in subject.variants.items()}
    assert sum(map(len, chosen.values())) == 1
    assert list(variants_differ(replace(subject, variants=chosen))) == []


def is_defined(name, case):
    """What the document of the operator asks of the numbers of a call that computes."""
    floats = {tensor.id: tensor.values for tensor in case.tensors if tensor.desc.dtype.is_float}
    if name in FINITE and not all(np.isfinite(values).all() for values in floats.values()):
        return False
    if name == "dynamic_point_to_voxel_forward" and case.params["reduce_type"] == 2:
        valid = (case.tensor("coors").values >= 0).all(axis=1)
        if np.isnan(floats["feats"][valid]).any():
            return False
    tiny = np.finfo(np.float32).smallest_normal
    singles = [values for values in floats.values() if values.dtype == np.float32]
    return name in COPYING or not any(((values != 0) & (np.abs(values) < tiny)).any() for values in singles)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_is_left_open_is_drawn(operators, name):
    operator, computed = operators[name], 0
    draws = Draws(operator, operators.part(name, SPACE), 0)
    for drawn in filter(None, map(draws.draw, range(CASES))):
        case = drawn.case
        assert case.expect.arch in DEVICES, case.id
        for spec in operator.tensors:
            own = OWN.get(name, {}).get(spec.id, {layout.value for layout in spec.layouts})
            if spec.id not in case.expect.null_descriptor and case.tensor(spec.id).desc.layout.value not in own:
                assert spec.id in CHECKED.get(name, ()), f"{case.id}: {drawn.faults}"
                assert case.expect.status is not Status.SUCCESS, f"{case.id}: {drawn.faults}"
        if operator.computes(case.expect.status, case.expect.check):
            computed += 1
            with np.errstate(invalid="ignore"):
                assert is_defined(name, case), f"{case.id}: {drawn.faults}"
    assert computed > 0.4 * CASES
