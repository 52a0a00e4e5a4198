"""What explanations may take: 16 KiB a case, 50 MB a run; over that the cause stays and its pictures go."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from mluops_gtest.core.explanation import MAX_SAMPLES, MAX_STORED_SAMPLES
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.judging.explaining import explained
from mluops_gtest.judging.value_laws import WrongOutput
from mluops_gtest.running.run import ExplanationSizeLimit


def size(result):
    return len(msgspec.json.encode(result.explained))


def failing(outputs=1):
    baseline = np.random.default_rng(3).normal(size=(40, 50))
    evaluated = baseline.copy()
    evaluated[::3, 7:] *= 1.5
    out = WrongOutput(evaluated, baseline, evaluated != baseline, "tolerance", epsilon=2.0**-52)
    one = explained(out, "out", lambda index: (str(evaluated[index]), str(baseline[index])))
    return CaseResult("op/case", "op", (), Outcome.FAILED, explained=(one,) * outputs)


def test_what_fits_stays_as_it_is():
    result = failing()
    assert size(result) < 16 << 10
    assert ExplanationSizeLimit().apply(result) == result
    assert 0 < len(result.explained[0].samples) <= MAX_SAMPLES <= MAX_STORED_SAMPLES


@pytest.mark.parametrize("limit", [16 << 10, 3000, 1500, 700, 300, 40])
def test_no_case_takes_more_than_its_limit_and_the_cause_goes_last(limit):
    result = failing(outputs=9)
    kept = ExplanationSizeLimit(of_case=limit).apply(result)
    assert size(kept) <= limit
    if kept.explained:
        assert kept.explained[0].best_fit.law == result.explained[0].best_fit.law
        assert kept.explained[0].best_fit.where == result.explained[0].best_fit.where
    if limit == 16 << 10:
        assert len(kept.explained) == 9
        assert not kept.explained[0].samples


def test_a_run_stops_storing_at_its_limit():
    result, limit = failing(), ExplanationSizeLimit(of_run=10_000)
    kept = [limit.apply(replace(result, case=f"op/{number}")) for number in range(100)]
    assert sum(size(one) for one in kept if one.explained) <= 10_000
    assert kept[0].explained == result.explained
    assert kept[-1].explained == ()


def test_a_result_without_explanations_counts_for_nothing():
    skipped = CaseResult("op/case", "op", (), Outcome.SKIPPED)
    assert ExplanationSizeLimit(of_run=0).apply(skipped) is skipped
