"""indice_convolution_backward_data: exact sums, the rulings, the network."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from generators._shared.clouds import network_layer
from generators._shared.products import float64_is_exact
from generators._shared.sparse import find_pairs
from generators.indice_convolution_backward_data.reference import products_of
from mluops_gtest.authoring import (
    Draw,
    DType,
    Layout,
    OpCall,
    Status,
)
from mluops_gtest.catalog.declarations import load_declarations
from mluops_gtest.catalog.operators import load_operator
from tests.conftest import ROOT
from tests.support import convolutions
from tests.support.shared import load_shared

NAME = "indice_convolution_backward_data"
OPERATOR = load_operator(ROOT / "generators" / NAME / "__init__.py")
LAYOUTS = {4: (Layout.NHWC, Layout.NCHW, Layout.HWCN, Layout.ARRAY), 5: (Layout.NDHWC, Layout.NCDHW, Layout.ARRAY)}
make_call, call_with, assert_right, definition_of = (
    partial(function, OPERATOR)
    for function in (
        convolutions.make_call,
        convolutions.call_with,
        convolutions.assert_right,
        convolutions.definition_of,
    )
)


# Sums.


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
@pytest.mark.parametrize("values", ["full", "wide", "positive", "cancelling", "leading"])
def test_sums_of_full_mantissas_are_exact(values, dtype):
    shape = {"kernel": (1, 3), "rows_in": 3, "rows_out": 3, "counts": (3,), "channels_in": 2, "channels_out": 20}
    call = make_call("random_pairs", dtype, seed=1, values=values, **shape)
    assert_right(call)


def test_a_sum_that_float64_rounds_is_still_exact():
    # 2^80 + 2^20 − 2^80: float64 loses the middle term in this order.
    grad = np.array([[2.0**80, 1.0, 2.0**80]], "<f4")
    filters = np.array([1.0, 2.0**20, -1.0], "<f4").reshape(1, 1, 1, 3)
    params = {"inverse": 0, "sub_m": 0, "indice_num": (1,)}
    call = call_with(params, {"output_grad": grad, "filters": filters, "indice_pairs": np.zeros((1, 2, 1), "<i4")})
    assert not float64_is_exact(products_of(call))
    assert OPERATOR.reference(call).outputs["input_grad"].tolist() == [[2.0**20]]


def test_lattice_cases_take_the_fast_way_and_others_do_not():
    shape = {"kernel": (3, 3), "rows_in": 4, "rows_out": 4, "counts": (4,), "channels_in": 2, "channels_out": 64}
    for dtype, values, exact in [
        (DType.FLOAT, "lattice", True),
        (DType.HALF, "lattice", True),
        (DType.HALF, "wide", True),
        (DType.FLOAT, "full", False),
        (DType.FLOAT, "wide", False),
    ]:
        call = make_call("random_pairs", dtype, values=values, **shape)
        assert float64_is_exact(products_of(call)) is exact, (dtype, values)


def test_rows_beyond_one_block(monkeypatch):
    """More rows than the reference sums and the kernel gathers at a time."""
    monkeypatch.setattr(load_shared("products"), "_BLOCK_SUMS", 6)
    monkeypatch.setattr(load_shared("products"), "_BLOCK_VALUES", 50)
    for seed in range(10):
        shape = {"kernel": (2, 2), "rows_in": 11, "rows_out": 13, "channels_in": 1 + seed % 7, "channels_out": 3}
        call = make_call("random_pairs", seed=seed, **shape)
        assert_right(call)


def test_a_row_listed_twice_in_one_offset_is_added_twice():
    """Outside the contract, yet §1.2.2 says what it means; the reference of a foreign file must not lose it."""
    call = make_call("random_pairs", kernel=(1, 1), rows_in=4, rows_out=4, counts=(4,), channels_in=2, channels_out=3)
    call.array("indice_pairs")[0, 0] = [2, 0, 2, 2]
    np.testing.assert_array_equal(OPERATOR.reference(call).outputs["input_grad"], definition_of(call))


def test_a_sum_beyond_the_largest_half_is_infinite():
    grad, filters = np.full((1, 4), 200, "<f2"), np.full((1, 1, 1, 4), 200, "<f2")
    params = {"inverse": 0, "sub_m": 0, "indice_num": (1,)}
    call = call_with(params, {"output_grad": grad, "filters": filters, "indice_pairs": np.zeros((1, 2, 1), "<i4")})
    assert OPERATOR.reference(call).outputs["input_grad"].tolist() == [[math.inf]]
    assert OPERATOR.kernel(call) is Status.SUCCESS
    assert call.array("input_grad").tolist() == [[math.inf]]


# Rulings.


def nonfinite_call(kind, dtype, seed) -> OpCall:
    shape = {"kernel": (2, 2), "rows_in": 9, "rows_out": 12, "counts": (5, 0, 4, 2)}
    return make_call("nonfinite", dtype, seed, **shape, channels_in=3, channels_out=4, kind=kind)


# Per kind: is there a NaN in the baseline, is there an infinity; None: the sign of a product or a zero decides.
SHOWS = {
    "weight_inf": (None, True), "weight_nan": (True, False), "weight_idle": (False, False), "grad_inf": (None, True),
    "grad_nan": (True, False), "grad_idle": (False, False), "inf_minus_inf": (True, None), "overflow": (False, True),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
@pytest.mark.parametrize("kind", SHOWS)
def test_what_is_not_finite_reaches_its_own_sums_alone(kind, dtype):
    for seed in range(20):
        call = nonfinite_call(kind, dtype, seed)
        baseline = OPERATOR.reference(call).outputs["input_grad"]
        for found, wanted in zip((np.isnan(baseline), np.isinf(baseline)), SHOWS[kind], strict=True):
            assert wanted is None or found.any() == wanted
        assert np.isfinite(baseline).any(axis=1).sum() >= 4, "rows without a partner stay finite"
        assert OPERATOR.kernel(call) is Status.SUCCESS
        np.testing.assert_allclose(call.array("input_grad"), baseline, rtol=1e-3, atol=1e-3)


def test_every_nan_of_the_baseline_is_the_same_one():
    baseline = OPERATOR.reference(nonfinite_call("inf_minus_inf", DType.FLOAT, 1)).outputs["input_grad"]
    assert set(baseline[np.isnan(baseline)].view("<u4").tolist()) == {0x7FC00000}


@pytest.mark.parametrize(
    ("change", "words"),
    [({"channels_out": 1}, "at least 2"), ({"counts": (5, 1, 4, 2)}, "one none"), ({"rows_out": 5}, "in no pair")],
)
def test_a_shape_without_room_for_the_values_is_refused(change, words):
    shape = {"kernel": (2, 2), "rows_in": 9, "rows_out": 12, "counts": (5, 0, 4, 2), "channels_out": 4, **change}
    with pytest.raises(ValueError, match=words):
        make_call("nonfinite", **shape, channels_in=3, kind="grad_idle")


def test_w_k_is_ci_by_co():
    """§3.1 prints [K, Co, Ci]; here Ci = Co = 2, so only the arithmetic tells."""
    filters = np.array([[1, 2], [3, 4]], "<f4").reshape(1, 1, 2, 2)
    inputs = {"output_grad": np.array([[10, 1]], "<f4"), "filters": filters, "indice_pairs": np.zeros((1, 2, 1), "<i4")}
    call = call_with({"inverse": 0, "sub_m": 0, "indice_num": (1,)}, inputs)
    assert OPERATOR.reference(call).outputs["input_grad"].tolist() == [[12, 34]]
    OPERATOR.kernel(call)
    assert call.array("input_grad").tolist() == [[12, 34]]


@pytest.mark.parametrize("kernel", [(2, 3), (2, 1, 3)])
def test_the_same_weights_give_the_same_result_in_every_layout(kernel):
    shape = {"kernel": kernel, "rows_in": 7, "rows_out": 6, "channels_in": 5, "channels_out": 4}
    calls = [make_call("random_pairs", layout=layout.value.lower(), **shape) for layout in LAYOUTS[len(kernel) + 2]]
    wanted = definition_of(calls[0])
    for call in calls:
        assert_right(call, wanted)


@pytest.mark.parametrize("fill", [-1, 0, 2**31 - 1, -(2**31)])
def test_only_the_first_indice_num_pairs_are_read(fill):
    call = make_call(
        "random_pairs", kernel=(1, 3), rows_in=8, rows_out=8, counts=(3, 0, 7), channels_in=2, channels_out=2
    )
    wanted = definition_of(call)
    for k, count in enumerate(call.params["indice_num"]):
        call.array("indice_pairs")[k, :, count:] = fill
    assert_right(call, wanted)


def test_sub_m_changes_no_value():
    shape = {"kernel": (3, 3), "rows_in": 5, "rows_out": 5, "channels_in": 2, "channels_out": 3}
    call = make_call("random_pairs", params={"sub_m": 1}, **shape)
    assert_right(replace(call, params={**call.params, "sub_m": 0}), definition_of(call))


# The network.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "output_grad", "filters", "indice_pairs", "input_grad"),
    [
        (0, (45406, 128), (3, 1, 1, 128, 128), (3, 2, 58838), (58838, 128)),
        (1, (58838, 128), (3, 3, 3, 64, 128), (27, 2, 149100), (149100, 64)),
        (2, (58838, 128), (3, 3, 3, 128, 128), (27, 2, 58838), (58838, 128)),
        # §3.7 prints [3, 2, 58838] here, which its own checks refuse.
        (3, (248636, 16), (3, 3, 3, 5, 16), (27, 2, 248636), (248636, 5)),
    ],
)
def test_network_cases_have_the_shapes_of_the_document(case, output_grad, filters, indice_pairs, input_grad):
    drafts = {d.id: d for d in load_declarations(ROOT / "cases" / f"{NAME}.yaml", OPERATOR)}
    args = drafts[f"{NAME}/centerpoint_{case}_float"].args
    assert drafts[f"{NAME}/centerpoint_{case}_half"].args == args
    sites, geometry = network_layer(args["layer"], Draw(0))
    pairs = find_pairs(sites, geometry)
    channels_in, channels_out = args["channels_in"], args["channels_out"]
    assert (len(pairs.out_indices), channels_out) == output_grad
    assert (*geometry.kernel, channels_in, channels_out) == filters
    assert pairs.indice_pairs.shape == indice_pairs
    assert (len(sites), channels_in) == input_grad
    assert geometry.sub_m is (case >= 2)


def test_theory_counts_used_pairs_alone():
    call = make_call(
        "random_pairs", kernel=(1, 3), rows_in=8, rows_out=6, counts=(3, 0, 5), channels_in=2, channels_out=4
    )
    theory = OPERATOR.theory(call)
    assert theory.ops == 2 * 8 * 2 * 4
    assert theory.io_bytes == 4 * (6 * 4 + 3 * 2 * 4 + 2 * 8 + 8 * 2)


@pytest.mark.parametrize("counts", [(1, 2), (5, 0, 0), (-1, 0, 0)])
def test_counts_that_do_not_fit_are_refused(counts):
    with pytest.raises(ValueError, match="counts must be one number or 3, each in 0 … 4"):
        make_call("random_pairs", kernel=(1, 3), rows_in=4, rows_out=9, counts=counts, channels_in=1, channels_out=1)


def test_a_layout_that_does_not_fit_the_kernel_is_refused():
    shape = {"kernel": (1, 3), "rows_in": 2, "rows_out": 2, "channels_in": 1, "channels_out": 1}
    with pytest.raises(ValueError, match="layout NDHWC has 5 axes, kernel \\(1, 3\\) makes 4"):
        make_call("random_pairs", layout="ndhwc", **shape)
