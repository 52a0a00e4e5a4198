"""three_interpolate_backward: the adjoint of the forward one, the rulings, the recipes."""

import numpy as np
import pytest

from generators._shared.interpolation import contributions
from generators.three_interpolate_backward import terms
from mluops_gtest.authoring import DType, Status
from mluops_gtest.authoring.sums import largest_magnitude, lattice_exponent, sums_are_exact
from tests.support.interpolation import BACKWARD, FORWARD, by_matrix, by_reference, call_for, make_call, output_of


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_adjoint_of_the_forward_interpolation(seed):
    """⟨forward(f), g⟩ = ⟨f, backward(g)⟩ for whole numbers, which float32 adds exactly."""
    rng = np.random.default_rng(seed)
    batches, channels, cells, points = (int(size) for size in rng.integers(1, (4, 5, 9, 12)))
    features, grad = (rng.integers(-99, 100, (batches, channels, length)).astype("<f4") for length in (cells, points))
    indices = rng.integers(0, cells, (batches, points, 3)).astype("<i4")
    weights = rng.integers(-99, 100, indices.shape).astype("<f4")
    output = by_reference(FORWARD, call_for(FORWARD, features, indices, weights))
    result = by_reference(BACKWARD, call_for(BACKWARD, grad, indices, weights, cells))
    assert (output.astype(int) * grad.astype(int)).sum() == (features.astype(int) * result.astype(int)).sum()


# The rulings.


def one_batch(grad, triples, weights, cells):
    arrays = np.array([[grad]], "<f4"), np.array([triples], "<i4"), np.array([weights], "<f4")
    call = call_for(BACKWARD, *arrays, cells)
    assert BACKWARD.kernel(call) is Status.SUCCESS
    np.testing.assert_array_equal(output_of(call), by_reference(BACKWARD, call))
    return output_of(call)[0, 0].tolist()


def test_every_contribution_adds():
    assert one_batch([2, 3], [(0, 1, 2), (2, 1, 0)], [(1, 10, 100), (1, 10, 100)], 3) == [302, 50, 203]


def test_a_triple_may_name_one_cell_again():
    assert one_batch([2], [(1, 1, 1)], [(1, 10, 100)], 3) == [0, 222, 0]


def test_what_nobody_names_is_zero_whatever_the_buffer_held():
    assert one_batch([1], [(0, 0, 2)], [(1, 1, 1)], 4) == [2, 0, 1, 0]


def test_nan_stays_in_the_cells_that_receive_it():
    result = one_batch([np.nan, 3], [(0, 1, 1), (2, 3, 3)], [(1, 0, 0), (1, 1, 1)], 5)
    assert np.isnan(result[:2]).all()
    assert result[2:] == [3, 6, 0]


# The recipes.


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
def test_the_most_crowded_network_is_exact_in_float64(dtype):
    """§3.6 case 7 with one channel: everything but the gradients' size."""
    call = make_call(BACKWARD, "nearest", (16, 1, 128, 4096), dtype)
    grad, indices, weights = (call.array(name) for name in call.inputs)
    met = contributions(indices)
    # Cells in a crowded part of the cloud get more than others.
    assert met.mean() == pytest.approx(96, rel=0.01)
    assert 200 < met.max() < 1000
    exponent = lattice_exponent(grad) + lattice_exponent(weights)
    assert sums_are_exact(exponent, largest_magnitude(grad) * largest_magnitude(weights), int(met.max()))
    if dtype is DType.HALF:
        assert np.abs(weights[weights != 0]).min() >= np.finfo(np.float16).tiny


@pytest.mark.parametrize("points", [4, 18, 66])
def test_what_cancels_is_exact_in_float32_in_any_order(points):
    call = make_call(BACKWARD, "cancelling", (2, 3, 27, points))
    exact = by_reference(BACKWARD, call)
    # As mixed in parity as gradients can be, or tf32 would hide.
    assert 0.25 < np.mean(call.array("grad_output") % 2) < 0.75
    met = terms(call).columns(10**6)
    assert np.abs(met).sum(axis=0).max() <= 2**24
    for order in (slice(None), slice(None, None, -1)):
        sums = np.zeros(met.shape[1], "<f4")
        for row in met[order].astype("<f4"):
            sums += row
        np.testing.assert_array_equal(
            np.sort(sums), np.sort(exact[by_matrix(BACKWARD, call, magnitudes=True) > 0], axis=None)
        )


@pytest.mark.parametrize(
    ("recipe", "dtype", "shape", "args", "message"),
    [
        ("listed", DType.FLOAT, (1, 1, 2, 2), {"indices": (0, 1, 0), "weights": (1, 1, 1)}, "6 entries"),
        ("cancelling", DType.HALF, (1, 1, 4, 4), {}, "24 bits"),
        ("cancelling", DType.FLOAT, (1, 1, 4, 5), {}, "an even number"),
        ("drawn", DType.HALF, (1, 1, 2, 200), {"values": "full"}, "half adds at most 128"),
        ("drawn", DType.HALF, (1, 1, 2, 2000), {}, "half cannot add"),
        ("drawn", DType.FLOAT, (1, 1, 32, 4), {"triples": "edges"}, "no edge"),
    ],
)
def test_a_recipe_says_what_it_cannot_make(recipe, dtype, shape, args, message):
    with pytest.raises(ValueError, match=message):
        make_call(BACKWARD, recipe, shape, dtype, **args)
