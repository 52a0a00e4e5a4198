"""dynamic_scatter_backward: a third implementation, literal from the document, beside reference and kernel."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from mluops_gtest.authoring import Array, Draw, DType, Handle, Layout, OpCall, Status, TensorArg, TensorDesc, call_of
from mluops_gtest.catalog.declarations import load_declarations
from mluops_gtest.catalog.make import make_case
from mluops_gtest.catalog.operators import load_operator
from tests.support.examples import examples

ROOT = Path(__file__).parents[2]
OPERATOR = load_operator(ROOT / "generators" / "dynamic_scatter_backward" / "__init__.py")
DRAFTS = {
    draft.id.partition("/")[2]: draft
    for draft in load_declarations(ROOT / "cases" / "dynamic_scatter_backward.yaml", OPERATOR)
}
TENSORS = tuple(spec.id for spec in (*OPERATOR.inputs, *OPERATOR.outputs))
POISON = np.frombuffer(DType.FLOAT.poison, "<f4")[0]
MAX = {"reduce_type": 2}


def literal(inputs: dict[str, Array]) -> Array:
    """§3.2 word by word: kernel 1 keeps the smallest matching index, kernel 2 hands the gradients out."""
    feats, voxel_feats = inputs["feats"], inputs["voxel_feats"]
    points, channels = feats.shape
    nobody = points
    reduce_from = np.full(voxel_feats.shape, nobody)
    for x in range(points):
        v = inputs["point2voxel_map"][x]
        if v == -1 or v >= inputs["voxel_num"][0]:
            continue
        for c in range(channels):
            if float(feats[x, c]) == float(voxel_feats[v, c]):
                reduce_from[v, c] = min(reduce_from[v, c], x)
    grad_feats = np.zeros((points, channels), "<f4")
    for v in range(inputs["voxel_num"][0]):
        for c in range(channels):
            if reduce_from[v, c] != nobody:
                grad_feats[reduce_from[v, c], c] = inputs["grad_voxel_feats"][v, c]
    return grad_feats


def by_reference(inputs: dict[str, Array]) -> Array:
    return OPERATOR.reference(call_of(OPERATOR.name, MAX, inputs)).outputs["grad_feats"]


def by_kernel(inputs: dict[str, Array]) -> Array:
    grad_feats = np.full(inputs["feats"].shape, POISON, "<f4")
    assert OPERATOR.kernel(call_of(OPERATOR.name, MAX, inputs, {"grad_feats": grad_feats})) is Status.SUCCESS
    return grad_feats


def same_bits(first: Array, second: Array) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


def random_inputs(rng: np.random.Generator) -> dict[str, Array]:
    """Small and full of trouble: ties, signed zeros, NaN, -1, rows behind voxel_num, counts that are lies."""
    points = int(rng.integers(1, 9))
    rows = int(rng.integers(0, points + 1))
    channels = int(rng.integers(1, 5))
    palette = np.array([0.0, -0.0, 1.0, -1.0, 1e-45, 3e38, np.inf, np.nan], "<f4")[: rng.integers(1, 9)]
    return {
        "grad_voxel_feats": rng.permutation(rows * channels).reshape(rows, channels).astype("<f4") + 1,
        "feats": rng.choice(palette, (points, channels)),
        "voxel_feats": rng.choice(palette, (rows, channels)),
        "point2voxel_map": rng.integers(-1, rows, points).astype("<i4"),
        "voxel_points_count": rng.integers(-5, 5, rows).astype("<i4"),
        "voxel_num": np.array([rng.integers(0, rows + 1)], "<i4"),
    }


@pytest.mark.parametrize("seed", range(6))
def test_reference_and_kernel_agree_with_the_document_on_random_cases(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(examples(150)):
        inputs = random_inputs(rng)
        expected = literal(inputs)
        assert same_bits(by_reference(inputs), expected), inputs
        assert same_bits(by_kernel(inputs), expected), inputs


@pytest.mark.parametrize(
    ("points", "rows", "channels"), [(31, 1, 3), (33, 1, 3), (140, 3, 2), (300, 7, 5), (70, 69, 1)]
)
@pytest.mark.parametrize("levels", [1, 2, 50])
def test_deep_voxels_agree_with_the_document(points: int, rows: int, channels: int, levels: int) -> None:
    rng = np.random.default_rng([points, levels])
    inputs = {
        "grad_voxel_feats": rng.standard_normal((rows, channels), dtype=np.float32),
        "feats": rng.integers(0, levels, (points, channels)).astype("<f4"),
        # Mostly reached by some point late in the voxel, sometimes by none.
        "voxel_feats": rng.integers(0, levels + 1, (rows, channels)).astype("<f4"),
        "point2voxel_map": rng.integers(-1, rows, points).astype("<i4"),
        "voxel_points_count": np.zeros(rows, "<i4"),
        "voxel_num": np.array([rows], "<i4"),
    }
    expected = literal(inputs)
    assert same_bits(by_reference(inputs), expected)
    assert same_bits(by_kernel(inputs), expected)


@pytest.mark.parametrize(("points", "voxels", "channels"), [(400, 150, 257), (6, 2, 32_700), (5000, 40, 30)])
def test_rows_beyond_one_block_agree(points: int, voxels: int, channels: int) -> None:
    made = OPERATOR.recipes["tied"](
        Draw(points), {}, DType.FLOAT, points=points, voxels=voxels, channels=channels, levels=9
    )
    result = by_reference(dict(made.inputs))
    assert same_bits(result, by_kernel(dict(made.inputs)))
    # Every voxel's maximum has an owner, so every gradient arrives exactly once.
    arrived = np.sort(result, axis=0)
    gradients = np.sort(made.inputs["grad_voxel_feats"], axis=0)
    for channel in range(0, channels, 97):
        assert np.array_equal(arrived[arrived[:, channel] != 0, channel], gradients[:, channel])


def one_channel(feats: list[float], voxel_feats: list[float], voxel_of: list[int], voxel_num: int) -> dict[str, Array]:
    rows = len(voxel_feats)
    return {
        "grad_voxel_feats": np.arange(10, 10 + rows, dtype="<f4")[:, None],
        "feats": np.array(feats, "<f4")[:, None],
        "voxel_feats": np.array(voxel_feats, "<f4")[:, None],
        "point2voxel_map": np.array(voxel_of, "<i4"),
        "voxel_points_count": np.bincount([v for v in voxel_of if v >= 0], minlength=rows).astype("<i4"),
        "voxel_num": np.array([voxel_num], "<i4"),
    }


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        pytest.param(one_channel([3, 5, 5], [5], [0, 0, 0], 1), [0, 10, 0], id="the smallest of equal maxima wins"),
        pytest.param(one_channel([1, 2], [1, 2], [0, 1], 2), [10, 11], id="voxel 0 counts"),
        pytest.param(one_channel([2, 2], [1, 2], [-1, 1], 2), [0, 11], id="-1 is no voxel"),
        pytest.param(one_channel([1, 2], [1, 2], [0, 1], 1), [10, 0], id="rows behind voxel_num are ignored"),
        pytest.param(one_channel([1, 2], [7], [0, 0], 1), [0, 0], id="an unmatched gradient is dropped"),
        pytest.param(one_channel([-1, 0.0], [-0.0], [0, 0], 1), [0, 10], id="-0 matches +0"),
        pytest.param(one_channel([np.nan, 2], [np.nan], [0, 0], 1), [0, 0], id="NaN matches nothing"),
        pytest.param(one_channel([np.inf, 2], [np.inf], [0, 0], 1), [10, 0], id="an infinity matches itself"),
    ],
)
def test_rulings(inputs: dict[str, Array], expected: list[float]) -> None:
    for compute in (literal, by_reference, by_kernel):
        assert compute(inputs).ravel().tolist() == expected


def test_counts_do_not_influence_the_result() -> None:
    cases = [make_case(DRAFTS[f"counts_{word}"], OPERATOR) for word in ("right", "zero", "random")]
    counts = [case.inputs[4].values for case in cases]
    assert not np.array_equal(counts[0], counts[1])
    assert not np.array_equal(counts[0], counts[2])
    assert len({case.outputs[0].values.tobytes() for case in cases}) == 1


def test_a_stored_case_tells_that_nan_matches_nothing() -> None:
    case = make_case(DRAFTS["nonfinite_nan"], OPERATOR)
    inputs = {tensor.id: tensor.values.copy() for tensor in case.inputs}
    assert same_bits(literal(inputs), case.outputs[0].values)
    # A number in the place of NaN matches itself.
    for name in ("feats", "voxel_feats"):
        inputs[name][np.isnan(inputs[name])] = 9
    assert not same_bits(literal(inputs), case.outputs[0].values)


def test_gradients_keep_their_bits() -> None:
    bits = np.array([0x7FC00001, 0x80000000, 0x00000001, 0xFF800000], "<u4")
    inputs = one_channel([1, 2, 3, 4], [1, 2, 3, 4], [0, 1, 2, 3], 4)
    inputs["grad_voxel_feats"] = bits.view("<f4")[:, None]
    for compute in (by_reference, by_kernel):
        assert compute(inputs).view("<u4").ravel().tolist() == bits.tolist()


def test_the_network_case_is_a_real_max_pooling_of_the_documents_shapes() -> None:
    draft = DRAFTS["network_mvxnet"]
    made = OPERATOR.recipes[draft.recipe](Draw(draft.seed), dict(draft.params), DType.FLOAT, **draft.args)
    inputs = made.inputs
    assert {name: array.shape for name, array in inputs.items()} == {
        "grad_voxel_feats": (13743, 128),
        "feats": (17176, 128),
        "voxel_feats": (13743, 128),
        "point2voxel_map": (17176,),
        "voxel_points_count": (13743,),
        "voxel_num": (1,),
    }
    assert made.params == MAX
    voxel_of = inputs["point2voxel_map"]
    assert inputs["voxel_num"].tolist() == [13743]
    assert np.array_equal(np.bincount(voxel_of, minlength=13743), inputs["voxel_points_count"])
    assert inputs["voxel_points_count"].min() == 1
    pooled = np.full((13743, 128), -np.inf, "<f4")
    np.maximum.at(pooled, voxel_of, inputs["feats"])
    assert np.array_equal(pooled, inputs["voxel_feats"])
    theory = OPERATOR.theory(call_of(OPERATOR.name, MAX, inputs))
    assert theory.ops == 17176 * 128
    assert theory.io_bytes == 4 * (2 * 17176 * 128 + 2 * 13743 * 128 + 17176 + 1)


def test_a_recipe_refuses_more_voxels_than_points() -> None:
    with pytest.raises(ValueError, match="2 points inside cannot fill 3 rows"):
        OPERATOR.recipes["pooled"](Draw(1), {}, DType.FLOAT, points=4, voxels=3, channels=1, outside=2)


def sized_call(points: int, rows: int, channels: int, voxel_num: int = 1, nram_bytes: int = 655360) -> OpCall:
    """A valid call of that shape; buffers only where they stay small."""
    dims = {
        "grad_voxel_feats": (rows, channels),
        "feats": (points, channels),
        "voxel_feats": (rows, channels),
        "point2voxel_map": (points,),
        "voxel_points_count": (rows,),
        "voxel_num": (voxel_num,),
        "grad_feats": (points, channels),
    }
    arguments = {
        name: tensor(DType.FLOAT if name.endswith("feats") else DType.INT32, shape) for name, shape in dims.items()
    }
    outputs = {"grad_feats": arguments.pop("grad_feats")}
    return OpCall(OPERATOR.name, MAX, arguments, outputs, Handle(nram_bytes=nram_bytes))


def tensor(dtype: DType, dims: tuple[int, ...], strides: tuple[int, ...] | None = None) -> TensorArg:
    desc = TensorDesc(dtype, Layout.ARRAY, dims, strides)
    return TensorArg(desc, np.zeros(dims, dtype.storage) if desc.count < 10**5 else None)


def test_subsumed_checks_are_never_the_first_to_answer() -> None:
    subsumed = {check.name for check in OPERATOR.checks if check.subsumed}
    assert subsumed == {f"{name}_large" for name in ("voxel_feats", "voxel_points_count", "voxel_num", "grad_feats")}
    sizes = (0, 1, 2, 2**15, 2**16, 2**31 - 1, 2**31, 2**32)
    answers = {
        OPERATOR.answer(sized_call(points, rows, channels, voxel_num, nram_bytes=2**80)).check
        for points, rows, channels, voxel_num in product(sizes, sizes, sizes, (0, 1, 2**31))
    }
    assert answers & subsumed == set()
    assert {"grad_voxel_feats_large", "feats_large", "point2voxel_map_large"} <= answers


@pytest.mark.parametrize("name", ["grad_voxel_feats", "feats", "voxel_feats", "grad_feats"])
def test_an_early_return_never_meets_a_null_float_tensor_that_is_not_empty(name: str) -> None:
    """So no call can see the order of grad_feats_empty and these checks, which is why they stand last."""
    pointer = OPERATOR.check(f"{name}_ptr_null")
    for points, rows, channels in product(range(4), repeat=3):
        call = with_null_pointer(sized_call(points, rows, channels), name)
        if OPERATOR.answer(call).check == "grad_feats_empty":
            assert pointer.holds(call)


def with_argument(call: OpCall, name: str, argument: TensorArg | None) -> OpCall:
    if name in call.inputs:
        return replace(call, inputs={**call.inputs, name: argument})
    return replace(call, outputs={**call.outputs, name: argument})


def with_null_pointer(call: OpCall, name: str) -> OpCall:
    return with_argument(call, name, replace(call.tensor(name), array=None, null=True))


def mutated(call: OpCall, rng: np.random.Generator) -> OpCall:
    """The call with one thing changed, usually for the worse; a descriptor that is null already stays so."""
    name = str(rng.choice(TENSORS))
    old = {**call.inputs, **call.outputs}[name]
    kind = rng.choice(
        ["handle", "arch", "nram", "reduce", "workspace", "desc", "stride", "dtype", "rank", "dim", "ptr"]
    )
    if kind == "handle":
        return replace(call, handle=None)
    if kind == "arch":
        return replace(call, handle=call.handle and replace(call.handle, arch=int(rng.choice([270, 290, 370]))))
    if kind == "nram":
        return replace(call, handle=call.handle and replace(call.handle, nram_bytes=int(rng.integers(4, 150))))
    if kind == "reduce":
        return replace(call, params={"reduce_type": int(rng.integers(0, 3))})
    if kind == "workspace":
        return replace(call, workspace_size=int(rng.integers(0, 2)))
    if kind == "desc" or old is None:
        return with_argument(call, name, None)
    if kind == "ptr":
        return with_null_pointer(call, name)
    dims = list(old.dims)
    if kind == "stride":
        return with_argument(call, name, tensor(old.dtype, old.dims, tuple(int(rng.integers(1, 5)) for _ in dims)))
    if kind == "dtype":
        return with_argument(call, name, tensor(DType.named(str(rng.choice(["half", "int64", "int32"]))), old.dims))
    if kind == "rank":
        return with_argument(call, name, tensor(old.dtype, (*dims, 1)))
    dims[rng.integers(len(dims))] = int(rng.choice([0, 1, 2, 5, 2**31]))
    return with_argument(call, name, tensor(old.dtype, tuple(dims)))


@pytest.mark.parametrize("seed", range(5))
def test_the_kernels_own_checks_agree_with_the_list(seed: int) -> None:
    rng = np.random.default_rng(seed)
    answered: set[str | None] = set()
    for _ in range(400):
        points, rows, channels = (int(size) for size in rng.integers(0, 6, 3))
        if rng.integers(10) == 0:
            points = int(rng.choice([131067, 131068, 2**31 - 1, 2**31]))
        call = sized_call(points, rows, channels)
        for _ in range(rng.integers(0, 3)):
            call = mutated(call, rng)
        answer = OPERATOR.answer(call)
        if answer.computes and any(arg.array is None for arg in call.inputs.values() if not arg.desc.is_empty):
            continue  # a valid call without buffers
        answered.add(answer.check)
        output = call.outputs["grad_feats"]
        buffer = np.empty(0) if output is None or output.array is None else output.array
        buffer[...] = 7
        assert OPERATOR.kernel(call) is answer.status, answer
        assert (buffer == (0 if answer.computes else 7)).all(), answer
    assert len(answered) > 25
