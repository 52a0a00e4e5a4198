"""dynamic_point_to_voxel_forward: a third implementation, literal from the document, beside reference and kernel."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from mluops_gtest.authoring import Array, Draw, DType, Handle, Layout, OpCall, Status, TensorArg, TensorDesc, call_of
from mluops_gtest.base.errors import ContentError
from mluops_gtest.catalog.declarations import load_declarations
from mluops_gtest.catalog.make import make_case
from mluops_gtest.catalog.operators import load_operator, load_operators
from mluops_gtest.core.case import Case
from mluops_gtest.core.operator_parts import MUTANTS
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.search.audit_declarations import judged
from tests.support.examples import examples

ROOT = Path(__file__).parents[2]
OPERATORS = load_operators(ROOT)
OPERATOR = load_operator(ROOT / "generators" / "dynamic_point_to_voxel_forward" / "__init__.py")
DRAFTS = {
    draft.id.partition("/")[2]: draft
    for draft in load_declarations(ROOT / "cases" / "dynamic_point_to_voxel_forward.yaml", OPERATOR)
}
TENSORS = tuple(spec.id for spec in (*OPERATOR.inputs, *OPERATOR.outputs))
MEAN, MAX = {"reduce_type": 1}, {"reduce_type": 2}
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
Outputs = dict[str, Array]


def literal(feats: Array, coors: Array, mean: bool) -> Outputs:
    """§1.2 word by word, on Python's own integers and floats; exactly the rows that the operator owns."""
    marked = [(-1, -1, -1) if x < 0 or y < 0 or z < 0 else (x, y, z) for x, y, z in coors.tolist()]
    voxel_coors = sorted(set(marked))
    point2voxel_map = [voxel_coors.index(row) for row in marked]
    voxel_points_count = [marked.count(row) for row in voxel_coors]
    if voxel_coors[0][0] < 0:
        voxel_coors, voxel_points_count = voxel_coors[1:], voxel_points_count[1:]
        point2voxel_map = [entry - 1 for entry in point2voxel_map]
    reduced = []
    for voxel in range(len(voxel_coors)):
        members = [row for row, entry in zip(feats.tolist(), point2voxel_map, strict=True) if entry == voxel]
        columns = list(zip(*members, strict=True))
        reduced.append([average(column) if mean else largest(column) for column in columns])
    return {
        "voxel_feats": np.array(reduced, "<f4").reshape(len(voxel_coors), feats.shape[1]),
        "voxel_coors": np.array(voxel_coors, "<i4").reshape(-1, 3),
        "point2voxel_map": np.array(point2voxel_map, "<i4"),
        "voxel_points_count": np.array(voxel_points_count, "<i4"),
        "voxel_num": np.array([len(voxel_coors)], "<i4"),
    }


def average(values: tuple[float, ...]) -> float:
    finite = all(map(math.isfinite, values))
    return (math.fsum(values) if finite else sum(values)) / len(values)


def largest(values: tuple[float, ...]) -> float:
    """Compared one after the other from −Inf on: NaN is larger than nothing."""
    return max((-math.inf, *values))


def owned(outputs: Outputs) -> Outputs:
    count = int(outputs["voxel_num"][0])
    whole = ("point2voxel_map", "voxel_num")
    return {name: array if name in whole else array[:count] for name, array in outputs.items()}


def blank(points: int, channels: int, rows: int) -> Outputs:
    """Output buffers as the caller hands them over."""
    shapes = {
        "voxel_feats": (rows, channels),
        "voxel_coors": (rows, 3),
        "point2voxel_map": (points,),
        "voxel_points_count": (rows,),
        "voxel_num": (1,),
    }
    dtypes = {name: DType.FLOAT if name == "voxel_feats" else DType.INT32 for name in shapes}
    poison = {name: np.frombuffer(dtype.poison, dtype.storage)[0] for name, dtype in dtypes.items()}
    return {name: np.full(shape, poison[name]) for name, shape in shapes.items()}


def by_reference(feats: Array, coors: Array, rows: int, mean: bool) -> Outputs:
    outputs = blank(len(feats), feats.shape[1], rows)
    call = call_of(OPERATOR.name, MEAN if mean else MAX, {"feats": feats, "coors": coors}, outputs)
    assert OPERATOR.broken(call) is None
    return dict(OPERATOR.reference(call).outputs)


def written_by(run: Callable[[OpCall], Status], feats: Array, coors: Array, rows: int, mean: bool) -> Outputs:
    """What an implementation leaves, which touches neither its inputs nor the rows behind the voxels."""
    outputs, inputs = blank(len(feats), feats.shape[1], rows), {"feats": feats.copy(), "coors": coors.copy()}
    before = {name: array.copy() for name, array in outputs.items()}
    assert run(call_of(OPERATOR.name, MEAN if mean else MAX, inputs, outputs)) is Status.SUCCESS
    assert inputs["feats"].tobytes() == feats.tobytes()
    assert inputs["coors"].tobytes() == coors.tobytes()
    count = int(outputs["voxel_num"][0])
    for name in ("voxel_feats", "voxel_coors", "voxel_points_count"):
        assert outputs[name][count:].tobytes() == before[name][count:].tobytes()
    return outputs


def assert_same(found: Outputs, wanted: Outputs, *, rounding: float = 0.0) -> None:
    """Integers and maxima equal, means but for the rounding of float32 sums; −0 is 0."""
    found = owned(found)
    for name in wanted:
        assert found[name].shape == wanted[name].shape, name
        if name != "voxel_feats":
            assert np.array_equal(found[name], wanted[name]), name
    assert np.allclose(found["voxel_feats"], wanted["voxel_feats"], rtol=rounding, atol=rounding, equal_nan=True)


COORDINATES = np.array([0, 1, -1, 2, 255, 256, 2**16, 2**24, 2**24 + 1, -7, INT32_MAX, INT32_MIN], "<i4")
FEATURES = np.array([0.0, -0.0, 1.0, -1.0, 0.3, -2.5, 1e-45, 1e30, np.inf, -np.inf, np.nan], "<f4")


def random_inputs(rng: np.random.Generator, *, finite: bool = False) -> tuple[Array, Array, int]:
    """Small and full of trouble: few distinct rows, coordinates of all sizes and signs, any features; and M."""
    points, channels = (int(size) for size in rng.integers(1, [12, 5]))
    coors = rng.choice(COORDINATES[: rng.integers(1, len(COORDINATES) + 1)], (points, 3))
    if rng.integers(3):
        coors = coors[rng.integers(0, points, points)]
    feats = rng.choice(FEATURES[: rng.integers(1, 7 if finite else len(FEATURES) + 1)], (points, channels))
    needed = len({tuple(np.where((row < 0).any(), -1, row)) for row in coors})
    return feats, coors, int(rng.integers(needed, points + 1))


@pytest.mark.parametrize("mean", [True, False], ids=["mean", "max"])
@pytest.mark.parametrize("seed", range(4))
def test_reference_and_kernel_agree_with_the_document_on_random_calls(seed: int, mean: bool) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(examples(100)):
        feats, coors, rows = random_inputs(rng)
        wanted = literal(feats, coors, mean)
        assert_same(by_reference(feats, coors, rows, mean), wanted)
        assert_same(written_by(OPERATOR.kernel, feats, coors, rows, mean), wanted, rounding=1e-6 if mean else 0.0)


@pytest.mark.parametrize("mean", [True, False], ids=["mean", "max"])
@pytest.mark.parametrize(("points", "levels"), [(40, 1), (200, 2), (700, 3), (300, 30)])
def test_crowded_voxels_agree_with_numpy(points: int, levels: int, mean: bool) -> None:
    """np.unique by rows, then one row after the other."""
    rng = np.random.default_rng([points, levels])
    coors = rng.integers(-1, levels, (points, 3)).astype("<i4")
    feats = rng.standard_normal((points, 5), dtype=np.float32)
    valid = np.flatnonzero((coors >= 0).all(axis=1))
    rows, inverse, counts = np.unique(coors[valid], axis=0, return_inverse=True, return_counts=True)
    sums, maxima = np.zeros((len(rows), 5)), np.full((len(rows), 5), -np.inf, "<f4")
    np.add.at(sums, inverse.reshape(-1), feats[valid])
    np.fmax.at(maxima, inverse.reshape(-1), feats[valid])
    wanted = {
        "voxel_feats": sums / counts[:, None] if mean else maxima,
        "voxel_coors": rows,
        "point2voxel_map": np.full(points, -1),
        "voxel_points_count": counts,
        "voxel_num": np.array([len(rows)]),
    }
    wanted["point2voxel_map"][valid] = inverse.reshape(-1)
    rounding = 1e-5 if mean else 0.0
    assert_same(by_reference(feats, coors, points, mean), wanted, rounding=rounding)
    assert_same(written_by(OPERATOR.kernel, feats, coors, points, mean), wanted, rounding=rounding)


def test_the_steps_that_mutants_replace_are_right_as_they_stand() -> None:
    """So that a mutant has the one mistake that its name says."""
    steps = type(OPERATORS.part(OPERATOR.name, MUTANTS)[0].run.__self__)()
    rng = np.random.default_rng(5)
    for mean, _ in product((True, False), range(100)):
        feats, coors, rows = random_inputs(rng)
        with np.errstate(invalid="ignore"):
            found = written_by(steps.run, feats, coors, rows, mean)
        assert_same(found, literal(feats, coors, mean), rounding=1e-6 if mean else 0.0)


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
        literal(feats, rows, True),
        owned(by_reference(feats, rows, len(rows), True)),
        owned(written_by(OPERATOR.kernel, feats, rows, len(rows), True)),
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
        found = written_by(OPERATOR.kernel, column(feats), coors, 1, is_mean)["voxel_feats"]
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
    for _ in range(examples(40)):
        feats, coors, rows = random_inputs(rng, finite=True)
        outputs = by_reference(feats, coors, rows, False)
        gradients = rng.integers(-50, 50, outputs["voxel_feats"].shape).astype("<f4")
        inputs = {"grad_voxel_feats": gradients, "feats": feats, **outputs}
        wanted = {spec.id: inputs[spec.id] for spec in backward.inputs}
        arrived = backward.reference(call_of(backward.name, MAX, wanted)).outputs["grad_feats"]
        count = int(outputs["voxel_num"][0])
        assert np.array_equal(arrived.sum(axis=0), gradients[:count].sum(axis=0))


@pytest.mark.parametrize(
    ("coors", "rows", "words"),
    [
        ([[0, 0, 0], [1, 0, 0], [2, 0, 0]], 2, "3 voxels need 3 rows, there are 2"),
        (
            [[0, 0, 0], [1, 0, 0], [-1, 0, 0]],
            2,
            "2 voxels and the class of invalid points need 3 rows, there are 2",
        ),
        ([[-1, 0, 0]], 0, "0 voxels and the class of invalid points need 1 rows, there are 0"),
        ([[0, 0, 0], [1, 0, 0], [-1, 0, 0]], 3, None),
        ([[0, 0, 0], [0, 0, 0]], 1, None),
    ],
)
def test_every_class_of_points_needs_a_row(coors: list[list[int]], rows: int, words: str | None) -> None:
    inputs = {"feats": np.ones((len(coors), 2), "<f4"), "coors": np.array(coors, "<i4")}
    assert OPERATOR.broken(call_of(OPERATOR.name, MAX, inputs, blank(len(coors), 2, rows))) == words


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
    kinds = counted.__globals__["features"].__globals__["_VALUES"]
    monkeypatch.setitem(kinds, "lattice", lambda *_: column([1e8, 1.0, -1e8]))
    with pytest.raises(ContentError, match="ill-conditioned"):
        counted(Draw(1), {}, DType.FLOAT, counts=(3,), channels=1, reduce="mean")


def tensor(dtype: DType, dims: tuple[int, ...], strides: tuple[int, ...] | None = None) -> TensorArg:
    desc = TensorDesc(dtype, Layout.ARRAY, dims, strides)
    return TensorArg(desc, np.zeros(dims, dtype.storage) if desc.count < 10**5 else None)


def sized_call(points: int, rows: int, channels: int, columns: int = 3, voxel_num: int = 1) -> OpCall:
    """A call of that shape, all points in voxel (0, 0, 0); buffers only where they stay small."""
    inputs = {"feats": tensor(DType.FLOAT, (points, channels)), "coors": tensor(DType.INT32, (points, columns))}
    outputs = {
        "voxel_feats": tensor(DType.FLOAT, (rows, channels)),
        "voxel_coors": tensor(DType.INT32, (rows, columns)),
        "point2voxel_map": tensor(DType.INT32, (points,)),
        "voxel_points_count": tensor(DType.INT32, (rows,)),
        "voxel_num": tensor(DType.INT32, (voxel_num,)),
    }
    return OpCall(OPERATOR.name, MAX, inputs, outputs, Handle())


def test_subsumed_checks_are_never_the_first_to_answer() -> None:
    assert {check.name for check in OPERATOR.checks if check.subsumed} == {"coors_empty"}
    sizes = (0, 1, 2, 3, 2**15, 715827882, 715827883, 2**31)
    answers = {
        OPERATOR.answer(sized_call(points, rows, channels, columns)).check
        for points, rows, channels, columns in product(sizes, sizes, sizes, (0, 2, 3))
    }
    assert "coors_empty" not in answers
    assert {"feats_empty", "feats_large", "coors_large", "points_below_voxels"} <= answers


def with_argument(call: OpCall, name: str, argument: TensorArg | None) -> OpCall:
    if name in call.inputs:
        return replace(call, inputs={**call.inputs, name: argument})
    return replace(call, outputs={**call.outputs, name: argument})


def mutated(call: OpCall, rng: np.random.Generator) -> OpCall:
    """The call with one thing changed, usually for the worse; a descriptor that is null already stays so."""
    name = str(rng.choice(TENSORS))
    old = {**call.inputs, **call.outputs}[name]
    kind = rng.choice(["handle", "arch", "reduce", "workspace", "desc", "stride", "dtype", "rank", "dim", "ptr"])
    if kind == "handle":
        return replace(call, handle=None)
    if kind == "arch":
        return replace(call, handle=call.handle and replace(call.handle, arch=int(rng.choice([270, 290, 370]))))
    if kind == "reduce":
        return replace(call, params={"reduce_type": int(rng.integers(0, 3))})
    if kind == "workspace":
        return replace(call, workspace_size=int(rng.integers(0, 2)))
    if kind == "desc" or old is None:
        return with_argument(call, name, None)
    if kind == "ptr":
        return with_argument(call, name, replace(old, array=None, null=True))
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
            points = int(rng.choice([715827882, 715827883, 2**31 - 1, 2**31]))
        call = sized_call(points, rows, channels, columns=int(rng.choice([3, 3, 3, 2])))
        for _ in range(rng.integers(0, 3)):
            call = mutated(call, rng)
        answer = OPERATOR.answer(call)
        arguments = {**call.inputs, **call.outputs}.values()
        if answer.computes and (any(arg.array is None for arg in arguments) or OPERATOR.broken(call)):
            continue  # a valid call without buffers, or without a row
        answered.add(answer.check)
        buffers = [arg.array for arg in call.outputs.values() if arg is not None and arg.array is not None]
        for buffer in buffers:
            buffer[...] = 7
        assert OPERATOR.kernel(call) is answer.status, answer
        if answer.computes:
            assert call.array("voxel_num").tolist() == [1]
            assert not call.array("point2voxel_map").any()
        else:
            assert all((buffer == 7).all() for buffer in buffers), answer
    assert len(answered) > 25
