"""indice_convolution_forward: dense convolutions, exact sums, the rulings, the network."""

import itertools
import math
import random
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from generators._shared.clouds import network_layer, random_sites
from generators._shared.connections import layer_connections
from generators._shared.products import float64_is_exact
from generators._shared.sparse import Geometry, derive_geometry, find_pairs
from generators.indice_convolution_forward.reference import products_of
from generators.indice_convolution_forward.values import summed_in_half_steps
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

NAME = "indice_convolution_forward"
OPERATOR = load_operator(ROOT / "generators" / NAME / "__init__.py")
LAYOUTS = (Layout.NDHWC, Layout.NCDHW, Layout.ARRAY)
ONES = (1, 1, 1)
make_call, call_with, assert_right, definition_of, share_of_threshold = (
    partial(function, OPERATOR)
    for function in (
        convolutions.make_call,
        convolutions.call_with,
        convolutions.assert_right,
        convolutions.definition_of,
        convolutions.share_of_threshold,
    )
)


def small_call(features, filters, pairs, counts, rows_out) -> OpCall:
    """A call of these arrays; filters are ARRAY."""
    inputs = {"features": features, "filters": filters, "indice_pairs": np.array(pairs, "<i4")}
    params = {"num_active_out": rows_out, "inverse": 0, "sub_m": 0, "indice_num": counts}
    return call_with(params, inputs)


# Dense convolutions.


def random_geometry(rng: random.Random, sub_m: bool) -> Geometry:
    space = tuple(rng.randint(2, 4) for _ in range(3))
    if sub_m:
        kernel = tuple(rng.choice((1, 3)) for _ in range(3))
        return derive_geometry(rng.randint(1, 2), space, kernel, ONES, tuple(k // 2 for k in kernel), ONES, sub_m=True)
    kernel = tuple(rng.randint(1, 3) for _ in range(3))
    stride = tuple(rng.randint(1, 3) for _ in range(3))
    dilation = tuple(rng.randint(1, 2) if s == 1 else 1 for s in stride)
    # At least one output per axis.
    pad = tuple(rng.randint(1, 2) + d * (k - 1) // 2 for k, d in zip(kernel, dilation, strict=True))
    return derive_geometry(rng.randint(1, 2), space, kernel, stride, pad, dilation, sub_m=False)


def sparse_call(rng: random.Random, geometry: Geometry):
    """Random sites of the geometry: the call, the sites, the output sites. Sums are exact in float32."""
    cells = geometry.batch * math.prod(geometry.input_space)
    draw = Draw(rng.getrandbits(32))
    sites = random_sites(draw.stream("sites"), geometry.batch, geometry.input_space, rng.randint(1, cells))
    pairs = find_pairs(sites, geometry)
    channels_in, channels_out = rng.randint(1, 3), rng.randint(1, 3)
    inputs = {
        "features": draw.stream("features").lattice((len(sites), channels_in), 8),
        "filters": draw.stream("filters").lattice((*geometry.kernel, channels_in, channels_out), 8),
        "indice_pairs": pairs.indice_pairs,
    }
    params = {
        "num_active_out": len(pairs.out_indices),
        "inverse": 0,
        "sub_m": int(geometry.sub_m),
        "indice_num": tuple(pairs.indice_num.tolist()),
    }
    return call_with(params, inputs), sites, pairs.out_indices


def sparse_calls(seed: object, sub_m: bool, count: int):
    """Calls over random sites that have outputs."""
    rng = random.Random(f"{seed}/{sub_m}")
    while count:
        geometry = random_geometry(rng, sub_m)
        call, sites, out_sites = sparse_call(rng, geometry)
        if len(out_sites):
            count -= 1
            yield call, geometry, sites, out_sites


@pytest.mark.slow
@pytest.mark.parametrize("sub_m", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_a_dense_convolution_read_at_the_output_sites(seed, sub_m):
    for call, geometry, sites, out_sites in sparse_calls(seed, sub_m, 4):
        filters = call.array("filters").astype(np.float64)
        grid = np.zeros((geometry.batch, *geometry.input_space, filters.shape[3]))
        grid[tuple(sites.T)] = call.array("features")
        wanted = np.zeros((len(out_sites), filters.shape[4]))
        for row, (n, *cell) in enumerate(out_sites.tolist()):
            for offset in np.ndindex(*geometry.kernel):
                axes = zip(cell, geometry.stride, offset, geometry.dilation, geometry.pad, strict=True)
                point = tuple(out * s + k * d - p for out, s, k, d, p in axes)
                if all(0 <= x < length for x, length in zip(point, geometry.input_space, strict=True)):
                    wanted[row] += grid[(n, *point)] @ filters[offset]
        assert OPERATOR.answer(call).computes
        assert_right(call, wanted.astype("<f4"))


@pytest.mark.slow
@pytest.mark.parametrize("sub_m", [False, True])
def test_torch_agrees_with_its_dense_convolution(sub_m):
    torch = pytest.importorskip("torch")
    for call, geometry, sites, out_sites in sparse_calls("torch", sub_m, 12):
        features, filters = (torch.from_numpy(call.array(name).astype(np.float64)) for name in ("features", "filters"))
        grid = torch.zeros(geometry.batch, filters.shape[3], *geometry.input_space, dtype=torch.float64)
        n, d, h, w = torch.from_numpy(sites.T.astype(np.int64))
        grid[n, :, d, h, w] = features
        dense = torch.nn.functional.conv3d(
            grid,
            filters.permute(4, 3, 0, 1, 2),
            stride=geometry.stride,
            padding=geometry.pad,
            dilation=geometry.dilation,
        )
        n, d, h, w = torch.from_numpy(out_sites.T.astype(np.int64))
        assert_right(call, dense[n, :, d, h, w].numpy().astype("<f4"))


@pytest.mark.slow
def test_selection_matrices_agree_at_network_scale():
    """Σ_k S_k · (X · W_k), with S_k a sparse matrix of ones that the pairs of offset k name."""
    sparse = pytest.importorskip("scipy.sparse")
    call = make_call("network", layer="out_5x180x180", channels_in=5, channels_out=4)
    features, filters = (call.array(name).astype(np.float64) for name in ("features", "filters"))
    rows_out = call.params["num_active_out"]
    total = np.zeros((rows_out, 4))
    for k, count in enumerate(call.params["indice_num"]):
        inputs, outputs = call.array("indice_pairs")[k, :, :count]
        selected = sparse.csr_matrix((np.ones(count), (outputs, inputs)), (rows_out, len(features)))
        total += selected @ (features @ filters.reshape(-1, 5, 4)[k])
    assert_right(call, total.astype("<f4"))


# Sums.


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
@pytest.mark.parametrize("values", ["full", "wide", "positive", "cancelling", "leading"])
def test_sums_of_full_mantissas_are_exact(values, dtype):
    shape = {"kernel": (1, 1, 3), "rows_in": 3, "rows_out": 3, "counts": (3,), "channels_in": 20, "channels_out": 2}
    call = make_call("random_pairs", dtype, seed=1, values=values, **shape)
    assert_right(call)


def test_a_sum_that_float64_rounds_is_still_exact():
    # 2^80 + 2^20 − 2^80: float64 loses the middle term in this order.
    features = np.array([[2.0**80, 1.0, 2.0**80]], "<f4")
    filters = np.array([1.0, 2.0**20, -1.0], "<f4").reshape(1, 1, 1, 3, 1)
    call = small_call(features, filters, [[[0], [0]]], (1,), 1)
    assert not float64_is_exact(products_of(call))
    assert OPERATOR.reference(call).outputs["features_out"].tolist() == [[2.0**20]]


def test_lattice_cases_take_the_fast_way_and_others_do_not():
    shape = {"kernel": (1, 3, 3), "rows_in": 4, "rows_out": 4, "counts": (4,), "channels_in": 64, "channels_out": 2}
    for dtype, values, exact in [
        (DType.FLOAT, "lattice", True),
        (DType.HALF, "lattice", True),
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
        shape = {"kernel": (1, 2, 2), "rows_in": 13, "rows_out": 11, "channels_in": 3, "channels_out": 1 + seed % 7}
        call = make_call("random_pairs", seed=seed, **shape)
        assert_right(call)


def test_a_sum_beyond_the_largest_half_is_infinite():
    call = small_call(np.full((1, 4), 200, "<f2"), np.full((1, 1, 1, 4, 1), 200, "<f2"), [[[0], [0]]], (1,), 1)
    assert OPERATOR.reference(call).outputs["features_out"].tolist() == [[math.inf]]
    assert OPERATOR.kernel(call) is Status.SUCCESS
    assert call.array("features_out").tolist() == [[math.inf]]


def half_drafts():
    """The declared half cases that compute."""
    drafts = load_declarations(ROOT / "cases" / f"{NAME}.yaml", OPERATOR)
    skipped = {"network", "race", "heavy", "undefined", "subnormal", "negative"}
    return [draft for draft in drafts if draft.dtype == "half" and not skipped & set(draft.tags)]


@pytest.mark.slow
def test_half_cases_survive_rounding_after_every_offset():
    """As the released kernels do it: float32 within an offset, half after each."""
    drafts = half_drafts()
    assert len(drafts) > 60
    for draft in drafts:
        made = OPERATOR.recipes[draft.recipe](Draw(draft.seed), dict(draft.params), DType.HALF, **draft.args)
        call = call_with(made.params, made.inputs, made.layouts)
        wanted = OPERATOR.reference(call).outputs["features_out"]
        got = summed_in_half_steps(products_of(call))
        assert share_of_threshold(got, wanted) <= 0.5 + 0.1, draft.id


def test_half_data_that_lose_too_much_between_offsets_are_refused():
    shape = {"kernel": (1, 1, 2000), "rows_in": 2, "rows_out": 2, "counts": (2,), "channels_in": 1, "channels_out": 1}
    with pytest.raises(ValueError, match="rounding to half after every offset costs"):
        make_call("random_pairs", DType.HALF, **shape, values="positive")


# Rulings.


def test_row_0_of_a_pair_is_the_input():
    """§1.2's formula writes to row 0; §3.1 gathers with it."""
    features, filters = np.array([[1], [10], [100]], "<f4"), np.ones((1, 1, 1, 1, 1), "<f4")
    call = small_call(features, filters, [[[2, 0, -1], [0, 1, -1]]], (2,), 2)
    assert_right(call, np.array([[100], [1]], "<f4"))


def test_w_k_is_ci_by_co():
    """Here Ci = Co = 2, so only the arithmetic tells."""
    filters = np.array([[1, 2], [3, 4]], "<f4").reshape(1, 1, 1, 2, 2)
    assert_right(small_call(np.array([[10, 1]], "<f4"), filters, [[[0], [0]]], (1,), 1), np.array([[13, 24]], "<f4"))


def test_offsets_count_depth_then_height_then_width():
    """§1.2's (k / Kw, k % Kw) is the 2-D form."""
    filters = np.arange(24, dtype="<f4").reshape(2, 3, 4, 1, 1)
    for k in range(24):
        counts = tuple(int(other == k) for other in range(24))
        call = small_call(np.ones((1, 1), "<f4"), filters, np.zeros((24, 2, 1)), counts, 1)
        assert_right(call, np.array([[k]], "<f4"))


@pytest.mark.parametrize("kernel", [(1, 1, 1), (2, 2, 2), (2, 3, 4)])
def test_the_same_weights_give_the_same_result_in_every_layout(kernel):
    shape = {"kernel": kernel, "rows_in": 7, "rows_out": 6, "channels_in": 5, "channels_out": 4}
    calls = [make_call("random_pairs", layout=layout.value.lower(), **shape) for layout in LAYOUTS]
    wanted = definition_of(calls[0])
    for call in calls:
        assert_right(call, wanted)


@pytest.mark.parametrize("fill", [-1, 0, 2**31 - 1, -(2**31)])
def test_only_the_first_indice_num_pairs_are_read(fill):
    shape = {"kernel": (1, 1, 3), "rows_in": 8, "rows_out": 8, "channels_in": 2, "channels_out": 2}
    call = make_call("random_pairs", counts=(3, 0, 7), **shape)
    wanted = definition_of(call)
    for k, count in enumerate(call.params["indice_num"]):
        call.array("indice_pairs")[k, :, count:] = fill
    assert_right(call, wanted)


def test_sub_m_changes_no_value():
    shape = {"kernel": (3, 3, 1), "rows_in": 5, "rows_out": 5, "channels_in": 2, "channels_out": 3}
    call = make_call("random_pairs", params={"sub_m": 1}, **shape)
    assert_right(replace(call, params={**call.params, "sub_m": 0}), definition_of(call))


def test_rows_that_no_pair_names_are_plus_zero():
    shape = {"kernel": (1, 1, 2), "rows_in": 6, "rows_out": 6, "channels_in": 2, "channels_out": 3}
    call = make_call("random_pairs", counts=(3,), unmet=(0, 2, 5), **shape)
    assert_right(call)
    result = call.array("features_out")
    assert (result[[0, 2, 5]].view("<u4") == 0).all()
    assert (result[[1, 3, 4]] != 0).all()


def nonfinite_call(kind, dtype, seed) -> OpCall:
    shape = {"kernel": (1, 2, 2), "rows_in": 12, "rows_out": 9, "counts": (5, 0, 4, 2)}
    return make_call("nonfinite", dtype, seed, **shape, channels_in=4, channels_out=3, kind=kind)


# Per kind: is there a NaN in the baseline, is there an infinity; None: the sign of a product or a zero decides.
SHOWS = {
    "weight_inf": (None, True), "weight_nan": (True, False), "weight_idle": (False, False), "feature_inf": (None, True),
    "feature_nan": (True, False), "feature_idle": (False, False), "inf_minus_inf": (True, None),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
@pytest.mark.parametrize("kind", SHOWS)
def test_what_is_not_finite_reaches_its_own_sums_alone(kind, dtype):
    for seed in range(15):
        call = nonfinite_call(kind, dtype, seed)
        baseline = OPERATOR.reference(call).outputs["features_out"]
        for found, wanted in zip((np.isnan(baseline), np.isinf(baseline)), SHOWS[kind], strict=True):
            assert wanted is None or found.any() == wanted
        assert np.isfinite(baseline).any(axis=1).sum() >= 4, "rows without a partner stay finite"
        assert OPERATOR.kernel(call) is Status.SUCCESS
        np.testing.assert_allclose(call.array("features_out"), baseline, rtol=1e-3, atol=1e-3)


def test_a_shape_without_room_for_values_that_are_not_finite_is_refused():
    shape = {"kernel": (1, 2, 2), "rows_in": 12, "rows_out": 9, "channels_in": 4, "channels_out": 3}
    for change in ({"counts": (5, 1, 4, 2)}, {"channels_in": 1}, {"rows_in": 5, "counts": (5, 0, 4, 2)}):
        with pytest.raises(ValueError, match="some offset must have few pairs and one none"):
            make_call("nonfinite", kind="feature_nan", **{"counts": (5, 0, 4, 2), **shape, **change})


# The network, and what recipes promise.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "features", "filters", "indice_pairs", "features_out", "pairs", "ops"),
    [
        (0, (248636, 16), (3, 3, 3, 16, 32), (27, 2, 248636), (280511, 32), 754108, 0.772e9),
        (1, (280511, 32), (3, 3, 3, 32, 64), (27, 2, 280511), (149100, 64), 946942, 3.879e9),
        (2, (149100, 64), (3, 3, 3, 64, 128), (27, 2, 149100), (58838, 128), 538485, 8.823e9),
        (3, (58838, 128), (3, 1, 1, 128, 128), (3, 2, 58838), (45406, 128), 81218, 2.661e9),
    ],
)
def test_network_cases_have_the_shapes_of_the_document(case, features, filters, indice_pairs, features_out, pairs, ops):
    drafts = {d.id: d for d in load_declarations(ROOT / "cases" / f"{NAME}.yaml", OPERATOR)}
    args = drafts[f"{NAME}/centerpoint_{case}_float"].args
    assert drafts[f"{NAME}/centerpoint_{case}_half"].args == args
    connections = layer_connections(Draw(0), args["layer"])
    channels_in, channels_out = args["channels_in"], args["channels_out"]
    assert (connections.rows_in, channels_in) == features
    assert (*connections.kernel, channels_in, channels_out) == filters
    assert connections.pairs.shape == indice_pairs
    assert (connections.rows_out, channels_out) == features_out
    assert sum(connections.counts) == pairs
    assert not connections.sub_m
    assert 2 * pairs * channels_in * channels_out == pytest.approx(ops, rel=1e-3)


@pytest.mark.slow
def test_each_layer_reads_what_the_layer_before_wrote():
    layers = ["down_41x1440x1440", "down_21x720x720", "down_11x360x360", "out_5x180x180"]
    for name, following in itertools.pairwise(layers):
        out_sites = find_pairs(*network_layer(name, Draw(0))).out_indices
        np.testing.assert_array_equal(out_sites, network_layer(following, Draw(0))[0])


def test_theory_counts_used_pairs_alone():
    shape = {"kernel": (1, 1, 3), "rows_in": 8, "rows_out": 6, "channels_in": 2, "channels_out": 4}
    theory = OPERATOR.theory(make_call("random_pairs", counts=(3, 0, 5), **shape))
    assert theory.ops == 2 * 8 * 2 * 4
    assert theory.io_bytes == 4 * (8 * 2 + 3 * 2 * 4 + 2 * 8 + 6 * 4)


@pytest.mark.parametrize("unmet", [(6,), (-1,), (2, 2)])
def test_rows_that_cannot_stay_unmet_are_refused(unmet):
    shape = {"kernel": (1, 1, 1), "rows_in": 4, "rows_out": 6, "channels_in": 1, "channels_out": 1}
    with pytest.raises(ValueError, match="unmet must be distinct rows below 6"):
        make_call("random_pairs", unmet=unmet, **shape)


def test_sub_m_with_another_pad_has_no_centre_and_is_refused():
    shape = {"space": (3, 3, 3), "kernel": (3, 3, 3), "count": 20, "channels_in": 1, "channels_out": 1}
    with pytest.raises(ValueError, match="the middle of kernel"):
        make_call("sites", params={"sub_m": 1}, pad=(0, 1, 1), **shape)
    call = make_call("sites", within=True, pad=(0, 1, 1), **shape)
    assert call.params["sub_m"] == 0
    assert OPERATOR.broken(call) is None
    assert "must join each" in OPERATOR.broken(replace(call, params={**call.params, "sub_m": 1}))


def test_pairs_that_the_document_does_not_define_break_the_case():
    shape = {"kernel": (1, 1, 2), "rows_in": 4, "rows_out": 5, "channels_in": 2, "channels_out": 3}
    for place, row, words in [
        ((0, 0, 1), -1, "a row outside of 0 … 3"),
        ((1, 1, 2), 5, "a row outside of 0 … 4"),
        ((1, 1, 2), None, "more than once"),
    ]:
        call = make_call("random_pairs", counts=(4, 3), **shape)
        pairs = call.array("indice_pairs")
        pairs[place] = pairs[place[0], place[1], 0] if row is None else row
        assert words in OPERATOR.broken(call)
