"""How wrong values relate to the right ones: a law that is told holds, and planted ones are found."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.core import explanation as x
from mluops_gtest.core.readings import format_explanation
from mluops_gtest.judging.explaining import explained
from mluops_gtest.judging.value_laws import WrongOutput, narrowed


def output(evaluated, baseline, *, epsilon=2.0**-23, **others):
    """The output with every unequal element wrong."""
    evaluated, baseline = np.asarray(evaluated), np.asarray(baseline)
    wrong = ~np.isclose(evaluated, baseline, 0, 0, equal_nan=True)
    return WrongOutput(
        evaluated, baseline, wrong, "tolerance", epsilon=epsilon if baseline.dtype.kind == "f" else 0.0, **others
    )


def explain(evaluated, baseline, **others):
    return explained(output(evaluated, baseline, **others), "out", lambda index: (str(index), ""))


def values(shape=(9, 11), seed=1):
    return np.random.default_rng(seed).normal(0, 3, shape).astype(np.float32)


def changed(made, places=np.s_[...]):
    """Right values, and a copy in which `made` has changed those at the places."""
    baseline = values()
    evaluated = baseline.copy()
    evaluated[places] = made(baseline)[places]
    return evaluated, baseline


FOUND = [
    (np.zeros_like, x.TurnedZero()),
    (lambda b: np.full_like(b, np.nan), x.TurnedNan()),
    (lambda b: np.full_like(b, np.inf), x.TurnedInfinite()),
    (lambda b: np.full_like(b, 7), x.TurnedConstant("7.0")),
    (np.negative, x.Negated()),
    (lambda b: b * np.float32(1.01), x.ScaledBy(1.01)),
    (lambda b: b / np.float32(3), x.ScaledBy(1 / 3)),
    (lambda b: b + np.float32(0.5), x.OffBy(0.5)),
    (lambda b: np.clip(b, -2, 2), x.SaturatedAt("2.0")),
    (lambda b: narrowed(b, "bfloat16"), x.RoundedTo("bfloat16")),
    (lambda b: narrowed(b, "half"), x.RoundedTo("half or tf32")),
    (lambda b: np.flip(b, 0), x.ReversedAlong(0)),
    (lambda b: np.broadcast_to(b[:1], b.shape), x.RepeatedAlong(0, 0)),
    (lambda b: b.transpose().reshape(b.shape), x.LaidOut((1, 0))),
    (lambda b: np.concatenate([b[1:], b[-1:]]), x.ShiftedAlongAxes((1, 0))),
    (lambda b: np.concatenate([b[:, :1], b[:, :-1]], 1), x.ShiftedAlongAxes((0, -1))),
    (lambda b: np.concatenate([b.reshape(-1)[2:], b.reshape(-1)[-2:]]).reshape(b.shape), x.ShiftedInMemory(2)),
    (lambda b: b[np.random.default_rng(0).permutation(len(b))], x.ReorderedAlong(0)),
    (lambda b: np.random.default_rng(0).choice(b.reshape(-1), b.shape), x.BelongElsewhere()),
]


@pytest.mark.parametrize(("made", "law"), FOUND, ids=lambda one: type(one).__name__ if one else "")
def test_a_planted_law_is_found(made, law):
    found = explain(*changed(made))
    assert found.law == law
    assert found.is_certain


@pytest.mark.parametrize(("made", "law"), FOUND[:11], ids=lambda one: type(one).__name__ if one else "")
def test_a_law_at_some_places_is_found_with_them(made, law):
    found = explain(*changed(made, np.s_[3:]))
    assert found.law == law
    assert [(axis.start, axis.stop) for axis in found.best_fit.where.axes] in ([(3, 9), (0, 11)], [(0, 9), (0, 11)])


def test_swapped_indices_are_named():
    baseline = values((5, 20, 3))
    found = explain(baseline[..., [0, 2, 1]], baseline)
    assert found.law == x.PermutedAlong(2, (0, 2, 1))
    assert format_explanation(found) == "all of out is wrong: indices 1 and 2 of axis 2 are swapped"


@pytest.mark.parametrize(("bits", "signed", "kind"), [(8, False, np.uint8), (8, True, np.int8), (16, True, np.int16)])
def test_integers_that_wrap_are_found(bits, signed, kind):
    baseline = np.arange(0, 70000, 100, dtype=np.int32)
    assert explain(baseline.astype(kind).astype(np.int32), baseline).law == x.WrappedTo(bits, signed)


def test_integers_that_are_one_too_large_are_found():
    baseline = np.arange(40, dtype=np.int32)
    assert explain(baseline + 1, baseline).law == x.OffBy(1.0)


def test_what_the_caller_preset_is_told_before_a_constant():
    baseline = np.arange(40, dtype=np.int32)
    evaluated = baseline.copy()
    evaluated[20:] = -1
    assert explain(evaluated, baseline, preset=-1).law == x.PresetUnchanged(-1)


def test_one_wrong_element_has_no_law_that_needs_others():
    baseline = values()
    evaluated = baseline.copy()
    evaluated[4, 4] *= 1.5
    found = explain(evaluated, baseline)
    assert found.law is None
    assert format_explanation(found) == "out[4, 4] is wrong"


def test_noise_has_no_law():
    baseline = values((20, 20))
    noise = np.random.default_rng(9).normal(0, 1, baseline.shape).astype(np.float32)
    assert explain(baseline + noise, baseline).law is None


@given(st.sampled_from(["half", "tf32", "bfloat16"]), st.floats(width=32))
def test_rounding_gives_a_neighbour_and_keeps_what_needs_none(precision, value):
    once = narrowed(np.array([value], np.float32), precision)
    again = narrowed(once, precision)
    np.testing.assert_array_equal(once, again)
    if np.isfinite(value) and np.isfinite(once[0]):
        assert abs(float(once[0]) - value) <= max(abs(value) * 2.0**-8, 2.0**-25)


def test_zeros_at_wrong_places_are_told():
    """A sum is shared out by other masks: what belongs to one element goes to none, or to one of 0."""
    rng = np.random.default_rng(3)
    baseline = np.where(rng.random((20, 9)) < 0.3, rng.normal(0, 3, (20, 9)), 0).astype(np.float32)
    moved = rng.random(baseline.shape) < 0.3
    evaluated = np.where(moved, np.where(baseline == 0, values(baseline.shape), 0), baseline).astype(np.float32)
    found = explain(evaluated, baseline)
    assert found.law == x.MisplacedZeros()
    assert "are zero, or not zero where 0 belongs" in format_explanation(found)
    assert explain(np.where(moved, baseline + values(baseline.shape), baseline), baseline).law != x.MisplacedZeros()


def test_whole_numbers_that_stand_elsewhere_by_chance_are_no_law():
    rng = np.random.default_rng(4)
    baseline = rng.integers(0, 9, (20, 9)).astype(np.int32)
    found = explain(rng.permutation(baseline.reshape(-1)).reshape(baseline.shape), baseline)
    assert x.BelongElsewhere() not in {one.law for one in found.fitted}


def test_infinite_values_leave_a_law_to_the_others():
    baseline = values()
    baseline[::2] = np.inf
    assert explain(-baseline, baseline).law == x.Negated()


def test_elements_that_a_law_rounds_to_what_is_right_keep_to_it():
    """A quarter of the smallest subnormal half is none."""
    baseline = values().astype(np.float16)
    baseline[3, 2:7] = 2.0**-24
    found = explain((baseline * 1.25).astype(np.float16), baseline, epsilon=2.0**-10)
    assert format_explanation(found) == "all of out is scaled by 1.25"


def test_a_weaker_law_is_stored_beside_the_one_that_is_told():
    """Cases that are off by different amounts share the side."""
    found = explain(values() + np.float32(0.5), values())
    assert found.law == x.OffBy(0.5)
    assert found.holding(x.OneSided("larger")) is not None
