"""psamask_forward and psamask_backward: planes with a border beside reference, kernel and definition; the rulings."""

import numpy as np
import pytest
from msgspec.structs import replace

from generators._shared.psamask import COLLECT, DISTRIBUTE
from mluops_gtest.authoring import Draw, DType, Handle, Layout, Status
from tests.support.operator_calls import BOTH, OPERATORS, bits_of, by_definition, by_kernel, counting, poisoned_call

FORWARD, BACKWARD = OPERATORS["psamask_forward"], OPERATORS["psamask_backward"]
LAYOUTS = dict.fromkeys(("x", "y", "dx", "dy"), Layout.NHWC)
of_both = pytest.mark.parametrize("operator", [FORWARD, BACKWARD], ids=lambda one: one.name)
of_modes = pytest.mark.parametrize("mode", [COLLECT, DISTRIBUTE])


def call_for(operator, fed, h_mask, w_mask, mode):
    images, height, width, _ = fed.shape
    channels = height * width if operator is FORWARD else h_mask * w_mask
    params, dims = {"h_mask": h_mask, "w_mask": w_mask, "psa_type": mode}, (images, height, width, channels)
    return poisoned_call(operator, params, {operator.inputs[0].id: fed}, {operator.outputs[0].id: dims}, LAYOUTS)


def turned(maps, mode):
    cells = maps.shape[3]
    return maps.reshape(-1, cells, cells).swapaxes(1, 2).reshape(maps.shape) if mode == DISTRIBUTE else maps


def by_planes(operator, fed, h_mask, w_mask, mode):
    """Every pixel's mask lies on a plane with a border as wide as the mask, of which the image or the mask is cut."""
    images, height, width, _ = fed.shape
    maps = np.zeros((images, height, width, height * width), "<f4") if operator is FORWARD else turned(fed, mode)
    masks = fed if operator is FORWARD else np.zeros((images, height, width, h_mask * w_mask), "<f4")
    for n, h, w in np.ndindex(images, height, width):
        plane = np.zeros((height + 2 * h_mask, width + 2 * w_mask), "<f4")
        top, left = h + h_mask - (h_mask - 1) // 2, w + w_mask - (w_mask - 1) // 2
        window, image = plane[top:, left:][:h_mask, :w_mask], plane[h_mask:, w_mask:][:height, :width]
        if operator is FORWARD:
            window[...] = masks[n, h, w].reshape(h_mask, w_mask)
            maps[n, h, w] = image.ravel()
        else:
            image[...] = maps[n, h, w].reshape(height, width)
            masks[n, h, w] = window.ravel()
    return turned(maps, mode) if operator is FORWARD else masks


@of_both
@of_modes
def test_random_calls_are_windows_of_planes(operator, mode):
    rng = np.random.default_rng(7)
    for _ in range(30):
        images, height, width, h_mask, w_mask = rng.integers(1, (3, 6, 6, 10, 10)).tolist()
        fed = counting(images, height, width, h_mask * w_mask if operator is FORWARD else height * width)
        expected = by_planes(operator, fed, h_mask, w_mask, mode)
        for compute in (*BOTH, by_definition):
            (result,) = compute(operator, call_for(operator, fed, h_mask, w_mask, mode)).values()
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("compute", [*BOTH, by_definition])
def test_the_documents_example_and_an_even_mask(compute):
    y, even, turned_even = (
        compute(FORWARD, call_for(FORWARD, counting(1, 2, 2, mask**2), mask, mask, mode))["y"][0].tolist()
        for mask, mode in ((3, COLLECT), (2, COLLECT), (2, DISTRIBUTE))
    )
    assert y[0][0] == [5, 6, 8, 9], "the centre of the first mask is the first pixel"
    assert even == [[[1, 2, 3, 4], [0, 5, 0, 7]], [[0, 0, 9, 10], [0, 0, 0, 13]]], "one further down and right"
    assert turned_even == [[[1, 0, 0, 0], [2, 5, 0, 0]], [[3, 0, 9, 0], [4, 7, 10, 13]]]


@of_modes
def test_backward_is_the_adjoint_and_takes_off_what_forward_laid_on(mode):
    x, dy = (np.random.default_rng(3).normal(size=(2, 3, 4, size)).astype("<f4") for size in (24, 12))
    y = by_kernel(FORWARD, call_for(FORWARD, x, 4, 6, mode))["y"]
    dx = by_kernel(BACKWARD, call_for(BACKWARD, dy, 4, 6, mode))["dx"]
    assert np.vdot(y.astype(float), dy) == pytest.approx(np.vdot(x.astype(float), dx), rel=1e-12)
    np.testing.assert_array_equal(by_kernel(BACKWARD, call_for(BACKWARD, y, 4, 6, mode))["dx"], np.where(dx != 0, x, 0))


@of_both
@of_modes
def test_bits_pass_and_what_meets_nothing_does_not_show(operator, mode):
    recipe, params = operator.recipes["laid"], {"psa_type": mode, "h_mask": 2, "w_mask": 2}
    (fed,) = recipe(Draw(1), params, DType.FLOAT, values="any_bits", idle="nan").inputs.values()
    for compute in BOTH:
        (result,) = compute(operator, call_for(operator, fed, 2, 2, mode)).values()
        np.testing.assert_array_equal(bits_of(result), bits_of(by_planes(operator, fed, 2, 2, mode)))
    whole = {"h_mask": 1, "w_mask": 1} if operator is FORWARD else {"h_mask": 5, "w_mask": 7}
    with pytest.raises(ValueError, match="every value is used"):
        recipe(Draw(1), whole, DType.FLOAT, idle="nan")


@of_both
@pytest.mark.parametrize("fits", ["88 116 0 655360", "96 106 1 655360", "32 191 0 393216", "76 80 1 393216"])
def test_masks_of_17_pixels_fit_to_the_last_channel(operator, fits):
    h_mask, w_mask, mode, nram = map(int, fits.split())
    for height, width, status in ((h_mask, w_mask, Status.SUCCESS), (1, h_mask * w_mask + 1, Status.NOT_SUPPORTED)):
        fed = np.zeros((1, 1, 17, height * width if operator is FORWARD else 17), "<f4")
        call = replace(call_for(operator, fed, height, width, mode), handle=Handle(nram_bytes=nram))
        assert operator.answer(call).status is operator.kernel(call) is status


@of_both
def test_other_modes_and_negative_masks_are_not_defined_and_used_values_are_counted(operator):
    fed = counting(2, 3, 4, 6 if operator is FORWARD else 12)
    assert "neither COLLECT nor DISTRIBUTE" in operator.broken(call_for(operator, fed, 2, 3, 2))
    assert "negative" in operator.broken(call_for(operator, fed, -2, -3, COLLECT))
    call = call_for(operator, fed, 2, 3, DISTRIBUTE)
    result = operator.reference(call).outputs[operator.outputs[0].id]
    assert operator.theory(call).io_bytes == 4 * (np.count_nonzero(result) + result.size)
