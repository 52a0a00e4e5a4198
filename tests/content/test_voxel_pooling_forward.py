"""voxel_pooling_forward: reference and kernel against literal loops, the checks, the recipes, the rulings."""

import itertools
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from generators.voxel_pooling_forward.point_by_point import Steps, apply
from generators.voxel_pooling_forward.pooling import SEGMENT, pooled
from generators.voxel_pooling_forward.recipes import INT32_MAX, INT32_MIN, cells_of
from generators.voxel_pooling_forward.values import VALUES, assert_any_order, ranks
from mluops_gtest.authoring import Draw, DType, Handle, Layout, OpCall, Status, TensorArg, TensorDesc
from mluops_gtest.authoring.sums import lattice_exponent, sums_are_exact
from mluops_gtest.base.errors import ContentError
from mluops_gtest.catalog.declarations import load_declarations
from mluops_gtest.catalog.operators import load_operator
from mluops_gtest.core.tensor import contiguous
from tests.support.kernel_answers import answering_checks

ROOT = Path(__file__).parents[2]
OPERATOR = load_operator(ROOT / "generators" / "voxel_pooling_forward" / "__init__.py")
SCALARS = ("batch_size", "num_points", "num_channels", "num_voxel_x", "num_voxel_y", "num_voxel_z")
TENSORS = ("geom_xyz", "input_features", "output_features", "pos_memo")
CANONICAL_NAN = 0x7FC00000


def call_for(geometry, features, extents) -> OpCall:
    """A valid call: output_features holds poison, pos_memo its preset."""
    geometry, features = np.array(geometry, "<i4"), np.array(features, "<f4")
    batches, points, channels = features.shape
    width, height, depth = extents
    output = np.empty((batches, height, width, channels), "<f4")
    output.view("<u4")[...] = int.from_bytes(DType.FLOAT.poison, "little")
    memo = np.full((batches, points, 3), -1, "<i4")

    def argument(array, dtype):
        return TensorArg(TensorDesc(dtype, Layout.ARRAY, array.shape), array)

    return OpCall(
        "voxel_pooling_forward",
        dict(zip(SCALARS, (batches, points, channels, width, height, depth), strict=True)),
        {"geom_xyz": argument(geometry, DType.INT32), "input_features": argument(features, DType.FLOAT)},
        {"output_features": argument(output, DType.FLOAT), "pos_memo": argument(memo, DType.INT32)},
    )


def literal_loops(call: OpCall) -> tuple[np.ndarray, np.ndarray]:
    """The listing of §3.2 in Python integers; the terms of a cell are kept and added exactly at the end."""
    p = call.params
    geometry, features = call.array("geom_xyz").tolist(), call.array("input_features").tolist()
    memo = np.full(call.tensor("pos_memo").dims, -1, "<i4")
    terms = {}
    for batch_idx, pt_idx in itertools.product(range(p["batch_size"]), range(p["num_points"])):
        x, y, z = geometry[batch_idx][pt_idx]
        if x < 0 or x >= p["num_voxel_x"] or y < 0 or y >= p["num_voxel_y"] or z < 0 or z >= p["num_voxel_z"]:
            continue
        memo[batch_idx, pt_idx] = batch_idx, y, x
        for c_idx in range(p["num_channels"]):
            terms.setdefault((batch_idx, y, x, c_idx), []).append(features[batch_idx][pt_idx][c_idx])
    output = np.zeros(call.tensor("output_features").dims, "<f4")
    for where, values in terms.items():
        output[where] = literal_sum(values)
    return output, memo


def literal_sum(values) -> float:
    if any(map(math.isnan, values)) or (math.inf in values and -math.inf in values):
        return math.nan
    return next((v for v in values if math.isinf(v)), None) or math.fsum(values)


def assert_close(evaluated, baseline) -> None:
    """diff1 and diff2 of §1.5.1, non-finite values position by position."""
    finite = np.isfinite(baseline)
    np.testing.assert_array_equal(evaluated[~finite], baseline[~finite])
    wanted = baseline[finite].astype(np.float64)
    error = np.abs(evaluated[finite].astype(np.float64) - wanted)
    assert error.sum() <= 3e-3 * (np.abs(wanted).sum() + 1e-9)
    assert np.square(error).sum() <= 9e-6 * (np.square(wanted).sum() + 1e-9)


def random_call(seed: int) -> OpCall:
    rng = random.Random(seed)
    extents = tuple(rng.choice((1, 1, 2, 3, 5)) for _ in "xyz")
    batches, points, channels = rng.randint(1, 3), rng.choice((1, 2, 5, 12, 30)), rng.randint(1, 4)

    def coordinate(extent):
        if rng.random() < 0.05:
            return rng.choice((INT32_MIN, INT32_MIN + 1, INT32_MAX - 1, INT32_MAX))
        return rng.choice((-1, 0, extent - 1, extent, rng.randrange(extent), rng.randrange(extent)))

    geometry = [[[coordinate(e) for e in extents] for _ in range(points)] for _ in range(batches)]
    draw, shape = Draw(seed), (batches, points, channels)
    features = draw.stream("f").mantissas(shape, exponents=rng.choice(((0, 0), (-3, 0), (-12, 12))))
    if seed % 5 == 0:
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 2.0**-149]
        features.reshape(-1)[:: rng.randint(2, 9)] = rng.choice(special)
        features.reshape(-1)[1 :: rng.randint(2, 9)] = rng.choice(special)
    return call_for(geometry, features, extents)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 600, 50))
def test_reference_and_kernel_agree_with_literal_loops(first):
    for seed in range(first, first + 50):
        call = random_call(seed)
        output, memo = literal_loops(call)
        baseline = OPERATOR.reference(replace(call, outputs={}))
        np.testing.assert_array_equal(baseline.outputs["output_features"], output)
        np.testing.assert_array_equal(baseline.outputs["pos_memo"], memo)
        assert OPERATOR.answer(call).computes
        assert OPERATOR.kernel(call) is Status.SUCCESS
        assert_close(call.array("output_features"), output)
        np.testing.assert_array_equal(call.array("pos_memo"), memo)


def test_the_unbroken_base_of_the_wrong_implementations_is_right():
    for seed in range(40):
        call = random_call(seed)
        output, memo = literal_loops(call)
        assert apply(Steps(), call) is Status.SUCCESS
        assert_close(call.array("output_features"), output)
        np.testing.assert_array_equal(call.array("pos_memo"), memo)


# The sums of the reference.


@pytest.mark.parametrize(
    "column",
    [
        [2.0**30, 1.0, -(2.0**30)],
        [2.0**40, 2.0**-20, -(2.0**40)],
        [2.0**40, 2.0**-20 + 2.0**-43, -(2.0**40), 3.0],
        [2.0**100, 1.0, -(2.0**100)],
        [2.0**127, 2.0**-149, -(2.0**127)],
    ],
    ids=["one accumulator", "two accumulators", "two accumulators, odd bits", "fsum", "the whole range"],
)
def test_what_plain_float64_would_lose_is_kept(column):
    features = np.array(column, "<f4")[:, None]
    for order in itertools.permutations(range(len(column))):
        sums = pooled(features[list(order)], np.arange(len(column)), np.zeros(len(column), np.int64), 1)
        assert sums[0, 0] == np.float32(math.fsum(features[:, 0].tolist()))


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("points", [SEGMENT - 1, SEGMENT, SEGMENT + 1, 5 * SEGMENT + 7])
def test_crowded_cells_are_summed_exactly_in_segments(kind, points):
    cells = np.where(np.arange(points + 40) % 20 == 3, 2, 0)
    features = VALUES[kind](Draw(points), cells, 2)
    sums = pooled(features, np.arange(len(cells)), cells, 3)
    for cell in (0, 1, 2):
        terms = features[cells == cell].T.astype(np.float64).tolist()
        np.testing.assert_array_equal(sums[cell], [np.float32(math.fsum(column)) for column in terms])


@pytest.mark.parametrize("kind", VALUES)
def test_the_baseline_does_not_depend_on_the_order_of_points(kind):
    draw = Draw(5)
    cells = draw.stream("cells").integers(0, 7, 300)
    features = VALUES[kind](draw, cells, 3)
    order = draw.stream("order").permutation(300)
    sums = pooled(features, np.arange(300), cells, 7)
    shuffled = pooled(features[order], np.arange(300), cells[order], 7)
    np.testing.assert_array_equal(sums.view("<u4"), shuffled.view("<u4"))


def test_many_blocks_give_what_bincount_gives():
    draw = Draw(6)
    cells = draw.stream("cells").integers(0, 900, 30000)
    features = VALUES["full"](draw, cells, 64)
    sums = pooled(features, np.arange(30000), cells, 901)
    # Sums of `full` data are exact in float64, so bincount's order does not matter.
    for channel in (0, 31, 63):
        expected = np.bincount(cells, features[:, channel], 901).astype(np.float32)
        np.testing.assert_array_equal(sums[:, channel], expected)


def test_every_nan_of_the_baseline_is_the_same_one():
    features = np.array([[[np.inf, np.nan, 1.0], [-np.inf, 1.0, 2.0]]], "<f4")
    features.view("<u4")[0, 0, 1] = 0xFFC12345
    baseline = OPERATOR.reference(call_for([[[0, 0, 0], [0, 0, 0]]], features, (1, 1, 1)))
    bits = baseline.outputs["output_features"].view("<u4").reshape(-1)
    assert bits[:2].tolist() == [CANONICAL_NAN, CANONICAL_NAN]
    assert baseline.outputs["output_features"].reshape(-1)[2] == 3


# The rulings.


def one_point(x, y, z, extents):
    call = call_for([[[x, y, z]]], [[[1.0]]], extents)
    baseline = OPERATOR.reference(call)
    return baseline.outputs["output_features"][0, :, :, 0], baseline.outputs["pos_memo"][0, 0].tolist()


def test_zero_is_inside_on_every_axis():
    output, memo = one_point(0, 0, 0, (2, 2, 1))
    assert output.tolist() == [[1, 0], [0, 0]]
    assert memo == [0, 0, 0]


def test_the_memo_is_batch_y_x_and_a_row_is_y():
    output, memo = one_point(2, 1, 0, (4, 3, 1))
    assert memo == [0, 1, 2]
    assert output[1, 2] == 1


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("outside", [INT32_MIN, -1, 3, INT32_MAX])
def test_a_point_outside_on_one_axis_does_not_count(axis, outside):
    point = [1, 1, 1]
    point[axis] = outside
    output, memo = one_point(*point, (3, 3, 3))
    assert not output.any()
    assert memo == [-1, -1, -1]


def test_batches_are_counted_from_zero():
    call = call_for([[[0, 0, 0]], [[0, 0, 0]]], [[[1.0]], [[2.0]]], (1, 1, 1))
    baseline = OPERATOR.reference(call)
    assert baseline.outputs["pos_memo"][:, 0, 0].tolist() == [0, 1]
    assert baseline.outputs["output_features"].reshape(-1).tolist() == [1, 2]


# The checks.


def with_tensor(call: OpCall, name: str, **changes) -> OpCall:
    """The call with another descriptor for one tensor; a changed descriptor has no buffer."""
    arg = call.tensor(name)
    desc = replace(arg.desc, **changes)
    return put(call, name, TensorArg(desc, arg.array if desc == arg.desc else None))


def put(call: OpCall, name: str, arg: TensorArg | None) -> OpCall:
    side = "inputs" if name in call.inputs else "outputs"
    return replace(call, **{side: {**getattr(call, side), name: arg}})


def mutated(call: OpCall, rng: random.Random) -> OpCall:
    name = rng.choice(TENSORS)
    kind = rng.choice(("handle", "arch", "desc", "ptr", "dtype", "rank", "dim", "param", "zero", "stride", "large"))
    if kind == "handle":
        return replace(call, handle=None)
    if kind == "arch":
        return replace(call, handle=Handle(arch=rng.choice((270, 290, 370))))
    if kind == "desc":
        return put(call, name, None)
    if kind in ("param", "zero", "large"):
        scalar = rng.choice(SCALARS)
        value = {"param": rng.choice((-1, 0, 1, 2, 9)), "zero": 0, "large": rng.choice((2**16, 2**30, 2**31 - 1))}[kind]
        changed = replace(call, params={**call.params, scalar: value})
        return changed if kind == "param" else fitted(changed)
    arg = (call.inputs if name in call.inputs else call.outputs)[name]
    if arg is None:
        return call
    if kind == "ptr":
        return put(call, name, replace(arg, array=None, null=True))
    if kind == "dtype":
        return with_tensor(call, name, dtype=rng.choice((DType.HALF, DType.FLOAT, DType.INT32, DType.INT64)))
    if kind == "rank":
        return with_tensor(call, name, dims=rng.choice((arg.dims[1:], (*arg.dims, 1), (1, *arg.dims))), strides=None)
    if kind == "dim":
        axis = rng.randrange(len(arg.dims))
        dims = (*arg.dims[:axis], rng.choice((0, 1, 2, 3, 4)), *arg.dims[axis + 1 :])
        return with_tensor(call, name, dims=dims, strides=None)
    strides = contiguous(arg.dims)
    return with_tensor(call, name, strides=rng.choice((strides, tuple(2 * s for s in strides))))


def fitted(call: OpCall) -> OpCall:
    """The call with every descriptor that is present shaped as the parameters say."""
    b, n, c, x, y, _ = (call.params[name] for name in SCALARS)
    shapes = {
        "geom_xyz": (b, n, 3),
        "input_features": (b, n, c),
        "output_features": (b, y, x, c),
        "pos_memo": (b, n, 3),
    }
    for name, dims in shapes.items():
        arg = (call.inputs if name in call.inputs else call.outputs)[name]
        if arg is not None and arg.dims != dims:
            call = with_tensor(call, name, dims=dims, strides=None)
    return call


def wrong_calls(seeds):
    """Small calls with one or two things changed."""
    for seed in seeds:
        rng = random.Random(seed)
        call = call_for([[[0, 1, 0], [1, 0, 0], [0, 1, 0]]] * 2, np.ones((2, 3, 4)), (2, 2, 1))
        for _ in range(rng.randint(1, 2)):
            call = mutated(call, rng)
        yield call


@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_the_kernels_own_checks_agree_with_the_list(first):
    assert len(answering_checks(OPERATOR, wrong_calls(range(first, first + 500)))) > 25


def test_a_large_memo_is_refused_for_its_coordinates_already():
    """pos_memo_large is subsumed: with all earlier checks passed, no descriptor is large for it alone."""
    position = [check.name for check in OPERATOR.checks].index("pos_memo_large")
    large = OPERATOR.check("pos_memo_large")
    seen = 0
    lengths = (1, 3, 2**10, 2**30, 715827882, 715827883, 2**31 - 1)
    base = call_for([[[0, 0, 0]]], [[[1.0]]], (1, 1, 1))
    for batch, points, channels in itertools.product(lengths, lengths, (1, 2)):
        sizes = {"batch_size": batch, "num_points": points, "num_channels": channels}
        call = fitted(replace(base, params={**base.params, **sizes}))
        for memo in ((batch, points, 3), (batch, points, 2), (batch, points + 1, 3), (batch * points, 3)):
            run_with_retries = with_tensor(call, "pos_memo", dims=memo)
            seen += not large.holds(run_with_retries)
            assert large.holds(run_with_retries) or not all(
                check.holds(run_with_retries) for check in OPERATOR.checks[:position]
            )
    assert seen > 50
    assert [check.name for check in OPERATOR.checks if check.subsumed] == ["pos_memo_large"]


def test_zero_elements_are_a_bad_parameter_and_not_an_early_success():
    for scalar in SCALARS:
        call = call_for([[[0, 0, 0]]], [[[1.0]]], (1, 1, 1))
        call = fitted(replace(call, params={**call.params, scalar: 0}))
        assert OPERATOR.answer(call).status is Status.BAD_PARAM
        assert OPERATOR.answer(call).check == scalar


# The recipes.


def test_the_network_has_the_documents_shape():
    draft = next(
        draft
        for draft in load_declarations(ROOT / "cases" / "voxel_pooling_forward.yaml", OPERATOR)
        if "network" in draft.tags
    )
    assert tuple(draft.params[name] for name in SCALARS) == (2, 473088, 80, 128, 128, 1)
    # The points of the network with one channel: everything but the features' size.
    params = {**draft.params, "num_channels": 1}
    made = OPERATOR.recipes[draft.recipe](Draw(draft.seed), params, DType.FLOAT, **draft.args)
    assert made.inputs["geom_xyz"].shape == (2, 473088, 3)
    assert made.outputs["output_features"] == (2, 128, 128, 1)
    cells = cells_of(made.params, made.inputs["geom_xyz"])
    counts = np.bincount(cells[cells >= 0], minlength=2 * 128 * 128)
    # Cameras look outwards: points outside on every axis, far cells sparse, cells near the car crowded.
    assert 0.3 < np.mean(cells >= 0) < 0.8
    assert 0.5 < np.mean(counts > 0) < 1
    assert counts.max() > 20 * np.median(counts[counts > 0])
    assert not np.array_equal(made.inputs["geom_xyz"][0], made.inputs["geom_xyz"][1])
    for axis, extent in enumerate((128, 128, 1)):
        column = made.inputs["geom_xyz"][..., axis]
        assert column.min() < 0
        assert column.max() >= extent


def test_full_data_fill_every_mantissa_bit_and_stay_exact_in_float64():
    features = VALUES["full"](Draw(1), np.zeros(4096, np.int64), 4)
    assert lattice_exponent(features) == -26
    assert sums_are_exact(-26, 2.0, 2**26)
    bits = features.view("<u4")
    assert np.bitwise_or.reduce(bits, axis=None) & 0x7FFFFF == 0x7FFFFF
    assert np.bitwise_and.reduce(bits, axis=None) & 0x7FFFFF == 0
    assert 0.45 < np.mean(features < 0) < 0.55


@pytest.mark.parametrize("kind", VALUES)
def test_every_kind_of_value_is_conditioned_where_cells_are_crowded(kind):
    cells = np.zeros(3000, np.int64)
    assert_any_order(VALUES[kind](Draw(9), cells, 2), cells)


def test_ill_conditioned_data_are_refused():
    features = np.full((3 * SEGMENT, 1), 2.0**-26, "<f4")
    features[0], features[-1] = 1, -1
    with pytest.raises(ContentError, match="ill-conditioned"):
        assert_any_order(features, np.zeros(len(features), np.int64))


def test_ranks_count_earlier_points_of_the_same_cell():
    assert ranks(np.array([4, -1, 4, 0, -1, 4])).tolist() == [0, 0, 1, 0, 1, 2]


@pytest.mark.parametrize(
    ("recipe", "params", "args", "message"),
    [
        ("frustum", {"num_points": 5}, {"cameras": 1, "depths": 2, "rows": 1, "columns": 1}, "num_points follows"),
        ("frustum", {}, {"cameras": 7, "depths": 1, "rows": 1, "columns": 1}, "at most 6"),
        ("nonfinite", {"num_points": 1}, {"kind": "nan"}, "no cell holds two points"),
        ("listed", {}, {"x": (2**31,), "y": (0,), "z": (0,)}, "leaves int32"),
    ],
)
def test_a_recipe_says_what_it_cannot_make(recipe, params, args, message):
    with pytest.raises(ValueError, match=message):
        OPERATOR.recipes[recipe](Draw(1), params, DType.FLOAT, **args)


def test_theory_counts_what_must_be_touched():
    call = call_for([[[0, 0, 0], [1, 0, 0], [5, 0, 0]]], np.ones((1, 3, 4)), (2, 3, 1))
    theory = OPERATOR.theory(call)
    assert theory.ops == 2 * 4
    # Coordinates of three points, features and memos of two, all cells.
    assert theory.io_bytes == 4 * (3 * 3 + 2 * 4 + 2 * 3 + 6 * 4)
