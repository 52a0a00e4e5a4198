"""The id of a cause, and of which results it holds: those that name its law and place, and no others."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mluops_gtest.core.explanation import ScaledBy, TurnedZero
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.readings import AxisReading, WhereReading
from mluops_gtest.core.result import CaseInfo, CaseResult, TensorInfo
from mluops_gtest.judging.explaining import explained
from mluops_gtest.judging.groups import PlacedLaw, cause_groups, mark, read_marks
from mluops_gtest.judging.value_laws import WrongOutput

LAST = WhereReading((AxisReading("last", (2,)),))


def failure(name, evaluated, baseline, operator="op"):
    """The result of a case with one wrong output."""
    out = WrongOutput(evaluated, baseline, evaluated != baseline, "equality", epsilon=2.0**-52)
    one = explained(out, "y", lambda index: (str(evaluated[index]), str(baseline[index])))
    info = CaseInfo(outputs=(TensorInfo("y", "float", "ARRAY", baseline.shape),))
    mine = f"v1:{name}"
    return CaseResult(f"{operator}/{name}", operator, (), Outcome.FAILED, explained=(one,), info=info, fingerprint=mine)


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


@given(failures())
def test_a_result_that_names_the_place_in_its_own_words_needs_no_other(results):
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
    assert not law.holds_of(failure("d", np.where(np.arange(8) < 6, right, 0), right, "other")), "another operator"
    for outcome in (Outcome.MEMORY, Outcome.CRASHED, Outcome.FLAKY, Outcome.ERROR):
        assert not law.holds_of(replace(tail, outcome=outcome))


def test_what_else_is_wrong_does_not_matter():
    right = np.arange(1.0, 9)
    tail = failure("a", np.where(np.arange(8) < 6, right, 0), right)
    (elsewhere,) = failure("b", right + np.arange(8) ** 2, right).explained
    both = replace(tail, explained=(replace(elsewhere, output="z"), *tail.explained))
    assert PlacedLaw("op", "y", TurnedZero(), LAST).holds_of(both)
