"""Clouds are the same everywhere, and what is promised of their distances holds in exact arithmetic."""

import hashlib
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators._shared.points import (
    CENTRED,
    FULL,
    assert_lattice,
    exact_in_float64,
    exact_squared_distances,
    farthest_sample,
    interpolation,
    lattice_fault,
    nearest,
    offsets,
    placed,
    squared_distances,
    surfaces,
)
from generators.ball_query.recipes import clear_of_spheres
from generators.three_nn_forward import nearest_stand_apart
from mluops_gtest.authoring import Draw, DType
from mluops_gtest.base.errors import ContentError
from mluops_gtest.core.case import Reseed

FLOATS = pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])


def one(points, dtype="<f4"):
    """A batch of one cloud."""
    return np.array([points], dtype)


def by_definition(queries, points, count):
    """Per query all finite points by exact distance, then by index."""
    answer = []
    for u in queries.tolist():
        found = sorted(
            (sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(u, k, strict=True)), place)
            for place, k in enumerate(points.tolist())
            if all(map(math.isfinite, (*u, *k)))
        )
        answer.append((found + [(math.inf, 0)] * count)[:count])
    return answer


def narrowed(value, dtype):
    """One rounding of an exact number, ties to even."""
    if value == math.inf:
        return math.inf
    guess = dtype.type(float(value))
    with np.errstate(over="ignore"):
        beside = [guess, np.nextafter(guess, dtype.type(np.inf)), np.nextafter(guess, dtype.type(-np.inf))]
    return min(beside, key=lambda x: (abs(Fraction(float(x)) - value), int(x.view(f"u{dtype.itemsize}")) & 1))


def every_evaluation(u, k):
    """Squared distances of [N, 3] and [M, 3] in the type of the data: all orders of the sum, fused or not."""
    kind = u.dtype.type
    with np.errstate(over="ignore"):
        difference = u[:, None] - k
        x, y, z = np.moveaxis(difference, -1, 0)
        for a, b, c in itertools.permutations((x, y, z)):
            yield (a * a + b * b) + c * c
            # Fused: the product and the sum before it round as one; float64 holds both exactly or nearly so.
            wide = (a * a).astype(np.float64) + b.astype(np.float64) ** 2
            yield (wide.astype(kind).astype(np.float64) + c.astype(np.float64) ** 2).astype(kind)


def three_of(squared):
    return np.argsort(squared, axis=1, kind="stable")[:, :3]


def test_surfaces_fill_the_ball_and_never_change():
    cloud = surfaces(Draw(20231025), 2, 500, 1182)
    assert cloud.shape == (2, 500, 3)
    norms = np.sqrt((cloud.astype(np.float64) ** 2).sum(axis=-1))
    assert (norms.max(axis=1) > 1181).all()
    assert norms.max() < 1183
    assert not np.array_equal(cloud[0], cloud[1])
    assert (
        hashlib.sha256(cloud.astype("<i8").tobytes()).hexdigest()
        == "7a9d9acd9afef5f88c840ef6b4b13b0e0fd5854f29b94469e8f44599206a52c1"
    )


def test_points_lie_on_surfaces_and_not_in_a_volume():
    """Twice as many points halve the squared distance to the nearest on a surface; in a volume less."""
    distances = [
        np.median(nearest(cloud, cloud, 2)[0][..., 1])
        for cloud in (placed(surfaces(Draw(3), 2, count, FULL[DType.FLOAT]), -24, DType.FLOAT) for count in (400, 1600))
    ]
    assert distances[0] / distances[1] > 3.3  # 4 on a surface, 2.5 in a volume


def test_reseeding_draws_other_surfaces_and_offsets():
    declared, other = Draw(1), Draw(1, Reseed(7))
    cloud = surfaces(declared, 1, 50, 100)
    assert not np.array_equal(cloud, surfaces(other, 1, 50, 100))
    assert not np.array_equal(offsets(declared, 2), offsets(other, 2))


def test_each_point_of_a_farthest_sample_is_the_first_of_the_farthest():
    cloud = surfaces(Draw(9), 2, 60, 13)
    for points, sample in zip(cloud, farthest_sample(cloud, 60), strict=True):
        left = points.tolist()
        taken = [left.pop(0)]
        while left:
            distances = [min(sum((a - b) ** 2 for a, b in zip(p, t, strict=True)) for t in taken) for p in left]
            taken.append(left.pop(distances.index(max(distances))))
        assert sample.tolist() == taken


def test_a_coarser_farthest_sample_is_the_beginning_of_a_finer_one():
    cloud = surfaces(Draw(9), 2, 300, 1182)
    np.testing.assert_array_equal(farthest_sample(cloud, 100)[:, :30], farthest_sample(cloud, 30))


def test_more_points_than_there_are_cannot_be_taken():
    with pytest.raises(ValueError, match="6 points cannot be taken from clouds of 5"):
        farthest_sample(np.zeros((1, 5, 3), np.int64), 6)


def test_a_cloud_is_placed_exactly_or_not_at_all():
    assert placed(np.array([-3, 0, 2047]), -4, DType.HALF).tolist() == [-0.1875, 0.0, 127.9375]
    with pytest.raises(ValueError, match=r"times 2\^-4 is not a half"):
        placed(np.array([2049]), -4, DType.HALF)
    with pytest.raises(ValueError, match=r"times 2\^127 is not a float"):
        placed(np.array([3]), 127, DType.FLOAT)


@FLOATS
def test_the_centred_lattice_is_the_largest(dtype):
    corner = CENTRED[dtype] * np.array([1, 1, 1])
    assert_lattice(placed(corner[None, None], -4, dtype), placed(-corner[None, None], -4, dtype))
    # With an odd neighbour, or the lattice would be coarser.
    far = np.stack([corner + 1, corner])[None]
    with pytest.raises(ContentError, match="Draw a smaller cloud") as refusal:
        assert_lattice(placed(far, -4, dtype), placed(-far, -4, dtype))
    assert lattice_fault(placed(far, -4, dtype), placed(-far, -4, dtype)) == str(refusal.value)
    assert lattice_fault(placed(corner[None, None], -4, dtype), placed(-corner[None, None], -4, dtype)) is None


@FLOATS
def test_on_a_lattice_every_evaluation_is_exact(dtype):
    cloud = placed(surfaces(Draw(2), 1, 60, CENTRED[dtype]), -5, dtype)
    assert_lattice(cloud, cloud)
    true = squared_distances(cloud[0], cloud[0])
    for squared in every_evaluation(cloud[0], cloud[0]):
        np.testing.assert_array_equal(squared, true)
    u, k = cloud[0][:, None], cloud[0][None]
    np.testing.assert_array_equal((u * u).sum(-1) + (k * k).sum(-1) - 2 * (u * k).sum(-1), true)


def test_an_offset_lattice_is_exact_but_for_what_rounds_first():
    units = surfaces(Draw(2), 2, 50, 60) + offsets(Draw(2), 2)
    cloud = placed(units, 0, DType.FLOAT)
    assert_lattice(cloud, cloud)
    for batch in cloud:
        right = three_of(squared_distances(batch, batch))
        for squared in every_evaluation(batch, batch):
            np.testing.assert_array_equal(three_of(squared), right)
        coarse = (batch.view("<u4") & np.uint32(0xFFFFE000)).view("<f4")  # tf32
        wrong = three_of(squared_distances(coarse, coarse))
        assert (wrong != right).any(axis=1).mean() > 0.9


def test_the_batches_of_a_lattice_may_lie_far_apart():
    near = one([[0, 0, 0], [3, 0, 0]])
    both = np.concatenate([near, near + near.dtype.type(2**20)])
    assert_lattice(both, both)


def test_coordinates_that_are_not_finite_do_not_count_on_a_lattice():
    cloud = one([[np.nan, 0, 0], [np.inf, 1, -np.inf], [5, 0, 2]])
    assert_lattice(cloud, cloud)
    assert_lattice(np.full_like(cloud, np.nan), np.full_like(cloud, np.inf))


@FLOATS
def test_differences_with_subnormal_squares_are_refused(dtype):
    least = {DType.FLOAT: -63, DType.HALF: -7}[dtype]
    for exponent, fair in ((least, True), (least - 1, False)):
        cloud = placed(np.array([[[1, 0, 0], [4, 0, 0], [9, 0, 0], [16, 0, 0]]]), exponent, dtype)
        for demand in (assert_lattice, lambda u, k: clear_of_spheres(u, k, [1.0])):
            if fair:
                demand(cloud, cloud)
            else:
                with pytest.raises(ContentError, match="whose square is subnormal"):
                    demand(cloud, cloud)


def test_what_a_subnormal_square_may_lose_is_no_margin():
    origin = one([[0, 0, 0]], "<f2")
    # 2^-16, which a device may take for 0, and a distance that can lose as much.
    assert nearest_stand_apart(origin, one([[2.0**-8, 0, 0], [2.0**-6, 0, 0]], "<f2")).item() is False
    assert nearest_stand_apart(origin, one([[2.0**-8, 0, 0], [2.0**-5, 0, 0]], "<f2")).item() is True
    assert nearest_stand_apart(origin, one([[0, 0, 0], [0, 0, 0], [2.0**-5, 2.0**-8, 0]], "<f2")).item() is True


def test_squared_distances_beyond_the_type_are_refused():
    far = placed(np.array([[[0, 0, 0], [1, 0, 0]]]), 8, DType.HALF)
    with pytest.raises(ContentError, match="may pass 65504, the largest half"):
        assert_lattice(far, far)
    assert nearest_stand_apart(far[:, :1], far).tolist() == [[False]]
    assert nearest_stand_apart(far[:, :1], far[:, :1]).tolist() == [[True]]


def test_a_distance_that_overflows_in_any_evaluation_is_none_and_one_that_may_overflow_is_not_fair():
    origin = one([[0, 0, 0]])
    assert nearest_stand_apart(origin, one([[2.0**100, 0, 0], [1, 0, 0], [2.0**101, 0, 0]])).item() is True
    assert nearest_stand_apart(origin, one([[2.0**64, 0, 0], [1, 0, 0]])).item() is False


@pytest.mark.slow
@FLOATS
def test_where_the_nearest_stand_apart_every_evaluation_agrees(dtype):
    exponent = {DType.FLOAT: -24, DType.HALF: -7}[dtype]
    cloud = surfaces(Draw(6), 1, 2000, FULL[dtype])
    unknown, known = placed(cloud, exponent, dtype), placed(farthest_sample(cloud, 200), exponent, dtype)
    apart = nearest_stand_apart(unknown, known)[0]
    assert 0.8 < apart.mean() <= 1
    right = three_of(squared_distances(unknown[0], known[0]))
    changed = np.zeros(len(apart), bool)
    for squared in every_evaluation(unknown[0], known[0]):
        changed |= (three_of(squared) != right).any(axis=1)
    assert not changed[apart].any()
    assert changed.any() == (dtype is DType.HALF)  # so the margin is needed


def test_a_tie_up_to_the_fourth_is_not_apart():
    origin = one([[0, 0, 0]])
    for places, fair in [
        ((1, 2, 3, 4, 4), True),
        ((1, 2, 3, 3), False),
        ((0, 1, 1), False),
        ((2, 3), True),
        ((0,), True),
    ]:
        assert nearest_stand_apart(origin, one([[x, 0, 0] for x in places])).item() is fair


@FLOATS
def test_where_spheres_are_clear_every_evaluation_agrees(dtype):
    exponent, limit = {DType.FLOAT: (-24, np.float32(0.04)), DType.HALF: (-7, np.float32(40))}[dtype]
    cloud = placed(surfaces(Draw(6), 1, 400, FULL[dtype]), exponent, dtype)
    clear = clear_of_spheres(cloud, cloud, [0.0, float(limit), math.inf])[0]
    assert clear.any()
    right = squared_distances(cloud[0], cloud[0]) < limit
    for squared in every_evaluation(cloud[0], cloud[0]):
        assert not ((squared < limit) != right)[clear].any()


def test_a_point_just_beside_the_sphere_is_not_clear():
    origin, points = one([[0, 0, 0]]), one([[2, 0, 0], [np.nan, 0, 0]])
    assert clear_of_spheres(origin, points, [4.0]).item() is False
    assert clear_of_spheres(origin, points, [4.00001, 3.99999]).item() is True
    assert clear_of_spheres(origin, points, [4.000001]).item() is False


COORDINATE = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(-3, 3).map(float), st.just(math.inf)
)
CLOUD = st.lists(st.tuples(COORDINATE, COORDINATE, COORDINATE), min_size=1, max_size=6)


@pytest.mark.slow
@given(CLOUD, CLOUD)
def test_the_nearest_are_those_of_exact_arithmetic_whatever_the_data(queries, points):
    u, k = one(queries), one(points)
    squared, indices = nearest(u, k)
    for row, found in enumerate(by_definition(u[0], k[0], 3)):
        assert indices[0, row].tolist() == [place for _, place in found]
        for value, (true, _) in zip(squared[0, row], found, strict=True):
            with np.errstate(over="ignore"):
                if true < 2**127:
                    assert value.astype("<f4") == narrowed(true, np.dtype("<f4"))
                assert (
                    value == math.inf
                    if true == math.inf
                    else abs(Fraction(float(value)) - true) <= true * Fraction(2) ** -52
                )


def test_distances_that_float64_cannot_hold_round_once():
    """1 + 2^-24 + 2^-60 lies above the middle of two floats; float64 loses the last term and float32 then ties."""
    k = one([[1, 2.0**-12, 2.0**-30]])
    u = np.zeros_like(k)
    assert not exact_in_float64(u, k)
    assert squared_distances(u[0], k[0]).astype("<f4").item() == 1
    assert nearest(u, k)[0].astype("<f4")[0, 0, 0] == 1 + 2.0**-23
    assert exact_squared_distances(u[0], k[0], -30).tolist() == [2**60 + 2**36 + 1]


def test_a_near_tie_beyond_float64_is_settled_exactly():
    k = one([[1, 2.0**-30, 0], [1, 0, 0], [1, 2.0**-30, 0], [3, 0, 0]])
    assert nearest(np.zeros((1, 1, 3), "<f4"), k)[1].tolist() == [[[1, 0, 2]]]


@pytest.mark.parametrize("count", [1, 5000, 70000])
def test_equals_come_by_index_wherever_the_blocks_end(count):
    k = np.zeros((1, count, 3), "<f4")
    squared, indices = nearest(np.zeros((1, 3, 3), "<f4"), k)
    assert indices.tolist() == [[[0, 1, 2] if count > 1 else [0, 0, 0]] * 3]
    assert squared.tolist() == [[[0.0] * min(count, 3) + [math.inf] * max(0, 3 - count)] * 3]


@pytest.mark.parametrize("reach", [(2, 2, 2), (1182, 1182, 1182), (0, 500, 500), (900, 0, 3)])
def test_the_nearest_of_many_points_are_those_of_a_full_search(reach):
    """Whatever stands side by side on x: few points, all of them, or many at the same place."""
    for base in (0, 1 << 20):
        u, k = (
            (Draw(8).stream(name).integers(-1182, 1183, (1, count, 3)) % (2 * np.array(reach) + 1) + base).astype("<f4")
            for name, count in (("u", 150), ("k", 1100))
        )
        for count in (1, 3, 4):
            squared, indices = nearest(u, k, count)
            everything = squared_distances(u[0], k[0])
            order = np.argsort(everything, axis=1, kind="stable")[:, :count]
            np.testing.assert_array_equal(indices[0], order)
            np.testing.assert_array_equal(squared[0], np.take_along_axis(everything, order, axis=1))


def test_each_batch_finds_neighbours_of_its_own():
    u = np.array([[[0, 0, 0]], [[9, 0, 0]]], "<f4")
    k = np.array([[[4, 0, 0], [1, 0, 0]], [[8, 0, 0], [0, 0, 0]]], "<f4")
    squared, indices = nearest(u, k, 2)
    assert indices.tolist() == [[[1, 0]], [[0, 1]]]
    assert squared.tolist() == [[[1, 16]], [[1, 81]]]


def test_no_points_have_no_neighbours():
    squared, indices = nearest(np.zeros((1, 2, 3), "<f4"), np.zeros((1, 0, 3), "<f4"))
    assert (squared == math.inf).all()
    assert (indices == 0).all()


def test_weights_fall_with_the_distance_and_sum_up_to_one():
    indices, weights = interpolation(one([[0, 0, 0], [5, 0, 0]]), one([[4, 0, 0], [1, 0, 0], [2, 0, 0]]))
    assert indices.dtype == np.dtype("<i4")
    assert indices.tolist() == [[[1, 2, 0], [0, 2, 1]]]
    np.testing.assert_allclose(weights[0, 0], np.array([4, 2, 1]) / 7, rtol=1e-7)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-15)


def test_a_point_on_a_known_one_takes_nearly_all_of_it_and_missing_ones_weigh_nothing():
    _, weights = interpolation(one([[1, 0, 0]]), one([[3, 0, 0], [1, 0, 0]]))
    assert weights[0, 0, 0] > 1 - 1e-8
    assert weights[0, 0, 2] == 0
