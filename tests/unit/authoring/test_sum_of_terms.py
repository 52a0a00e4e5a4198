"""Definitions that add terms: sums, bounds, suspects and mutants against loops in which nothing can be wrong."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.authoring import Status, Theory, call_of
from mluops_gtest.authoring.sum_of_terms import SumOfTerms, define_sums
from mluops_gtest.authoring.wrong_sums import wrong_sum, wrong_sums

BATCHES, VALUES, CHANNELS, SUMS = 2, 5, 3, 4


def terms_of(form, entries=(6, 3), *, wide=False, seed=1, dtype="<f4"):
    """A SumOfTerms that gathers, scatters, or does both and leaves a term out."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-99, 100, (BATCHES, VALUES if form != "scatters" else entries[0], CHANNELS)).astype(dtype)
    factor = rng.integers(-9, 10, (BATCHES, *entries)).astype(dtype)
    if wide:
        values *= 2.0 ** rng.integers(-40, 40, values.shape)
    source = rng.integers(0, VALUES, factor.shape).astype("<i4")
    target = rng.integers(0, SUMS, factor.shape).astype("<i4")
    if form == "gathers":
        return SumOfTerms(values.astype(dtype), source=source, factor=factor)
    if form == "scatters":
        return SumOfTerms(values.astype(dtype), target=target, factor=factor, count=SUMS)
    target[0, 0, 0] = -1
    return SumOfTerms(values.astype(dtype), source=source, target=target, factor=factor, count=SUMS)


def listed(terms):
    """Per (batch, sum) its terms in order, as exact Python floats of each channel."""
    batches, number, each = terms.shape
    found = {}
    for b, n, k in np.ndindex(batches, number, each):
        source = n if terms.source is None else int(terms.source[b, n, k])
        target = n if terms.target is None else int(terms.target[b, n, k])
        factor = 1.0 if terms.factor is None else float(terms.factor[b, n, k])
        if target >= 0:
            found.setdefault((b, target), []).append([float(v) * factor for v in terms.values[b, source]])
    return found


def by_loop(terms, reduce=math.fsum):
    sums = np.zeros((len(terms.values), terms.sums_per_batch, terms.values.shape[2]), terms.values.dtype)
    for place, columns in listed(terms).items():
        sums[place] = [reduce(column) for column in zip(*columns, strict=True)]
    return sums


forms = pytest.mark.parametrize("form", ["gathers", "scatters", "both"])


@forms
@pytest.mark.parametrize("wide", [False, True], ids=["exact in float64", "beyond float64"])
@pytest.mark.parametrize("entries", [(6, 3), (7, 1), (40, 2)])
def test_sums_are_those_of_a_loop(form, wide, entries):
    terms = terms_of(form, entries, wide=wide)
    assert terms.float64_is_exact is not wide
    np.testing.assert_array_equal(terms.sums(), by_loop(terms))


@forms
def test_channels_that_lie_first_change_nothing(form):
    terms = terms_of(form)
    values = np.ascontiguousarray(terms.values.swapaxes(1, 2)).swapaxes(1, 2)
    first = SumOfTerms(values, terms.source, terms.target, terms.factor, terms.count, lambda s: s.swapaxes(1, 2))
    np.testing.assert_array_equal(first.sums(), by_loop(terms).swapaxes(1, 2))
    assert first.sums().flags.c_contiguous
    assert first.bound().magnitude.shape == first.sums().shape


@pytest.mark.parametrize("scale", [1.0, 2.0**60], ids=["exact", "beyond float64"])
def test_rows_without_factors_are_added_alike(scale):
    rng = np.random.default_rng(3)
    values = rng.integers(-1000, 1000, (1, 600, 5)).astype("<f4")
    values[:, ::3] *= scale
    terms = SumOfTerms(values, target=rng.integers(-1, 40, (1, 600, 1)), count=41)
    np.testing.assert_array_equal(terms.sums(), by_loop(terms))
    bound = terms.bound()
    np.testing.assert_allclose(bound.magnitude, by_loop(terms, lambda column: math.fsum(map(abs, column))), rtol=1e-6)
    assert bound.roundings.reshape(-1).tolist() == np.bincount(terms.target[terms.target >= 0], minlength=41).tolist()
    assert not bound.products


@forms
def test_the_bound_is_the_sum_of_magnitudes(form):
    terms = terms_of(form)
    bound = terms.bound()
    np.testing.assert_allclose(bound.magnitude, by_loop(terms, lambda column: math.fsum(map(abs, column))), rtol=1e-6)
    assert bound.products
    assert bound.unit == 1.0
    assert bound.roundings == 3 if form == "gathers" else bound.roundings.sum() == 36 - (form == "both")


def test_a_sum_begins_with_its_first_term_or_with_zero():
    values, named = np.full((1, 2, 1), -0.0, "<f4"), np.zeros((1, 2, 2), int)
    assert np.signbit(SumOfTerms(values, source=named).sums()).all()
    assert not np.signbit(SumOfTerms(values, target=named, count=1).sums()).any()


def test_every_nan_is_the_same_one():
    values = np.ones((1, 3, 2), "<f4")
    values.view("<u4")[0, 1, 0] = 0xFFC12345
    for terms in (
        SumOfTerms(values, source=np.array([[[1, 1]]])),
        SumOfTerms(values, target=np.ones((1, 3, 1), int), count=2),
    ):
        assert terms.sums()[np.isnan(terms.sums())].view("<u4").tolist() == [0x7FC00000]


def test_what_an_entry_does_not_name_spreads_nothing():
    values = np.array([[[1], [np.nan], [3]]], "<f4")
    assert SumOfTerms(values, source=np.array([[[0, 2, 2]]])).sums().tolist() == [[[7]]]


def test_neither_source_nor_target_is_refused():
    with pytest.raises(ValueError, match="neither source nor target"):
        SumOfTerms(np.ones((1, 1, 1), "<f4")).sums()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20))
def test_suspects_are_those_of_a_loop(places):
    values = np.arange(1.0, 2 * len(places) + 1).reshape(1, len(places), 2).astype("<f4")
    terms = SumOfTerms(values, target=np.array(places).reshape(1, -1, 1), count=5)
    found = listed(terms)

    def expected(part):
        sums = np.zeros((1, 5, 2))
        for place, rows in found.items():
            sums[place] = np.sum(rows[part], axis=0)
        return {"out": sums}

    suspects = define_sums("out", lambda _: terms, term="point", place="cell").suspects
    parts = {
        "the last point of every cell wins": slice(-1, None),
        "the first point of every cell is missing": slice(1, None),
        "the last point of every cell is missing": slice(None, -1),
    }
    assert list(suspects) == list(parts)
    for words, part in parts.items():
        np.testing.assert_array_equal(suspects[words](None)["out"], expected(part)["out"])


def call(form="gathers", entries=(6, 3)):
    terms = terms_of(form, entries)
    inputs = {"values": terms.values, "factor": terms.factor}
    out = np.full((BATCHES, terms.sums_per_batch, CHANNELS), np.nan, "<f4")
    return call_of("toy", {}, inputs, {"out": out}), terms


def test_what_an_operator_takes_from_the_definition_points_to_its_own_function():
    made, terms = call()

    def of_author(_):
        return terms

    definition = define_sums("out", of_author)
    assert all(one.__wrapped__ is of_author for one in (definition.reference, definition.bound, definition.theory))
    np.testing.assert_array_equal(definition.reference(made).outputs["out"], terms.sums())
    # 36 products, and two additions for each of 12 sums.
    nbytes = sum(made.tensor(name).desc.nbytes for name in ("values", "factor", "out"))
    assert definition.theory(made) == Theory(nbytes, CHANNELS * (36 + 24))


_ANY = ("half_sums", "lost_between_threads")


@forms
def test_mutants_differ_from_the_sums_and_without_a_mistake_they_do_not(form):
    # Several tiles of terms.
    made, terms = call(form, (25, 5))
    right = wrong_sum("", "", "out", lambda _: terms)
    assert right.run(made) is Status.SUCCESS
    np.testing.assert_array_equal(made.array("out"), terms.sums())
    others = {"nan_skipped", "infinite_clamped", "zero_times_inf", "inf_times_zero"}
    # Whether these two differ depends on the numbers.
    for mutant in (one for one in wrong_sums("out", lambda _: terms) if one.name not in _ANY):
        mutant.run(made)
        assert np.array_equal(made.array("out"), terms.sums()) == (mutant.name in others), mutant.name


def test_mutants_of_special_values_differ_where_these_are():
    values = np.array([[[np.nan, np.inf, 0.0]]], "<f4")
    terms = SumOfTerms(values, source=np.zeros((1, 2, 1), int), factor=np.array([[[0.0], [np.inf]]], "<f4"))
    made = call_of("toy", {}, {"values": values}, {"out": np.zeros((1, 2, 3), "<f4")})
    mutants = {one.name: one for one in wrong_sums("out", lambda _: terms)}
    expected = {
        "nan_skipped": [[0, 0, 0], [0, np.inf, 0]],
        "zero_times_inf": [[0, 0, 0], [np.nan, np.inf, np.nan]],
        "inf_times_zero": [[np.nan, np.nan, 0], [np.nan, np.inf, 0]],
        "infinite_clamped": [[np.nan, np.nan, 0], [np.nan, np.finfo("<f4").max, np.nan]],
    }
    for name, rows in expected.items():
        mutants[name].run(made)
        np.testing.assert_array_equal(made.array("out")[0], np.array(rows, "<f4"))


def test_columns_are_the_terms_of_every_sum():
    terms = terms_of("both", (9, 2))
    columns = terms.columns(10**6)
    assert len(columns) == max(map(len, listed(terms).values()))
    expected = sorted(math.fsum(column) for rows in listed(terms).values() for column in zip(*rows, strict=True))
    assert sorted(columns.sum(axis=0).tolist()) == expected
    # Fewer channels first, then fewer sums.
    assert terms.columns(len(columns)).shape[1] < terms.columns(columns.size // 2).shape[1] < columns.shape[1]


def test_two_threads_overwrite_what_both_have_added():
    terms = SumOfTerms(np.ones((1, 4, 1), "<f4"), target=np.array([[[0], [1], [1], [2]]]), count=3)
    made = call_of("toy", {}, {"values": terms.values}, {"out": np.zeros((1, 3, 1), "<f4")})
    mutants = {one.name: one for one in wrong_sums("out", lambda _: terms)}
    mutants["lost_between_threads"].run(made)
    assert made.array("out").ravel().tolist() == [1, 1, 1]
