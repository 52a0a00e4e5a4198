"""Right implementations of every kind stay within what the operators say arithmetic allows, in every default case."""

from collections import defaultdict

import numpy as np
import pytest

from mluops_gtest.catalog.selection import Selected
from mluops_gtest.catalog.source import StoredCases
from mluops_gtest.core.buffers import bind_values, bounds_of, owned_rows, row_counts
from mluops_gtest.core.tensor import DType, Precision
from mluops_gtest.judging.criteria import compare, judge
from mluops_gtest.judging.elementwise import Limits, can_be_bounded, element_errors
from tests.conftest import ROOT
from tests.support.right.operators import VARIANTS

NOT_DEFAULT = {"network", "race", "heavy", "undefined", "subnormal"}
# Operators that add: at least eight ways of it.
ADDING = set(VARIANTS) - {"dynamic_scatter_backward", "masked_col2im_forward", "masked_im2col_forward"}
# Of these, those that take half.
ADDING_HALF = sorted(ADDING - {"dynamic_point_to_voxel_forward", "voxel_pooling_forward"})


def default_cases(catalogue, operator):
    """The default cases that compute."""
    drafts = [
        draft
        for draft in catalogue.drafts.values()
        if draft.operator == operator.name
        and operator.computes(draft.expect.status, draft.expect.check)
        and not NOT_DEFAULT & set(draft.tags)
    ]
    source = StoredCases(catalogue, tuple(Selected(d.id, d.operator, d.tags, draft=d) for d in drafts))
    return (source.load(draft.id) for draft in drafts)


def without_warnings(variants):
    """Infinities and NaN are answers, and sums beyond the largest half become infinite."""
    with np.errstate(all="ignore"):
        yield from variants


def test_every_operator_that_writes_floats_has_variants(operators):
    floats = {
        name
        for name, operator in operators.items()
        if any(can_be_bounded(t) for o in operator.outputs for t in o.dtypes)
    }
    assert floats == set(VARIANTS) == {path.parent.name for path in ROOT.glob("generators/[a-z]*/__init__.py")} & floats


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_right_variants_stay_within_the_bound(catalogue, operators, name):
    operator = operators[name]
    refused, tried, inexact = [], set(), defaultdict(int)
    for case in default_cases(catalogue, operator):
        call = bind_values(case, operator)
        bounds = bounds_of(operator, call)
        counts = row_counts(operator, case.outputs, {})
        tensors = {tensor.id: tensor for tensor in case.outputs}
        baseline = {tensor.id: tensor.values for tensor in case.outputs}
        for variant in without_warnings(VARIANTS[name](call, baseline)):
            if variant.in_half:
                continue
            rows = slice(0, owned_rows(operator.output(variant.output), counts))
            desc = tensors[variant.output].desc
            values = variant.values.astype(desc.dtype.storage, copy=False)[rows]
            bound = bounds[variant.output].part(rows, desc.dims)
            found = element_errors(values, baseline[variant.output][rows], desc.dtype, bound)
            tried.add(variant.name)
            inexact[variant.name] += found.ratio > 0
            if found.ratio > 1:
                refused.append((case.id, variant.name, found.ratio, found.worst, found.beyond))
    assert refused == []
    assert len(tried) >= (8 if name in ADDING else 3)
    if name in ADDING:
        # The variants do round differently, so that the bound is asked at all.
        assert sum(count > 0 for count in inexact.values()) >= 8


def test_the_operators_that_add_half_are_known(operators):
    assert (
        sorted(name for name in ADDING if any(DType.HALF in output.dtypes for output in operators[name].outputs))
        == ADDING_HALF
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ADDING_HALF)
def test_half_data_may_be_computed_in_half(catalogue, operators, name):
    """Where a kernel that keeps its sums in half meets the document's criteria, none of its elements is an outlier."""
    operator = operators[name]
    outliers, tried, beyond_float = [], set(), set()
    for case in default_cases(catalogue, operator):
        call = bind_values(case, operator)
        bounds = bounds_of(operator, call)
        tensors = {tensor.id: (tensor, criteria) for tensor, criteria in zip(case.outputs, case.criteria, strict=True)}
        baseline = {tensor.id: tensor.values for tensor in case.outputs}
        for variant in without_warnings(VARIANTS[name](call, baseline)):
            if not variant.in_half:
                continue
            tensor, criteria = tensors[variant.output]
            limits = Limits(bounds[variant.output], excused=Precision.HALF)
            kinds = [criterion.kind for criterion in criteria]
            values = np.ascontiguousarray(variant.values)
            comparison = compare(values, tensor.values, DType.HALF, kinds, lambda limits=limits: limits)
            found = comparison.elements
            tried.add(variant.name)
            if found is None:
                continue
            beyond_float |= {variant.name} if found.as_half else set()
            # A long sum of one sign stands still in half: the document's criteria tell that, too.
            keeps_to_document = all(
                judge(criterion.kind, comparison.readings[criterion.kind], criterion.threshold, comparison)
                for criterion in criteria
            )
            if found.beyond and keeps_to_document:
                outliers.append((case.id, variant.name, found.ratio, found.worst, found.beyond))
    assert outliers == []
    assert len(tried) >= 4
    # Most need the excuse; a sum of three terms has one block, which is rounded once.
    assert len(beyond_float) > len(tried) / 2
