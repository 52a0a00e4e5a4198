"""For the tests of both interpolations: half arithmetic on all half cases, and a criterion."""

from collections.abc import Callable, Iterable

import numpy as np

from mluops_gtest.authoring import Array, Draw, OpCall, Operator, Status
from mluops_gtest.catalog.make import make_case
from mluops_gtest.core.case import CaseDraft, Reseed
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.search.audit_declarations import judged

# Cases with one of these tags do not run of their own accord.
ON_REQUEST = {"network", "race", "heavy", "undefined", "subnormal"}


def assert_all_half_cases_pass(
    operator: Operator, drafts: Iterable[CaseDraft], seed: int | None, kernels: Iterable[Callable[[OpCall], Status]]
) -> None:
    """Every half case that computes and runs of its own accord passes with each of the kernels."""
    chosen = [one for one in drafts if one.dtype == "half" and ON_REQUEST.isdisjoint(one.tags) and not one.expect.check]
    assert len(chosen) > 60
    runs = tuple(kernels)
    for draft in chosen:
        case = make_case(draft, operator, Draw(draft.seed, None if seed is None else Reseed(seed)))
        for run in runs:
            assert judged("half", run, case, operator).outcome is Outcome.PASSED, draft.id


def diff2(evaluated: Array, baseline: Array) -> float:
    """The criterion of that name."""
    return float(np.sqrt(np.square(evaluated - baseline).sum() / np.square(baseline).sum()))
