"""indice_convolution_backward_filter: exact sums, the bound, the rulings, the recipes."""

import math
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from generators.indice_convolution_backward_filter import Operands, float64_is_exact
from generators.indice_convolution_backward_filter.recipes import LONGEST, bits_per_factor
from mluops_gtest.authoring import DType, Layout, OpCall, TensorArg
from mluops_gtest.judging.elementwise import element_errors
from tests.support import convolutions
from tests.support.operator_calls import OPERATORS

OPERATOR = OPERATORS["indice_convolution_backward_filter"]
make_call = partial(convolutions.make_call, OPERATOR)
call_with = partial(convolutions.call_with, OPERATOR)
assert_right = partial(convolutions.assert_right, OPERATOR)
definition_of = partial(convolutions.definition_of, OPERATOR)


# Sums.

VALUES = ("full", "wide", "positive", "cancelling", "leading", "huge", "lattice")


def one_offset(features, grads, count=None) -> OpCall:
    """Row l meets row l at the only offset."""
    count = len(features) if count is None else count
    pairs = np.arange(len(features), dtype="<i4").repeat(2).reshape(1, -1, 2).swapaxes(1, 2).copy()
    inputs = {"features": features, "output_grad": grads, "indice_pairs": pairs}
    params = {"inverse": 0, "sub_m": 0, "indice_num": (count,)}
    return call_with(params, inputs, dims=(1, 1, features.shape[1], grads.shape[1]))


def test_both_ways_of_summing_give_the_same_bits(monkeypatch):
    shape = {"kernel": (1, 3), "rows_in": 5, "rows_out": 6, "channels_in": 2, "channels_out": 3}
    calls = [make_call("random_pairs", seed=seed, values=values, **shape) for seed, values in enumerate(VALUES * 5)]
    fast = [call for call in calls if float64_is_exact(Operands.of(call))]
    assert fast
    baselines = [OPERATOR.reference(call).outputs["filters_grad"] for call in fast]
    monkeypatch.setattr(sys.modules[OPERATOR.reference.__module__], "float64_is_exact", lambda operands: False)
    for call, baseline in zip(fast, baselines, strict=True):
        np.testing.assert_array_equal(OPERATOR.reference(call).outputs["filters_grad"], baseline)


def test_short_sums_use_the_widest_lattice_that_float64_holds():
    assert bits_per_factor(DType.FLOAT, 1) == 24
    assert bits_per_factor(DType.FLOAT, LONGEST) == 21
    assert bits_per_factor(DType.HALF, 248636) == 11


@pytest.mark.parametrize("terms", [LONGEST + 1, 1025, 4097, 16001, 25159, 58838, 65537, 67042, 248636, 1_000_000])
def test_long_float_sums_are_exact_in_float32_in_any_order(terms):
    bits = bits_per_factor(DType.FLOAT, terms)
    assert bits >= 2
    assert (2**bits - 1) ** 2 * terms <= 2**24 < (2 ** (bits + 1) - 1) ** 2 * terms


def test_the_longest_sum_of_the_network_has_3_bits():
    assert bits_per_factor(DType.FLOAT, 248636) == 3


def test_pairs_beyond_one_tile(monkeypatch):
    """More pairs than the reference gathers and the kernel multiplies at a time."""
    monkeypatch.setattr(sys.modules[OPERATOR.reference.__module__], "_BLOCK_PAIRS", 5)
    monkeypatch.setattr(sys.modules[OPERATOR.kernel.__module__], "_TILE", 3)
    for seed in range(10):
        shape = {"kernel": (2, 2), "rows_in": 11, "rows_out": 13, "channels_in": 1 + seed % 4, "channels_out": 3}
        call = make_call("random_pairs", seed=seed, **shape)
        assert_right(call)


def test_a_pair_listed_twice_is_added_twice():
    """Outside the contract, yet §3.1 says what it means; the reference of a foreign file must not lose it."""
    call = make_call("random_pairs", kernel=(1, 1), rows_in=4, rows_out=4, counts=(4,), channels_in=2, channels_out=3)
    call.array("indice_pairs")[0] = [[2, 0, 2, 2], [1, 3, 1, 0]]
    assert OPERATOR.broken(call) == "indice_pairs[0, 0] names row 2 more than once"
    assert_right(call)


@pytest.mark.slow
def test_no_recipe_comes_near_the_largest_half():
    def of(count, values):
        shape = {"kernel": (1, 1), "rows_in": count, "rows_out": count, "counts": (count,)}
        return make_call("random_pairs", DType.HALF, values=values, **shape, channels_in=1, channels_out=1)

    largest = np.abs(OPERATOR.reference(of(3000, "leading")).outputs["filters_grad"].astype(np.float64)).max()
    assert 1000 < largest < 3e4
    with pytest.raises(ValueError, match="too near to the largest half"):
        of(300_000, "positive")


# What arithmetic allows.


def test_the_bound_sums_up_magnitudes_and_counts_terms():
    shape = {"kernel": (2, 2), "rows_in": 9, "rows_out": 8, "counts": (5, 0, 8, 1), "channels_in": 2, "channels_out": 3}
    call = make_call("random_pairs", DType.HALF, values="wide", **shape)
    bound = OPERATOR.bound(call)["filters_grad"]
    for name in ("features", "output_grad"):
        np.abs(call.array(name), out=call.array(name))
    wide = replace(call, inputs={**call.inputs, **{n: as_float(call.inputs[n]) for n in ("features", "output_grad")}})
    np.testing.assert_array_equal(bound.magnitude, OPERATOR.reference(wide).outputs["filters_grad"])
    assert bound.roundings.tolist() == [[[[5]], [[0]]], [[[8]], [[1]]]]
    assert bound.products


def as_float(arg: TensorArg) -> TensorArg:
    return TensorArg(replace(arg.desc, dtype=DType.FLOAT), arg.array.astype("<f4"))


def test_a_call_of_zeros_has_a_bound():
    call = one_offset(np.zeros((3, 1), "<f4"), np.zeros((3, 1), "<f4"))
    assert not OPERATOR.bound(call)["filters_grad"].magnitude.any()


def test_long_sums_of_the_network_leave_no_room_at_all():
    """Float sums of so few bits are exact, so that one element that is off by its last bit shows."""
    shape = {"kernel": (1, 1), "rows_in": 1025, "rows_out": 1025, "counts": (1025,), "channels_in": 2}
    call = make_call("random_pairs", channels_out=2, **shape)
    wanted = OPERATOR.reference(call).outputs["filters_grad"]
    bound = OPERATOR.bound(call)["filters_grad"]
    wrong = wanted.copy()
    wrong[0, 0, 1, 1] = np.nextafter(wrong[0, 0, 1, 1], np.float32(np.inf))
    assert element_errors(wrong, wanted, DType.FLOAT, bound).beyond == 1


# Rulings.


def test_row_0_of_a_pair_is_the_input():
    inputs = {
        "features": np.array([[1], [10]], "<f4"),
        "output_grad": np.array([[2], [3]], "<f4"),
        "indice_pairs": np.array([[[0, -1], [1, -1]]], "<i4"),
    }
    call = call_with({"inverse": 0, "sub_m": 0, "indice_num": (1,)}, inputs, dims=(1, 1, 1, 1))
    assert_right(call, np.full((1, 1, 1, 1), 3, "<f4"))


def test_a_product_is_ci_by_co():
    """With Ci = Co only the arithmetic tells."""
    call = one_offset(np.array([[1, 2]], "<f4"), np.array([[10, 100]], "<f4"))
    assert_right(call, np.array([[[[10, 100], [20, 200]]]], "<f4"))


@pytest.mark.parametrize("kernel", [(2, 3), (2, 1, 3), (2, 3, 4)])
def test_offsets_count_through_the_kernel_with_the_width_fastest(kernel):
    offsets = math.prod(kernel)
    pairs = np.stack([np.arange(offsets), np.arange(offsets)])[None].repeat(offsets, axis=0).astype("<i4")
    pairs[np.arange(offsets), :, 0] = np.arange(offsets)[:, None]
    inputs = {
        "features": np.arange(1, offsets + 1, dtype="<f4")[:, None],
        "output_grad": np.ones((offsets, 1), "<f4"),
        "indice_pairs": pairs,
    }
    call = call_with({"inverse": 0, "sub_m": 0, "indice_num": (1,) * offsets}, inputs, dims=(*kernel, 1, 1))
    assert_right(call, np.arange(1, offsets + 1, dtype="<f4").reshape(*kernel, 1, 1))


@pytest.mark.parametrize("layout", list(Layout))
def test_no_layout_changes_anything(layout):
    call = make_call("random_pairs", kernel=(2, 3), rows_in=7, rows_out=6, channels_in=5, channels_out=4)
    wanted = definition_of(call)
    named = replace(call.outputs["filters_grad"], desc=replace(call.tensor("filters_grad").desc, layout=layout))
    call = replace(call, outputs={"filters_grad": named})
    assert OPERATOR.answer(call).computes
    assert_right(call, wanted)


@pytest.mark.parametrize("sub_m", [0, 1, 2, -1, 2**40])
def test_sub_m_changes_nothing(sub_m):
    shape = {"kernel": (3, 3), "rows_in": 5, "rows_out": 5, "channels_in": 2, "channels_out": 3}
    call = make_call("random_pairs", params={"sub_m": 1}, **shape)
    other = replace(call, params={**call.params, "sub_m": sub_m})
    assert OPERATOR.answer(other).computes
    assert OPERATOR.broken(other) is None
    assert_right(other, definition_of(call))


def test_offsets_without_pairs_are_plus_0():
    call = make_call(
        "random_pairs", kernel=(1, 3), rows_in=4, rows_out=4, counts=(0, 2, 0), channels_in=2, channels_out=2
    )
    OPERATOR.kernel(call)
    for result in (OPERATOR.reference(call).outputs["filters_grad"], call.array("filters_grad")):
        assert not result[0, [0, 2]].view("<u4").any()


# What the document takes for granted.


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((3, 0), "indice_num has 2 entries for 3 kernel offsets"),
        ((3, 0, 9), "indice_num has an entry outside of 0 … 8"),
        ((3, -1, 7), "indice_num has an entry outside of 0 … 8"),
        ((3, 0, 8), r"indice_pairs\[2, 0\] names a row outside of 0 … 7"),
    ],
)
def test_counts_that_no_check_refuses_break_the_case(counts, words):
    shape = {"kernel": (1, 3), "rows_in": 8, "rows_out": 9, "counts": (3, 0, 7), "channels_in": 2, "channels_out": 2}
    call = make_call("random_pairs", **shape)
    call = replace(call, params={**call.params, "indice_num": counts})
    assert OPERATOR.answer(call).computes
    with pytest.raises(AssertionError, match=words):
        assert OPERATOR.broken(call) is None, OPERATOR.broken(call)


@pytest.mark.parametrize("sub_m", [1, 2])
def test_with_sub_m_the_centre_must_be_the_identity(sub_m):
    shape = {"kernel": (1, 3), "rows_in": 4, "rows_out": 4, "counts": (4,), "channels_in": 2, "channels_out": 2}
    call = make_call("random_pairs", params={"sub_m": 1}, **shape)
    call.array("indice_pairs")[1, 1] = [1, 0, 2, 3]
    assert OPERATOR.broken(replace(call, params={**call.params, "sub_m": 0})) is None
    assert "the centre, indice_pairs[1]" in OPERATOR.broken(replace(call, params={**call.params, "sub_m": sub_m}))


# Values that are not finite.


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"counts": (5, 1, 4, 2)}, "grad_nan", "another none"),
        ({"counts": (1, 0, 1, 1)}, "grad_nan", "two pairs"),
        ({"rows_in": 5, "counts": (5, 0, 4, 2)}, "feature_idle", "every row is in a pair"),
    ],
)
def test_a_shape_without_room_for_the_values_is_refused(change, kind, words):
    shape = {"kernel": (2, 2), "rows_in": 12, "rows_out": 13, "counts": (5, 0, 4, 2), **change}
    with pytest.raises(ValueError, match=words):
        make_call("nonfinite", **shape, channels_in=3, channels_out=4, kind=kind)
