"""bbox_overlaps: counted pixels and torchvision's formula beside reference and kernel, and the rulings."""

import numpy as np
import pytest

from mluops_gtest.authoring import Draw, DType, Status
from tests.support.operator_calls import BOTH, OPERATORS, by_definition, by_kernel, poisoned_call

torch = pytest.importorskip("torch")
OPERATOR = OPERATORS["bbox_overlaps"]
EVERYONE = (*BOTH, by_definition)


def call_for(first, second, *, mode=0, aligned=False, offset=0, dtype="<f4", dims=None):
    params = {"mode": mode, "aligned": aligned, "offset": offset}
    boxes = {"bbox1": np.array(first, dtype).reshape(-1, 4), "bbox2": np.array(second, dtype).reshape(-1, 4)}
    counts = len(boxes["bbox1"]), len(boxes["bbox2"])
    return poisoned_call(OPERATOR, params, boxes, {"ious": dims or (counts[:1] if aligned else counts)})


def ious(compute, call):
    return compute(OPERATOR, call)["ious"]


def random_boxes(seed, count, *, most=64):
    low = np.random.default_rng(seed).integers(0, most - 1, (count, 2))
    return np.concatenate([low, np.random.default_rng(seed + 1).integers(low + 1, most)], axis=1)


def raster(box, *, closed):
    """The pixels of a box of integers, its last row and column included or not."""
    pixels = np.zeros((64, 64), bool)
    pixels[box[1] : box[3] + closed, box[0] : box[2] + closed] = True
    return pixels


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("mode", [0, 1])
def test_boxes_of_integers_are_counted_pixels(mode, offset) -> None:
    first, second = random_boxes(1, 9), random_boxes(5, 11)
    expected = np.empty((9, 11))
    for row, one in enumerate(first):
        for column, other in enumerate(second):
            own, meets = raster(one, closed=offset), raster(other, closed=offset)
            expected[row, column] = (own & meets).sum() / ((own | meets) if mode == 0 else own).sum()
    assert (expected > 0).any()
    for compute in EVERYONE:
        call = call_for(first, second, mode=mode, offset=offset)
        np.testing.assert_allclose(ious(compute, call), expected, rtol=3e-7)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("dtype", ["<f4", "<f2"])
def test_reference_and_kernel_are_torchvisions_formula(dtype, aligned) -> None:
    made = OPERATOR.recipes["drawn"](
        Draw(3), {"aligned": aligned}, DType.FLOAT if dtype == "<f4" else DType.HALF, rows=13, boxes=13
    )
    first, second = (torch.tensor(made.inputs[name].astype(np.float64)) for name in ("bbox1", "bbox2"))
    area1, area2 = ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) for boxes in (first, second))
    if not aligned:
        first, area1 = first[:, None], area1[:, None]
    sides = (torch.min(first[..., 2:], second[..., 2:]) - torch.max(first[..., :2], second[..., :2])).clamp(min=0)
    met = sides[..., 0] * sides[..., 1]
    expected = (met / (area1 + area2 - met)).numpy().astype(dtype)
    call = call_for(made.inputs["bbox1"], made.inputs["bbox2"], aligned=aligned, dtype=dtype)
    np.testing.assert_array_equal(OPERATOR.reference(call).outputs["ious"], expected)
    np.testing.assert_allclose(ious(by_kernel, call), expected, rtol=1e-6 if dtype == "<f4" else 1e-3)


def test_columns_are_x1_y1_x2_y2() -> None:
    for compute in EVERYONE:
        assert ious(compute, call_for([0, 0, 4, 2], [2, 0, 6, 2]))[0, 0] == np.float32(1 / 3)


@pytest.mark.parametrize(("offset", "expected"), [(0, 0.0), (1, 3 / (9 + 9 - 3))])
def test_boxes_that_touch_overlap_by_the_offset(offset, expected) -> None:
    for compute in EVERYONE:
        assert ious(compute, call_for([0, 0, 2, 2], [2, 0, 4, 2], offset=offset))[0, 0] == np.float32(expected)


def test_the_first_area_divides_in_mode_1() -> None:
    call = call_for([0, 0, 2, 2, 0, 0, 4, 4], [0, 0, 4, 4, 0, 0, 2, 2], mode=1, aligned=True)
    for compute in EVERYONE:
        assert ious(compute, call).tolist() == [1, 0.25]


@pytest.mark.parametrize(
    ("mode", "second", "expected"),
    [(0, [1, 0, np.inf, 2], 0), (1, [1, 0, np.inf, 2], 0.5), (0, [-np.inf, 5, 9, 6], 0), (1, [0, 0, 2, np.inf], 1)],
)
def test_an_infinite_side_is_arithmetic(mode, second, expected) -> None:
    for compute in EVERYONE:
        assert ious(compute, call_for([0, 0, 2, 2], second, mode=mode))[0, 0] == expected


def test_what_has_no_answer_is_left_open() -> None:
    def reason(first, second, **more):
        return str(OPERATOR.left_open["undefined"](call_for(first, second, **more), None))

    unit = [0, 0, 1, 1]
    assert "x2 ≤ x1" in reason(unit, [1, 0, 1, 2])
    assert "x2 ≤ x1" in reason([0, np.nan, 1, 1], unit)
    assert "infinite" in reason([0, 0, np.inf, 1], [1, 0, np.inf, 1])
    assert "overflow" in reason([0, 0, 200, 200], [0, 0, 200, 200], dtype="<f2")
    assert reason([0, 0, 200, 200], [300, 0, 500, 200], dtype="<f2") == "None"


@pytest.mark.parametrize(("dims", "status"), [((0, 1), 0), ((0, 5, 1), 0), ((0,), 3), ((0, 2), 3)])
def test_no_aligned_rows_ask_for_a_last_axis_of_1(dims, status) -> None:
    call = call_for([], [], aligned=True, dims=dims)
    assert OPERATOR.kernel(call) is OPERATOR.answer(call).status is Status(status)
