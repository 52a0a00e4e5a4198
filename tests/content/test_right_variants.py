"""Right implementations of every kind stay within what the operators say arithmetic allows, in every default case."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from mluops_gtest.core.buffers import bind_values, bounds_of, owned_rows, row_counts
from mluops_gtest.core.tensor import DType, Precision
from mluops_gtest.judging.criteria import compare, judge
from mluops_gtest.judging.elementwise import Limits, can_be_bounded, element_errors
from tests.support.planted_run import default_cases
from tests.support.right.operators import VARIANTS

# Their floats are copied or chosen: there is one right answer.
COPYING = {
    "abs",
    "active_rotated_filter_forward",
    "dynamic_scatter_backward",
    "masked_col2im_forward",
    "masked_im2col_forward",
    "moe_dispatch_backward_data",
    "moe_dispatch_forward",
    "psamask_backward",
    "psamask_forward",
    "roipoint_pool3d",
    "tin_shift_backward",
    "tin_shift_forward",
    "voxelization",
}
# Their elements are rounded a few times, not added up: their own tests have their right ways.
ALONE = {"div", "sqrt"}
# Those that add half.
ADDING_HALF = sorted(
    set(VARIANTS) - {"dynamic_point_to_voxel_forward", "ms_deform_attn_forward", "voxel_pooling_forward"}
)


def without_warnings(variants):
    """Infinities and NaN are answers, and sums beyond the largest half become infinite."""
    with np.errstate(all="ignore"):
        yield from variants


def test_every_operator_that_adds_floats_has_variants(operators):
    floats = {
        name
        for name, operator in operators.items()
        if any(can_be_bounded(t) for o in operator.outputs for t in o.dtypes)
    }
    assert floats == {*VARIANTS, *COPYING, *ALONE}


def test_the_operators_that_add_half_are_known(operators):
    assert (
        sorted(name for name in VARIANTS if any(DType.HALF in output.dtypes for output in operators[name].outputs))
        == ADDING_HALF
    )


@dataclass
class VariantErrors:
    """What the variants of an operator came to."""

    # Case, variant, ratio, worst element and number of elements, of those beyond what arithmetic allows.
    refused: list = field(default_factory=list)
    tried: set = field(default_factory=set)
    # Variants that round otherwise than the baseline, or than float does where they compute in half.
    inexact: set = field(default_factory=set)

    def note(self, case, variant, errors, *, is_inexact, is_refused):
        self.tried.add(variant.name)
        self.inexact |= {variant.name} if is_inexact else set()
        if is_refused:
            self.refused.append((case.id, variant.name, errors.ratio, errors.worst, errors.beyond))


def check_in_float(found, operator, case, variant, bound):
    """Every element is within the bound."""
    rows = slice(0, owned_rows(operator.output(variant.output), row_counts(operator, case.outputs, {})))
    tensor = case.tensor(variant.output)
    values = variant.values.astype(tensor.desc.dtype.storage, copy=False)[rows]
    errors = element_errors(values, tensor.values[rows], tensor.desc.dtype, bound.part(rows, tensor.desc.dims))
    found.note(case, variant, errors, is_inexact=errors.ratio > 0, is_refused=errors.ratio > 1)


def check_in_half(found, case, variant, bound):
    """Where a kernel that keeps its sums in half meets the document's criteria, none of its elements is an outlier."""
    tensor, criteria = next(
        pair for pair in zip(case.outputs, case.criteria, strict=True) if pair[0].id == variant.output
    )
    limits = Limits(bound, excused=Precision.HALF)
    kinds = [criterion.kind for criterion in criteria]
    comparison = compare(np.ascontiguousarray(variant.values), tensor.values, DType.HALF, kinds, lambda: limits)
    errors = comparison.elements
    found.tried.add(variant.name)
    if errors is None:
        return
    # A long sum of one sign stands still in half: the document's criteria tell that, too.
    keeps_to_document = all(
        judge(criterion.kind, comparison.readings[criterion.kind], criterion.threshold, comparison)
        for criterion in criteria
    )
    is_refused = bool(errors.beyond) and keeps_to_document
    found.note(case, variant, errors, is_inexact=bool(errors.as_half), is_refused=is_refused)


@pytest.mark.slow(seconds=5)
@pytest.mark.parametrize("name", VARIANTS)
def test_right_variants_stay_within_the_bound(catalogue, operators, name):
    """Those that compute in half where the operator adds half: to make all variants takes most of the time."""
    operator, in_float, in_half = operators[name], VariantErrors(), VariantErrors()
    ids, load = default_cases(catalogue, name)
    for case in map(load, ids):
        call = bind_values(case, operator)
        bounds = bounds_of(operator, call)
        baseline = {tensor.id: tensor.values for tensor in case.outputs}
        for variant in without_warnings(VARIANTS[name](call, baseline)):
            bound = bounds[variant.output]
            if not variant.in_half:
                check_in_float(in_float, operator, case, variant, bound)
            elif name in ADDING_HALF:
                check_in_half(in_half, case, variant, bound)
    assert in_float.refused == []
    # The variants do round differently, so that the bound is asked at all.
    assert len(in_float.inexact) >= 8
    if name in ADDING_HALF:
        assert in_half.refused == []
        assert len(in_half.tried) >= 4
        # Most need the excuse; a sum of three terms has one block, which is rounded once.
        assert len(in_half.inexact) > len(in_half.tried) / 2
