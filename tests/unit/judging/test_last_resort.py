"""Where neither a law nor an exact set is found: how many, from where to where, and what all of them have in common.

Whatever an output holds, it is explained without a fault, and files keep the explanation.
"""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.base.errors import ContentError
from mluops_gtest.base.typed_files import Source
from mluops_gtest.core.explanation import MAX_SAMPLES, MAX_STORED_SAMPLES, Explanation, Law, RoundedInputs, RoundedTo
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.readings import format_explanation
from mluops_gtest.core.result import CaseResult
from mluops_gtest.judging.explaining import explained, scalar_explained
from mluops_gtest.judging.value_laws import WrongOutput
from mluops_gtest.judging.where import indices_of
from mluops_gtest.results.records import check_explanation
from mluops_gtest.running.run import ExplanationSizeLimit
from tests.support.examples import examples

SEEDS = st.integers(0, 2**32 - 1)


def explain(wrong, seed=0, baseline=None):
    """Integers of no law at the wrong places."""
    rng = np.random.default_rng(seed)
    baseline = rng.integers(-1000, 1000, wrong.shape) if baseline is None else baseline
    other = rng.integers(-1000, 1000, wrong.shape)
    evaluated = np.where(wrong, np.where(other == baseline, 7777, other), baseline).astype("i4")
    out = WrongOutput(evaluated, baseline.astype("i4"), wrong, "equality")
    return explained(out, "out", lambda index: (str(evaluated[index]), str(baseline[index])))


def check_stored(found):
    """A file keeps it."""
    again = msgspec.json.decode(msgspec.json.encode(found), type=Explanation)
    assert again == found
    check_explanation(again, Source("report.json", ""), 0)


def some(shape, places, share=0.5, seed=1):
    """A mask of some of the elements at the places."""
    wrong = np.zeros(shape, bool)
    wrong[places] = np.random.default_rng(seed).random(wrong[places].shape) < share
    return wrong


def ends(wrong):
    first, *_, last = np.argwhere(wrong).tolist()
    return f", from out{first} to out{last}"


REGULAR = [
    ((8, 40), np.s_[3], "out[3]", 40),
    ((8, 2048), np.s_[:, 1024:], "out[:, {first}:{stop}]", None),
    ((6, 1024), np.s_[:, ::64], "out[:, ::64]", 96),
    ((9, 600), np.s_[:, 7::50], "out[:, 7::50]", 108),
    ((100, 30), np.s_[[3, 17, 40, 41]], "out[[3, 17, 40, 41]]", 120),
]


@pytest.mark.parametrize(("shape", "places", "words", "inside"), REGULAR)
def test_what_all_wrong_elements_have_in_common_is_told(shape, places, words, inside):
    wrong = some(shape, places)
    found = explain(wrong)
    along = np.flatnonzero(wrong.any(axis=0))
    words = words.format(first=along[0], stop=along[-1] + 1 if along[-1] + 1 < shape[-1] else "")
    inside = inside or shape[0] * (along[-1] + 1 - along[0])
    assert format_explanation(found) == f"{wrong.sum()} of the {inside} elements of {words} are wrong{ends(wrong)}"
    assert format_explanation(found, "zh") == (
        f"{words} 的 {inside} 个元素中有 {wrong.sum()} 个有误，"
        f"从 out{np.argwhere(wrong)[0].tolist()} 到 out{np.argwhere(wrong)[-1].tolist()}"
    )


def test_blocks_of_a_tile_are_told():
    wrong = np.zeros((4, 1024), bool)
    rng = np.random.default_rng(2)
    for start in range(0, 1024, 64):
        wrong[:, start + 48 : start + 64] = rng.random((4, 16)) < 0.3
    found = explain(wrong)
    assert (
        format_explanation(found)
        == f"{wrong.sum()} of the 1024 elements of out[:, 48:64 + k * 64] are wrong{ends(wrong)}"
    )


def test_a_period_in_memory_is_told():
    wrong = np.zeros((30, 50), bool)
    wrong.reshape(-1)[5::77] = np.random.default_rng(2).random(20) < 0.8
    found = explain(wrong)
    first, last = np.flatnonzero(wrong)[[0, -1]]
    stop = "" if last + 77 >= wrong.size else last + 1
    assert f"elements of out.flat[{first}:{stop}:77] are wrong" in format_explanation(found)


def test_a_common_right_value_is_told():
    rng = np.random.default_rng(5)
    baseline = rng.integers(-1000, 1000, (40, 50))
    wrong = (baseline < 0) & (rng.random(baseline.shape) < 0.1)
    found = explain(wrong, baseline=baseline)
    number = np.count_nonzero(baseline < 0)
    assert format_explanation(found) == (
        f"{wrong.sum()} of the {number} elements of out where negative values belong are wrong{ends(wrong)}"
    )


def test_scattered_elements_have_a_number_and_two_ends():
    wrong = np.random.default_rng(3).random((50, 50)) < 0.02
    assert format_explanation(explain(wrong)) == f"{wrong.sum()} scattered elements of out are wrong{ends(wrong)}"


@given(SEEDS, st.sampled_from([(60,), (9, 40), (3, 4, 30)]), st.sampled_from([0.03, 0.2, 0.6]), st.data())
def test_a_regularity_is_true_of_every_wrong_element(seed, shape, share, data):
    rng = np.random.default_rng(seed)
    wrong = np.zeros(shape, bool)
    step, start = data.draw(st.sampled_from([1, 1, 2, 3, 8])), data.draw(st.integers(0, 7))
    wrong[..., start::step] = rng.random(wrong[..., start::step].shape) < share
    if not wrong.any():
        return
    found = explain(wrong, seed)
    assert (found.first, found.last) == (tuple(np.argwhere(wrong)[0]), tuple(np.argwhere(wrong)[-1]))
    for index, hull in enumerate(found.hull):
        along = np.flatnonzero(wrong.any(axis=tuple(axis for axis in range(wrong.ndim) if axis != index)))
        assert set(along.tolist()) <= set(indices_of(hull).tolist())
    for one in found.fitted:
        if one.where.axes and not one.where.outside:
            mask = np.ones((), bool)
            for axis in one.where.axes:
                mask = mask[..., None] & np.isin(np.arange(axis.length), indices_of(axis))
            assert not (wrong & ~mask.reshape(shape)).any()
            assert mask.sum() == one.inside
    check_stored(found)


@pytest.mark.parametrize(("first", "last"), [((0, 1), ()), ((3, 0), (2, 0)), ((0, 0), (8, 0)), ((0,), (1,))])
def test_ends_that_cannot_be_are_refused(first, last):
    found = explain(some((8, 40), np.s_[3]))
    broken = msgspec.structs.replace(found, first=first, last=last)
    with pytest.raises(ContentError, match=r"explained\[0\]\.first: it and \.last must be elements of \[8, 40\]"):
        check_explanation(broken, Source("report.json", ""), 0)


def test_old_files_have_no_ends_and_are_worded_without():
    found = explain(np.random.default_rng(3).random((50, 50)) < 0.02)
    old = msgspec.structs.replace(found, first=(), last=())
    check_explanation(old, Source("report.json", ""), 0)
    assert format_explanation(old).endswith("scattered elements of out are wrong")


@pytest.mark.parametrize(
    ("stored", "law"),
    [
        (b'{"law":"rounded_to","precision":"half","once":true}', RoundedTo("half")),
        (b'{"law":"rounded_inputs","precision":"bfloat16"}', RoundedInputs("bfloat16")),
    ],
)
def test_laws_of_old_files_are_those_of_rounding(stored, law):
    assert msgspec.json.decode(stored, type=Law) == law


def test_a_wrong_scalar_is_told_with_both_numbers():
    found = scalar_explained("num_act_out", 25, 27)
    assert format_explanation(found) == "num_act_out is 25 instead of 27"
    assert format_explanation(found, "zh") == "num_act_out 为 25，应为 27"


EPSILON = {"f2": 2.0**-10, "f4": 2.0**-23, "f8": 2.0**-52}
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, 1e-40, 6e4)


def values(rng, shape, dtype):
    numbers = rng.integers(-4, 5, shape) * 10.0 ** rng.integers(-3, 4)
    if dtype.kind in "fc":
        numbers[rng.random(shape) < 0.1] = rng.choice(SPECIAL)
        return numbers.astype(dtype)
    return numbers.astype("i8").astype(dtype)


@pytest.mark.parametrize("name", ["f2", "f4", "f8", "i2", "i4", "i8", "u1", "u4", "?", "c8"])
def test_every_type_is_explained(name):
    rng, dtype = np.random.default_rng(7), np.dtype(name)
    tried = 0
    while tried < examples(100):
        shape = tuple(rng.integers(1, 7, size=rng.integers(1, 5)))
        changed = rng.random(shape) < rng.choice([0.05, 0.3, 1.0])
        with np.errstate(all="ignore"):
            baseline = values(rng, shape, dtype)
            other = np.roll(baseline, 1) if rng.random() < 0.3 else values(rng, shape, dtype)
            evaluated = np.where(changed, other, baseline)
            wrong = (evaluated != baseline) & ~(np.isnan(evaluated) & np.isnan(baseline))
        if not wrong.any():
            continue
        out = WrongOutput(evaluated, baseline, wrong, "equality", epsilon=EPSILON.get(name, 0.0))
        found = explained(out, "out", lambda index, e=evaluated, b=baseline: (str(e[index]), str(b[index])))
        assert all(format_explanation(found, lang) for lang in ("en", "zh"))
        check_stored(found)
        tried += 1


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
