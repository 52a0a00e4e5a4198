"""indice_convolution_forward: dense convolutions, exact sums, the rulings, the network."""

import math
import random
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from generators._shared.clouds import random_sites
from generators._shared.sparse import Geometry, derive_geometry, find_pairs
from generators.indice_convolution_forward import products_of
from generators.indice_convolution_forward.recipes import summed_in_half_steps
from mluops_gtest.authoring import Draw, DType, OpCall
from mluops_gtest.catalog.declarations import load_declarations
from tests.conftest import ROOT
from tests.support import convolutions
from tests.support.operator_calls import OPERATORS

NAME = "indice_convolution_forward"
OPERATOR = OPERATORS[NAME]
ONES = (1, 1, 1)
make_call = partial(convolutions.make_call, OPERATOR)
call_with = partial(convolutions.call_with, OPERATOR)
assert_right = partial(convolutions.assert_right, OPERATOR)
share_of_threshold = partial(convolutions.share_of_threshold, OPERATOR)


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
    dims = len(pairs.out_indices), channels_out
    return call_with(params, inputs, dims=dims), sites, pairs.out_indices


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


def test_rows_that_no_pair_names_are_plus_zero():
    shape = {"kernel": (1, 1, 2), "rows_in": 6, "rows_out": 6, "channels_in": 2, "channels_out": 3}
    call = make_call("random_pairs", counts=(3,), unmet=(0, 2, 5), **shape)
    assert_right(call)
    result = call.array("features_out")
    assert (result[[0, 2, 5]].view("<u4") == 0).all()
    assert (result[[1, 3, 4]] != 0).all()


def test_a_shape_without_room_for_values_that_are_not_finite_is_refused():
    shape = {"kernel": (1, 2, 2), "rows_in": 12, "rows_out": 9, "channels_in": 4, "channels_out": 3}
    for change in ({"counts": (5, 1, 4, 2)}, {"channels_in": 1}, {"rows_in": 5, "counts": (5, 0, 4, 2)}):
        with pytest.raises(ValueError, match="some offset must have few pairs and one none"):
            make_call("nonfinite", kind="feature_nan", **{"counts": (5, 0, 4, 2), **shape, **change})


# The network, and what recipes promise.


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
