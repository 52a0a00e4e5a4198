"""indice_convolution_backward_data: literal loops, dense convolutions, exact sums, the checks, the rulings."""

import itertools
import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from generators._shared.clouds import network_layer, random_sites
from generators._shared.products import float64_is_exact
from generators._shared.sparse import Geometry, derive_output_space, find_pairs
from generators.indice_convolution_backward_data.recipes import CRITERIA
from generators.indice_convolution_backward_data.reference import products_of
from mluops_gtest.authoring import (
    Draw,
    DType,
    Layout,
    OpCall,
    Status,
    TensorArg,
    TensorDesc,
    call_of,
)
from mluops_gtest.catalog.declarations import load_declarations
from mluops_gtest.catalog.operators import load_operator
from tests.conftest import ROOT
from tests.support.kernel_answers import answering_checks
from tests.support.shared import load_shared
from tests.support.wrong_calls import mutated, with_params

NAME = "indice_convolution_backward_data"
OPERATOR = load_operator(ROOT / "generators" / NAME / "__init__.py")
# The axes of a filter by layout and rank, as §1.1 and §3.8.5 name them.
AXES = {
    (Layout.NHWC, 4): ("co", "kh", "kw", "ci"),
    (Layout.NCHW, 4): ("co", "ci", "kh", "kw"),
    (Layout.HWCN, 4): ("kh", "kw", "ci", "co"),
    (Layout.ARRAY, 4): ("kh", "kw", "ci", "co"),
    (Layout.NDHWC, 5): ("co", "kd", "kh", "kw", "ci"),
    (Layout.NCDHW, 5): ("co", "ci", "kd", "kh", "kw"),
    (Layout.ARRAY, 5): ("kd", "kh", "kw", "ci", "co"),
}


def make_call(recipe, dtype=DType.FLOAT, seed=0, params=None, **args) -> OpCall:
    """The call of a recipe's case; input_grad holds poison."""
    made = OPERATOR.recipes[recipe](Draw(seed), params or {}, dtype, **args)
    return call_with(made.params, made.inputs, made.layouts["filters"])


def call_with(params, inputs, layout=Layout.ARRAY) -> OpCall:
    rows, filters = inputs["indice_pairs"].shape[2], inputs["filters"]
    dtype = DType.HALF if filters.dtype == "<f2" else DType.FLOAT
    channels = lengths_of(layout, filters.shape)["ci"]
    out = np.frombuffer(dtype.poison * (rows * channels), dtype.storage).reshape(rows, channels).copy()
    return call_of(NAME, params, inputs, {"input_grad": out}, {"filters": layout})


def lengths_of(layout, dims) -> dict[str, int]:
    return {"kd": 1, **dict(zip(AXES[layout, len(dims)], dims, strict=True))}


def literal_loops(call: OpCall) -> np.ndarray:
    """§1.2.2 word for word: initialise with 0, then add one product after the other, as exact fractions."""
    grad, filters, pairs = (call.array(name) for name in ("output_grad", "filters", "indice_pairs"))
    axes = AXES[call.tensor("filters").layout, filters.ndim]
    lengths = lengths_of(call.tensor("filters").layout, filters.shape)
    total = [[Fraction(0)] * lengths["ci"] for _ in range(pairs.shape[2])]
    offsets = itertools.product(*(range(lengths[axis]) for axis in ("kd", "kh", "kw")))
    for k, (kd, kh, kw) in enumerate(offsets):
        for pair in range(call.params["indice_num"][k]):
            source, target = grad[pairs[k, 1, pair]], total[pairs[k, 0, pair]]
            for ci, co in itertools.product(range(lengths["ci"]), range(lengths["co"])):
                place = {"kd": kd, "kh": kh, "kw": kw, "ci": ci, "co": co}
                weight = filters[tuple(place[axis] for axis in axes)]
                target[ci] += Fraction(float(source[co])) * Fraction(float(weight))
    return np.array([[float(value) for value in row] for row in total]).astype(grad.dtype)


def share_of_threshold(call: OpCall, wanted: np.ndarray) -> float:
    """How much of the criterion the call's output uses up."""
    got, wanted = call.array("input_grad").astype(np.float64), wanted.astype(np.float64)
    diff1 = np.abs(got - wanted).sum() / (np.abs(wanted).sum() + 1e-9)
    diff2 = math.sqrt(np.square(got - wanted).sum() / (np.square(wanted).sum() + 1e-9))
    return max(diff1, diff2) / CRITERIA[call.tensor("input_grad").dtype][0].threshold


def assert_right(call: OpCall, wanted: np.ndarray) -> None:
    """The reference gives exactly these bits, the kernel stays well within the criterion."""
    baseline = OPERATOR.reference(call).outputs["input_grad"]
    assert baseline.dtype == wanted.dtype
    assert baseline.flags.c_contiguous
    np.testing.assert_array_equal(baseline, wanted)
    assert OPERATOR.kernel(call) is Status.SUCCESS
    assert share_of_threshold(call, wanted) < 0.25


def random_call(rng: random.Random) -> OpCall:
    """A small valid call of any layout, shape, pairs and values."""
    layout, rank = rng.choice(list(AXES))
    sub_m = rng.random() < 0.25
    kernel = tuple(rng.choice((1, 3)) if sub_m else rng.randint(1, 3) for _ in range(rank - 2))
    rows_in = rng.randint(1, 6)
    return make_call(
        "random_pairs",
        rng.choice((DType.FLOAT, DType.HALF)),
        rng.getrandbits(32),
        {"sub_m": int(sub_m)},
        kernel=kernel,
        rows_in=rows_in,
        rows_out=rows_in if sub_m else rng.randint(1, 6),
        channels_in=rng.randint(1, 3),
        channels_out=rng.randint(1, 3),
        layout=layout.value.lower(),
        tail=rng.choice(("minus_one", "stale")),
        values=rng.choice(("lattice", "full")),
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_literal_loops_agree_with_reference_and_kernel(seed):
    rng = random.Random(seed)
    for _ in range(20):
        call = random_call(rng)
        assert OPERATOR.answer(call).computes
        assert_right(call, literal_loops(call))


def dense_gradient(grads, out_sites, weights, sites, geometry: Geometry) -> np.ndarray:
    """The gradient of a dense convolution over the whole grid, then read at the sites; no pairs anywhere."""
    grid = np.zeros((geometry.batch, *geometry.output_space, grads.shape[1]))
    grid[tuple(out_sites.T)] = grads
    whole = np.zeros((geometry.batch, *geometry.input_space, weights.shape[1]))
    for k, offset in enumerate(np.ndindex(*geometry.kernel)):
        for cell in np.ndindex(*geometry.output_space):
            axes = zip(cell, geometry.stride, offset, geometry.dilation, geometry.pad, strict=True)
            point = tuple(out * s + ko * d - p for out, s, ko, d, p in axes)
            if all(0 <= x < length for x, length in zip(point, geometry.input_space, strict=True)):
                whole[(slice(None), *point)] += grid[(slice(None), *cell)] @ weights[k].T
    return whole[tuple(sites.T)]


def random_geometry(rng: random.Random, sub_m: bool) -> Geometry:
    space = tuple(rng.randint(2, 4) for _ in range(3))
    if sub_m:
        kernel = tuple(rng.choice((1, 3)) for _ in range(3))
        pad = tuple(k // 2 for k in kernel)
        return Geometry(rng.randint(1, 2), space, kernel, (1, 1, 1), pad, (1, 1, 1), space, sub_m=True)
    kernel = tuple(rng.randint(1, 3) for _ in range(3))
    stride = tuple(rng.randint(1, 3) for _ in range(3))
    dilation = tuple(rng.randint(1, 2) if s == 1 else 1 for s in stride)
    # At least one output per axis.
    pad = tuple(rng.randint(1, 2) + d * (k - 1) // 2 for k, d in zip(kernel, dilation, strict=True))
    output_space = derive_output_space(space, kernel, stride, pad, dilation)
    return Geometry(rng.randint(1, 2), space, kernel, stride, pad, dilation, output_space)


def sparse_call(rng: random.Random, geometry: Geometry):
    """Random sites of the geometry: the call, the sites, the output sites."""
    cells = geometry.batch * math.prod(geometry.input_space)
    draw = Draw(rng.getrandbits(32))
    sites = random_sites(draw.stream("sites"), geometry.batch, geometry.input_space, rng.randint(1, cells))
    pairs = find_pairs(sites, geometry)
    channels_in, channels_out = rng.randint(1, 3), rng.randint(1, 3)
    inputs = {
        "output_grad": draw.stream("grad").lattice((len(pairs.out_indices), channels_out), 12),
        "filters": draw.stream("filters").lattice((*geometry.kernel, channels_in, channels_out), 12),
        "indice_pairs": pairs.indice_pairs,
    }
    params = {"inverse": 0, "sub_m": int(geometry.sub_m), "indice_num": tuple(pairs.indice_num.tolist())}
    return call_with(params, inputs), sites, pairs.out_indices


@pytest.mark.slow
@pytest.mark.parametrize("sub_m", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_gradient_of_a_dense_convolution(seed, sub_m):
    rng = random.Random(f"{seed}/{sub_m}")
    seen = 0
    for _ in range(5):
        geometry = random_geometry(rng, sub_m)
        call, sites, out_sites = sparse_call(rng, geometry)
        if len(out_sites) == 0:
            continue
        seen += 1
        weights = call.array("filters").reshape(geometry.offsets, *call.array("filters").shape[3:])
        wanted = dense_gradient(call.array("output_grad"), out_sites, weights.astype(np.float64), sites, geometry)
        assert OPERATOR.answer(call).computes
        assert_right(call, wanted.astype("<f4"))
    assert seen


@pytest.mark.slow
def test_torch_agrees_on_the_gradient():
    torch = pytest.importorskip("torch")
    rng = random.Random(5)
    for _ in range(10):
        geometry = random_geometry(rng, sub_m=False)
        call, sites, out_sites = sparse_call(rng, geometry)
        if len(out_sites) == 0:
            continue
        filters, grads = (torch.from_numpy(call.array(n).astype(np.float64)) for n in ("filters", "output_grad"))
        features = torch.zeros(geometry.batch, filters.shape[3], *geometry.input_space, dtype=torch.float64)
        features.requires_grad_()
        result = torch.nn.functional.conv3d(
            features,
            filters.permute(4, 3, 0, 1, 2),
            stride=geometry.stride,
            padding=geometry.pad,
            dilation=geometry.dilation,
        )
        upstream = torch.zeros_like(result)
        n, d, h, w = torch.from_numpy(out_sites.T.astype(np.int64))
        upstream[n, :, d, h, w] = grads
        result.backward(upstream)
        n, d, h, w = torch.from_numpy(sites.T.astype(np.int64))
        assert_right(call, features.grad[n, :, d, h, w].numpy().astype("<f4"))


# Sums.


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
@pytest.mark.parametrize("values", ["full", "wide", "positive", "cancelling", "leading"])
def test_sums_of_full_mantissas_are_exact(values, dtype):
    shape = {"kernel": (1, 3), "rows_in": 3, "rows_out": 3, "counts": (3,), "channels_in": 2, "channels_out": 20}
    call = make_call("random_pairs", dtype, seed=1, values=values, **shape)
    assert_right(call, literal_loops(call))


def test_a_sum_that_float64_rounds_is_still_exact():
    # 2^80 + 2^20 − 2^80: float64 loses the middle term in this order.
    grad = np.array([[2.0**80, 1.0, 2.0**80]], "<f4")
    filters = np.array([1.0, 2.0**20, -1.0], "<f4").reshape(1, 1, 1, 3)
    params = {"inverse": 0, "sub_m": 0, "indice_num": (1,)}
    call = call_with(params, {"output_grad": grad, "filters": filters, "indice_pairs": np.zeros((1, 2, 1), "<i4")})
    assert not float64_is_exact(products_of(call))
    assert OPERATOR.reference(call).outputs["input_grad"].tolist() == [[2.0**20]]


def test_lattice_cases_take_the_fast_way_and_others_do_not():
    shape = {"kernel": (3, 3), "rows_in": 4, "rows_out": 4, "counts": (4,), "channels_in": 2, "channels_out": 64}
    for dtype, values, exact in [
        (DType.FLOAT, "lattice", True),
        (DType.HALF, "lattice", True),
        (DType.HALF, "wide", True),
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
        shape = {"kernel": (2, 2), "rows_in": 11, "rows_out": 13, "channels_in": 1 + seed % 7, "channels_out": 3}
        call = make_call("random_pairs", seed=seed, **shape)
        assert_right(call, literal_loops(call))


def test_a_row_listed_twice_in_one_offset_is_added_twice():
    """Outside the contract, yet §1.2.2 says what it means; the reference of a foreign file must not lose it."""
    call = make_call("random_pairs", kernel=(1, 1), rows_in=4, rows_out=4, counts=(4,), channels_in=2, channels_out=3)
    call.array("indice_pairs")[0, 0] = [2, 0, 2, 2]
    np.testing.assert_array_equal(OPERATOR.reference(call).outputs["input_grad"], literal_loops(call))


def test_a_sum_beyond_the_largest_half_is_infinite():
    grad, filters = np.full((1, 4), 200, "<f2"), np.full((1, 1, 1, 4), 200, "<f2")
    params = {"inverse": 0, "sub_m": 0, "indice_num": (1,)}
    call = call_with(params, {"output_grad": grad, "filters": filters, "indice_pairs": np.zeros((1, 2, 1), "<i4")})
    assert OPERATOR.reference(call).outputs["input_grad"].tolist() == [[math.inf]]
    assert OPERATOR.kernel(call) is Status.SUCCESS
    assert call.array("input_grad").tolist() == [[math.inf]]


# Rulings.


def nonfinite_call(kind, dtype, seed) -> OpCall:
    shape = {"kernel": (2, 2), "rows_in": 9, "rows_out": 12, "counts": (5, 0, 4, 2)}
    return make_call("nonfinite", dtype, seed, **shape, channels_in=3, channels_out=4, kind=kind)


# Per kind: is there a NaN in the baseline, is there an infinity; None: the sign of a product or a zero decides.
SHOWS = {
    "weight_inf": (None, True), "weight_nan": (True, False), "weight_idle": (False, False), "grad_inf": (None, True),
    "grad_nan": (True, False), "grad_idle": (False, False), "inf_minus_inf": (True, None), "overflow": (False, True),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
@pytest.mark.parametrize("kind", SHOWS)
def test_what_is_not_finite_reaches_its_own_sums_alone(kind, dtype):
    for seed in range(20):
        call = nonfinite_call(kind, dtype, seed)
        baseline = OPERATOR.reference(call).outputs["input_grad"]
        for found, wanted in zip((np.isnan(baseline), np.isinf(baseline)), SHOWS[kind], strict=True):
            assert wanted is None or found.any() == wanted
        assert np.isfinite(baseline).any(axis=1).sum() >= 4, "rows without a partner stay finite"
        assert OPERATOR.kernel(call) is Status.SUCCESS
        np.testing.assert_allclose(call.array("input_grad"), baseline, rtol=1e-3, atol=1e-3)


def test_every_nan_of_the_baseline_is_the_same_one():
    baseline = OPERATOR.reference(nonfinite_call("inf_minus_inf", DType.FLOAT, 1)).outputs["input_grad"]
    assert set(baseline[np.isnan(baseline)].view("<u4").tolist()) == {0x7FC00000}


@pytest.mark.parametrize(
    ("change", "words"),
    [({"channels_out": 1}, "at least 2"), ({"counts": (5, 1, 4, 2)}, "one none"), ({"rows_out": 5}, "in no pair")],
)
def test_a_shape_without_room_for_the_values_is_refused(change, words):
    shape = {"kernel": (2, 2), "rows_in": 9, "rows_out": 12, "counts": (5, 0, 4, 2), "channels_out": 4, **change}
    with pytest.raises(ValueError, match=words):
        make_call("nonfinite", **shape, channels_in=3, kind="grad_idle")


def test_w_k_is_ci_by_co():
    """§3.1 prints [K, Co, Ci]; here Ci = Co = 2, so only the arithmetic tells."""
    filters = np.array([[1, 2], [3, 4]], "<f4").reshape(1, 1, 2, 2)
    inputs = {"output_grad": np.array([[10, 1]], "<f4"), "filters": filters, "indice_pairs": np.zeros((1, 2, 1), "<i4")}
    call = call_with({"inverse": 0, "sub_m": 0, "indice_num": (1,)}, inputs)
    assert OPERATOR.reference(call).outputs["input_grad"].tolist() == [[12, 34]]
    OPERATOR.kernel(call)
    assert call.array("input_grad").tolist() == [[12, 34]]


@pytest.mark.parametrize("kernel", [(2, 3), (2, 1, 3)])
def test_the_same_weights_give_the_same_result_in_every_layout(kernel):
    shape = {"kernel": kernel, "rows_in": 7, "rows_out": 6, "channels_in": 5, "channels_out": 4}
    layouts = [layout for layout, rank in AXES if rank == len(kernel) + 2]
    calls = [make_call("random_pairs", layout=layout.value.lower(), **shape) for layout in layouts]
    wanted = literal_loops(calls[0])
    for call in calls:
        assert_right(call, wanted)


@pytest.mark.parametrize("fill", [-1, 0, 2**31 - 1, -(2**31)])
def test_only_the_first_indice_num_pairs_are_read(fill):
    call = make_call(
        "random_pairs", kernel=(1, 3), rows_in=8, rows_out=8, counts=(3, 0, 7), channels_in=2, channels_out=2
    )
    wanted = literal_loops(call)
    for k, count in enumerate(call.params["indice_num"]):
        call.array("indice_pairs")[k, :, count:] = fill
    assert_right(call, wanted)


def test_sub_m_changes_no_value():
    shape = {"kernel": (3, 3), "rows_in": 5, "rows_out": 5, "channels_in": 2, "channels_out": 3}
    call = make_call("random_pairs", params={"sub_m": 1}, **shape)
    assert_right(replace(call, params={**call.params, "sub_m": 0}), literal_loops(call))


# The network.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "output_grad", "filters", "indice_pairs", "input_grad"),
    [
        (0, (45406, 128), (3, 1, 1, 128, 128), (3, 2, 58838), (58838, 128)),
        (1, (58838, 128), (3, 3, 3, 64, 128), (27, 2, 149100), (149100, 64)),
        (2, (58838, 128), (3, 3, 3, 128, 128), (27, 2, 58838), (58838, 128)),
        # §3.7 prints [3, 2, 58838] here, which its own checks refuse.
        (3, (248636, 16), (3, 3, 3, 5, 16), (27, 2, 248636), (248636, 5)),
    ],
)
def test_network_cases_have_the_shapes_of_the_document(case, output_grad, filters, indice_pairs, input_grad):
    drafts = {d.id: d for d in load_declarations(ROOT / "cases" / f"{NAME}.yaml", OPERATOR)}
    args = drafts[f"{NAME}/centerpoint_{case}_float"].args
    assert drafts[f"{NAME}/centerpoint_{case}_half"].args == args
    sites, geometry = network_layer(args["layer"], Draw(0))
    pairs = find_pairs(sites, geometry)
    channels_in, channels_out = args["channels_in"], args["channels_out"]
    assert (len(pairs.out_indices), channels_out) == output_grad
    assert (*geometry.kernel, channels_in, channels_out) == filters
    assert pairs.indice_pairs.shape == indice_pairs
    assert (len(sites), channels_in) == input_grad
    assert geometry.sub_m is (case >= 2)


def test_theory_counts_used_pairs_alone():
    call = make_call(
        "random_pairs", kernel=(1, 3), rows_in=8, rows_out=6, counts=(3, 0, 5), channels_in=2, channels_out=4
    )
    theory = OPERATOR.theory(call)
    assert theory.ops == 2 * 8 * 2 * 4
    assert theory.io_bytes == 4 * (6 * 4 + 3 * 2 * 4 + 2 * 8 + 8 * 2)


@pytest.mark.parametrize("counts", [(1, 2), (5, 0, 0), (-1, 0, 0)])
def test_counts_that_do_not_fit_are_refused(counts):
    with pytest.raises(ValueError, match="counts must be one number or 3, each in 0 … 4"):
        make_call("random_pairs", kernel=(1, 3), rows_in=4, rows_out=9, counts=counts, channels_in=1, channels_out=1)


def test_a_layout_that_does_not_fit_the_kernel_is_refused():
    shape = {"kernel": (1, 3), "rows_in": 2, "rows_out": 2, "channels_in": 1, "channels_out": 1}
    with pytest.raises(ValueError, match="layout NDHWC has 5 axes, kernel \\(1, 3\\) makes 4"):
        make_call("random_pairs", layout="ndhwc", **shape)


# Checks.


def test_indice_pairs_empty_cannot_answer():
    check = OPERATOR.check("indice_pairs_empty")
    assert check.subsumed
    violated = 0
    for offsets, rows_in, rows_out, channels_in, channels_out in itertools.product(range(3), repeat=5):
        descs = {
            "output_grad": (DType.FLOAT, (rows_out, channels_out)),
            "filters": (DType.FLOAT, (1, offsets, channels_in, channels_out)),
            "indice_pairs": (DType.INT32, (offsets, 2, rows_in)),
            "input_grad": (DType.FLOAT, (rows_in, channels_in)),
        }
        args = {name: TensorArg(TensorDesc(dtype, Layout.ARRAY, dims), None) for name, (dtype, dims) in descs.items()}
        outputs = {"input_grad": args.pop("input_grad")}
        params = {"inverse": 0, "sub_m": 0, "indice_num": (0,) * offsets}
        call = OpCall(NAME, params, args, outputs)
        violated += not check.holds(call)
        assert OPERATOR.answer(call).check != check.name
    assert violated


def changed_params(call: OpCall, rng: random.Random) -> OpCall:
    counts = call.params["indice_num"]
    if counts is None:
        return call
    place = rng.randrange(len(counts))
    other = tuple(rng.choice((-1, 0, 3, 4, 5)) if k == place else count for k, count in enumerate(counts))
    change = rng.choice(({"inverse": rng.randint(-1, 2)}, {"sub_m": rng.randint(-1, 2)}, {"indice_num": other}))
    return with_params(call, **rng.choice((change, change, {"indice_num": None})))


def in_contract(call: OpCall) -> bool:
    """indice_num has exactly K entries, which no check can see."""
    filters, counts = call.inputs["filters"], call.params["indice_num"]
    if filters is None or counts is None or (filters.layout, len(filters.dims)) not in AXES:
        return True
    lengths = lengths_of(filters.layout, filters.dims)
    return math.prod(lengths[axis] for axis in ("kd", "kh", "kw")) == len(counts)


def wrong_call(call: OpCall, rng: random.Random) -> OpCall:
    for _ in range(rng.randint(1, 3)):
        call = mutated(call, rng, (changed_params,) * 2, (0, 1, 1_000_000, 1_000_001, 2**31))
    return call


@pytest.mark.parametrize("seed", range(8))
def test_the_kernel_answers_as_the_checks_do(seed):
    rng = random.Random(seed)
    shape = {"kernel": (1, 3), "rows_in": 4, "channels_in": 2, "channels_out": 3}
    valid = (
        make_call("random_pairs", rows_out=5, **shape),
        make_call("random_pairs", rows_out=4, params={"sub_m": 1}, **shape),
    )
    calls = (wrong_call(rng.choice(valid), rng) for _ in range(400))
    assert len(answering_checks(OPERATOR, filter(in_contract, calls))) > 20
