"""ms_deform_attn_forward: torch's grid_sample in float64 beside reference and kernel, and the rulings."""

import numpy as np
import pytest

from mluops_gtest.authoring import Draw, DType, Status
from tests.support.operator_calls import BOTH, OPERATORS, by_definition, poisoned_call

torch = pytest.importorskip("torch")
OPERATOR = OPERATORS["ms_deform_attn_forward"]
EVERYONE = (*BOTH, by_definition)


def call_for(made):
    return poisoned_call(OPERATOR, made.params, made.inputs, made.outputs)


def call_by(recipe, seed=1, **args):
    return call_for(OPERATOR.recipes[recipe](Draw(seed), {}, DType.FLOAT, **args))


def one_map(values, places, weights=None, *, shape=(2, 4)):
    """A call of one level, a head and a channel; a query for each place x, y in pixels."""
    at = (np.array(places, np.float64).reshape(1, -1, 1, 1, 1, 2) + 0.5) / np.array(shape[::-1])
    weight = np.ones(at.shape[:-1]) if weights is None else np.array(weights).reshape(at.shape[:-1])
    inputs = {
        "data_value": np.array(values, "<f4").reshape(1, -1, 1, 1),
        "data_spatial_shapes": np.array([shape], "<i4"),
        "data_level_start_index": np.zeros(1, "<i4"),
        "data_sampling_loc": at.astype("<f4"),
        "data_attn_weight": weight.astype("<f4"),
    }
    return poisoned_call(OPERATOR, {"im2col_step": 64}, inputs, {"data_col": (1, at.shape[1], 1, 1)})


def by_grid_sample(call):
    values, shapes, starts, at, weights = (torch.tensor(one.array) for one in call.inputs.values())
    batches, _, heads, channels = values.shape
    col = torch.zeros(call.tensor("data_col").dims, dtype=torch.float64)
    for level, ((height, width), start) in enumerate(zip(shapes.tolist(), starts.tolist(), strict=True)):
        image = values[:, start : start + height * width].double().permute(0, 2, 3, 1)
        grid = 2 * at[:, :, :, level].double().transpose(1, 2).flatten(0, 1) - 1
        sampled = torch.nn.functional.grid_sample(
            image.reshape(batches * heads, channels, height, width), grid, padding_mode="zeros", align_corners=False
        )
        terms = sampled.view(batches, heads, channels, *grid.shape[1:3]).permute(0, 3, 1, 2, 4)
        col += (terms * weights[:, :, :, level, None].double()).sum(-1)
    return col.numpy()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("recipe", ["lattice", "anywhere"])
def test_everyone_is_grid_sample(recipe, seed) -> None:
    call = call_by(recipe, seed)
    expected = by_grid_sample(call)
    for compute in EVERYONE:
        found = compute(OPERATOR, call)["data_col"]
        np.testing.assert_allclose(found, expected, atol=0 if recipe == "lattice" else 1e-6, rtol=0)


def test_a_map_of_ones_gives_the_sum_of_the_weights() -> None:
    call = call_by("lattice", where="inside", maps=(4, 8, 2, 2))
    call.array("data_value")[...] = 1
    for compute in BOTH:
        expected = call.array("data_attn_weight").sum(axis=(3, 4), dtype=np.float64)[..., None]
        np.testing.assert_array_equal(compute(OPERATOR, call)["data_col"], np.broadcast_to(expected, (2, 5, 3, 2)))


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ((0, 0), 1), ((3, 1), 8), ((1.5, 0), 2.5), ((0, 0.5), 3), ((-0.5, 0), 0.5), ((3.5, 1), 4), ((-0.5, -0.5), 0.25),
        ((-1, 0), 0), ((4, 0), 0), ((0, -1), 0), ((0, 2), 0), ((1e30, 0), 0), ((0, -1e30), 0), ((-0.75, 0), 0.25),
    ],
)  # fmt: skip
def test_places_are_pixels_with_zeros_around(place, expected) -> None:
    for compute in EVERYONE:
        assert compute(OPERATOR, one_map(range(1, 9), place))["data_col"].item() == expected


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_what_is_not_sampled_leaves_no_trace(odd) -> None:
    for compute in EVERYONE:
        call = one_map([1, 2, 3, odd, 5, 6, 7, odd], [(0.5, 0.5), (-1, 0), (2.5, 0.5)], [1, odd, 1])
        assert compute(OPERATOR, call)["data_col"].ravel()[:2].tolist() == [3.5, 0]
        assert not np.isfinite(compute(OPERATOR, call)["data_col"].ravel()[2])


def test_what_depends_on_roundings_is_not_ruled() -> None:
    reason = lambda *args: OPERATOR.left_open["undefined"](one_map(*args), None)  # noqa: E731
    eight = [1.0] * 8
    assert "infinite weight" in reason(eight, [(0.5, 0.5)], [np.inf])
    assert reason(eight, [(0.5, 0.5), (9, 9)], [np.nan, np.inf]) is None
    assert "interpolation weight of 0" in reason([*eight[:7], np.inf], [(2, 1)])
    assert "NaN" in reason(eight, [(4, 0)], [np.nan])


@pytest.mark.parametrize(("args", "step"), [({"points": 0}, 0), ({"maps": ()}, 64), ({"maps": (), "points": 0}, -1)])
def test_without_samples_zeros_are_written(args, step) -> None:
    for compute in EVERYONE:
        call = call_by("lattice", **args)
        call.params["im2col_step"] = step
        assert not compute(OPERATOR, call)["data_col"].any()


@pytest.mark.parametrize(("step", "status"), [(4, 3), (64, 0), (3, 0), (0, 3), (7, 0)])
def test_the_step_or_all_batches_divide_them(step, status) -> None:
    call = call_by("lattice", batches=6)
    call.params["im2col_step"] = step
    assert OPERATOR.answer(call).status is OPERATOR.kernel(call) is Status(status)
