"""Forward, backward data and backward filter: one trilinear form, seen from its three sides, and what all promise."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from generators._shared.connections import Connections, any_pairs, pairs_of_layer, site_connections
from generators._shared.products import float64_is_exact
from generators._shared.sparse import derive_geometry
from generators.indice_convolution_backward_data import products_of as products_of_data
from generators.indice_convolution_backward_filter import Operands
from generators.indice_convolution_backward_filter import float64_is_exact as filter_is_exact
from generators.indice_convolution_forward import products_of
from mluops_gtest.authoring import Draw, DType, Status, call_of
from mluops_gtest.catalog.declarations import load_declarations
from tests.conftest import ROOT
from tests.support.convolutions import assert_right, call_with, definition_of, make_call
from tests.support.operator_calls import BOTH, OPERATORS, by_reference
from tests.support.shared import load_shared

FORWARD, BACKWARD_DATA, BACKWARD_FILTER = (
    OPERATORS[f"indice_convolution_{name}"] for name in ("forward", "backward_data", "backward_filter")
)
ALL = (FORWARD, BACKWARD_DATA, BACKWARD_FILTER)
of_all = pytest.mark.parametrize("operator", ALL, ids=lambda operator: operator.name)
floats = pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
# Whole numbers of three bits: every sum here stays below 2^11, so that half and float hold it exactly.
BITS = 3


def random_pairs(rng: random.Random, sub_m: bool) -> Connections:
    rows_in = rng.randint(1, 7)
    kernel = tuple(rng.choice((1, 3)) if sub_m else rng.randint(1, 3) for _ in range(3))
    rows_out = rows_in if sub_m else rng.randint(1, 7)
    draw, params = Draw(rng.getrandbits(32)), {"sub_m": int(sub_m)}
    return any_pairs(draw, params, kernel=kernel, rows_in=rows_in, rows_out=rows_out)


def pairs_of_sites(rng: random.Random, sub_m: bool) -> Connections:
    kernel = (3, 1, 3) if sub_m else tuple(rng.randint(2, 3) for _ in range(3))
    stride = (1, 1, 1) if sub_m else tuple(rng.randint(1, 2) for _ in range(3))
    pad = tuple(k // 2 for k in kernel)
    geometry = derive_geometry(2, (3, 4, 3), kernel, stride, pad, (1, 1, 1), sub_m=sub_m)
    return site_connections(Draw(rng.getrandbits(32)), geometry, 12)


def pairs_of_a_layer(rng: random.Random, sub_m: bool) -> Connections:
    layers = ("subm_41x1440x1440", "subm_5x180x180") if sub_m else ("down_21x720x720", "out_5x180x180")
    return pairs_of_layer(Draw(rng.getrandbits(32)), {}, layer=rng.choice(layers), keep=20)


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


@floats
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


# Sums.

# Each sums along another axis.
LONG = {
    FORWARD.name: {
        "kernel": (1, 1, 3), "rows_in": 4, "rows_out": 4, "counts": (4,), "channels_in": 64, "channels_out": 2
    },
    BACKWARD_DATA.name: {
        "kernel": (1, 1, 3), "rows_in": 4, "rows_out": 4, "counts": (4,), "channels_in": 2, "channels_out": 64
    },
    BACKWARD_FILTER.name: {
        "kernel": (1, 1, 2), "rows_in": 64, "rows_out": 64, "counts": (64,), "channels_in": 2, "channels_out": 2
    },
}  # fmt: skip
IS_EXACT = {
    FORWARD.name: lambda call: float64_is_exact(products_of(call)),
    BACKWARD_DATA.name: lambda call: float64_is_exact(products_of_data(call)),
    BACKWARD_FILTER.name: lambda call: filter_is_exact(Operands.of(call)),
}


@floats
@pytest.mark.parametrize("values", ["full", "wide", "positive", "cancelling", "leading"])
@of_all
def test_sums_of_full_mantissas_are_exact(operator, values, dtype):
    assert_right(operator, make_call(operator, "random_pairs", dtype, 1, values=values, **LONG[operator.name]))


@floats
def test_sums_of_huge_gradients_are_exact(dtype):
    call = make_call(BACKWARD_FILTER, "random_pairs", dtype, 1, values="huge", **LONG[BACKWARD_FILTER.name])
    assert_right(BACKWARD_FILTER, call)


@of_all
@pytest.mark.parametrize(
    ("dtype", "values", "exact"),
    [
        (DType.FLOAT, "lattice", True),
        (DType.HALF, "lattice", True),
        (DType.HALF, "wide", True),
        (DType.FLOAT, "full", False),
        (DType.FLOAT, "wide", False),
    ],
)
def test_lattice_cases_take_the_fast_way_and_others_do_not(operator, dtype, values, exact):
    assert (
        IS_EXACT[operator.name](make_call(operator, "random_pairs", dtype, values=values, **LONG[operator.name]))
        is exact
    )


def one_sum(operator, left, right):
    """A call whose output is the sum of these products."""
    inputs = {
        FORWARD.name: {"features": left[None], "filters": right.reshape(1, 1, 1, -1, 1)},
        BACKWARD_DATA.name: {"output_grad": left[None], "filters": right.reshape(1, 1, 1, 1, -1)},
        BACKWARD_FILTER.name: {"features": left[:, None], "output_grad": right[:, None]},
    }[operator.name]
    rows = len(left) if operator is BACKWARD_FILTER else 1
    pairs = np.broadcast_to(np.arange(rows, dtype="<i4"), (1, 2, rows)).copy()
    params = {"inverse": 0, "sub_m": 0, "indice_num": (rows,)}
    if operator is FORWARD:
        params["num_active_out"] = 1
    dims = (1, 1, 1, 1, 1) if operator is BACKWARD_FILTER else (1, 1)
    return call_with(operator, params, {**inputs, "indice_pairs": pairs}, dims=dims)


@of_all
def test_a_sum_that_float64_rounds_is_still_exact(operator):
    # 2^80 + 2^20 − 2^80: float64 loses the middle term in this order.
    call = one_sum(operator, np.array([2.0**80, 1.0, 2.0**80], "<f4"), np.array([1.0, 2.0**20, -1.0], "<f4"))
    assert not IS_EXACT[operator.name](call)
    assert by_reference(operator, call)[operator.outputs[0].id].item() == 2.0**20


@of_all
@pytest.mark.parametrize("compute", BOTH)
def test_a_sum_beyond_the_largest_half_is_infinite(operator, compute):
    call = one_sum(operator, np.full(4, 200, "<f2"), np.full(4, 200, "<f2"))
    assert compute(operator, call)[operator.outputs[0].id].item() == math.inf


@pytest.mark.parametrize("operator", [FORWARD, BACKWARD_DATA])
def test_rows_beyond_one_block(monkeypatch, operator):
    """More rows than the reference sums and the kernel gathers at a time."""
    monkeypatch.setattr(load_shared("products"), "_BLOCK_SUMS", 6)
    monkeypatch.setattr(load_shared("products"), "_BLOCK_VALUES", 50)
    for seed in range(10):
        shape = {"kernel": (1, 2, 2), "rows_in": 13, "rows_out": 11, "channels_in": 3, "channels_out": 1 + seed % 7}
        assert_right(operator, make_call(operator, "random_pairs", seed=seed, **shape))


# Rulings.


@pytest.mark.parametrize(
    ("operator", "kernel", "layouts"),
    [
        *((FORWARD, kernel, ("ndhwc", "ncdhw", "array")) for kernel in ((1, 1, 1), (2, 2, 2), (2, 3, 4))),
        (BACKWARD_DATA, (2, 3), ("nhwc", "nchw", "hwcn", "array")),
        (BACKWARD_DATA, (2, 1, 3), ("ndhwc", "ncdhw", "array")),
    ],
)
def test_the_same_weights_give_the_same_result_in_every_layout(operator, kernel, layouts):
    shape = {"kernel": kernel, "rows_in": 7, "rows_out": 6, "channels_in": 5, "channels_out": 4}
    calls = [make_call(operator, "random_pairs", layout=layout, **shape) for layout in layouts]
    assert len({call.tensor("filters").layout for call in calls}) == len(layouts)
    wanted = definition_of(operator, calls[0])
    for call in calls:
        assert_right(operator, call, wanted)


@pytest.mark.parametrize("fill", [-1, 0, 2**31 - 1, -(2**31)])
@of_all
def test_only_the_first_indice_num_pairs_are_read(operator, fill):
    shape = {"kernel": (1, 1, 3), "rows_in": 8, "rows_out": 8, "channels_in": 2, "channels_out": 2}
    call = make_call(operator, "random_pairs", counts=(3, 0, 7), **shape)
    wanted = definition_of(operator, call)
    for k, count in enumerate(call.params["indice_num"]):
        call.array("indice_pairs")[k, :, count:] = fill
    assert_right(operator, call, wanted)


@pytest.mark.parametrize("operator", [FORWARD, BACKWARD_DATA])
def test_sub_m_changes_no_value(operator):
    shape = {"kernel": (3, 3, 1), "rows_in": 5, "rows_out": 5, "channels_in": 2, "channels_out": 3}
    call = make_call(operator, "random_pairs", params={"sub_m": 1}, **shape)
    wanted = definition_of(operator, call)
    assert_right(operator, replace(call, params={**call.params, "sub_m": 0}), wanted)


# Per kind: is there a NaN in the baseline, is there an infinity; None: the sign of a product or a zero decides.
SHOWS = {
    "weight_inf": (None, True), "weight_nan": (True, False), "weight_idle": (False, False), "feature_inf": (None, True),
    "feature_nan": (True, False), "feature_idle": (False, False), "grad_inf": (None, True), "grad_nan": (True, False),
    "grad_idle": (False, False), "inf_minus_inf": (True, None), "overflow": (False, True),
}  # fmt: skip
# Without the values of its output, and overflow where the recipe has it.
NONFINITE = [
    *((FORWARD, kind, shows) for kind, shows in SHOWS.items() if kind != "overflow" and not kind.startswith("grad")),
    *((BACKWARD_DATA, kind, shows) for kind, shows in SHOWS.items() if not kind.startswith("feature")),
    *(
        (BACKWARD_FILTER, kind, (False, True) if kind.endswith("_inf") and "minus" not in kind else shows)
        for kind, shows in SHOWS.items()
        if kind != "overflow" and not kind.startswith("weight")
    ),
]
ROOM = {
    FORWARD.name: {"rows_in": 12, "rows_out": 9, "channels_in": 4, "channels_out": 3},
    BACKWARD_DATA.name: {"rows_in": 9, "rows_out": 12, "channels_in": 3, "channels_out": 4},
    BACKWARD_FILTER.name: {"rows_in": 12, "rows_out": 13, "channels_in": 3, "channels_out": 4},
}


@floats
@pytest.mark.parametrize(("operator", "kind", "shows"), NONFINITE)
def test_what_is_not_finite_reaches_its_own_sums_alone(operator, kind, shows, dtype):
    for seed in range(10):
        shape = {"kernel": (1, 2, 2), "counts": (5, 0, 4, 2), **ROOM[operator.name]}
        call = make_call(operator, "nonfinite", dtype, seed, kind=kind, **shape)
        (name,) = call.outputs
        baseline = operator.reference(call).outputs[name]
        for found, wanted in zip((np.isnan(baseline), np.isinf(baseline)), shows, strict=True):
            assert wanted is None or found.any() == wanted
        assert set(baseline[np.isnan(baseline)].astype("<f4").view("<u4").tolist()) <= {0x7FC00000}
        if operator is BACKWARD_FILTER:
            assert np.isfinite(baseline[0, 0, 1]).all(), "the offset without pairs stays finite"
            assert np.isfinite(baseline).mean() > 0.5
        else:
            assert np.isfinite(baseline).any(axis=1).sum() >= 4, "rows without a partner stay finite"
        assert operator.kernel(call) is Status.SUCCESS
        np.testing.assert_allclose(call.array(name), baseline, rtol=1e-3, atol=1e-3)


# The network.

DOWN = [
    (248636, 16, 280511, 32, (3, 3, 3), 67042),
    (280511, 32, 149100, 64, (3, 3, 3), 43293),
    (149100, 64, 58838, 128, (3, 3, 3), 25159),
    (58838, 128, 45406, 128, (3, 1, 1), 29692),
]
SUB_M = [(58838, 128, 58838, 128, (3, 3, 3), 58838), (248636, 5, 248636, 16, (3, 3, 3), 248636)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "layers"),
    [
        (FORWARD, DOWN),
        # §3.7 prints [3, 2, 58838] as the pairs of the last one, which its own checks refuse.
        (BACKWARD_DATA, [DOWN[3], DOWN[2], *SUB_M]),
        # The document has none: those of the siblings.
        (BACKWARD_FILTER, [*DOWN, *SUB_M]),
    ],
)
def test_network_cases_have_the_shapes_of_the_documents(operator, layers):
    drafts = {d.id: d for d in load_declarations(ROOT / "cases" / f"{operator.name}.yaml", operator)}
    for case, (rows_in, channels_in, rows_out, channels_out, kernel, longest) in enumerate(layers):
        draft = drafts[f"{operator.name}/centerpoint_{case}_float"]
        assert drafts[f"{operator.name}/centerpoint_{case}_half"].args == draft.args
        assert operator is not BACKWARD_FILTER or "derived" in draft.note
        connections = pairs_of_layer(Draw(0), {}, layer=draft.args["layer"])
        assert (draft.args["channels_in"], draft.args["channels_out"]) == (channels_in, channels_out)
        assert (connections.rows_in, connections.rows_out, connections.kernel) == (rows_in, rows_out, kernel)
        assert connections.pairs.shape == (math.prod(kernel), 2, rows_in)
        assert max(connections.counts) == longest
        assert connections.sub_m is (rows_in == rows_out)


@pytest.mark.slow
def test_the_network_has_as_many_operations_as_the_document_says():
    drafts = {d.id: d for d in load_declarations(ROOT / "cases" / f"{FORWARD.name}.yaml", FORWARD)}
    for case, (pairs, ops) in enumerate(((754108, 0.772e9), (946942, 3.879e9), (538485, 8.823e9), (81218, 2.661e9))):
        args = drafts[f"{FORWARD.name}/centerpoint_{case}_float"].args
        assert sum(pairs_of_layer(Draw(0), {}, layer=args["layer"]).counts) == pairs
        assert 2 * pairs * args["channels_in"] * args["channels_out"] == pytest.approx(ops, rel=1e-3)


@of_all
def test_theory_counts_used_pairs_alone(operator):
    shape = {"kernel": (1, 1, 3), "rows_in": 8, "rows_out": 6, "channels_in": 2, "channels_out": 4}
    theory = operator.theory(make_call(operator, "random_pairs", counts=(3, 0, 5), **shape))
    assert theory.ops == 2 * 8 * 2 * 4
    assert theory.io_bytes == 4 * (8 * 2 + 3 * 2 * 4 + 2 * 8 + 6 * 4)
