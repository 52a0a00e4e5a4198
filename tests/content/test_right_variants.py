"""Right implementations of every kind stay within what the operators say arithmetic allows, in every default case."""

from collections import defaultdict

import numpy as np
import pytest

from mluops_gtest.content.selection import Selected
from mluops_gtest.criteria.elementwise import can_be_bounded, element_errors
from mluops_gtest.generate.source import StoredCases
from mluops_gtest.model.binding import bind_values
from mluops_gtest.model.bounds import bounds_of
from mluops_gtest.model.degenerate import owned_rows, row_counts
from tests.conftest import ROOT
from tests.support.right.operators import VARIANTS

NOT_DEFAULT = {"network", "race", "heavy", "undefined"}
# Operators that add: at least eight ways of it.
ADDING = set(VARIANTS) - {"dynamic_scatter_backward", "masked_col2im_forward", "masked_im2col_forward"}


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
    assert floats == set(VARIANTS) == {path.parent.name for path in ROOT.glob("generators/*/__init__.py")} & floats


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
