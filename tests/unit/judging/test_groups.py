"""Failures by their causes: what is told over cases is true of all of them, and shown by one of which it is.

The id of a cause holds of those results that name its law and place, and of no others.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mluops_gtest.core.call import Status
from mluops_gtest.core.cause import LegacyReason
from mluops_gtest.core.explanation import AsIf, Explanation, Fitted, ScaledBy, TurnedZero, Where
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.readings import AxisReading, WhereReading, format_headline, format_support
from mluops_gtest.core.result import CaseInfo, CaseResult, Reading, TensorInfo
from mluops_gtest.judging.explaining import explained, scalar_explained
from mluops_gtest.judging.groups import PlacedLaw, cause_groups, mark, read_marks
from mluops_gtest.judging.value_laws import WrongOutput

SHAPES = {"op": {"x": "[L]"}}


def case(name, *found, length=8, outcome=None, **params):
    """A result with these wrong outputs; without any it passed."""
    outcome = outcome or (Outcome.FAILED if found else Outcome.PASSED)
    tensors = (TensorInfo("x", "float", "ARRAY", (length,)),)
    info = CaseInfo(inputs=tensors, outputs=(TensorInfo("y", "float", "ARRAY", (length, 3)),), params=params)
    readings = () if found else tuple(Reading(output, "diff1", 0.0, 0.0, True) for output in ("y", "z", "n"))
    answered = (Status.SUCCESS, Status.SUCCESS, readings)
    return CaseResult(f"op/{name}", "op", (), outcome, *answered, explained=found, info=info, compared=True)


def wrong(output, evaluated, baseline):
    """What is said of an output."""
    out = WrongOutput(evaluated, baseline, evaluated != baseline, "equality", epsilon=2.0**-52)
    return explained(out, output, lambda index: (str(evaluated[index]), str(baseline[index])))


def row_zero(output="y", row=0, rows=6, seed=0):
    baseline = np.random.default_rng(seed).uniform(1, 2, (rows, 5))
    evaluated = baseline.copy()
    evaluated[row] = 0
    return wrong(output, evaluated, baseline)


def last_nan():
    baseline = np.random.default_rng(0).uniform(1, 2, (3, 4, 5))
    evaluated = baseline.copy()
    evaluated[..., -1] = np.nan
    return wrong("y", evaluated, baseline)


def scattered(output="y", seed=0, size=40):
    """Values that nothing explains, at places that nothing describes."""
    random = np.random.default_rng(seed)
    baseline = random.uniform(1, 2, (size, 3))
    evaluated = np.where(random.random(baseline.shape) < 0.4, random.uniform(-9, 9, baseline.shape), baseline)
    return wrong(output, evaluated, baseline)


def groups(*results):
    return cause_groups([one for one in results if one.outcome.blocks], results, SHAPES)


def headlines_of(*results):
    heads = [group.headline for group in groups(*results) if group.headline is not None]
    return {format_headline(head): format_support(head) for head in heads}


LONG = [case(f"long_{n}", row_zero(), length=n) for n in (1025, 1026, 1500, 2000, 2049, 4096)]
SHORT = [case(f"short_{n}", length=n) for n in range(1, 66)]


def test_a_group_alone_says_when_it_passes():
    assert headlines_of(*LONG, *SHORT) == {
        "op: y[0] is zero, when L ≥ 1025 (6 of 6)": (
            "fails when L ≥ 1025 (6 of 6), passes when L ≤ 65 (65); nothing between was run",
        )
    }


def test_failures_of_other_groups_are_counted_and_nothing_passes_where_they_are():
    others = [case(f"other_{n}", last_nan(), length=n) for n in (12000, 65, 3, 40)]
    assert headlines_of(*LONG, *SHORT, *others) == {
        "op: y[0] is zero, when L ≥ 1025 (7 of 7)": (
            "fails when L ≥ 1025 (7 of 7); of the others 65 pass and 3 fail in other ways",
        ),
        "op: y[:, :, 4] is NaN": (),
    }


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.XFAILED, Outcome.MEMORY])
def test_failures_without_an_explanation_are_counted_as_well(outcome):
    words = headlines_of(*LONG, *SHORT, case("crash", length=30, outcome=outcome))
    (support,) = words["op: y[0] is zero, when L ≥ 1025 (6 of 6)"]
    assert support.endswith("of the others 65 pass and 1 fail in other ways")


def test_a_failure_among_those_that_keep_the_rule_leaves_the_rest_as_it_was():
    (support,) = headlines_of(*LONG, *SHORT, case("crash", length=3000, outcome=Outcome.CRASHED)).get(
        "op: y[0] is zero, when L ≥ 1025 (7 of 7)"
    )
    assert support == "fails when L ≥ 1025 (7 of 7), passes when L ≤ 65 (65); nothing between was run"


def test_a_mode_is_a_condition_and_one_value_of_many_is_none():
    """All cases of one family fail, which has one radius: so has each of the others."""
    failing = [case(f"f_{n}", row_zero(), length=8 + n, mode=1, radius=1.75) for n in range(9)]
    passing = [case(f"p_{n}", length=8 + n % 20, mode=n % 2 * 2, radius=0.25 + n / 8) for n in range(60) if n != 12]
    assert list(headlines_of(*failing, *passing)) == ["op: y[0] is zero, when mode = 1 (9 of 9)"]
    alike = [replace(one, info=replace(one.info, params={**one.info.params, "mode": 1})) for one in passing]
    assert headlines_of(*failing, *alike) == {"op: y[0] is zero": ()}


def test_cases_that_are_declared_alike_are_one_observation():
    """Twelve cases of one shape and two of another fail: that their radius is large shows in two shapes alone."""
    failing = [case(f"f_{n}", row_zero(), length=9 + n % 2, radius=2.5 + n % 2) for n in range(14)]
    passing = [case(f"p_{n}", length=8 + n % 3, radius=0.5 + n % 3 / 8) for n in range(60)]
    assert headlines_of(*failing, *passing) == {"op: y[0] is zero": ()}


def zero_along(axes):
    """Exact where a row is cleared, twice in different words."""
    return Explanation("y", axes, 1, "equality", (Fitted(TurnedZero(), Where(), lawful=1, sure=True),))


def test_what_says_the_same_is_one_group():
    """Places tell three kinds of rows apart; the rest has the law and no place, whether it comes first or last."""
    results = [case(f"a_{n}", row_zero(row=0, seed=n)) for n in range(8)]
    results += [case(f"b_{n}", row_zero(row=-1, seed=n)) for n in range(8)]
    results += [case(f"c_{n}", zero_along((n + 2,))) for n in range(20)]
    heads = [(g.headline.output, g.headline.law, g.headline.where) for g in groups(*results)]
    assert len(heads) == len(set(heads))


@pytest.mark.parametrize("number", [1, 2, 5])
def test_cases_that_tell_nothing_are_not_counted_under_a_cause(number):
    """They may be wrong for another reason, also where the cause spoils the same output."""
    lawful = [case(f"a_{n}", row_zero(seed=n), scattered("z", n)) for n in range(9)]
    for output in "yz":
        vague = [case(f"b_{n}", scattered(output, n)) for n in range(number)]
        first, second = groups(*lawful, *vague)
        assert format_headline(first.headline) == "op: y[0] is zero; z is wrong, too"
        assert [one.case for one in first.members] == [one.case for one in lawful]
        assert [one.case for one in second.members] == [one.case for one in vague]


def test_the_law_at_another_place_is_another_cause():
    first = [case(f"a_{n}", row_zero(seed=n)) for n in range(20)]
    (other,) = groups(*first, case("b", row_zero(row=3)))[1:]
    assert format_headline(other.headline) == "op: y[3] is zero"


def test_an_example_shows_what_the_headline_says():
    """The smallest case is the one of four of which it does not hold."""
    small = case("small", scattered(seed=1), length=1)
    holding = [case(f"case_{n}", row_zero(seed=n), length=10 + n) for n in range(3)]
    group, other = groups(small, *holding)
    assert format_headline(group.headline) == "op: y[0] is zero"
    assert group.examples == tuple(holding)
    assert other.examples == (small,)


def test_an_example_tells_the_law_itself_where_one_does():
    """One element that is halved may be halved by chance."""

    def halved(count):
        baseline = np.array([3.0, 5.0, 7.0, 11.0, 13.0, 17.0])[:count]
        return wrong("y", baseline / 2, baseline)

    small, *large = case("a", halved(1), length=4), *(case(f"b_{n}", halved(6), length=9) for n in "123")
    (group,) = groups(small, *large)
    assert format_headline(group.headline) == "op: all of y is scaled by 0.5"
    assert group.examples == (*large, small)


def test_a_wrong_number_comes_before_what_follows_from_it():
    """Many elements are wrong where one count is, and their law says more."""
    results = [case(f"a_{n}", row_zero(seed=n), scalar_explained("n", 7 - n, 9 + n)) for n in range(1, 7)]
    (group,) = groups(*results)
    assert format_headline(group.headline) == "op: n is too small; y is wrong, too"


def test_a_number_that_is_off_by_one_amount_says_so():
    results = [case(f"a_{n}", row_zero(seed=n), scalar_explained("n", 7 + n, 9 + n)) for n in range(6)]
    assert list(headlines_of(*results)) == ["op: n is 2 too small; y is wrong, too"]


def test_a_mistake_with_a_name_comes_before_the_number():
    named = Explanation("y", (4,), 4, "equality", (Fitted(AsIf("pad is ignored"), Where(), lawful=4, sure=True),))
    results = [case(f"a_{n}", named, scalar_explained("n", n, 2 * n)) for n in range(1, 5)]
    assert list(headlines_of(*results)) == ["op: all of y is as if pad is ignored; n is wrong, too"]


def test_wrong_elements_that_fill_whole_lines_are_told_so():
    def lines(seed, tail):
        random = np.random.default_rng(seed)
        baseline = random.uniform(1, 2, (20, 6))
        starts = np.where(random.random(20) < 0.5, random.integers(1, 6, 20) if tail else 0, 6)
        return wrong("y", np.where(np.arange(6) < starts[:, None], baseline, random.uniform(-9, 9, (20, 6))), baseline)

    whole = [case(f"a_{seed}", lines(seed, False)) for seed in range(4)]
    tails = [case(f"b_{seed}", lines(seed, True)) for seed in range(4)]
    assert list(headlines_of(*whole)) == ["op: whole lines of y along axis 1 are wrong"]
    assert list(headlines_of(*tails)) == ["op: the ends of lines of y along axis 1 are wrong"]
    assert list(headlines_of(*whole, *(case(f"c_{seed}", scattered(seed=seed)) for seed in range(2)))) != list(
        headlines_of(*whole)
    )


def test_a_number_is_told_wrong_of_those_cases_alone_in_which_it_is():
    """What follows from a mistake may be wrong where the number is not."""
    results = [case(f"a_{n}", scalar_explained("n", n, 7), scattered("z", n)) for n in (4, 5, 9, 11, 14, 18)]
    results += [case(f"b_{n}", scattered("z", n)) for n in range(3)]
    number, other = headlines_of(*results)
    assert number == "op: n is wrong; z is wrong, too"
    assert other.startswith("op: elements of z")


def test_one_element_is_named_by_its_place_in_memory():
    """A tile of 64 elements ends there, whatever the shape."""

    def wrong_at_64(factor, *shape):
        baseline = np.random.default_rng(len(shape)).uniform(1, 2, shape)
        evaluated = baseline.copy()
        evaluated.reshape(-1)[64] *= factor
        return wrong("y", evaluated, baseline)

    results = [
        case("a", wrong_at_64(np.pi, 10, 7)),
        case("b", wrong_at_64(-1 / np.pi, 9, 15)),
        case("c", wrong_at_64(1 / np.e, 70, 2)),
    ]
    assert list(headlines_of(*results)) == ["op: element 64 of y (flat) is wrong"]


def test_failures_without_an_explanation_are_grouped_by_fingerprint_else_by_their_causes():
    def crash(name, fingerprint="", text="no", length=8):
        failed = case(name, outcome=Outcome.CRASHED, length=length)
        return replace(failed, fingerprint=fingerprint, causes=(LegacyReason(text),))

    marked = [crash("big", "v1:a", length=100), crash("small", "v1:a", length=3), crash("z", "v1:b")]
    found = groups(*marked, crash("c"), crash("d"), crash("e", text="other"))
    members = [[one.case.removeprefix("op/") for one in group.members] for group in found]
    assert members == [["c", "d"], ["small", "big"], ["e"], ["z"]]


LAST = WhereReading((AxisReading("last", (2,)),))


def failure(name, evaluated, baseline, **fields):
    """The result of a case with one wrong output."""
    info = CaseInfo(outputs=(TensorInfo("y", "float", "ARRAY", baseline.shape),))
    return replace(case(name, wrong("y", evaluated, baseline)), info=info, fingerprint=f"v1:{name}", **fields)


def test_an_id_stays_the_same():
    """Committed waivers name it: sha256 of the JSON of operator, output, law and place."""
    assert mark("op", "y", TurnedZero(), LAST) == "v3:5cd66c13a9b3"
    assert mark("op", "y", ScaledBy(0.5), LAST) == mark("op", "y", ScaledBy(0.5), LAST)
    others = {
        mark("other", "y", TurnedZero(), LAST),
        mark("op", "z", TurnedZero(), LAST),
        mark("op", "y", ScaledBy(0.5), LAST),
        mark("op", "y", TurnedZero(), WhereReading((AxisReading("last", (3,)),))),
        mark("op", "y", TurnedZero(), None),
    }
    assert (len(others), "v3:5cd66c13a9b3" in others) == (5, False)


@st.composite
def failures(draw):
    """Cases of several sizes in which a set is cleared, scaled, or spoiled without a law, some right by accident."""
    results = []
    for number in range(draw(st.integers(1, 8))):
        rows, columns = draw(st.integers(1, 12)), draw(st.integers(1, 12))
        rng = np.random.default_rng(draw(st.integers(0, 999)))
        right = rng.uniform(1, 2, (rows, columns)) * (rng.random((rows, columns)) > draw(st.sampled_from([0, 0.4])))
        wrong = right.copy()
        start = draw(st.sampled_from([0, 1, rows - 1, rows - 2]))
        place = (slice(max(start, 0), None), slice(draw(st.sampled_from([0, 1, columns - 1])), None))
        match draw(st.sampled_from(["zero", "half", "noise"])):
            case "zero":
                wrong[place] = 0
            case "half":
                wrong[place] *= 0.5
            case _:
                wrong[place] += rng.uniform(0.1, 3, wrong[place].shape)
        if (wrong != right).any():
            results.append(failure(str(number), wrong, right))
    return results


@given(failures())
def test_the_id_of_a_group_holds_of_cases_that_show_it_in_their_own_words(results):
    for group in cause_groups(results, results, {}):
        law = group.placed_law
        if law is None:
            continue
        assert group.headline.cases == len(group.members)
        # Some case names the place in its own words; the hash is read back from each of these, whatever else failed.
        held = [result for result in group.members if law.holds_of(result)]
        assert held
        for result in held:
            assert read_marks({group.mark}, [result]) == {group.mark: law}
    # Who names the place in its own words needs no other.
    for result in results:
        for group in cause_groups([result], [result], {}):
            if group.placed_law is not None:
                assert read_marks({group.mark}, [result])[group.mark].holds_of(result)


def test_only_a_failure_of_the_operator_with_the_law_at_the_place_has_the_cause():
    right = np.arange(1.0, 9)
    tail = failure("a", np.where(np.arange(8) < 6, right, 0), right)
    law = PlacedLaw("op", "y", TurnedZero(), LAST)
    assert law.holds_of(tail)
    assert not law.holds_of(failure("b", np.where(np.arange(8) < 5, right, 0), right)), "another place"
    assert not law.holds_of(failure("c", np.where(np.arange(8) < 6, right, right / 2), right)), "another law"
    assert not law.holds_of(failure("d", np.where(np.arange(8) < 6, right, 0), right, operator="other")), (
        "another operator"
    )
    for outcome in (Outcome.MEMORY, Outcome.CRASHED, Outcome.FLAKY, Outcome.ERROR):
        assert not law.holds_of(replace(tail, outcome=outcome))


def test_what_else_is_wrong_does_not_matter():
    right = np.arange(1.0, 9)
    tail = failure("a", np.where(np.arange(8) < 6, right, 0), right)
    (elsewhere,) = failure("b", right + np.arange(8) ** 2, right).explained
    both = replace(tail, explained=(replace(elsewhere, output="z"), *tail.explained))
    assert PlacedLaw("op", "y", TurnedZero(), LAST).holds_of(both)
