"""masked_im2col_forward: the rulings, the recipes."""

import itertools

import numpy as np
import pytest

from generators.masked_im2col_forward.recipes import SIDES
from mluops_gtest.authoring import Draw, DType, Layout, OpCall
from mluops_gtest.catalog.declarations import load_declarations
from mluops_gtest.catalog.make import make_case
from tests.conftest import ROOT
from tests.support.operator_calls import BOTH, OPERATORS, bits_of, counting, poisoned_call

OPERATOR = OPERATORS["masked_im2col_forward"]
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
STORAGE = {DType.FLOAT: "<f4", DType.HALF: "<f2"}


def call_for(feature, mask_h, mask_w, kernel, pad) -> OpCall:
    """A valid call whose output holds poison."""
    params = {"kernel_h": kernel[0], "kernel_w": kernel[1], "pad_h": pad[0], "pad_w": pad[1]}
    inputs = {"feature": feature, "mask_h_idx": np.array(mask_h, "<i4"), "mask_w_idx": np.array(mask_w, "<i4")}
    dims = {"data_col": (feature.shape[1] * kernel[0] * kernel[1], len(mask_h))}
    return poisoned_call(OPERATOR, params, inputs, dims, {"feature": Layout.NCHW})


# Rulings.


@pytest.fixture(params=BOTH)
def data_col(request):
    """Computes data_col by the reference or by the kernel."""
    return lambda *args: request.param(OPERATOR, call_for(*args))["data_col"]


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


# Recipes and declarations.


def draw_case(recipe: str, dtype: DType = DType.FLOAT, params: dict | None = None, **args):
    return OPERATOR.recipes[recipe](Draw(3), params or {}, dtype, **args)


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
