"""roiaware_pool3d_backward: a product with a matrix beside reference, kernel and single elements; forward's adjoint."""

import numpy as np
import pytest

from mluops_gtest.authoring import Draw, DType, call_of
from tests.support.operator_calls import BOTH, OPERATORS, by_definition, poisoned_call

FORWARD, BACKWARD = OPERATORS["roiaware_pool3d_forward"], OPERATORS["roiaware_pool3d_backward"]
MAX, AVERAGE = 0, 1


def backward_call(made):
    return poisoned_call(BACKWARD, made.params, made.inputs, made.outputs)


def by_matrix(made):
    """A matrix of ones or 1/n times the gradients, a channel at a time, in float64."""
    p, (lists, argmax, grads) = made.params, (made.inputs[name] for name in ("pts_idx_of_voxels", "argmax", "grad_out"))
    rows, points, grads = lists.reshape(-1, lists.shape[-1]), argmax.reshape(-1, argmax.shape[-1]), grads.astype(float)
    wanted = np.zeros(made.outputs["grad_in"])
    for c in range(points.shape[1]):
        shares = np.zeros((len(wanted), len(rows)))
        for cell, row in enumerate(rows):
            if p["pool_method"] == MAX and points[cell, c] != -1:
                shares[points[cell, c], cell] = 1
            if p["pool_method"] == AVERAGE:
                np.add.at(shares[:, cell], row[1 : 1 + row[0]], 1 / max(row[0], 1))
        wanted[:, c] = shares @ grads.reshape(len(rows), -1)[:, c]
    return wanted


@pytest.mark.parametrize("method", [MAX, AVERAGE])
@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
@pytest.mark.parametrize(
    ("recipe", "args"),
    [
        ("scene", {}),
        ("cells", {"counts": (1, 4)}),
        ("tables", {}),
        ("tables", {"kind": "twice"}),
        ("tables", {"points": 1}),
    ],
)
def test_backward_is_a_product_with_a_matrix(method, dtype, recipe, args) -> None:
    made = BACKWARD.recipes[recipe](Draw(3), {"pool_method": method}, dtype, **args, grads="coarse")
    wanted, epsilon = by_matrix(made), np.finfo(dtype.storage).eps
    for compute in (*BOTH, by_definition):
        found = compute(BACKWARD, backward_call(made))["grad_in"].astype(float)
        np.testing.assert_allclose(found, wanted, rtol=8 * epsilon, atol=8 * epsilon)


@pytest.mark.parametrize("method", [MAX, AVERAGE])
def test_backward_is_forwards_adjoint(method) -> None:
    """Σ pooled · G = Σ features · grad_in with the tables fixed."""
    made = FORWARD.recipes["scene"](Draw(5), {"pool_method": method}, DType.FLOAT)
    given = FORWARD.reference(call_of(FORWARD.name, made.params, made.inputs)).outputs
    grads = np.random.default_rng(0).normal(size=given["pooled_features"].shape).astype("<f4")
    tables = {name: given[name] for name in ("pts_idx_of_voxels", "argmax")}
    params = {name: value for name, value in made.params.items() if name != "pts_num"}
    features = made.inputs["pts_feature"].astype(float)
    call = poisoned_call(BACKWARD, params, {**tables, "grad_out": grads}, {"grad_in": features.shape})
    back = BACKWARD.reference(call).outputs["grad_in"]
    np.testing.assert_allclose(
        (given["pooled_features"] * grads.astype(float)).sum(), (features * back).sum(), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("table", "index", "value"),
    [
        ("argmax", 0, -2),
        ("argmax", 0, 16),
        ("pts_idx_of_voxels", 0, 4),
        ("pts_idx_of_voxels", 0, -1),
        ("pts_idx_of_voxels", 1, 16),
    ],
)
def test_only_the_table_of_the_mode_must_name_points(table, index, value) -> None:
    for method in (MAX, AVERAGE):
        made = BACKWARD.recipes["tables"](Draw(0), {"pool_method": method}, DType.FLOAT)
        made.inputs[table].reshape(-1)[index] = value
        is_read = table == ("argmax" if method == MAX else "pts_idx_of_voxels")
        assert (BACKWARD.broken(backward_call(made)) is not None) == is_read
