"""The order in which wrong implementations are tried."""

from itertools import pairwise

from mluops_gtest.search import mutants as mutant_trials
from mluops_gtest.search.mutants import TrialPlan, trials


def test_one_process_finishes_an_operator_before_the_next(monkeypatch):
    """Only one operator's cases are kept: going to and fro would read them all again for every mutant."""
    monkeypatch.setattr(mutant_trials, "_try", lambda _roots, operator, name, _first_kill: (operator, name))
    names = {"few": ["a", "b"], "many": ["a", "b", "c"], "most": ["a", "b", "c", "d"]}
    tried = list(trials(TrialPlan((), names)))
    assert sorted(tried) == [(operator, name) for operator, these in sorted(names.items()) for name in these]
    operators = [operator for operator, _ in tried]
    assert sum(one != other for one, other in pairwise(operators)) == len(names) - 1
