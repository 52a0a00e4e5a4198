"""three_interpolate_forward: the rulings, the recipes."""

import itertools

import numpy as np
import pytest

from generators.three_interpolate_forward import terms
from mluops_gtest.authoring import Draw, DType, Status
from mluops_gtest.authoring.sums import lattice_exponent
from tests.support.interpolation import FORWARD, by_reference, call_for, make_call, output_of

# The rulings.


def one_point(features, triple, weights):
    arrays = np.array([[features]], "<f4"), np.array([[triple]], "<i4"), np.array([[weights]], "<f4")
    call = call_for(FORWARD, *arrays)
    assert FORWARD.kernel(call) is Status.SUCCESS
    np.testing.assert_array_equal(output_of(call), by_reference(FORWARD, call))
    return output_of(call).item()


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


# The recipes.


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
@pytest.mark.parametrize("shape", [(2, 4, 16, 64), (2, 4, 64, 16), (2, 4, 20, 20)])
def test_nearest_cells_are_weighted_by_distance(shape, dtype):
    made = FORWARD.recipes["nearest"](Draw(8), {}, dtype, shape=shape)
    indices, weights = made.inputs["indices"], made.inputs["weights"].astype(np.float64)
    assert (np.diff(weights, axis=-1) <= 0).all()
    assert np.abs(weights.sum(axis=-1) - 1).max() < (2e-7 if dtype is DType.FLOAT else 1.5e-3)
    assert (np.diff(np.sort(indices, axis=-1), axis=-1) > 0).all()
    assert not np.array_equal(indices[0], indices[1])
    # No two weights of a point are the whole, but for points that are cells.
    assert np.mean(weights[..., 1] > 0.01) > 0.5
    # float64 sums are exact.
    assert lattice_exponent(made.inputs["features"]) + lattice_exponent(made.inputs["weights"]) >= -51


def test_what_cancels_is_exact_in_float32_in_any_order():
    call = make_call(FORWARD, "cancelling", (2, 4, 9, 24))
    exact = by_reference(FORWARD, call)
    products = terms(call).columns(exact.size * 3).astype("<f4")
    # As mixed in parity as features can be, or tf32 would hide.
    assert 0.3 < np.mean(call.array("features") % 2) < 0.7
    for first, second, third in itertools.permutations(products):
        sums = ((first + second) + third).reshape(*exact.swapaxes(1, 2).shape).swapaxes(1, 2)
        np.testing.assert_array_equal(sums, exact)


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
        FORWARD.recipes[recipe](Draw(1), {}, dtype, **args)
