"""Forward, backward data and backward filter are one trilinear form, seen from its three sides."""

import random

import numpy as np
import pytest

from generators._shared.connections import (
    Connections,
    layer_connections,
    random_connections,
    site_connections,
)
from generators._shared.sparse import derive_geometry
from mluops_gtest.authoring import Draw, DType, Status, call_of
from mluops_gtest.catalog.operators import load_operator
from tests.conftest import ROOT

FORWARD, BACKWARD_DATA, BACKWARD_FILTER = (
    load_operator(ROOT / "generators" / f"indice_convolution_{name}" / "__init__.py")
    for name in ("forward", "backward_data", "backward_filter")
)
# Whole numbers of three bits: every sum here stays below 2^11, so that half and float hold it exactly.
BITS = 3


def random_pairs(rng: random.Random, sub_m: bool) -> Connections:
    rows_in = rng.randint(1, 7)
    kernel = tuple(rng.choice((1, 3)) if sub_m else rng.randint(1, 3) for _ in range(3))
    rows_out = rows_in if sub_m else rng.randint(1, 7)
    return random_connections(Draw(rng.getrandbits(32)), kernel, rows_in, rows_out, sub_m=sub_m)


def pairs_of_sites(rng: random.Random, sub_m: bool) -> Connections:
    kernel = (3, 1, 3) if sub_m else tuple(rng.randint(2, 3) for _ in range(3))
    stride = (1, 1, 1) if sub_m else tuple(rng.randint(1, 2) for _ in range(3))
    pad = tuple(k // 2 for k in kernel)
    geometry = derive_geometry(2, (3, 4, 3), kernel, stride, pad, (1, 1, 1), sub_m=sub_m)
    return site_connections(Draw(rng.getrandbits(32)), geometry, 12)


def pairs_of_a_layer(rng: random.Random, sub_m: bool) -> Connections:
    layers = ("subm_41x1440x1440", "subm_5x180x180") if sub_m else ("down_21x720x720", "out_5x180x180")
    return layer_connections(Draw(rng.getrandbits(32)), rng.choice(layers), keep=20)


def answers(operator, connections: Connections, inputs, output, dims) -> list[np.ndarray]:
    """What reference and kernel say of the call, as whole numbers."""
    params = {"inverse": 0, "sub_m": int(connections.sub_m), "indice_num": connections.counts}
    if operator is FORWARD:
        params["num_active_out"] = connections.rows_out
    written = np.full(dims, np.nan, next(iter(inputs.values())).dtype)
    call = call_of(operator.name, params, {**inputs, "indice_pairs": connections.pairs}, {output: written})
    assert operator.answer(call).computes
    assert operator.broken(call) is None
    baseline = operator.reference(call).outputs[output]
    assert operator.kernel(call) is Status.SUCCESS
    np.testing.assert_array_equal(written, baseline)
    return [baseline.astype(np.int64), written.astype(np.int64)]


def inner(left: np.ndarray, right: np.ndarray) -> int:
    return int((left.astype(np.int64) * right.astype(np.int64)).sum())


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
@pytest.mark.parametrize("sub_m", [False, True])
@pytest.mark.parametrize("source", [random_pairs, pairs_of_sites, pairs_of_a_layer])
def test_the_three_are_adjoint_to_each_other(source, sub_m, dtype):
    """⟨conv(X, W), G⟩ = ⟨W, filter gradient(X, G)⟩ = ⟨X, data gradient(W, G)⟩, without any rounding."""
    rng = random.Random(f"{source.__name__}/{sub_m}/{dtype.value}")
    for _ in range(15):
        connections = source(rng, sub_m)
        channels_in, channels_out = rng.randint(1, 3), rng.randint(1, 3)
        draw = Draw(rng.getrandbits(32))
        shapes = {
            "features": (connections.rows_in, channels_in),
            "filters": (*connections.kernel, channels_in, channels_out),
            "output_grad": (connections.rows_out, channels_out),
        }
        drawn = {name: draw.stream(name).lattice(dims, BITS, 0, dtype.storage.str) for name, dims in shapes.items()}
        x, w, g = drawn["features"], drawn["filters"], drawn["output_grad"]
        forward = answers(FORWARD, connections, {"features": x, "filters": w}, "features_out", g.shape)
        to_data = answers(BACKWARD_DATA, connections, {"output_grad": g, "filters": w}, "input_grad", x.shape)
        to_filter = answers(BACKWARD_FILTER, connections, {"features": x, "output_grad": g}, "filters_grad", w.shape)
        assert max(np.abs(sums).max() for sums in (*forward, *to_data, *to_filter)) < 2**11
        values = {inner(y, g) for y in forward} | {inner(d, x) for d in to_data} | {inner(f, w) for f in to_filter}
        assert len(values) == 1, values
