"""dynamic_scatter_backward: many voxels, the rulings, the network case."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest

from mluops_gtest.authoring import Array, Draw, DType, OpCall, Operator, call_of
from mluops_gtest.catalog.declarations import load_declarations
from mluops_gtest.catalog.make import make_case
from tests.conftest import ROOT
from tests.support.operator_calls import BOTH, OPERATORS, Outputs, by_definition, poisoned_call

OPERATOR = OPERATORS["dynamic_scatter_backward"]
DRAFTS = {
    draft.id.partition("/")[2]: draft
    for draft in load_declarations(ROOT / "cases" / "dynamic_scatter_backward.yaml", OPERATOR)
}
MAX = {"reduce_type": 2}


def by(compute: Callable[[Operator, OpCall], Outputs], inputs: dict[str, Array]) -> Array:
    return compute(OPERATOR, poisoned_call(OPERATOR, MAX, inputs, {"grad_feats": inputs["feats"].shape}))["grad_feats"]


literal, by_reference, by_kernel = (partial(by, compute) for compute in (by_definition, *BOTH))


def same_bits(first: Array, second: Array) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


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


@pytest.mark.parametrize("name", ["grad_voxel_feats", "feats", "voxel_feats", "grad_feats"])
def test_an_early_return_never_meets_a_null_float_tensor_that_is_not_empty(name: str) -> None:
    """So no call can see the order of grad_feats_empty and these checks, which is why they stand last."""
    pointer = OPERATOR.check(f"{name}_ptr_null")
    answers = set()
    for points, rows, channels in product(range(4), repeat=3):
        inputs = one_channel([0] * points, [0] * rows, [0] * points, 1)
        for wide in ("grad_voxel_feats", "feats", "voxel_feats"):
            inputs[wide] = np.zeros((len(inputs[wide]), channels), "<f4")
        inputs["voxel_points_count"] = np.zeros(rows, "<i4")
        call = poisoned_call(OPERATOR, MAX, inputs, {"grad_feats": (points, channels)})
        null = {name: replace(call.tensor(name), array=None, null=True)}
        call = replace(call, **({"inputs": call.inputs | null} if name in call.inputs else {"outputs": null}))
        answers.add(OPERATOR.answer(call).check)
        if OPERATOR.answer(call).check == "grad_feats_empty":
            assert pointer.holds(call)
    assert "grad_feats_empty" in answers
