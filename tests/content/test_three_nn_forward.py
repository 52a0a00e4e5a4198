"""three_nn_forward: the rulings, clouds beyond one tile, the recipes."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from generators._shared.points import lattice_fault
from generators.three_nn_forward import nearest_stand_apart
from mluops_gtest.authoring import (
    Array,
    CriterionKind,
    Draw,
    DType,
    OpCall,
    Operator,
    call_of,
)
from mluops_gtest.catalog.declarations import load_declarations
from mluops_gtest.core.case import Reseed
from mluops_gtest.judging.elementwise import element_errors
from tests.conftest import ROOT
from tests.support import operator_calls
from tests.support.operator_calls import OPERATORS, Outputs, by_definition, poisoned_call

OPERATOR = OPERATORS["three_nn_forward"]
DRAFTS = {
    draft.id.partition("/")[2]: draft for draft in load_declarations(ROOT / "cases" / "three_nn_forward.yaml", OPERATOR)
}
FLOATS = pytest.mark.parametrize("dtype", ["<f4", "<f2"])
Answer = tuple[Array, Array]


def call_for(unknown: Array, known: Array) -> OpCall:
    dims = {"dist2": unknown.shape, "idx": unknown.shape}
    return poisoned_call(OPERATOR, {}, {"unknown": unknown, "known": known}, dims)


def by(compute: Callable[[Operator, OpCall], Outputs], unknown: Array, known: Array) -> Answer:
    outputs = compute(OPERATOR, call_for(unknown, known))
    return outputs["dist2"], outputs["idx"]


literal = partial(by, by_definition)
by_reference = partial(by, operator_calls.by_reference)
by_kernel = partial(by, operator_calls.by_kernel)


def same_bits(first: Answer, second: Answer) -> bool:
    return all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(first, second, strict=True)
    )


@pytest.mark.parametrize(
    ("unknown", "known"), [((3, 70, 3), (3, 9000, 3)), ((1, 9000, 3), (1, 6, 3)), ((2, 30, 3), (2, 4097, 3))]
)
@pytest.mark.parametrize("reach", [3, 1182])
def test_clouds_beyond_one_tile_agree_with_a_stable_sort(
    unknown: tuple[int, ...], known: tuple[int, ...], reach: int
) -> None:
    rng = np.random.default_rng(reach)
    u, k = (rng.integers(-reach, reach + 1, shape).astype("<f4") for shape in (unknown, known))
    squared = np.stack(
        [
            np.square(a[:, None].astype(np.int64) - b).sum(axis=-1)
            for a, b in zip(u.astype(int), k.astype(int), strict=True)
        ]
    )
    order = np.argsort(squared, axis=-1, kind="stable")[..., :3]
    expected = np.take_along_axis(squared, order, axis=-1).astype("<f4"), order.astype("<i4")
    assert same_bits(by_reference(u, k), expected)
    assert same_bits(by_kernel(u, k), expected)


INF = math.inf
NAN = math.nan
ORIGIN = [[0, 0, 0]]


@FLOATS
@pytest.mark.parametrize(
    ("known", "dist2", "idx"),
    [
        pytest.param([[2, 0, 0], [0, 1, 0], [0, 0, 3]], [1, 4, 9], [1, 0, 2], id="squares, ascending, no root"),
        pytest.param([[1, 0, 0], [0, 1, 0], [0, 0, -1], [1, 0, 0]], [1, 1, 1], [0, 1, 2], id="equals by index"),
        pytest.param([[3, 0, 0], [1, 0, 0], [1, 0, 0]], [1, 1, 9], [1, 2, 0], id="equal points are neighbours each"),
        pytest.param([[1, 0, 0], [0, -0.0, 0], [2, 0, 0]], [0, 1, 4], [1, 0, 2], id="a point at distance 0 counts"),
        pytest.param([[1, 2, 2]], [9, INF, INF], [0, 0, 0], id="one known point"),
        pytest.param([[2, 0, 0], [1, 0, 0]], [1, 4, INF], [1, 0, 0], id="two known points"),
        pytest.param([[NAN, 0, 0], [1, 0, 0], [0, INF, 0], [0, 0, 2]], [1, 4, INF], [1, 3, 0], id="NaN and Inf"),
        pytest.param([[NAN, 0, 0], [0, -INF, 0]], [INF, INF, INF], [0, 0, 0], id="nobody is finite"),
    ],
)
def test_rulings(known: list[list[float]], dist2: list[float], idx: list[int], dtype: str) -> None:
    for compute in (literal, by_reference, by_kernel):
        found = compute(np.array([ORIGIN], dtype), np.array([known], dtype))
        assert found[0].ravel().tolist() == dist2
        assert found[1].ravel().tolist() == idx


@pytest.mark.parametrize("word", [NAN, INF, -INF])
def test_an_unknown_point_that_is_not_finite_has_no_neighbours(word: float) -> None:
    for compute in (literal, by_reference, by_kernel):
        for axis in range(3):
            unknown = np.array([ORIGIN], "<f4")
            unknown[0, 0, axis] = word
            dist2, idx = compute(unknown, np.array([[[0, 0, 1], [word, word, word], [2, 0, 0]]], "<f4"))
            assert np.isposinf(dist2).all()
            assert not idx.any()


def test_a_float_distance_that_overflows_is_no_neighbour() -> None:
    known = np.array([[[2.0**64, 0, 0], [1, 0, 0], [3e38, -3e38, 0]]], "<f4")
    for compute in (literal, by_reference, by_kernel):
        dist2, idx = compute(np.array([ORIGIN], "<f4"), known)
        assert dist2.ravel().tolist() == [1, INF, INF]
        assert idx.ravel().tolist() == [1, 0, 0]


def make_with(name: str, reseed: Reseed | None = None) -> dict[str, Array]:
    draft = DRAFTS[name]
    draw = Draw(draft.seed, reseed)
    return dict(OPERATOR.recipes[draft.recipe](draw, {}, DType.named(draft.dtype), **draft.args).inputs)


def computing(*left_out: str) -> list[str]:
    return [
        name
        for name, draft in DRAFTS.items()
        if draft.expect.check is None and not draft.changes and not set(left_out) & set(draft.tags)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("reseed", [None, Reseed(1), Reseed(2)])
def test_exact_distances_are_asked_for_on_lattices_alone_and_every_other_case_has_a_margin(
    reseed: Reseed | None,
) -> None:
    exact = {"dist2": {CriterionKind.DIFF3: 0.0}}
    # Criteria of a base would be those of all the calls, wrong in one place, that are derived from it.
    for name in set(computing("network", "heavy")) - {"valid_default", "valid_half"}:
        inputs = make_with(name, reseed)
        criteria = {
            output: {one.kind: one.threshold for one in wanted} for output, wanted in DRAFTS[name].criteria.items()
        }
        if lattice_fault(queries=inputs["unknown"], points=inputs["known"]) is None:
            assert criteria == exact, name
        else:
            assert criteria == {}, name
            assert nearest_stand_apart(inputs["unknown"], inputs["known"]).all(), name


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DRAFTS if name.startswith(("network_b2_4096", "network_b3_1024"))])
def test_network_clouds_are_the_documents_and_the_known_points_are_a_sample(name: str) -> None:
    batch, queries = (int(word.strip("b")) for word in name.split("_")[1:3])
    inputs = make_with(name)
    unknown, known = inputs["unknown"], inputs["known"]
    assert (unknown.shape, known.shape) == ((batch, queries, 3), (batch, queries // 4, 3))
    assert not np.array_equal(unknown[0], unknown[1])
    itself = (by_reference(unknown, known)[0][..., 0] == 0).mean()
    assert 0.2 < itself <= 0.3  # one in four is known; few lack a margin
    theory = OPERATOR.theory(
        call_of(OPERATOR.name, {}, inputs, {"dist2": unknown, "idx": np.zeros(unknown.shape, "<i4")})
    )
    assert theory.ops == 8 * batch * queries * (queries // 4)
    assert theory.io_bytes == 2 * unknown.nbytes + known.nbytes + 12 * batch * queries


@pytest.mark.parametrize(
    ("unknown", "known", "broken"),
    [
        ([0, 0, 0], [[1, 0, 0], [-1, 0, 0]], False),
        ([0, 0, 0], [[1 / 3, 0, 0], [0, 1 / 3, 1e-5]], True),
        ([0, 0, 0], [[1 / 3, 0, 0], [0, 0.4, 1 / 7]], False),
        ([NAN, 0, 0], [[1 / 3, 0, 0], [1 / 3, 0, 0]], False),
    ],
)
def test_data_whose_answer_hangs_on_rounding_are_broken(
    unknown: list[float], known: list[list[float]], broken: bool
) -> None:
    clouds = {"unknown": np.array([[unknown]], "<f4"), "known": np.array([known], "<f4")}
    why = OPERATOR.broken(call_of(OPERATOR.name, {}, clouds))
    assert (why is not None) is broken
    if why is not None:
        assert "how distances are rounded decides which points are nearest to unknown[0, 0]" in why


def test_a_half_distance_that_overflows_is_broken_unless_three_are_nearer() -> None:
    far = [[300.0, 0, 0]]
    near = [[1.0, 0, 0], [2.0, 0, 0], [4.0, 0, 0]]
    for known, broken in ((far, True), (near + far, False), (near[:2] + far, True)):
        clouds = {"unknown": np.array([ORIGIN], "<f2"), "known": np.array([known], "<f2")}
        assert (OPERATOR.broken(call_of(OPERATOR.name, {}, clouds)) is not None) is broken


@pytest.mark.parametrize(
    "name", ["network_twin_full_float", "network_twin_full_half", "values_wide_40", "overflow_known"]
)
def test_the_bound_holds_the_kernel_and_one_wrong_element(name: str) -> None:
    inputs = make_with(name)
    bound = OPERATOR.bound(call_of(OPERATOR.name, {}, inputs))["dist2"]
    baseline, (evaluated, _) = by_reference(**inputs)[0], by_kernel(**inputs)
    dtype = DType.named(DRAFTS[name].dtype)
    assert element_errors(evaluated, baseline, dtype, bound).beyond == 0
    # The second: a known point itself has distance 0.
    evaluated[0, 0, 1] *= evaluated.dtype.type(1 + 2.0**-8)
    assert element_errors(evaluated, baseline, dtype, bound).beyond == 1


def test_on_a_lattice_the_bound_allows_nothing() -> None:
    inputs = make_with("duplicates_float")
    bound = OPERATOR.bound(call_of(OPERATOR.name, {}, inputs))["dist2"]
    baseline, _ = by_reference(**inputs)
    evaluated = np.nextafter(baseline, np.float32(9))
    assert element_errors(evaluated, baseline, DType.FLOAT, bound).beyond == baseline.size


def test_the_recipes_refuse_what_they_cannot_draw() -> None:
    with pytest.raises(ValueError, match="9 points cannot be taken from clouds of 8"):
        OPERATOR.recipes["sampled"](Draw(1), {}, DType.FLOAT, batch=1, unknown=8, known=9)
    with pytest.raises(ValueError, match=r"fewer than 40 of \d+ drawn points have nearest ones that stand apart"):
        OPERATOR.recipes["scattered"](Draw(1), {}, DType.HALF, batch=1, unknown=40, known=20, values="full", reach=2)


def test_ties_are_where_the_case_says() -> None:
    for name, ranks in (("first_second", (0, 1)), ("second_third", (1, 2)), ("third_fourth", (2, 3))):
        inputs = make_with(f"ties_{name}_half")
        for u, k in zip(inputs["unknown"], inputs["known"], strict=True):
            squared = np.sort(np.square(u[:, None].astype(np.float64) - k).sum(axis=-1), axis=1)[:, :5]
            tied = np.flatnonzero((np.diff(squared, axis=1) == 0).all(axis=0))
            assert tied.tolist() == [ranks[0]]
