"""The three moe_dispatch operators: other oracles beside reference and kernel; rulings; adjoint identities."""

import numpy as np
import pytest

from generators._shared.interpolation import shortened
from generators._shared.moe_dispatch import FIELDS
from mluops_gtest.authoring import Draw, DType, Status, call_of
from tests.support.operator_calls import BOTH, OPERATORS, bits_of, by_definition, by_kernel, by_reference, poisoned

FORWARD, DATA, GATE = (OPERATORS[f"moe_dispatch_{name}"] for name in ("forward", "backward_data", "backward_gate"))
INT32 = (-(2**31), 2**31 - 1)
each_way = pytest.mark.parametrize("compute", [by_reference, by_kernel, by_definition])


def draw_arrays(seed, *, distinct=False):
    """What any of the three takes: 7 samples, of which one or two are not routed, and 3 slots for each of 5 experts."""
    rng = np.random.default_rng(seed)
    slots = rng.permutation(15)[:7] if distinct else rng.integers(0, 15, 7)
    made = {"indices": (slots // 3).astype("<i4"), "locations": (slots % 3).astype("<i4")}
    made["indices"][0], made["locations"][3] = rng.choice([*INT32, -1, 5]), rng.choice([*INT32, -1, 3])
    for name, shape in (("gates", (7,)), ("input", (7, 4)), ("dispatch", (15, 4))):
        made[name] = rng.normal(size=shape).astype("<f4")
    return made


def call_for(operator, made, capacity=3):
    """Its inputs of these; the one output is poison, and dispatch the values themselves where it is that."""
    samples, (slots, hidden) = len(made["indices"]), made["dispatch"].shape
    written = poisoned(DType.FLOAT, (samples,) if operator is GATE else (samples, hidden))
    buffer = made["dispatch"].copy() if operator is FORWARD else written
    params = dict(zip(FIELDS, (samples, capacity, hidden, slots // capacity if capacity else 5), strict=True))
    inputs = {spec.id: made[spec.id].copy() for spec in operator.inputs if not spec.becomes}
    return call_of(operator.name, params, inputs, {operator.outputs[0].id: buffer})


def answer(operator, made, compute=by_reference, **more):
    return compute(operator, call_for(operator, made, **more))[operator.outputs[0].id]


def slots_of(made, capacity=3):
    """The slot of every sample; the number of slots for none."""
    count = len(made["dispatch"])
    index, location = (made[name].astype(np.int64) for name in ("indices", "locations"))
    routed = (index >= 0) & (index < count // capacity) & (location >= 0) & (location < capacity)
    return np.where(routed, index * capacity + location, count)


@each_way
@pytest.mark.parametrize("seed", range(6))
def test_the_other_oracles_say_the_same(compute, seed) -> None:
    made = draw_arrays(seed)
    slots, last = slots_of(made), np.full(16, -1)
    np.maximum.at(last, slots, np.arange(7))
    products = made["gates"][last[:15], None] * made["input"][last[:15]]
    expected = np.where(last[:15, None] >= 0, products, made["dispatch"])
    np.testing.assert_array_equal(bits_of(answer(FORWARD, made, compute)), bits_of(expected))
    gathered = np.concatenate([made["dispatch"], np.zeros((1, 4), "<f4")])[slots]
    np.testing.assert_array_equal(answer(DATA, made, compute), made["gates"][:, None] * gathered)
    sums = np.einsum("sh,sh->s", gathered.astype(np.float64), made["input"])
    np.testing.assert_allclose(answer(GATE, made, compute), sums, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_both_gradients_are_adjoint_to_forward(seed) -> None:
    made = draw_arrays(seed, distinct=True)
    slots = slots_of(made)
    written = answer(FORWARD, made)[slots[slots < 15]].astype(np.float64)
    by_input = np.sum(made["input"].astype(np.float64) * answer(DATA, made))
    assert np.sum(written * made["dispatch"][slots[slots < 15]]) == pytest.approx(by_input, rel=1e-5)
    assert np.sum(made["gates"].astype(np.float64) * answer(GATE, made)) == pytest.approx(by_input, rel=1e-5)


@pytest.mark.parametrize("compute", BOTH)
def test_the_last_of_two_samples_wins_and_rows_of_none_keep_their_bits(compute) -> None:
    held = np.array([0x7FC12345, 0xFF800001, 0x80000000], "<u4").view("<f4").reshape(3, 1)
    made = {"gates": [2, 3, 5], "indices": [1, 1, -1], "locations": [0, 0, 0], "input": [[7], [11], [13]]}
    arrays = {name: np.array(values, "<f4" if name in ("gates", "input") else "<i4") for name, values in made.items()}
    result = answer(FORWARD, {**arrays, "dispatch": held}, compute, capacity=1)
    assert result[1] == 33
    np.testing.assert_array_equal(bits_of(result)[[0, 2]], bits_of(held)[[0, 2]])


@each_way
@pytest.mark.parametrize(("operator", "capacity", "hidden"), [(DATA, 0, 4), (GATE, 0, 4), (GATE, 3, 0)])
def test_gradients_without_slots_or_columns_are_0(compute, operator, capacity, hidden) -> None:
    made = draw_arrays(0)
    made["dispatch"], made["input"] = made["dispatch"][: 5 * capacity, :hidden], made["input"][:, :hidden]
    assert operator.answer(call_for(operator, made, capacity)).status is Status.SUCCESS
    assert not bits_of(answer(operator, made, compute, capacity=capacity)).any()


def test_only_forward_limits_samples_to_slots() -> None:
    made = draw_arrays(0)
    made["dispatch"] = made["dispatch"][:6]
    checks = [operator.answer(call_for(operator, made)).check for operator in (FORWARD, DATA, GATE)]
    assert checks == ["samples_fit", None, None]


def test_rows_that_cancel_are_exact_in_any_order_and_show_narrow_factors() -> None:
    params = {"samples": 6, "capacity": 2, "hidden": 64, "num_experts": 2}
    for seed in range(5):
        made = GATE.recipes["cancel"](Draw(seed), params, DType.FLOAT).inputs
        left, right = made["input"], made["dispatch"][slots_of(made, 2)]
        sums = answer(GATE, made, capacity=2)
        for order in (np.arange(64), np.arange(64)[::-1], np.random.default_rng(seed).permutation(64)):
            np.testing.assert_array_equal(np.cumsum((left * right)[:, order], axis=1, dtype="<f4")[:, -1], sums)
        for bits in (8, 11):
            errors = (left * shortened(right, bits)).sum(axis=1) - sums
            assert np.abs(errors).sum() > 3 * 3e-3 * np.abs(sums).sum(), bits
