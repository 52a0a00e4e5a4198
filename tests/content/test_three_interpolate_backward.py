"""three_interpolate_backward: the adjoint of the forward one, the rulings, the recipes."""

import numpy as np
import pytest

from generators.three_interpolate_backward.mutants import MUTANTS
from generators.three_interpolate_backward.recipes import terms
from generators.three_interpolate_backward.reference import contributions
from mluops_gtest.authoring import Draw, DType, OpCall, Status, call_of
from mluops_gtest.authoring.sums import largest_magnitude, lattice_exponent, sums_are_exact
from mluops_gtest.catalog.declarations import load_declarations
from mluops_gtest.catalog.operators import load_operator
from mluops_gtest.judging.elementwise import element_errors
from tests.conftest import ROOT
from tests.support.interpolation import (
    assert_all_half_cases_pass,
    diff2,
)
from tests.support.operator_calls import poisoned_call
from tests.support.torch_needed import needs_torch

OPERATOR = load_operator(ROOT / "generators" / "three_interpolate_backward" / "__init__.py")
FORWARD = load_operator(ROOT / "generators" / "three_interpolate_forward" / "__init__.py")
DRAFTS = load_declarations(ROOT / "cases" / "three_interpolate_backward.yaml", OPERATOR)


def call_for(grad_output, indices, weights, cells) -> OpCall:
    """A valid call whose output holds poison."""
    inputs = {"grad_output": grad_output, "indices": indices, "weights": weights}
    return poisoned_call(OPERATOR, {}, inputs, {"grad_features": (*grad_output.shape[:2], cells)})


def make_case(recipe, shape, dtype=DType.FLOAT, seed=1, **args):
    """The inputs of a recipe, and M."""
    drawn = OPERATOR.recipes[recipe](Draw(seed), {}, dtype, shape=shape, **args)
    assert drawn.outputs["grad_features"] == shape[:3]
    return (*drawn.inputs.values(), shape[2])


def by_matrix(grad_output, indices, weights, cells) -> np.ndarray:
    """grad_output · S in float64, with the dense S[b, n, m] of the forward interpolation."""
    batches, points, _ = indices.shape
    matrix = np.zeros((batches, points, cells))
    b, n, _ = np.ogrid[:batches, :points, :3]
    np.add.at(matrix, (b, n, indices), weights.astype(np.float64))
    return np.einsum("bcn,bnm->bcm", grad_output.astype(np.float64), matrix, optimize=True)


def by_reference(grad_output, indices, weights, cells) -> np.ndarray:
    return OPERATOR.reference(call_for(grad_output, indices, weights, cells)).outputs["grad_features"]


def assert_close(call, expected) -> None:
    """Every element of the output is as near as any order of float32 operations brings it."""
    result = call.tensor("grad_features")
    assert element_errors(result.array, expected, result.dtype, OPERATOR.bound(call)["grad_features"]).beyond == 0


@pytest.mark.parametrize(
    "shape", [(2, 130, 300, 90), (1, 3, 5000, 40), (2, 5, 40, 9000), (1, 70000, 2, 1), (40, 1, 3, 2)]
)
def test_shapes_beyond_one_tile_agree_with_a_matrix_product(shape):
    inputs = make_case("drawn", shape)
    # Lattice data: float64 is exact in any order.
    expected = by_matrix(*inputs).astype("<f4")
    np.testing.assert_array_equal(by_reference(*inputs), expected)
    call = call_for(*inputs)
    OPERATOR.kernel(call)
    assert_close(call, expected)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_adjoint_of_the_forward_interpolation(seed):
    """⟨forward(f), g⟩ = ⟨f, backward(g)⟩ for whole numbers, which float32 adds exactly."""
    rng = np.random.default_rng(seed)
    batches, channels, cells, points = (int(size) for size in rng.integers(1, (4, 5, 9, 12)))
    features, grad = (rng.integers(-99, 100, (batches, channels, length)).astype("<f4") for length in (cells, points))
    indices = rng.integers(0, cells, (batches, points, 3)).astype("<i4")
    weights = rng.integers(-99, 100, indices.shape).astype("<f4")
    inputs = {"features": features, "indices": indices, "weights": weights}
    output = FORWARD.reference(call_of(FORWARD.name, {}, inputs)).outputs["output"]
    result = by_reference(grad, indices, weights, cells)
    assert (output.astype(int) * grad.astype(int)).sum() == (features.astype(int) * result.astype(int)).sum()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=needs_torch) for seed in range(5)])
def test_torch_differentiates_the_forward_formula_to_the_same(seed):
    import torch

    grad, indices, weights, cells = inputs = make_case("drawn", (2, 3, 4, 6), seed=seed, triples="random")
    features = torch.zeros((*grad.shape[:2], cells), dtype=torch.float64, requires_grad=True)
    named = torch.from_numpy(indices).long().flatten(1)[:, None].expand(-1, grad.shape[1], -1)
    chosen = features.gather(2, named).unflatten(2, (-1, 3))
    output = (chosen * torch.from_numpy(weights).double()[:, None]).sum(dim=-1)
    output.backward(torch.from_numpy(grad).double())
    np.testing.assert_allclose(by_reference(*inputs), features.grad.numpy(), rtol=2e-7, atol=1e-12)


def test_the_bound_grows_with_the_terms():
    grad, indices, weights, cells = inputs = make_case("drawn", (2, 3, 4, 6), triples="random")
    call = call_for(*inputs)
    bound = OPERATOR.bound(call)["grad_features"]
    np.testing.assert_allclose(bound.magnitude, by_matrix(np.abs(grad), indices, np.abs(weights), cells), rtol=1e-6)
    assert bound.roundings.sum() == indices.size
    # One wrong element is seen, whatever the norms say of it.
    OPERATOR.kernel(call)
    call.array("grad_features")[0, 0, indices[0, 0, 0]] += 0.01
    with pytest.raises(AssertionError):
        assert_close(call, by_reference(*inputs))


def test_every_nan_of_the_baseline_is_the_same_one():
    grad = np.array([[[np.inf, -np.inf, 0.0, 1.0]]], "<f4")
    grad.view("<u4")[0, 0, 2] = 0xFFC12345
    indices = np.array([[[0, 0, 3], [0, 3, 3], [1, 1, 1], [2, 2, 2]]], "<i4")
    result = by_reference(grad, indices, np.ones((1, 4, 3), "<f4"), 5)
    assert result.view("<u4").reshape(-1)[:2].tolist() == [0x7FC00000, 0x7FC00000]
    assert result[0, 0, 2:].tolist()[0] == 3


# The rulings.


def one_batch(grad, triples, weights, cells):
    arrays = np.array([[grad]], "<f4"), np.array([triples], "<i4"), np.array([weights], "<f4")
    return by_reference(*arrays, cells)[0, 0].tolist()


def test_every_contribution_adds():
    assert one_batch([2, 3], [(0, 1, 2), (2, 1, 0)], [(1, 10, 100), (1, 10, 100)], 3) == [302, 50, 203]


def test_a_triple_may_name_one_cell_again():
    assert one_batch([2], [(1, 1, 1)], [(1, 10, 100)], 3) == [0, 222, 0]


def test_what_nobody_names_is_zero_whatever_the_buffer_held():
    call = call_for(np.ones((1, 2, 1), "<f4"), np.array([[[0, 0, 2]]], "<i4"), np.ones((1, 1, 3), "<f4"), 4)
    OPERATOR.kernel(call)
    assert call.array("grad_features")[0].tolist() == [[2, 0, 1, 0]] * 2


def test_nan_stays_in_the_cells_that_receive_it():
    result = one_batch([np.nan, 3], [(0, 1, 1), (2, 3, 3)], [(1, 0, 0), (1, 1, 1)], 5)
    assert np.isnan(result[:2]).all()
    assert result[2:] == [3, 6, 0]


@pytest.mark.parametrize("index", [-1, 4, 2**30])
def test_an_index_outside_is_not_defined(index):
    grad, indices, weights, _ = make_case("drawn", (2, 3, 4, 5))
    assert OPERATOR.broken(call_for(grad, indices, weights, 4)) is None
    indices[-1, -1, 1] = index
    assert "outside of 0 … 3" in OPERATOR.broken(call_for(grad, indices, weights, 4))


# The checks.


def test_no_cells_succeed_and_no_gradients_do_not():
    def status(batches=2, channels=3, points=4):
        triples = np.zeros((batches, points, 3), "<i4")
        call = call_for(np.ones((batches, channels, points), "<f4"), triples, triples.astype("<f4"), cells=0)
        return OPERATOR.answer(call).status

    assert status() is Status.SUCCESS
    assert status(batches=0) is status(channels=0) is status(points=0) is Status.BAD_PARAM


# The recipes.

# (C, N, M), as the document lists them.
NETWORK = [
    (512, 64, 16),
    (256, 256, 64),
    (256, 1024, 256),
    (128, 4096, 1024),
    (16, 64, 512),
    (64, 256, 256),
    (1024, 4096, 128),
    (1, 128, 1024),
    (128, 512, 256),
    (512, 2048, 128),
]


def test_the_network_has_the_documents_shapes():
    declared = [(*draft.args["shape"], draft.dtype) for draft in DRAFTS if "network" in draft.tags]
    assert declared == [(16, c, m, n, dtype) for c, n, m in NETWORK for dtype in ("float", "half")]


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
def test_the_most_crowded_network_is_exact_in_float64(dtype):
    """§3.6 case 7 with one channel: everything but the gradients' size."""
    grad, indices, weights, _ = make_case("nearest", (16, 1, 128, 4096), dtype)
    met = contributions(indices)
    # Cells in a crowded part of the cloud get more than others.
    assert met.mean() == pytest.approx(96, rel=0.01)
    assert 200 < met.max() < 1000
    exponent = lattice_exponent(grad) + lattice_exponent(weights)
    assert sums_are_exact(exponent, largest_magnitude(grad) * largest_magnitude(weights), int(met.max()))
    if dtype is DType.HALF:
        assert np.abs(weights[weights != 0]).min() >= np.finfo(np.float16).tiny


def half_arithmetic(*, reverse):
    """Rounded to half after every product and every addition, point after point."""

    def run(call: OpCall) -> Status:
        result = call.array("grad_features")
        result[...] = 0
        order = slice(None, None, -1 if reverse else 1)
        for batch, (grad, indices, weights) in enumerate(
            zip(*(argument.array for argument in call.inputs.values()), strict=True)
        ):
            products = grad.T[:, None, :] * weights[:, :, None]
            np.add.at(result[batch].T, indices.reshape(-1)[order], products.reshape(-1, len(grad))[order])
        return Status.SUCCESS

    return run


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_kernels_that_round_to_half_after_every_step_pass_all_half_cases(seed):
    assert_all_half_cases_pass(OPERATOR, DRAFTS, seed, (half_arithmetic(reverse=reverse) for reverse in (False, True)))


@pytest.mark.parametrize(
    ("mutant", "at_least"),
    [("bf16_inputs", 0.5), ("half_inputs", 0.1), ("tf32_inputs", 0.1), ("tf32_products", 0.05), ("half_sums", 0.05)],
)
@pytest.mark.parametrize("seed", range(3))
def test_what_cancels_is_far_off_in_fewer_bits(mutant, at_least, seed):
    inputs = make_case("cancelling", (2, 3, 27, 18), seed=seed)
    call = call_for(*inputs)
    next(one for one in MUTANTS if one.name == mutant).run(call)
    assert not diff2(call.array("grad_features").astype(np.float64), by_matrix(*inputs)) < at_least


@pytest.mark.parametrize("points", [4, 18, 66])
def test_what_cancels_is_exact_in_float32_in_any_order(points):
    inputs = make_case("cancelling", (2, 3, 27, points))
    exact = by_reference(*inputs)
    # As mixed in parity as gradients can be, or tf32 would hide.
    assert 0.25 < np.mean(inputs[0] % 2) < 0.75
    met = terms(*inputs[:3])
    assert np.abs(met).sum(axis=0).max() <= 2**24
    for order in (slice(None), slice(None, None, -1)):
        sums = np.zeros(met.shape[1], "<f4")
        for row in met[order].astype("<f4"):
            sums += row
        np.testing.assert_array_equal(np.sort(sums), np.sort(exact[by_matrix(*map(np.abs, inputs)) > 0], axis=None))


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
        make_case(recipe, shape, dtype, **args)


@pytest.mark.parametrize("kind", ["grad_nan", "weight_inf", "zero_times_inf", "inf_minus_inf", "overflow"])
@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
def test_special_values_leave_most_cells_finite(kind, dtype):
    finite = np.isfinite(by_reference(*make_case("special", (2, 3, 7, 9), dtype, kind=kind)))
    assert not finite.all()
    assert finite.mean() > 0.5


def test_theory_counts_every_tensor_once():
    theory = OPERATOR.theory(call_for(*make_case("drawn", (2, 3, 5, 4), DType.HALF)))
    assert theory.ops == 6 * 2 * 3 * 4
    assert theory.io_bytes == 2 * (2 * 3 * 5) + 4 * (2 * 4 * 3) + 2 * (2 * 4 * 3) + 2 * (2 * 3 * 4)
