"""dynamic_point_to_voxel_forward: crowded voxels, the rulings, what is whose, the recipes."""

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from mluops_gtest.authoring import Array, Draw, DType, OpCall, Status, call_of
from mluops_gtest.base.errors import ContentError
from mluops_gtest.catalog.declarations import load_declarations
from mluops_gtest.catalog.make import make_case
from mluops_gtest.core.case import Case
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.search.audit_declarations import judged
from tests.conftest import ROOT
from tests.support import operator_calls
from tests.support.operator_calls import OPERATORS, Outputs, poisoned_call

OPERATOR = OPERATORS["dynamic_point_to_voxel_forward"]
DRAFTS = {
    draft.id.partition("/")[2]: draft
    for draft in load_declarations(ROOT / "cases" / "dynamic_point_to_voxel_forward.yaml", OPERATOR)
}
MEAN, MAX = {"reduce_type": 1}, {"reduce_type": 2}


def owned(outputs: Outputs) -> Outputs:
    count = int(outputs["voxel_num"][0])
    whole = ("point2voxel_map", "voxel_num")
    return {name: array if name in whole else array[:count] for name, array in outputs.items()}


def call_for(feats: Array, coors: Array, rows: int, mean: bool) -> OpCall:
    """A call with so many rows for voxels, whose outputs hold poison."""
    dims = {
        "voxel_feats": (rows, feats.shape[1]),
        "voxel_coors": (rows, 3),
        "point2voxel_map": (len(feats),),
        "voxel_points_count": (rows,),
        "voxel_num": (1,),
    }
    return poisoned_call(OPERATOR, MEAN if mean else MAX, {"feats": feats.copy(), "coors": coors.copy()}, dims)


def by_reference(feats: Array, coors: Array, rows: int, mean: bool) -> Outputs:
    call = call_for(feats, coors, rows, mean)
    assert OPERATOR.broken(call) is None
    return dict(OPERATOR.reference(call).outputs)


def by_kernel(feats: Array, coors: Array, rows: int, mean: bool) -> Outputs:
    """What the kernel leaves, which touches neither its inputs nor the rows behind the voxels."""
    call = call_for(feats, coors, rows, mean)
    before = {name: argument.array.copy() for name, argument in call.outputs.items()}
    outputs = operator_calls.by_kernel(OPERATOR, call)
    assert call.array("feats").tobytes() == feats.tobytes()
    assert call.array("coors").tobytes() == coors.tobytes()
    count = int(outputs["voxel_num"][0])
    for name in ("voxel_feats", "voxel_coors", "voxel_points_count"):
        assert outputs[name][count:].tobytes() == before[name][count:].tobytes()
    return outputs


def column(values: list[float]) -> Array:
    return np.array(values, "<f4")[:, None]


@pytest.mark.parametrize(
    ("coors", "voxel_coors", "voxel_of"),
    [
        pytest.param(
            [[-3, 5, 2], [-2, 1, 4], [6, 7, 8], [6, 7, 8], [2, 4, 6]],
            [[2, 4, 6], [6, 7, 8]],
            [-1, -1, 1, 1, 0],
            id="the example of §1.2, its last lines in order",
        ),
        pytest.param([[2, 0, 0], [1, 0, 0]], [[1, 0, 0], [2, 0, 0]], [1, 0], id="without invalid points none goes"),
        pytest.param([[0, 0, 0], [0, 0, 1]], [[0, 0, 0], [0, 0, 1]], [0, 1], id="0 is valid"),
        pytest.param([[0, 0, -1], [0, -1, 0], [-1, 0, 0]], [], [-1, -1, -1], id="one coordinate below 0 is enough"),
        pytest.param([[0, 1, 9], [1, 0, 0]], [[0, 1, 9], [1, 0, 0]], [0, 1], id="column 0 decides first"),
        pytest.param([[256, 0, 0], [255, 0, 0]], [[255, 0, 0], [256, 0, 0]], [1, 0], id="numbers, not bytes"),
        pytest.param(
            [[2**24 + 1, 0, 0], [2**24, 0, 0]], [[2**24, 0, 0], [2**24 + 1, 0, 0]], [1, 0], id="integers, not float32"
        ),
    ],
)
def test_rulings_on_voxels(coors: list[list[int]], voxel_coors: list[list[int]], voxel_of: list[int]) -> None:
    rows = np.array(coors, "<i4")
    feats = column(list(range(len(rows))))
    for outputs in (
        owned(by_reference(feats, rows, len(rows), True)),
        owned(by_kernel(feats, rows, len(rows), True)),
    ):
        assert outputs["voxel_coors"].tolist() == voxel_coors
        assert outputs["point2voxel_map"].tolist() == voxel_of
        assert outputs["voxel_num"].tolist() == [len(voxel_coors)]


@pytest.mark.parametrize(
    ("feats", "mean", "maximum"),
    [
        ([1, 2, 6], 3, 6),
        ([-4, -2], -3, -2),
        ([-3e38, -2e38], -2.5e38, -2e38),
        ([np.inf, 1], np.inf, np.inf),
        ([-np.inf, -np.inf], -np.inf, -np.inf),
        ([np.inf, -np.inf], np.nan, np.inf),
        ([np.nan, -5], np.nan, -5),
        ([np.nan, np.nan], np.nan, -np.inf),
    ],
)
def test_rulings_on_features(feats: list[float], mean: float, maximum: float) -> None:
    """The reference alone for the mean of −3e38 and −2e38: whether their sum overflows is the implementation's."""
    coors = np.zeros((len(feats), 3), "<i4")
    for wanted, is_mean in ((mean, True), (maximum, False)):
        found = by_reference(column(feats), coors, 1, is_mean)["voxel_feats"]
        assert np.array_equal(found, [[np.float32(wanted)]], equal_nan=True)
        if is_mean and abs(mean) > 1e37 and math.isfinite(mean):
            continue
        found = by_kernel(column(feats), coors, 1, is_mean)["voxel_feats"]
        assert np.array_equal(found, [[np.float32(wanted)]], equal_nan=True)


def test_a_maximum_of_zeros_has_one_answer_whatever_the_order() -> None:
    """+0 where one is there: baselines are digested, and no machine may decide about them."""
    for order in ([0.0, -0.0], [-0.0, 0.0], [-0.0, -1.0, 0.0]):
        found = by_reference(column(order), np.zeros((len(order), 3), "<i4"), 1, False)["voxel_feats"]
        assert not np.signbit(found).any()
    found = by_reference(column([-0.0, -1.0]), np.zeros((2, 3), "<i4"), 1, False)["voxel_feats"]
    assert np.signbit(found).all()


def test_rows_behind_the_voxels_hold_what_files_have_there() -> None:
    coors, feats = np.zeros((4, 3), "<i4"), column([1, 2, 3, 4])
    for mean, filler in ((True, 0.0), (False, -np.inf)):
        outputs = by_reference(feats, coors, 3, mean)
        assert outputs["voxel_feats"][1:].ravel().tolist() == [filler] * 2
        assert outputs["voxel_coors"][1:].tolist() == [[-1, -1, -1]] * 2
        assert outputs["voxel_points_count"][1:].tolist() == [0, 0]


def test_the_gradients_of_the_maxima_all_arrive() -> None:
    """dynamic_scatter_backward, fed with this output, gives every gradient to exactly one point."""
    backward = OPERATORS["dynamic_scatter_backward"]
    rng = np.random.default_rng(11)
    for _ in range(20):
        points, channels = (int(size) for size in rng.integers(1, [12, 5]))
        feats = rng.choice(np.array([0.0, -0.0, 1.0, -1.0, 0.3, -2.5], "<f4"), (points, channels))
        coors = rng.integers(-1, 2, (points, 3)).astype("<i4")
        outputs = by_reference(feats, coors, points, False)
        gradients = rng.integers(-50, 50, outputs["voxel_feats"].shape).astype("<f4")
        inputs = {"grad_voxel_feats": gradients, "feats": feats, **outputs}
        wanted = {spec.id: inputs[spec.id] for spec in backward.inputs}
        arrived = backward.reference(call_of(backward.name, MAX, wanted)).outputs["grad_feats"]
        count = int(outputs["voxel_num"][0])
        assert np.array_equal(arrived.sum(axis=0), gradients[:count].sum(axis=0))


@pytest.mark.parametrize(
    ("coors", "rows", "words"),
    [
        ([[0, 0, 0], [1, 0, 0], [2, 0, 0]], 2, "3 voxels need 3 rows (§1.2), there are 2"),
        (
            [[0, 0, 0], [1, 0, 0], [-1, 0, 0]],
            2,
            "2 voxels and the class of invalid points need 3 rows (§1.2), there are 2",
        ),
        ([[-1, 0, 0]], 0, "0 voxels and the class of invalid points need 1 rows (§1.2), there are 0"),
        ([[0, 0, 0], [1, 0, 0], [-1, 0, 0]], 3, None),
        ([[0, 0, 0], [0, 0, 0]], 1, None),
    ],
)
def test_every_class_of_points_needs_a_row(coors: list[list[int]], rows: int, words: str | None) -> None:
    assert OPERATOR.broken(call_for(np.ones((len(coors), 2), "<f4"), np.array(coors, "<i4"), rows, False)) == words


def case_of(name: str) -> Case:
    return make_case(DRAFTS[name], OPERATOR)


def outcome_of(case: Case, extra: Callable[[OpCall], None]) -> Outcome:
    """The kernel with something done after it."""

    def run(call: OpCall) -> Status:
        status = OPERATOR.kernel(call)
        extra(call)
        return status

    return judged("kernel and more", run, case, OPERATOR).outcome


def marking(call: OpCall) -> None:
    coors = call.array("coors")
    coors[(coors < 0).any(axis=1)] = -1


def test_marking_invalid_rows_in_place_is_allowed_and_nothing_else_is() -> None:
    case = case_of("below_zero_in_any_columns_max")
    assert outcome_of(case, marking) is Outcome.PASSED

    def one_more(call: OpCall) -> None:
        marking(call)
        call.array("coors")[np.flatnonzero((call.array("coors") >= 0).all(axis=1))[0]] = -1

    assert outcome_of(case, one_more) is Outcome.MEMORY


def test_rows_behind_the_voxels_are_nobodys() -> None:
    case = case_of("rows_to_spare_11_with_invalid")
    voxels = int(next(tensor for tensor in case.outputs if tensor.id == "voxel_num").values[0])

    def scribbling(first: int) -> Callable[[OpCall], None]:
        def scribble(call: OpCall) -> None:
            for name in ("voxel_feats", "voxel_coors", "voxel_points_count"):
                call.array(name)[first:] = 77

        return scribble

    assert outcome_of(case, scribbling(voxels)) is Outcome.PASSED
    assert outcome_of(case, scribbling(voxels - 1)) is Outcome.FAILED


def test_a_wrong_voxel_num_is_not_used_to_compare_rows() -> None:
    def one_more(call: OpCall) -> Status:
        status = OPERATOR.kernel(call)
        call.array("voxel_num")[...] += 1
        return status

    result = judged("one more", one_more, case_of("rows_to_spare_1"), OPERATOR)
    assert result.outcome is Outcome.FAILED
    assert {reading.output for reading in result.readings} == {"voxel_num", "point2voxel_map"}


@pytest.mark.parametrize(
    ("name", "ulps", "beyond"),
    [("max_of_tied", 1, 1), ("counts_max_1_2_3_7", 0, 0), ("mean_of_positive", 1, 0), ("mean_of_positive", 64, 1)],
)
def test_an_element_that_no_order_of_additions_explains_is_told(name: str, ulps: int, beyond: int) -> None:
    """A maximum is a feature to the bit; a mean may differ by the roundings of its sum and of its division."""

    def one_off(call: OpCall) -> Status:
        status = OPERATOR.kernel(call)
        call.array("voxel_feats").view("<i4")[0, 0] += ulps
        return status

    result = judged("off by ulps", one_off, case_of(name), OPERATOR, each_element=True)
    assert result.outcome is Outcome.PASSED
    assert sum(reading.beyond for reading in result.elements) == beyond


def make_inputs(name: str) -> tuple[dict[str, Array], dict[str, tuple[int, ...]]]:
    draft = DRAFTS[name]
    made = OPERATOR.recipes[draft.recipe](Draw(draft.seed), dict(draft.params), DType.FLOAT, **draft.args)
    return dict(made.inputs), dict(made.outputs)


def test_the_network_cases_are_sweeps_of_the_documents_shapes() -> None:
    clouds = []
    for name, channels, params in (("mean", 4, MEAN), ("max", 64, MAX)):
        inputs, outputs = make_inputs(f"network_mvxnet_{name}")
        assert inputs["feats"].shape == (17563, channels)
        assert outputs["voxel_feats"] == (13757, channels)
        coors = inputs["coors"]
        clouds.append(coors)
        assert coors.min() >= 0
        assert (coors < (40, 1600, 1408)).all()
        assert len(np.unique(coors, axis=0)) == 13757
        theory = OPERATOR.theory(call_of(OPERATOR.name, params, inputs))
        assert theory.ops == 17563 * channels + (13757 * channels if name == "mean" else 0)
        assert theory.io_bytes == 4 * (17563 * (channels + 3) + 13757 * (channels + 3 + 1) + 17563 + 1)
    assert np.array_equal(*clouds)
    # Surfaces, not noise: of 13757 voxels at random in 90 million cells about fifty would touch another one.
    keys = np.unique(clouds[0].astype(np.int64) @ (1600 * 1408, 1408, 1))
    steps = [np.array(step) @ np.array((1600 * 1408, 1408, 1)) for step in product((-1, 0, 1), repeat=3) if any(step)]
    touching = np.any([np.isin(keys + step, keys) for step in steps], axis=0)
    assert np.count_nonzero(touching) > len(keys) / 4


def test_the_network_case_of_mmcv_has_a_row_per_point() -> None:
    inputs, outputs = make_inputs("network_mvxnet_max_row_per_point")
    assert outputs["voxel_feats"] == (17563, 64)
    valid = (inputs["coors"] >= 0).all(axis=1)
    assert np.count_nonzero(~valid) == 402
    assert len(np.unique(inputs["coors"][valid], axis=0)) == 13500


@pytest.mark.parametrize("seed", range(20))
def test_recipes_keep_their_counts_with_any_seed(seed: int) -> None:
    placed = OPERATOR.recipes["placed"](
        Draw(seed), {}, DType.FLOAT, points=40, voxels=12, invalid=5, spare=3, channels=2, reduce="max"
    )
    coors = placed.inputs["coors"]
    valid = (coors >= 0).all(axis=1)
    assert (len(coors), np.count_nonzero(~valid)) == (40, 5)
    assert len(np.unique(coors[valid], axis=0)) == 12
    assert placed.outputs["voxel_feats"] == (16, 2)
    # An invalid point that counts somewhere shows: it lies above every other.
    assert placed.inputs["feats"][~valid].min() > placed.inputs["feats"][valid].max()
    counted = OPERATOR.recipes["counted"](Draw(seed), {}, DType.FLOAT, counts=(1, 2, 3, 7), channels=2, reduce="mean")
    assert sorted(np.unique(counted.inputs["coors"], axis=0, return_counts=True)[1]) == [1, 2, 3, 7]


@pytest.mark.parametrize(
    ("recipe", "arguments", "words"),
    [
        ("placed", {"points": 4, "voxels": 3, "invalid": 2}, "2 valid points cannot fill 3 voxels"),
        ("placed", {"points": 4, "voxels": 0, "invalid": 2}, "2 valid points cannot fill 0 voxels"),
        ("placed", {"points": 4, "voxels": 3, "spare": 2}, "5 rows for 4 points"),
        ("listed", {"c0": (2**31, 0), "c1": (0, 0), "c2": (0, 0)}, "a coordinate leaves int32"),
        ("placed", {"points": 4, "voxels": 3, "values": "deep", "reduce": "mean"}, "must stay below 1e+37 together"),
    ],
)
def test_a_recipe_refuses_what_it_cannot_make(recipe: str, arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("+", r"\+")):
        OPERATOR.recipes[recipe](Draw(1), {}, DType.FLOAT, **{"channels": 1, "reduce": "max", **arguments})


def test_means_that_float32_cannot_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A right kernel could fail on them."""
    counted = OPERATOR.recipes["counted"]
    kinds = counted.__wrapped__.__globals__["_VALUES"]
    monkeypatch.setitem(kinds, "lattice", lambda *_: column([1e8, 1.0, -1e8]))
    with pytest.raises(ContentError, match="ill-conditioned"):
        counted(Draw(1), {}, DType.FLOAT, counts=(3,), channels=1, reduce="mean")
