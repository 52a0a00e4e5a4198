"""three_interpolate_forward: sums that are rounded once, the rulings, the recipes."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from generators.three_interpolate_forward.mutants import MUTANTS
from generators.three_interpolate_forward.recipes import terms
from generators.three_interpolate_forward.reference import odd_sum
from mluops_gtest.authoring import Draw, DType, OpCall, Status
from mluops_gtest.authoring.sums import lattice_exponent
from mluops_gtest.catalog.declarations import load_declarations
from mluops_gtest.catalog.operators import load_operator
from mluops_gtest.judging.arbitration import rounded
from mluops_gtest.judging.elementwise import element_errors
from tests.conftest import ROOT
from tests.support.interpolation import (
    assert_all_half_cases_pass,
    diff2,
)
from tests.support.operator_calls import poisoned_call

OPERATOR = load_operator(ROOT / "generators" / "three_interpolate_forward" / "__init__.py")
DRAFTS = load_declarations(ROOT / "cases" / "three_interpolate_forward.yaml", OPERATOR)


def call_for(features, indices, weights) -> OpCall:
    """A valid call whose output holds poison."""
    inputs = {"features": features, "indices": indices, "weights": weights}
    return poisoned_call(OPERATOR, {}, inputs, {"output": (*features.shape[:2], indices.shape[1])})


def by_matrix(features, indices, weights) -> np.ndarray:
    """features · Sᵀ in float64, with the dense S[b, n, m] that sums the weights of repeated cells."""
    batches, points, _ = indices.shape
    matrix = np.zeros((batches, points, features.shape[2]))
    b, n, _ = np.ogrid[:batches, :points, :3]
    np.add.at(matrix, (b, n, indices), weights.astype(np.float64))
    return np.einsum("bcm,bnm->bcn", features.astype(np.float64), matrix, optimize=True)


def by_reference(features, indices, weights) -> np.ndarray:
    return OPERATOR.reference(call_for(features, indices, weights)).outputs["output"]


def assert_close(call, expected) -> None:
    """Every element of the output is as near as any order of float32 operations brings it."""
    output = call.tensor("output")
    assert element_errors(output.array, expected, output.dtype, OPERATOR.bound(call)["output"]).beyond == 0


@pytest.mark.parametrize("shape", [(2, 130, 300, 90), (1, 3, 5000, 40), (2, 5, 40, 9000), (40, 1, 3, 2)])
def test_shapes_beyond_one_tile_agree_with_a_matrix_product(shape):
    made = OPERATOR.recipes["drawn"](Draw(3), {}, DType.FLOAT, shape=shape)
    # Lattice data: float64 is exact in any order.
    expected = by_matrix(**made.inputs).astype("<f4")
    np.testing.assert_array_equal(by_reference(**made.inputs), expected)
    call = call_for(**made.inputs)
    OPERATOR.kernel(call)
    assert_close(call, expected)


def test_the_bound_grows_with_the_terms():
    made = OPERATOR.recipes["drawn"](Draw(2), {}, DType.FLOAT, shape=(2, 3, 5, 4))
    features, indices, weights = made.inputs.values()
    call = call_for(features, indices, weights)
    bound = OPERATOR.bound(call)["output"]
    np.testing.assert_allclose(bound.magnitude, by_matrix(np.abs(features), indices, np.abs(weights)), rtol=1e-6)
    assert (bound.roundings, bound.products) == (3, True)
    # One wrong element is seen, whatever the norms say of it.
    OPERATOR.kernel(call)
    call.array("output")[0, 0, 0] *= 1.01
    with pytest.raises(AssertionError):
        assert_close(call, by_reference(features, indices, weights))


# The sum of the reference.


@pytest.mark.parametrize(
    "terms_of_one",
    [
        (1.0, 2.0**-24, 2.0**-60),
        (1.0, 2.0**-24, -(2.0**-60)),
        (1.0, -(2.0**-25), 2.0**-90),
        (1.0 + 2.0**-23, 2.0**-24, -(2.0**-100)),
        (2.0**80, 1.0, -(2.0**80)),
        (2.0**53, 1.0, 2.0**-53),
        (2.0**53 + 2, -1.0, -(2.0**-40)),
        (2.0**-149, 2.0**-150, 2.0**-200),
        (3.0, -3.0, 0.0),
    ],
)
def test_a_sum_is_rounded_once_whatever_its_order(terms_of_one):
    exact = sum(map(Fraction, terms_of_one), Fraction(0))
    for order in itertools.permutations(terms_of_one):
        total = odd_sum(*(np.array([term]) for term in order))
        for dtype in (DType.FLOAT, DType.HALF):
            with np.errstate(over="ignore"):
                assert total.astype(dtype.storage)[0] == rounded(exact, dtype)


def test_random_sums_of_many_magnitudes_are_rounded_once():
    rng = np.random.default_rng(1)
    for _ in range(40):
        columns = rng.integers(-(2**48), 2**48, (3, 50)) * 2.0 ** rng.integers(-90, 40, (3, 50))
        with np.errstate(over="ignore"):
            totals = odd_sum(*columns).astype("<f4")
        expected = [float(rounded(sum(map(Fraction, column)), DType.FLOAT)) for column in columns.T.tolist()]
        np.testing.assert_array_equal(totals, expected)


def test_every_nan_of_the_baseline_is_the_same_one():
    features = np.array([[[np.inf, -np.inf, 1.0, 0.0]]], "<f4")
    features.view("<u4")[0, 0, 3] = 0xFFC12345
    indices = np.array([[[0, 1, 2], [3, 2, 2], [2, 2, 2]]], "<i4")
    output = by_reference(features, indices, np.ones((1, 3, 3), "<f4"))
    assert output.view("<u4").reshape(-1)[:2].tolist() == [0x7FC00000, 0x7FC00000]
    assert output[0, 0, 2] == 3


# The rulings.


def one_point(features, triple, weights):
    return by_reference(np.array([[features]], "<f4"), np.array([[triple]], "<i4"), np.array([[weights]], "<f4")).item()


def test_weights_are_used_as_they_are():
    assert one_point([1, 10, 100], [0, 1, 2], [2, -3, 5]) == 472
    assert one_point([1, 10, 100], [0, 1, 2], [0, 0, 0]) == 0


@pytest.mark.parametrize(("triple", "total"), [((0, 0, 1), 33), ((0, 1, 0), 24), ((1, 0, 0), 15), ((1, 1, 1), 60)])
def test_a_cell_that_is_named_again_counts_again(triple, total):
    assert one_point([1, 10], triple, [1, 2, 3]) == total


def test_a_cell_that_nobody_names_keeps_its_nan_to_itself():
    assert one_point([1, np.nan, 3], [0, 2, 2], [1, 1, 1]) == 7


def test_zero_times_infinity_is_nan():
    assert np.isnan(one_point([1, np.inf, 3], [0, 1, 2], [1, 0, 1]))


@pytest.mark.parametrize("index", [-1, 4, 2**30])
def test_an_index_outside_is_not_defined(index):
    features, indices, weights = OPERATOR.recipes["drawn"](Draw(4), {}, DType.FLOAT, shape=(2, 2, 4, 5)).inputs.values()
    assert OPERATOR.broken(call_for(features, indices, weights)) is None
    indices[-1, -1, 1] = index
    assert "outside of 0 … 3" in OPERATOR.broken(call_for(features, indices, weights))


# The checks.


def test_no_cells_succeed_and_no_outputs_do_not():
    def status(batches=2, channels=3, points=4):
        triples = np.zeros((batches, points, 3), "<i4")
        call = call_for(np.ones((batches, channels, 0), "<f4"), triples, triples.astype("<f4"))
        return OPERATOR.answer(call).status

    assert status() is Status.SUCCESS
    assert status(batches=0) is status(channels=0) is status(points=0) is Status.BAD_PARAM


# The recipes.

NETWORK = [
    (512, 16, 64),
    (256, 64, 256),
    (256, 256, 1024),
    (128, 1024, 4096),
    (16, 512, 64),
    (64, 256, 256),
    (1024, 128, 4096),
    (1, 1024, 128),
    (128, 256, 512),
    (512, 128, 2048),
]


def test_the_network_has_the_documents_shapes():
    declared = [(*draft.args["shape"], draft.dtype) for draft in DRAFTS if "network" in draft.tags]
    assert declared == [(16, *shape, dtype) for shape in NETWORK for dtype in ("float", "half")]


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
@pytest.mark.parametrize("shape", [(2, 4, 16, 64), (2, 4, 64, 16), (2, 4, 20, 20)])
def test_nearest_cells_are_weighted_by_distance(shape, dtype):
    made = OPERATOR.recipes["nearest"](Draw(8), {}, dtype, shape=shape)
    indices, weights = made.inputs["indices"], made.inputs["weights"].astype(np.float64)
    assert (np.diff(weights, axis=-1) <= 0).all()
    assert np.abs(weights.sum(axis=-1) - 1).max() < (2e-7 if dtype is DType.FLOAT else 1.5e-3)
    assert (np.diff(np.sort(indices, axis=-1), axis=-1) > 0).all()
    assert not np.array_equal(indices[0], indices[1])
    # No two weights of a point are the whole, but for points that are cells.
    assert np.mean(weights[..., 1] > 0.01) > 0.5
    # float64 sums are exact.
    assert lattice_exponent(made.inputs["features"]) + lattice_exponent(made.inputs["weights"]) >= -51


def half_arithmetic(order):
    def run(call: OpCall) -> Status:
        features, weights = call.array("features"), call.array("weights")
        for batch, indices in enumerate(call.array("indices")):
            products = [features[batch][:, indices[:, t]] * weights[batch, :, t] for t in order]
            call.array("output")[batch] = (products[0] + products[1]) + products[2]
        return Status.SUCCESS

    return run


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_kernels_that_round_to_half_after_every_step_pass_all_half_cases(seed):
    assert_all_half_cases_pass(OPERATOR, DRAFTS, seed, map(half_arithmetic, ((0, 1, 2), (2, 1, 0))))


@pytest.mark.parametrize(
    ("mutant", "at_least"),
    [("bf16_inputs", 0.5), ("half_inputs", 0.1), ("tf32_inputs", 0.1), ("tf32_products", 0.05), ("half_sums", 0.05)],
)
@pytest.mark.parametrize("seed", range(3))
def test_what_cancels_is_far_off_in_fewer_bits(mutant, at_least, seed):
    made = OPERATOR.recipes["cancelling"](Draw(seed), {}, DType.FLOAT, shape=(2, 4, 9, 24))
    call = call_for(**made.inputs)
    next(one for one in MUTANTS if one.name == mutant).run(call)
    with np.errstate(over="ignore"):
        assert not diff2(call.array("output").astype(np.float64), by_matrix(**made.inputs)) < at_least


def test_what_cancels_is_exact_in_float32_in_any_order():
    made = OPERATOR.recipes["cancelling"](Draw(1), {}, DType.FLOAT, shape=(2, 4, 9, 24))
    exact = by_reference(**made.inputs)
    products = terms(**made.inputs).astype("<f4")
    # As mixed in parity as features can be, or tf32 would hide.
    assert 0.3 < np.mean(made.inputs["features"] % 2) < 0.7
    for first, second, third in itertools.permutations(products):
        np.testing.assert_array_equal(((first + second) + third).reshape(exact.shape), exact)


@pytest.mark.parametrize(
    ("recipe", "dtype", "args", "message"),
    [
        ("listed", DType.FLOAT, {"shape": (1, 1, 2, 2), "indices": (0, 1, 0), "weights": (1, 1, 1)}, "6 entries"),
        ("cancelling", DType.HALF, {"shape": (1, 1, 4, 4)}, "24 bits"),
        ("cancelling", DType.FLOAT, {"shape": (1, 1, 2, 4)}, "three different cells"),
        ("drawn", DType.FLOAT, {"shape": (1, 1, 32, 4), "triples": "edges"}, "no edge"),
        ("special", DType.FLOAT, {"shape": (1, 2, 4, 1), "kind": "feature_nan"}, "must not name the special cell"),
    ],
)
def test_a_recipe_says_what_it_cannot_make(recipe, dtype, args, message):
    with pytest.raises(ValueError, match=message):
        OPERATOR.recipes[recipe](Draw(1), {}, dtype, **args)


@pytest.mark.parametrize(
    "kind", ["feature_nan", "weight_inf", "idle_nan", "zero_times_inf", "inf_minus_inf", "overflow"]
)
@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
def test_special_values_leave_most_outputs_finite(kind, dtype):
    made = OPERATOR.recipes["special"](Draw(6), {}, dtype, shape=(2, 3, 7, 9), kind=kind)
    finite = np.isfinite(by_reference(**made.inputs))
    assert finite.all() == (kind == "idle_nan")
    assert finite.mean() > 0.5


def test_theory_counts_every_tensor_once():
    call = call_for(*OPERATOR.recipes["drawn"](Draw(1), {}, DType.HALF, shape=(2, 3, 5, 4)).inputs.values())
    theory = OPERATOR.theory(replace(call))
    assert theory.ops == 5 * 2 * 3 * 4
    assert theory.io_bytes == 2 * (2 * 3 * 5) + 4 * (2 * 4 * 3) + 2 * (2 * 4 * 3) + 2 * (2 * 3 * 4)
