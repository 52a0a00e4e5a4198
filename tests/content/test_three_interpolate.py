"""Both interpolations: products with one matrix, and what both promise of bounds, network, half data and recipes."""

import numpy as np
import pytest

from mluops_gtest.authoring import Draw, DType, Status
from mluops_gtest.catalog.declarations import load_declarations
from mluops_gtest.catalog.make import make_case
from mluops_gtest.core.case import Reseed
from mluops_gtest.core.operator_parts import MUTANTS
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.search.audit_declarations import judged
from tests.conftest import ROOT
from tests.support.interpolation import (
    BACKWARD,
    FORWARD,
    by_matrix,
    by_reference,
    call_for,
    make_call,
    outliers,
    output_of,
)
from tests.support.operator_calls import OPERATORS

of_both = pytest.mark.parametrize("operator", [FORWARD, BACKWARD], ids=lambda operator: operator.name)
# Cases with one of these tags do not run of their own accord.
ON_REQUEST = {"network", "race", "heavy", "undefined", "subnormal"}
CANONICAL_NAN, OTHER_NAN = 0x7FC00000, 0xFFC12345
# (C, M, N), as the documents list them.
NETWORK = [
    (512, 16, 64), (256, 64, 256), (256, 256, 1024), (128, 1024, 4096), (16, 512, 64), (64, 256, 256),
    (1024, 128, 4096), (1, 1024, 128), (128, 256, 512), (512, 128, 2048),
]  # fmt: skip


def drafts_of(operator):
    return load_declarations(ROOT / "cases" / f"{operator.name}.yaml", operator)


@of_both
@pytest.mark.parametrize(
    "shape", [(2, 130, 300, 90), (1, 3, 5000, 40), (2, 5, 40, 9000), (1, 70000, 2, 1), (40, 1, 3, 2)]
)
def test_shapes_beyond_one_tile_agree_with_a_matrix_product(operator, shape):
    call = make_call(operator, "drawn", shape)
    # Lattice data: float64 is exact in any order.
    expected = by_matrix(operator, call).astype("<f4")
    np.testing.assert_array_equal(by_reference(operator, call), expected)
    assert operator.kernel(call) is Status.SUCCESS
    assert outliers(operator, call, expected) == 0


@of_both
def test_the_bound_grows_with_the_terms(operator):
    call = make_call(operator, "drawn", (2, 3, 4, 6), triples="random")
    bound = operator.bound(call)[operator.outputs[0].id]
    np.testing.assert_allclose(bound.magnitude, by_matrix(operator, call, magnitudes=True), rtol=1e-6)
    if operator is FORWARD:
        assert (bound.roundings, bound.products) == (3, True)
    else:
        assert bound.roundings.sum() == call.array("indices").size
    # One wrong element is seen, whatever the norms say of it.
    operator.kernel(call)
    output_of(call)[0, 0, call.array("indices")[0, 0, 0]] += 0.01
    assert outliers(operator, call, by_reference(operator, call)) == 1


@of_both
@pytest.mark.parametrize("index", [-1, 4, 2**30])
def test_an_index_outside_is_not_defined(operator, index):
    call = make_call(operator, "drawn", (2, 3, 4, 5))
    assert operator.broken(call) is None
    call.array("indices")[-1, -1, 1] = index
    assert "leaves 0 … 3" in operator.broken(call)


@of_both
def test_no_cells_succeed_and_nothing_else_to_compute_does_not(operator):
    def status(batches=2, channels=3, points=4):
        triples = np.zeros((batches, points, 3), "<i4")
        fed = np.ones((batches, channels, 0 if operator is FORWARD else points), "<f4")
        return operator.answer(call_for(operator, fed, triples, triples.astype("<f4"))).status

    assert status() is Status.SUCCESS
    assert status(batches=0) is status(channels=0) is status(points=0) is Status.BAD_PARAM


@of_both
def test_the_network_has_the_documents_shapes(operator):
    declared = [(*draft.args["shape"], draft.dtype) for draft in drafts_of(operator) if "network" in draft.tags]
    assert declared == [(16, *shape, dtype) for shape in NETWORK for dtype in ("float", "half")]


def forward_in_half(call, order):
    """Rounded to half after every product and every addition."""
    features, weights = call.array("features"), call.array("weights")
    for batch, indices in enumerate(call.array("indices")):
        products = [features[batch][:, indices[:, t]] * weights[batch, :, t] for t in (0, 1, 2)[::order]]
        call.array("output")[batch] = (products[0] + products[1]) + products[2]
    return Status.SUCCESS


def backward_in_half(call, order):
    """The same, point after point."""
    result = call.array("grad_features")
    result[...] = 0
    batches = zip(*(call.array(name) for name in call.inputs), strict=True)
    for batch, (grad, indices, weights) in enumerate(batches):
        products = grad.T[:, None, :] * weights[:, :, None]
        np.add.at(result[batch].T, indices.reshape(-1)[::order], products.reshape(-1, len(grad))[::order])
    return Status.SUCCESS


@pytest.mark.slow
@pytest.mark.parametrize(("operator", "run"), [(FORWARD, forward_in_half), (BACKWARD, backward_in_half)])
@pytest.mark.parametrize("seed", [None, 1])
def test_kernels_that_round_to_half_after_every_step_pass_all_half_cases(operator, run, seed):
    drafts = [draft for draft in drafts_of(operator) if draft.dtype == "half" and not draft.expect.check]
    drafts = [draft for draft in drafts if ON_REQUEST.isdisjoint(draft.tags)]
    assert len(drafts) > 60
    for draft in drafts:
        case = make_case(draft, operator, Draw(draft.seed, None if seed is None else Reseed(seed)))
        for order in (1, -1):
            outcome = judged("half", lambda call, order=order: run(call, order), case, operator).outcome
            assert outcome is Outcome.PASSED, draft.id


@pytest.mark.parametrize(
    ("mutant", "at_least"),
    [("bf16_inputs", 0.5), ("half_inputs", 0.1), ("tf32_inputs", 0.1), ("tf32_products", 0.05), ("half_sums", 0.05)],
)
@pytest.mark.parametrize(("operator", "shape"), [(FORWARD, (2, 4, 9, 24)), (BACKWARD, (2, 3, 27, 18))])
def test_what_cancels_is_far_off_in_fewer_bits(operator, shape, mutant, at_least):
    run = next(one.run for one in OPERATORS.part(operator.name, MUTANTS) if one.name == mutant)
    for seed in range(3):
        call = make_call(operator, "cancelling", shape, seed=seed)
        with np.errstate(over="ignore"):
            run(call)
            baseline = by_matrix(operator, call)
            diff2 = np.sqrt(np.square(output_of(call) - baseline).sum() / np.square(baseline).sum())
        assert not diff2 < at_least


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        *((FORWARD, kind) for kind in ("feature_nan", "idle_nan")),
        (BACKWARD, "grad_nan"),
        *((side, kind) for side in (FORWARD, BACKWARD) for kind in ("weight_inf", "zero_times_inf", "inf_minus_inf")),
        *((side, "overflow") for side in (FORWARD, BACKWARD)),
    ],
)
@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
def test_special_values_leave_most_of_the_output_finite_and_every_nan_is_the_same_one(operator, kind, dtype):
    call = make_call(operator, "special", (2, 3, 7, 9), dtype, seed=6, kind=kind)
    fed = next(iter(call.inputs.values())).array
    if dtype is DType.FLOAT:
        fed.view("<u4")[np.isnan(fed)] = OTHER_NAN
    baseline = by_reference(operator, call)
    assert np.isfinite(baseline).all() == (kind == "idle_nan")
    assert np.isfinite(baseline).mean() > 0.5
    if dtype is DType.FLOAT:
        assert set(baseline[np.isnan(baseline)].view("<u4").tolist()) <= {CANONICAL_NAN}
        assert np.isnan(baseline).any() or kind not in ("feature_nan", "grad_nan", "inf_minus_inf", "zero_times_inf")


@pytest.mark.parametrize(("operator", "per_point"), [(FORWARD, 5), (BACKWARD, 6)])
def test_theory_counts_every_tensor_once(operator, per_point):
    theory = operator.theory(make_call(operator, "drawn", (2, 3, 5, 4), DType.HALF))
    assert theory.ops == per_point * 2 * 3 * 4
    assert theory.io_bytes == 2 * (2 * 3 * 5) + 4 * (2 * 4 * 3) + 2 * (2 * 4 * 3) + 2 * (2 * 3 * 4)
