"""The literal definitions of elements against the references: a further implementation of every operator."""

from dataclasses import replace

import numpy as np
import pytest

from mluops_gtest.catalog.selection import Selected, Session
from mluops_gtest.core.operator_parts import EXACT
from tests.conftest import ROOT
from tests.support.operator_calls import disagreements

NAMES = sorted(path.parent.name for path in ROOT.glob("generators/[a-z]*/__init__.py"))
# Elements of one output that are looked at; all of a small one.
PLACES = 12


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("reseed", "step"), [(None, 3), (7, 10)])
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
        looked, found = disagreements(source.load(draft.id), operator, define, PLACES)
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
    operators = session.catalogue.operators
    _, found = disagreements(wrong, operators[name], operators.part(name, EXACT), PLACES)
    assert [one[:2] for one in found] == [(sums.id, (0, 0, 0, 0))]
