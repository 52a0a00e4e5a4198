"""masked_im2col_forward: reference and kernel against literal loops, the checks, the recipes, the rulings."""

import itertools
import random
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from generators.masked_im2col_forward.mutants import MUTANTS
from generators.masked_im2col_forward.recipes import SIDES
from generators.masked_im2col_forward.values import KINDS, feature
from generators.masked_im2col_forward.window_copy import Steps, apply
from mluops_gtest.authoring import Draw, DType, Handle, Layout, OpCall, Status, TensorArg, TensorDesc
from mluops_gtest.catalog.declarations import load_declarations
from mluops_gtest.catalog.make import make_case
from mluops_gtest.catalog.operators import load_operator
from mluops_gtest.core.tensor import contiguous
from tests.support.examples import examples
from tests.support.kernel_answers import answering_checks, reachable

ROOT = Path(__file__).parents[2]
OPERATOR = load_operator(ROOT / "generators" / "masked_im2col_forward" / "__init__.py")
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
STORAGE = {DType.FLOAT: "<f4", DType.HALF: "<f2"}


def call_for(feature, mask_h, mask_w, kernel, pad) -> OpCall:
    """A valid call whose output holds poison."""
    channels, masks = feature.shape[1], len(mask_h)
    dtype = DType.FLOAT if feature.dtype == "<f4" else DType.HALF
    out = np.empty((channels * kernel[0] * kernel[1], masks), feature.dtype)
    out.view(dtype.bits)[...] = int.from_bytes(dtype.poison, "little")
    index = [np.array(mask, "<i4") for mask in (mask_h, mask_w)]
    return OpCall(
        "masked_im2col_forward",
        {"kernel_h": kernel[0], "kernel_w": kernel[1], "pad_h": pad[0], "pad_w": pad[1]},
        {
            "feature": TensorArg(TensorDesc(dtype, Layout.NCHW, feature.shape), feature),
            "mask_h_idx": TensorArg(TensorDesc(DType.INT32, Layout.ARRAY, (masks,)), index[0]),
            "mask_w_idx": TensorArg(TensorDesc(DType.INT32, Layout.ARRAY, (masks,)), index[1]),
        },
        {"data_col": TensorArg(TensorDesc(dtype, Layout.ARRAY, out.shape), out)},
    )


def literal_loops(call: OpCall) -> np.ndarray:
    """The CUDA listing of §3.2 in Python integers, on bits."""
    p = call.params
    bits = call.array("feature").view(call.tensor("feature").dtype.bits)
    _, channels, height, width = bits.shape
    masks = len(call.array("mask_h_idx"))
    out = np.zeros((channels * p["kernel_h"] * p["kernel_w"], masks), bits.dtype)
    for index in range(masks):
        h_offset = int(call.array("mask_h_idx")[index]) - p["pad_h"]
        w_offset = int(call.array("mask_w_idx")[index]) - p["pad_w"]
        window = itertools.product(range(channels), range(p["kernel_h"]), range(p["kernel_w"]))
        for row, (c, i, j) in enumerate(window):
            h_im, w_im = h_offset + i, w_offset + j
            if h_im >= 0 and w_im >= 0 and h_im < height and w_im < width:
                out[row, index] = bits[0, c, h_im, w_im]
    return out


def random_call(rng: random.Random) -> OpCall:
    """A small valid call of any shape, pad and mask index, extremes included, on any bits."""
    channels, height, width, masks = (rng.randint(1, 4) for _ in range(4))
    kernel = rng.randint(1, 5), rng.randint(1, 5)
    pad = tuple(rng.choice([rng.randint(-3, 7), rng.randint(-1, 2), INT32_MIN, INT32_MAX]) for _ in range(2))

    def index(pad: int, length: int, extent: int) -> int:
        near = rng.randint(-length - 1, extent + 1) + pad
        far = rng.choice([INT32_MIN, INT32_MIN + 1, INT32_MAX - 1, INT32_MAX, rng.randint(INT32_MIN, INT32_MAX)])
        return near if INT32_MIN <= near <= INT32_MAX and rng.random() < 0.85 else far

    dtype = rng.choice([DType.FLOAT, DType.HALF])
    feature = KINDS[rng.choice(list(KINDS))](Draw(rng.getrandbits(32)), dtype, (1, channels, height, width))
    mask_h = [index(pad[0], kernel[0], height) for _ in range(masks)]
    mask_w = [index(pad[1], kernel[1], width) for _ in range(masks)]
    return call_for(feature, mask_h, mask_w, kernel, pad)


def bits_of(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"<u{array.itemsize}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_reference_kernel_and_literal_loops_agree_bit_for_bit(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(examples(150)):
        call = random_call(rng)
        expected = literal_loops(call)
        baseline = OPERATOR.reference(replace(call, outputs={})).outputs["data_col"]
        assert baseline.dtype == call.array("data_col").dtype
        assert baseline.flags.c_contiguous
        np.testing.assert_array_equal(bits_of(baseline), expected)
        assert OPERATOR.kernel(call) is Status.SUCCESS
        np.testing.assert_array_equal(bits_of(call.array("data_col")), expected)


def test_the_copy_that_the_wrong_ones_vary_is_right() -> None:
    rng = random.Random(99)
    for _ in range(examples(100)):
        call = random_call(rng)
        assert apply(Steps(), call) is Status.SUCCESS
        np.testing.assert_array_equal(bits_of(call.array("data_col")), literal_loops(call))


def test_each_wrong_implementation_is_right_somewhere() -> None:
    """One that is wrong everywhere has more than one mistake; that none is right everywhere is the audit's rule."""
    rng = random.Random(5)
    never_right = {wrong.name for wrong in MUTANTS}
    for _ in range(20):
        call = random_call(rng)
        expected = literal_loops(call)
        for wrong in MUTANTS:
            tried = deepcopy(call)  # a wrong implementation may write anywhere
            with np.errstate(all="ignore"):
                wrong.run(tried)
            if (bits_of(tried.array("data_col")) == expected).all():
                never_right.discard(wrong.name)
    # A sum with what marks unwritten memory is never right.
    assert never_right == {"adds_to_data_col"}


# Rulings.


@pytest.fixture(params=["reference", "kernel"])
def data_col(request):
    """Computes data_col by the reference or by the kernel."""

    def compute(*args) -> np.ndarray:
        call = call_for(*args)
        if request.param == "reference":
            return OPERATOR.reference(call).outputs["data_col"]
        assert OPERATOR.kernel(call) is Status.SUCCESS
        return call.array("data_col")

    return compute


def counting(*shape: int) -> np.ndarray:
    return np.arange(1, 1 + np.prod(shape), dtype="<f4").reshape(shape)


def test_rows_are_channel_major(data_col) -> None:
    column = data_col(counting(1, 2, 1, 2), [0], [0], (1, 2), (0, 0))
    assert column[:, 0].tolist() == [1, 2, 3, 4]


def test_the_end_of_a_window_is_exclusive(data_col) -> None:
    # The window ends exactly where the image begins: by §3.2's inclusive end it would copy pixel 1.
    assert data_col(counting(1, 1, 2, 2), [-1], [0], (1, 1), (0, 0)).tolist() == [[0]]
    # And one that lies within: no pixel of the next row or column.
    assert data_col(counting(1, 1, 3, 3), [0], [0], (2, 2), (0, 0))[:, 0].tolist() == [1, 2, 4, 5]


def test_a_negative_pad_moves_the_window_down_and_right(data_col) -> None:
    assert data_col(counting(1, 1, 3, 3), [0], [0], (1, 2), (-2, -1))[:, 0].tolist() == [8, 9]


def test_mask_minus_pad_does_not_wrap(data_col) -> None:
    # In 32 bits INT32_MIN − INT32_MAX is 1.
    column = data_col(counting(1, 1, 3, 3), [INT32_MIN, INT32_MAX], [1, 1], (1, 1), (INT32_MAX, 0))
    assert column.tolist() == [[0, 2]]


@pytest.mark.parametrize(
    ("dtype", "patterns"),
    [
        ("<f4", [0x80000000, 0x7F800001, 0xFFC12345, 0x7F800000, 0x00000001, 0x807FFFFF]),
        ("<f2", [0x8000, 0x7C01, 0xFE12, 0x7C00, 0x0001, 0x83FF]),
    ],
)
def test_bits_survive_and_outside_is_plus_zero(data_col, dtype: str, patterns: list[int]) -> None:
    feature = np.array(patterns, dtype=f"<u{dtype[-1]}").view(dtype).reshape(1, 1, 2, 3)
    column = data_col(feature, [0], [0], (2, 4), (0, 0))
    assert bits_of(column)[:, 0].tolist() == [*patterns[:3], 0, *patterns[3:], 0]


# Checks.

TENSORS = ("feature", "mask_h_idx", "mask_w_idx", "data_col")


@dataclass
class Sketch:
    """A call as plain data that can be mutated; buffers are made for small tensors only."""

    dims: dict = field(
        default_factory=lambda: {"feature": (1, 2, 3, 4), "mask_h_idx": (4,), "mask_w_idx": (4,), "data_col": (12, 4)}
    )
    dtype: dict = field(default_factory=lambda: dict.fromkeys(("mask_h_idx", "mask_w_idx"), DType.INT32))
    layout: dict = field(default_factory=lambda: {"feature": Layout.NCHW})
    # Strides as multiples of the contiguous ones.
    spread: dict = field(default_factory=dict)
    absent: set = field(default_factory=set)
    null: set = field(default_factory=set)
    params: dict = field(default_factory=lambda: {"kernel_h": 3, "kernel_w": 2, "pad_h": 1, "pad_w": 0})
    handle: Handle | None = field(default_factory=Handle)
    workspace: np.ndarray | None = None
    workspace_size: int = 0

    def call(self) -> OpCall:
        args = {name: None if name in self.absent else self.argument(name) for name in TENSORS}
        return OpCall(
            "masked_im2col_forward",
            self.params,
            {name: args[name] for name in TENSORS[:3]},
            {"data_col": args["data_col"]},
            self.handle,
            self.workspace,
            self.workspace_size,
        )

    def argument(self, name: str) -> TensorArg:
        dims, strides = self.dims[name], None
        if name in self.spread:
            strides = tuple(step * self.spread[name] for step in contiguous(dims))
        desc = TensorDesc(self.dtype.get(name, DType.FLOAT), self.layout.get(name, Layout.ARRAY), dims, strides)
        null = name in self.null
        if null or desc.extent > 4096:
            return TensorArg(desc, None, null)
        return TensorArg(desc, desc.view(np.full(desc.extent, 1, desc.dtype.storage)))


def mutate(sketch: Sketch, rng: random.Random) -> None:
    """One thing differs, legal or not."""
    name = rng.choice(TENSORS)
    match rng.randrange(10):
        case 0:
            sketch.handle = rng.choice([None, Handle(arch=200)])
        case 1:
            sketch.absent.add(name)
        case 2:
            sketch.null.add(name)
        case 3:
            sketch.layout[name] = rng.choice(list(Layout))
        case 4:
            sketch.dtype[name] = rng.choice([DType.HALF, DType.FLOAT, DType.INT32, DType.INT64, DType.DOUBLE])
            if rng.random() < 0.5:
                sketch.dtype["feature"] = sketch.dtype["data_col"] = rng.choice([DType.HALF, DType.INT32])
        case 5:
            mutate_dims(sketch, name, rng)
        case 6:
            sketch.spread[name] = rng.choice([1, 2])
        case 7:
            kernel_h, kernel_w = rng.choice([(0, 2), (3, 0), (-3, -2), (1, 2), (3, 1), (-1, 2), (1, 1)])
            sketch.params |= {"kernel_h": kernel_h, "kernel_w": kernel_w}
            follow(sketch, rng)
        case 8:
            sketch.workspace_size = rng.choice([0, 64])
            sketch.workspace = rng.choice([None, np.zeros(64, np.uint8)])
        case 9:
            masks = rng.choice([0, 0, 1, 2**31 - 1, 2**31, 2**28])
            sketch.dims |= {"mask_h_idx": (masks,), "mask_w_idx": (masks,), "data_col": (12, masks)}
            follow(sketch, rng)


def mutate_dims(sketch: Sketch, name: str, rng: random.Random) -> None:
    dims = list(sketch.dims[name])
    kind = rng.randrange(4)
    if kind == 0 or not dims:
        dims.append(1)
    elif kind == 1:
        dims.pop()
    else:
        dims[rng.randrange(len(dims))] = rng.choice([0, 0, 1, 2, 5, 2**16, 2**31])
    sketch.dims[name] = tuple(dims)
    follow(sketch, rng)


def follow(sketch: Sketch, rng: random.Random) -> None:
    """Mostly keep data_col's rows what the rest asks for, so that later checks are reached."""
    feature, data_col = sketch.dims["feature"], sketch.dims["data_col"]
    rows = feature[1] * sketch.params["kernel_h"] * sketch.params["kernel_w"] if len(feature) > 1 else -1
    if rows >= 0 and len(data_col) == 2 and rng.random() < 0.8:
        sketch.dims["data_col"] = (rows, data_col[1])


def wrong_calls(mutations: int) -> Iterator[OpCall]:
    """Calls with so many things changed, legal or not."""
    rng = random.Random(mutations)
    for _ in range(2500):
        sketch = Sketch()
        for _ in range(mutations):
            mutate(sketch, rng)
        yield sketch.call()


@pytest.mark.slow
@pytest.mark.parametrize("mutations", [1, 2, 3])
def test_the_kernels_own_checks_agree_with_the_list(mutations: int) -> None:
    answers = answering_checks(OPERATOR, wrong_calls(mutations))
    # One mutation cannot reach, e.g., kernel_w: data_col's rows must follow.
    assert mutations == 1 or reachable(OPERATOR) <= answers, reachable(OPERATOR) - answers


@pytest.mark.slow
def test_subsumed_checks_are_never_the_first_to_answer() -> None:
    subsumed = {check.name: check for check in OPERATOR.checks if check.subsumed is not None}
    assert set(subsumed) == {"mask_w_idx_large", "data_col_dim0_empty"}
    violated = set()
    lengths = (0, 1, 2**31)
    for channels, kernel_h, kernel_w, rows in itertools.product((0, 1, 2), (-2, 0, 1), (-1, 0, 1), (0, 1, 2)):
        for height, mask_h, mask_w, columns in itertools.product((0, 1, 2**31), lengths, lengths, lengths):
            sketch = Sketch(
                dims={
                    "feature": (1, channels, height, 1),
                    "mask_h_idx": (mask_h,),
                    "mask_w_idx": (mask_w,),
                    "data_col": (rows, columns),
                },
                params={"kernel_h": kernel_h, "kernel_w": kernel_w, "pad_h": 0, "pad_w": 0},
            )
            call = sketch.call()
            violated |= {name for name, check in subsumed.items() if not check.holds(call)}
            assert OPERATOR.answer(call).check not in subsumed
    assert violated == set(subsumed)


# Recipes and declarations.


def draw_case(recipe: str, dtype: DType = DType.FLOAT, params: dict | None = None, **args):
    return OPERATOR.recipes[recipe](Draw(3), params or {}, dtype, **args)


@pytest.mark.parametrize("kind", ["any_bits", "nan", "nan_only"])
def test_no_value_is_the_mark_of_unwritten_memory(kind: str) -> None:
    # Half has 65536 patterns, so that 2^20 random ones certainly hold the poison before it is replaced.
    shape, poison = (1, 1, 1024, 1024), int.from_bytes(DType.HALF.poison, "little")
    assert (bits_of(KINDS[kind](Draw(3), DType.HALF, shape)) == poison).any()
    assert not (bits_of(feature(Draw(3), DType.HALF, shape, kind)) == poison).any()


def test_kinds_hold_what_they_say() -> None:
    def of(kind: str) -> np.ndarray:
        return draw_case("mask_grid", image=(2, 32, 32), masks=1, values=kind).inputs["feature"]

    assert np.isfinite(of("full")).all()
    assert np.isfinite(of("wide")).all()
    assert len(np.unique(of("full"))) > 2000
    denormal = of("denormal")
    assert (np.abs(denormal) < np.finfo("<f4").tiny).all()
    assert {0x00000000, 0x80000000} <= set(bits_of(denormal).ravel().tolist())
    assert np.isnan(of("nan")).any()
    assert not np.isinf(of("nan")).any()
    assert {np.inf, -np.inf} <= set(of("inf").ravel().tolist())
    assert not np.isnan(of("inf")).any()
    assert np.isnan(of("nan_inf")).any()
    assert np.isinf(of("nan_inf")).any()
    nans = bits_of(of("nan_only"))
    assert np.isnan(of("nan_only")).all()
    quiet = (nans >> 22) & 1
    assert quiet.any()
    assert not quiet.all()


@pytest.mark.parametrize("clear", [False, True])
@pytest.mark.parametrize("side", SIDES)
def test_windows_lie_at_the_side_that_is_asked_for(side: str, clear: bool) -> None:
    kernel, extent, pad = (3, 2), (5, 4), (1, 9)
    params = {"kernel_h": 3, "kernel_w": 2, "pad_h": 1, "pad_w": 9}
    inputs = draw_case("windows_at", params=params, side=side, clear=clear, image=(1, *extent), masks=40).inputs
    for axis, name in enumerate(("mask_h_idx", "mask_w_idx")):
        first = inputs[name].astype(int) - pad[axis]
        last = first + kernel[axis] - 1
        low, high = first < 0, last >= extent[axis]
        out = (last < 0) | (first >= extent[axis])
        wanted = SIDES[side][axis]
        assert (low == (wanted < 0)).all()
        assert (high == (wanted > 0)).all()
        assert (out == (clear and wanted != 0)).all()
        if clear and wanted != 0:
            assert first[0] == (-kernel[axis] if wanted < 0 else extent[axis]), "the first window touches the image"


def test_a_sweep_has_every_position_once() -> None:
    params = {"kernel_h": 2, "kernel_w": 1, "pad_h": 1, "pad_w": 0}
    inputs = draw_case("sweep", params=params, image=(1, 2, 1)).inputs
    positions = set(zip(inputs["mask_h_idx"].tolist(), inputs["mask_w_idx"].tolist(), strict=True))
    assert positions == set(itertools.product(range(-2, 5), range(-2, 3)))
    assert len(inputs["mask_h_idx"]) == len(positions)


@pytest.mark.parametrize(
    ("recipe", "args", "message"),
    [
        ("mask_grid", {"image": (1, 2, 2), "masks": 1, "values": "nans"}, "unknown kind of values 'nans'"),
        ("windows_at", {"side": "up", "clear": True, "image": (1, 2, 2), "masks": 1}, "unknown side 'up'"),
        ("listed", {"mask_h": (2**31,), "mask_w": (0,), "image": (1, 2, 2)}, "leaves int32"),
    ],
)
def test_recipes_refuse_what_they_cannot_make(recipe: str, args: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw_case(recipe, **args)


def test_a_window_of_length_one_is_never_across_an_edge() -> None:
    with pytest.raises(ValueError, match="never across an edge"):
        draw_case("windows_at", params={"kernel_h": 1}, side="top", clear=False, image=(1, 2, 2), masks=1)


def test_network_cases_have_the_documents_shapes() -> None:
    drafts = load_declarations(ROOT / "cases" / "masked_im2col_forward.yaml", OPERATOR)
    network = [make_case(draft, OPERATOR) for draft in drafts if "network" in draft.tags]
    shapes = {
        (tuple(case.params.values()), case.outputs[0].desc.dtype): [t.desc.dims for t in (*case.inputs, *case.outputs)]
        for case in network
    }
    for dtype in STORAGE:
        assert shapes[(3, 3, 1, 1), dtype] == [(1, 256, 20, 20), (200,), (200,), (2304, 200)]
        assert shapes[(1, 1, 1, 1), dtype] == [(1, 256, 20, 20), (200,), (200,), (256, 200)]
    assert len(network) == 4


def test_theory_counts_each_covered_pixel_once() -> None:
    # Two windows of 2×2 that share one pixel of the image; the first has one pixel inside.
    call = call_for(counting(1, 3, 4, 4), [-1, 0], [-1, 0], (2, 2), (0, 0))
    assert OPERATOR.theory(call).io_bytes == 3 * 4 * 4 + 2 * 2 * 4 + 12 * 2 * 4
    assert OPERATOR.theory(call).ops == 0
