"""ball_query: the rulings, the precondition, the recipes."""

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from generators._shared.points import assert_lattice, squared_distances
from generators.ball_query import empty_rows
from generators.ball_query.recipes import clear_cloud, clear_of_spheres
from mluops_gtest.authoring import Draw, DType, Handle, OpCall, Status, TensorArg, argument, call_of
from mluops_gtest.base.errors import ContentError
from mluops_gtest.catalog.declarations import load_declarations
from tests.conftest import ROOT
from tests.support.operator_calls import OPERATORS, poisoned_call

OPERATOR = OPERATORS["ball_query"]
FLOATS = pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])


def call_for(new_xyz, xyz, low=0.0, high=1.0, nsample=3, dtype=DType.FLOAT) -> OpCall:
    """A valid call as the harness makes it: rows without a hit hold 0, all others poison."""
    clouds = {"new_xyz": np.array(new_xyz, dtype.storage), "xyz": np.array(xyz, dtype.storage)}
    params = {"min_radius": low, "max_radius": high, "nsample": nsample}
    call = poisoned_call(OPERATOR, params, clouds, {"idx": (*clouds["new_xyz"].shape[:2], nsample)})
    call.array("idx")[empty_rows(call)] = 0
    return call


def with_rows_of(call: OpCall, value: int) -> OpCall:
    """The call with another preset everywhere."""
    return replace(call, outputs={"idx": argument(np.full(call.tensor("idx").dims, value, "<i4"))})


@pytest.mark.parametrize(("centres", "points"), [(3, 700_000), (1500, 300)])
def test_blocks_of_centres_and_points_change_nothing(centres, points):
    """More pairs than one block holds, on either side; float64 in one piece tells the same."""
    draw = Draw(5)
    new_xyz = draw.stream("u").integers(-9, 10, (1, centres, 3))
    xyz = draw.stream("k").integers(-9, 10, (1, points, 3))
    call = call_for(new_xyz, xyz, 2, 3.5, 50)
    axes = xyz[0].T.astype(np.int32)
    expected = np.zeros((centres, 50), "<i4")
    for row, centre in enumerate(new_xyz[0].astype(np.int32)):
        squared = sum((axis - c) ** 2 for axis, c in zip(axes, centre, strict=True))
        hits = np.flatnonzero((squared == 0) | ((squared >= 4) & (squared < 12.25)))[:50]
        if len(hits):
            expected[row] = np.append(hits, np.repeat(hits[:1], 50 - len(hits)))
    np.testing.assert_array_equal(OPERATOR.reference(call).outputs["idx"][0], expected)
    assert OPERATOR.kernel(call) is Status.SUCCESS
    np.testing.assert_array_equal(call.array("idx")[0], expected)


# The rulings.


def answer(points, low=0.0, high=1.0, nsample=3, centre=(0, 0, 0), dtype=DType.FLOAT):
    """The row of one centre; −7 stands for what the caller put there."""
    call = with_rows_of(call_for([[centre]], [points], low, high, nsample, dtype), -7)
    expected = OPERATOR.reference(call).outputs["idx"][0, 0]
    assert OPERATOR.kernel(call) is Status.SUCCESS
    row = call.array("idx")[0, 0].tolist()
    assert row == expected.tolist() or row == [-7] * nsample
    return row


@FLOATS
def test_the_inner_sphere_is_inside_and_the_outer_is_not(dtype):
    points = [(5, 0, 0), (3, 4, 0), (0, 3, 0), (1, 2, 2), (2, 2, 0), (4, 2, 2)]
    assert answer(points, 3, 5, 6, dtype=dtype) == [2, 3, 5, 2, 2, 2]


@FLOATS
@pytest.mark.parametrize(("low", "high"), [(1, 2), (2, 2), (3, 2), (0, 0), (5, 0), (math.inf, math.inf)])
def test_a_coincident_point_counts_in_every_shell(dtype, low, high):
    assert answer([(9, 9, 9), (1, 1, 1), (1, 1, 1)], low, high, 2, (1, 1, 1), dtype) == [1, 2]


def test_the_first_by_index_and_not_by_distance():
    assert answer([(4, 0, 0), (3, 0, 0), (0.5, 0, 0), (0, 0, 0)], 0, 3.5, 2) == [1, 2]


def test_the_first_hit_fills_the_rest_and_an_empty_row_stays():
    assert answer([(9, 0, 0), (1, 0, 0), (9, 0, 0), (0, 1, 0)], 0, 2, 5) == [1, 3, 1, 1, 1]
    assert answer([(9, 0, 0)], 0, 2, 5) == [-7] * 5


def test_the_arguments_are_radii_squared_in_float():
    assert answer([(1.5, 0, 0)], 0, 2, 1) == [0]
    # 0.2 squared: 0.04000000283 in float, 0.04000000119 in double. A point between is inside.
    x = math.sqrt(0.040000002)
    call = call_for([[(0, 0, 0)]], [[(x, 0, 0)]], 0, 0.2, 1)
    assert float(np.float32(x)) ** 2 < float(np.float32(0.2) * np.float32(0.2))
    assert OPERATOR.reference(call).outputs["idx"].tolist() == [[[0]]]
    assert not empty_rows(call).any()


@pytest.mark.parametrize("radius", [math.inf, 2.0**64, 3e38])
def test_an_infinite_square_takes_every_finite_distance(radius):
    points = [(1e18, 0, 0), (math.nan, 0, 0), (0, math.inf, 0), (0, 0, -math.inf), (0, 0, 0)]
    assert answer(points, 0, radius, 3) == [0, 4, 0]
    assert answer(points, 0, radius, 3, (math.inf, 0, 0)) == [-7] * 3
    assert answer(points, 0, radius, 3, (0, math.nan, 0)) == [-7] * 3


def test_zeros_of_either_sign_are_equal():
    assert answer([(-0.0, 0.0, -0.0)], 1, 2, 1, (0.0, -0.0, 0.0)) == [0]


# The precondition.


def reason(point, high, dtype=DType.FLOAT, low=0.0, centre=(0, 0, 0)):
    return OPERATOR.broken(call_for([[centre]], [[point]], low, high, 1, dtype))


def test_rounding_never_decides():
    on_sphere = (0.1, 0.2, 0.2)
    words = "rounding decides on which side of the sphere a point is (§3.1 step 6): centre [0, 0]"
    assert reason(on_sphere, 0.3).startswith(words)
    assert reason(on_sphere, 0.31) is None
    assert reason(on_sphere, 5, low=0.3).startswith("rounding decides")
    assert reason((3, 4, 0), 5) is None
    # On a lattice, but the float radius 0.2 squared lies where other ways to square it do not.
    assert reason((0.2, 0, 0), 0.2).startswith("rounding decides")
    # 2070.25 becomes 2070 in half.
    assert reason((45, 6, 3), 45.5, DType.FLOAT) is None
    assert reason((45, 6, 3), 45.5, DType.HALF).startswith("rounding decides")


def test_distances_that_may_vanish_or_overflow_are_undefined():
    assert reason((2.0**-70, 0, 0), 1).startswith("two points are so near that their distance may become 0")
    assert reason((2.0**-8, 0, 0), 1, DType.HALF).startswith("two points are so near")
    assert reason((2.0**64, 0, 0), math.inf).startswith("a squared distance below the bound may become infinite")
    assert reason((2.0**64, 0, 0), 1) is None
    assert reason((300, 0, 0), 400, DType.HALF).startswith("a squared distance below the bound may become infinite")
    assert reason((300, 0, 0), 1, DType.HALF) is None
    assert reason((math.nan, 0, math.inf), math.inf) is None
    assert reason((0.1, 0, -math.inf), 0.3) is None


def every_evaluation(new_xyz, xyz):
    """Squared distances in the type of the data: all orders of the sum, fused or not, and half in float as well."""
    for kind in {new_xyz.dtype.type, np.float32}:
        u, k = new_xyz.astype(kind), xyz.astype(kind)
        x, y, z = np.moveaxis(u[:, None] - k, -1, 0)
        for a, b, c in itertools.permutations((x, y, z)):
            yield (a * a + b * b) + c * c
            wide = (a * a).astype(np.float64) + b.astype(np.float64) ** 2
            yield (wide.astype(kind).astype(np.float64) + c.astype(np.float64) ** 2).astype(kind)


@pytest.mark.slow
@FLOATS
def test_what_the_precondition_lets_pass_every_evaluation_answers_alike(dtype):
    passed = refused = 0
    for seed in range(300):
        rng = random.Random(seed)
        scale = 16 if dtype is DType.HALF else 1
        new_xyz, xyz = (np.array([[rng.uniform(-scale, scale) for _ in "xyz"] for _ in range(n)]) for n in (2, 3))
        new_xyz, xyz = new_xyz.astype(dtype.storage), xyz.astype(dtype.storage)
        squared = squared_distances(new_xyz, xyz)
        # A radius beside a distance: 1 to 40 unit roundoffs away, on either side.
        roundoff = {DType.FLOAT: 2.0**-24, DType.HALF: 2.0**-11}[dtype]
        high = float(np.float32(math.sqrt(squared[0, 0] * (1 + rng.choice((-1, 1)) * rng.uniform(1, 40) * roundoff))))
        call = call_for([new_xyz], [xyz], 0, high, 3, dtype)
        if OPERATOR.broken(call) is not None:
            refused += 1
            continue
        passed += 1
        limit = np.float32(high) * np.float32(high)
        for bound in (limit, limit.astype(dtype.storage)):
            for evaluated in every_evaluation(new_xyz, xyz):
                np.testing.assert_array_equal(evaluated < bound, squared < float(limit))
    assert passed > 50
    assert refused > 50


# The checks.


def test_the_limit_of_the_cloud_depends_on_the_device():
    large = OPERATOR.check("xyz_large")
    limits = {200: 536895361, 370: 536895361, 371: 2**31, 590: 2**31}
    for arch, limit in limits.items():
        for elements in (limit - 1, limit):
            call = replace(call_for([[(0, 0, 0)]], [[(0, 0, 0)]]), handle=Handle(arch=arch))
            desc = replace(call.tensor("xyz").desc, dims=(elements,))
            cloud = {**call.inputs, "xyz": TensorArg(desc, None)}
            assert large.holds(replace(call, inputs=cloud)) == (elements < limit)


# The recipes.


def drafts():
    return load_declarations(ROOT / "cases" / "ball_query.yaml", OPERATOR)


def make_by(draft, draw=None):
    params = dict(draft.params)
    return OPERATOR.recipes[draft.recipe](draw or Draw(draft.seed), params, DType.named(draft.dtype), **draft.args)


@pytest.mark.slow
def test_the_network_has_the_documents_shapes_and_its_stages_are_one_chain():
    first, second = (make_by(draft) for draft in drafts() if "network" in draft.tags)
    shapes = [(made.inputs["new_xyz"].shape, made.inputs["xyz"].shape, made.outputs["idx"]) for made in (first, second)]
    assert shapes == [
        ((16, 512, 3), (16, 1024, 3), (16, 512, 32)),
        ((16, 128, 3), (16, 512, 3), (16, 128, 64)),
    ]
    assert first.inputs["xyz"].dtype == np.float32
    assert second.inputs["xyz"].dtype == np.float16
    np.testing.assert_array_equal(second.inputs["xyz"] * 16, np.rint(first.inputs["new_xyz"] * 16))
    for made in (first, second):
        assert_lattice(made.inputs["new_xyz"], made.inputs["xyz"])
        call = call_of(OPERATOR, made.params, dict(made.inputs))
        assert OPERATOR.broken(call) is None
        # Every centre is a point of its cloud; some rows are full and some are not.
        for centres, cloud in zip(made.inputs["new_xyz"], made.inputs["xyz"], strict=True):
            assert set(map(tuple, centres.tolist())) <= set(map(tuple, cloud.tolist()))
        assert not empty_rows(call).any()
        idx = OPERATOR.reference(call).outputs["idx"]
        full = idx[..., -1] != idx[..., 0]
        assert 0.02 < full.mean() < 0.98


@pytest.mark.slow
def test_planted_points_are_the_only_ones():
    for draft in drafts():
        if draft.recipe != "planted" or draft.args["points"] > 20000 or draft.expect_declared:
            continue
        made = make_by(draft, Draw(7))
        call = call_of(OPERATOR, made.params, dict(made.inputs))
        wanted = [[k for k, m in sorted(zip(draft.args["hits"], draft.args["rows"], strict=True)) if m == row]
                  for row in range(draft.args["centres"])]  # fmt: skip
        assert empty_rows(call)[0].tolist() == [not hits for hits in wanted]
        length = made.params["nsample"]
        expected = [(hits + hits[:1] * length or [0] * length)[:length] for hits in wanted]
        assert OPERATOR.reference(call).outputs["idx"][0].tolist() == expected, draft.id


@FLOATS
def test_shells_hold_exactly_the_distances_that_a_case_lists(dtype):
    squares = (0, 8, 9, 10, 24, 25, 26)
    made = OPERATOR.recipes["shells"](Draw(4), {}, dtype, squares=squares, each=3, exponent=-4)
    squared = squared_distances(made.inputs["new_xyz"][0], made.inputs["xyz"][0]) * 256
    assert sorted(squared[0].tolist()) == sorted(squares * 3)


@FLOATS
def test_clear_clouds_use_every_bit_and_come_near_the_sphere(dtype):
    radius = {DType.FLOAT: 0.37, DType.HALF: 5.3}[dtype]
    squares = [float(np.float32(radius) ** 2)]
    new_xyz, xyz = clear_cloud(Draw(8), "a", dtype, 5, 20, [0.0, *squares])
    assert (new_xyz.shape, xyz.shape) == ((5, 3), (30, 3))
    assert clear_of_spheres(new_xyz[None], xyz[None], squares).all()
    squared = squared_distances(new_xyz, xyz) / squares[0]
    near = {DType.FLOAT: 2.5e-5, DType.HALF: 0.02}[dtype]
    assert ((squared > 1 - near) & (squared < 1)).any(axis=1).all()
    assert ((squared < 1 + near) & (squared > 1)).any(axis=1).all()
    # Odd multiples of the unit are there: nothing is left over for a coarser lattice.
    with pytest.raises(ContentError, match="Draw a smaller cloud"):
        assert_lattice(new_xyz[None], xyz[None])


@pytest.mark.parametrize(
    ("recipe", "params", "args", "message"),
    [
        ("shells", {}, {"squares": (7,), "each": 1}, "7 is no sum of three squares"),
        ("planted", {}, {"centres": 2, "points": 3, "hits": (1, 1), "rows": (0, 1)}, "a point lies in one shell"),
        ("planted", {}, {"centres": 2, "points": 3, "hits": (1,), "rows": ()}, "go in pairs"),
        ("planted", {"max_radius": 9}, {"centres": 9, "points": 3, "hits": (1,), "rows": (0,)}, "do not fit"),
        ("precise", {"max_radius": 14}, {"centres": 2, "points": 3}, "leaves the range"),
        ("precise", {"max_radius": 6}, {"centres": 40, "points": 15000}, "keep clear"),
    ],
)
def test_a_recipe_says_what_it_cannot_make(recipe, params, args, message):
    with pytest.raises(ValueError, match=message):
        OPERATOR.recipes[recipe](Draw(1), params, DType.HALF, **args)


def test_theory_counts_what_must_be_touched():
    theory = OPERATOR.theory(call_for(np.zeros((2, 3, 3)), np.zeros((2, 5, 3)), nsample=4, dtype=DType.HALF))
    assert theory.ops == 10 * 2 * 3 * 5
    assert theory.io_bytes == 2 * (2 * 3 * 3 + 2 * 5 * 3) + 4 * 2 * 3 * 4


@pytest.mark.slow
def test_a_kernel_that_counts_centres_in_16_bits_is_told():
    (draft,) = (draft for draft in drafts() if draft.id.endswith("last_of_65537_centres"))
    made = make_by(draft)
    call = call_of(OPERATOR, made.params, dict(made.inputs))
    idx = OPERATOR.reference(call).outputs["idx"]
    wrapped = np.arange(65537) & 0xFFFF
    wrong = {**made.inputs, "new_xyz": made.inputs["new_xyz"][:, wrapped]}
    found = OPERATOR.reference(call_of(OPERATOR, made.params, wrong)).outputs["idx"]
    assert np.argwhere(idx != found).tolist() == [[0, 65536, 0]]
