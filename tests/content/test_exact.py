"""The literal definitions of elements against the references: a further implementation of every operator."""

from dataclasses import replace

import numpy as np
import pytest

from mluops_gtest.catalog.selection import Selected, Session
from mluops_gtest.core.buffers import bind_values, expected_results, owned_rows, row_counts
from mluops_gtest.core.operator_parts import EXACT
from mluops_gtest.judging.arbitration import error, rounded, stored_number
from tests.conftest import ROOT

NAMES = sorted(path.parent.name for path in ROOT.glob("generators/[a-z]*/__init__.py"))
# Elements of one output that are looked at; all of a small one.
PLACES = 12


def disagreements(case, operator, define):
    """How many elements were looked at, and those whose baseline is not the exact value, rounded once."""
    results = expected_results(case, operator)
    elements = define(bind_values(case, operator))
    assert elements.keys() == {spec.id for spec in operator.outputs} | set(operator.results)
    found = [(name, value) for name, value in results.items() if value != elements[name]()]
    looked = len(results)
    counts = row_counts(operator, case.outputs, results)
    for tensor in case.outputs:
        values = tensor.values[: owned_rows(operator.output(tensor.id), counts)]
        for place in places(values.size):
            index = tuple(int(i) for i in np.unravel_index(place, values.shape))
            truth = rounded(elements[tensor.id](*index), tensor.desc.dtype)
            if error(stored_number(values[index], tensor.desc.dtype), truth) != 0:
                found.append((tensor.id, index, values[index], truth))
            looked += 1
    return looked, found


def places(size):
    """The first, the last, and some between them; all where there are few."""
    if size <= PLACES:
        return range(size)
    between = np.random.default_rng(size).choice(size - 2, PLACES - 2, replace=False) + 1
    return sorted({0, *between.tolist(), size - 1})


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("reseed", "step"), [(None, 3), (7, 16)])
def test_baselines_are_the_exact_values_rounded_once(name, reseed, step):
    session = Session()
    operator, define = session.catalogue.operators[name], session.catalogue.operators.part(name, EXACT)
    drafts = [
        draft
        for draft in session.catalogue.drafts_of(name).values()
        if operator.computes(draft.expect.status, draft.expect.check)
        and session.catalogue.stored_path(draft.id).exists()
    ][::step]
    source = session.source(tuple(Selected(d.id, name, d.tags, draft=d) for d in drafts), reseed=reseed)
    whole = 0
    for draft in drafts:
        looked, found = disagreements(source.load(draft.id), operator, define)
        assert not found, draft.id
        whole += looked
    assert whole > 50


def test_a_wrong_baseline_is_told():
    """The comparison above can fail."""
    session = Session()
    name = "voxel_pooling_forward"
    case = session.source((session.select_one(f"{name}/order_of_axes"),)).load(f"{name}/order_of_axes")
    sums, memo = case.outputs
    spoilt = sums.data.copy()
    spoilt[0] = np.nextafter(spoilt[0], np.float32(9))
    wrong = replace(case, outputs=(replace(sums, data=spoilt), memo))
    _, found = disagreements(wrong, session.catalogue.operators[name], session.catalogue.operators.part(name, EXACT))
    assert [one[:2] for one in found] == [(sums.id, (0, 0, 0, 0))]
