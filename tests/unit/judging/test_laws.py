"""How wrong values relate to the right ones: planted laws are found.

A law that is told is true of each wrong element, and says of it something else than what is right.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mluops_gtest.core import explanation as x
from mluops_gtest.core.readings import format_explanation
from mluops_gtest.judging.explaining import explained
from mluops_gtest.judging.value_laws import Fit, WrongOutput, narrowed
from tests.support.examples import examples
from tests.support.predicted_by_law import breaches, narrow, predict

EPSILON = {"f2": 2.0**-10, "f4": 2.0**-23, "f8": 2.0**-52}
SHAPES = [(1,), (3,), (40,), (6, 7), (2, 3, 50), (4, 64)]
SEEDS = st.integers(0, 2**32 - 1)


def wrong_elements(evaluated, baseline, allowed):
    """Those that are unequal, or beyond what is allowed."""
    if allowed is None:
        return evaluated != baseline
    return ~(np.abs(evaluated.astype("f8") - baseline.astype("f8")) <= allowed)


def explain(evaluated, baseline, allowed=None, suspects=lambda _: (), *, every=False, preset=None):
    """What is said of the wrong elements; with `every` of all that are unequal."""
    wrong = wrong_elements(evaluated, baseline, None if every else allowed)
    held_to, epsilon = "equality" if allowed is None else "bound", EPSILON.get(baseline.dtype.str[1:], 0.0)
    out = WrongOutput(evaluated, baseline, wrong, held_to, allowed, epsilon, preset)
    return explained(out, "out", lambda index: (str(evaluated[index]), str(baseline[index])), lambda: suspects(out))


def values(shape=(9, 11), dtype="f4", *, sign=True, seed=1):
    drawn = np.random.default_rng(seed).normal(0, 3, shape).astype(dtype)
    return drawn if sign else np.abs(drawn)


def shifted(values, steps):
    """So many numbers of their type further."""
    for step in range(1, int(np.abs(steps).max(initial=0)) + 1):
        towards = np.where(steps > 0, np.inf, -np.inf).astype(values.dtype)
        values = np.where(np.abs(steps) >= step, np.nextafter(values, towards), values)
    return values


@given(SEEDS, st.sampled_from(SHAPES), st.sampled_from([*EPSILON]), st.booleans(), st.sampled_from([0.05, 0.5, 1.0]))
def test_rounding_is_told_as_rounding_and_as_nothing_else(seed, shape, dtype, sign, share):
    rng = np.random.default_rng(seed)
    baseline = values(shape, dtype, sign=sign, seed=seed)
    steps = rng.integers(1, 3, shape) * rng.choice([-1, 1], shape) * (rng.random(shape) < share)
    if not steps.any():
        return
    evaluated = shifted(baseline, steps)

    def suspects(out):
        # Mistakes that do not show: what the reference gives, and what it gives in another order.
        for name, predicted in (
            ("nothing", baseline),
            ("little", shifted(baseline, steps.reshape(-1)[::-1].reshape(shape))),
        ):
            near = out.near(predicted.reshape(-1)[out.places].astype("f8"))
            yield Fit(x.AsIf(name), near, lambda predicted=predicted: predicted, True, bool(near.all()))

    found = explain(evaluated, baseline, suspects=suspects)
    most = int(np.abs(steps).max())
    assert {one.law for one in found.fitted} <= {None, *(x.WithinUlp(ulp) for ulp in range(most, 10))}
    assert found.law == x.WithinUlp(most)
    assert format_explanation(found) == f"out is within {most} ulp of the baseline everywhere"
    assert format_explanation(found, "zh").endswith(f"与基准相差不超过 {most} ulp")


def test_an_element_that_rounding_does_not_explain_makes_the_rest_no_rounding():
    baseline = values((40,))
    evaluated = shifted(baseline, np.ones(40, int))
    evaluated[7] *= 1.5
    found = explain(evaluated, baseline)
    assert not any(isinstance(one.law, x.WithinUlp) for one in found.fitted)


def test_rounding_speaks_of_right_elements_too():
    """Two are wrong by one unit; another is off by many, which its bound allows."""
    baseline = values((40,))
    evaluated = shifted(baseline, np.arange(40) < 2)
    evaluated[30] *= 1.001
    allowed = np.where(np.arange(40) == 30, 1.0, 0.0)
    found = explain(evaluated, baseline, allowed)
    assert found.wrong == 2
    assert not isinstance(found.law, x.WithinUlp)


def test_a_law_that_says_what_is_right_explains_nothing():
    """Distances have no sign to lose, and noise of a hundred units is none."""
    rng = np.random.default_rng(3)
    baseline = values((6, 50), sign=False, seed=3)
    evaluated = (baseline * (1 + rng.choice([-1, 1], baseline.shape) * 1e-5)).astype("f4")
    # Arithmetic allows most of that, so that what is right is near.
    found = explain(evaluated, baseline, np.full(baseline.shape, 0.99e-5) * baseline)
    assert found.law is None
    assert [one.law for one in found.fitted] == [None]


def test_a_suspect_that_shows_only_within_what_arithmetic_allows_is_not_told():
    baseline = values((6, 50), seed=4)
    evaluated, allowed = baseline + np.float32(0.011), np.full(baseline.shape, 0.01)
    evaluated[::2] = baseline[::2] - np.float32(0.011)

    def suspects(out):
        near = out.near((baseline + 0.002).reshape(-1)[out.places].astype("f8"))
        yield Fit(x.AsIf("a little is added"), near, lambda: baseline + 0.002, True, True)

    found = explain(evaluated, baseline, allowed, suspects)
    assert found.law is None


@pytest.mark.parametrize("is_near", [True, False])
def test_beside_infinity_a_law_is_held_to_rounding_alone(is_near):
    """Finite where infinity belongs: where anything is allowed, all would be near to all."""
    baseline = values((6, 50), seed=8)
    baseline[2:] = np.inf
    evaluated = np.where(np.isinf(baseline), values((6, 50), seed=9), baseline)
    predicted = shifted(evaluated, np.isinf(baseline)) if is_near else np.full_like(baseline, 0.25)

    def suspects(out):
        near = out.near(predicted.reshape(-1)[out.places].astype("f8"))
        yield Fit(x.AsIf("nothing is infinite"), near, lambda: predicted, True, bool(near.all()))

    allowed = np.where(np.isinf(baseline), np.inf, 1e-6)
    found = explain(evaluated, baseline, allowed, suspects, every=True)
    assert found.law == (x.AsIf("nothing is infinite") if is_near else None)


def test_another_order_of_an_axis_is_one_of_whole_slices():
    """Three rows go round, except for elements that stay where they belong."""
    baseline = values((3, 40), seed=6)
    evaluated = baseline[[1, 2, 0]]
    found = explain(evaluated, baseline)
    assert found.law == x.ReorderedAlong(0)
    evaluated[:, 30:] = baseline[:, 30:]
    found = explain(evaluated, baseline)
    assert not any(isinstance(one.law, x.ReorderedAlong) for one in found.fitted)


@pytest.mark.parametrize("size", [40, 2**19])
def test_elements_that_keep_to_a_law_are_counted(size):
    """Of very many every third one is looked at first."""
    baseline = np.arange(1, size + 1, dtype="f4")
    evaluated = np.zeros_like(baseline)
    evaluated[[1, size // 2 + 1]] = 5.5
    found = explain(evaluated, baseline)
    assert (found.law, found.best_fit.lawful, found.wrong) == (x.TurnedZero(), size - 2, size)
    assert not found.is_certain


LAWS = [
    x.TurnedZero(),
    x.TurnedNan(),
    x.TurnedConstant("7.0"),
    x.Negated(),
    x.ScaledBy(1.25),
    x.ScaledBy(-0.5),
    x.OffBy(0.5),
    x.SaturatedAt("2.0"),
    x.RoundedTo("bfloat16"),
    x.RoundedTo("bfloat16", is_truncated=True),
    x.RoundedTo("half or tf32"),
    x.RoundedTo("half or tf32", is_truncated=True),
    x.ReversedAlong(1),
    x.RepeatedAlong(1, 0),
    x.PermutedAlong(0, (1, 0, 2, 3)),
    x.LaidOut((1, 0)),
    x.ShiftedAlongAxes((0, 3)),
    x.ShiftedAlongAxes((-1, 1)),
    x.ShiftedInMemory(5),
]


@pytest.mark.parametrize("law", LAWS, ids=repr)
@settings(max_examples=examples(20))
@given(seed=SEEDS, start=st.integers(0, 60))
def test_a_law_is_recognised_where_it_says_something_else(law, seed, start):
    baseline = values((4, 64), seed=seed)
    # Where half has as many bits as TF32.
    baseline += np.copysign(np.float32(0.01), baseline)
    predicted = predict(law, baseline)
    evaluated = baseline.copy()
    chosen = np.isfinite(predicted) | isinstance(law, x.TurnedNan)
    chosen[:, :start] = False
    evaluated[chosen] = predicted[chosen].astype("f4")
    if np.count_nonzero(evaluated != baseline) < 20:
        return
    found, wrong = explain(evaluated, baseline), evaluated != baseline
    held = [one.law for one in found.fitted if one.sure and one.lawful == found.wrong]
    assert law in held
    assert found.law in held
    assert not any(breaches(one, evaluated, baseline, wrong, epsilon=EPSILON["f4"]).size for one in held)


@given(st.data())
def test_a_law_that_is_stored_holds_of_as_many_wrong_elements_as_it_says(data):
    """Few and small values, so that many laws hold by accident, and noise within what is allowed."""
    dtype = np.dtype(data.draw(st.sampled_from(["f2", "f4", "f8", "i4", "i8", "u1"])))
    shape = data.draw(st.sampled_from([(3,), (4, 3), (2, 3, 2), (12,)]))
    size = int(np.prod(shape))
    small = st.lists(st.integers(0 if dtype.kind == "u" else -3, 3), min_size=size, max_size=size)
    baseline = np.array(data.draw(small), dtype).reshape(shape)
    evaluated = np.array(data.draw(small), dtype).reshape(shape)
    allowed = None
    if dtype.kind == "f" and data.draw(st.booleans()):
        rng = np.random.default_rng(data.draw(SEEDS))
        allowed = rng.uniform(0, data.draw(st.sampled_from([1e-3, 0.1, 2.0])), shape)
        evaluated = (evaluated + allowed * rng.uniform(-1, 1, shape)).astype(dtype)
    wrong, epsilon = wrong_elements(evaluated, baseline, allowed), EPSILON.get(dtype.str[1:], 0.0)
    if not wrong.any():
        return
    found = explain(evaluated, baseline, allowed)
    assert found.wrong == wrong.sum()
    for one in found.fitted:
        if one.law is not None:
            missed = breaches(one.law, evaluated, baseline, wrong, epsilon=epsilon, allowed=allowed)
            assert found.wrong - missed.size == one.lawful, (one.law, evaluated, baseline, allowed)


@pytest.mark.parametrize("truncated", [False, True])
@given(value=st.floats(width=32, allow_nan=False), precision=st.sampled_from(["half", "tf32", "bfloat16"]))
def test_narrowing_is_what_the_bits_say(truncated, value, precision):
    if abs(value) < 2.0**-120:
        return
    made = narrowed(np.array([value], "f4"), precision, truncated=truncated)[0]
    assert made == narrow(value, precision, truncated=truncated) or (precision == "half" and np.isinf(made))


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


HUNDREDS, FEW = np.arange(0, 70000, 100, dtype=np.int32), np.arange(40, dtype=np.int32)
HALF_INFINITE = np.where(np.arange(9)[:, None] % 2, values(), np.float32(np.inf))
NOISE = np.random.default_rng(9).normal(0, 1, (20, 20)).astype(np.float32)


@pytest.mark.parametrize(
    ("evaluated", "baseline", "law"),
    [
        (HUNDREDS.astype(np.uint8).astype(np.int32), HUNDREDS, x.WrappedTo(8, False)),
        (HUNDREDS.astype(np.int8).astype(np.int32), HUNDREDS, x.WrappedTo(8, True)),
        (HUNDREDS.astype(np.int16).astype(np.int32), HUNDREDS, x.WrappedTo(16, True)),
        (FEW + 1, FEW, x.OffBy(1.0)),
        (-HALF_INFINITE, HALF_INFINITE, x.Negated()),
        (values((20, 20)) + NOISE, values((20, 20)), None),
    ],
    ids=["unsigned bytes", "bytes", "short integers", "one too large", "infinite values leave it to others", "noise"],
)
def test_laws_of_integers_of_infinite_values_and_of_noise(evaluated, baseline, law):
    assert explain(evaluated, baseline).law == law


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


def test_elements_that_a_law_rounds_to_what_is_right_keep_to_it():
    """A quarter of the smallest subnormal half is none."""
    baseline = values().astype(np.float16)
    baseline[3, 2:7] = 2.0**-24
    found = explain((baseline * 1.25).astype(np.float16), baseline)
    assert format_explanation(found) == "all of out is scaled by 1.25"


def test_a_weaker_law_is_stored_beside_the_one_that_is_told():
    """Cases that are off by different amounts share the side."""
    found = explain(values() + np.float32(0.5), values())
    assert found.law == x.OffBy(0.5)
    assert found.holding(x.OneSided("larger")) is not None
