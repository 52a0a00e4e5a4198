"""The clouds have the documents' counts, feed each other, and look like a sweep."""

import hashlib
import itertools

import numpy as np
import pytest

from generators._shared.clouds import network_layer, random_sites, small_layer
from generators._shared.sparse import Geometry, find_pairs
from mluops_gtest.authoring import Draw
from mluops_gtest.core.case import Reseed

# The layers that lead from level to level, finest first, and the convolutions within a level.
STEPS = ("down_41x1440x1440", "down_21x720x720", "down_11x360x360", "out_5x180x180")
NAMES = (*STEPS, "subm_41x1440x1440", "subm_5x180x180")
ONES = (1, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count", "space", "kernel", "stride", "pad", "output_space", "sub_m"),
    [
        ("subm_41x1440x1440", 248636, (41, 1440, 1440), (3, 3, 3), ONES, ONES, (41, 1440, 1440), True),
        ("down_41x1440x1440", 248636, (41, 1440, 1440), (3, 3, 3), (2, 2, 2), ONES, (21, 720, 720), False),
        ("down_21x720x720", 280511, (21, 720, 720), (3, 3, 3), (2, 2, 2), ONES, (11, 360, 360), False),
        ("down_11x360x360", 149100, (11, 360, 360), (3, 3, 3), (2, 2, 2), (0, 1, 1), (5, 180, 180), False),
        ("subm_5x180x180", 58838, (5, 180, 180), (3, 3, 3), ONES, ONES, (5, 180, 180), True),
        ("out_5x180x180", 58838, (5, 180, 180), (3, 1, 1), (2, 1, 1), (0, 0, 0), (2, 180, 180), False),
    ],
)
def test_network_layers_are_the_documents(name, count, space, kernel, stride, pad, output_space, sub_m):
    sites, geometry = network_layer(name, Draw(0))
    assert geometry == Geometry(4, space, kernel, stride, pad, ONES, output_space, sub_m)
    assert sites.shape == (count, 4)
    assert sites.dtype == np.dtype("<i4")


@pytest.mark.slow
@pytest.mark.parametrize("layer", [network_layer, small_layer])
@pytest.mark.parametrize("name", NAMES)
def test_sites_are_distinct_ascending_and_inside(layer, name):
    sites, geometry = layer(name, Draw(0))
    assert not sites.flags.writeable
    keys = np.ravel_multi_index(tuple(sites.T), (geometry.batch, *geometry.input_space))
    assert (keys[1:] > keys[:-1]).all()
    assert set(sites[:, 0]) == set(range(geometry.batch))


@pytest.mark.slow
@pytest.mark.parametrize("layer", [network_layer, small_layer])
def test_each_level_is_what_the_level_before_puts_out(layer):
    for name, coarser in itertools.pairwise(STEPS):
        sites, geometry = layer(name, Draw(0))
        outputs, next_geometry = layer(coarser, Draw(0))
        assert geometry.output_space == next_geometry.input_space
        np.testing.assert_array_equal(find_pairs(sites, geometry).out_indices, outputs)


@pytest.mark.slow
def test_convolutions_within_a_level_see_the_same_sites():
    for within, down in (("subm_41x1440x1440", "down_41x1440x1440"), ("subm_5x180x180", "out_5x180x180")):
        np.testing.assert_array_equal(network_layer(within, Draw(0))[0], network_layer(down, Draw(0))[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "outputs", "pairs", "longest", "received"),
    [
        ("down_41x1440x1440", 280511, 754108, 67042, (1, 20)),
        ("down_21x720x720", 149100, 946942, 43293, (1, 27)),
        ("down_11x360x360", 58838, 538485, 25159, (1, 27)),
        ("out_5x180x180", 45406, 81218, 29692, (1, 3)),
        ("subm_41x1440x1440", 248636, 1204190, 248636, (1, 23)),
        ("subm_5x180x180", 58838, 1004782, 58838, (2, 27)),
    ],
)
def test_the_pairs_of_the_network_are_as_measured(name, outputs, pairs, longest, received):
    found = find_pairs(*network_layer(name, Draw(0)))
    assert (len(found.out_indices), found.indice_num.sum(), found.indice_num.max()) == (outputs, pairs, longest)
    met = np.concatenate([found.indice_pairs[k, 1, :count] for k, count in enumerate(found.indice_num)])
    per_output = np.bincount(met, minlength=outputs)
    assert (per_output.min(), per_output.max()) == received


@pytest.mark.slow
def test_small_twins_have_the_network_structure_and_few_sites():
    for name in NAMES:
        small, twin = small_layer(name, Draw(0))
        _, geometry = network_layer(name, Draw(0))
        assert (twin.kernel, twin.stride, twin.pad, twin.dilation, twin.sub_m) == (
            geometry.kernel,
            geometry.stride,
            geometry.pad,
            geometry.dilation,
            geometry.sub_m,
        )
        assert 50 <= len(small) <= 400
        assert find_pairs(small, twin).indice_num.min() > 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "times"), [("subm_41x1440x1440", 100), ("subm_5x180x180", 5)])
def test_sites_cluster_on_surfaces(name, times):
    sites, geometry = network_layer(name, Draw(0))
    neighbours = (find_pairs(sites, geometry).indice_num.sum() - len(sites)) / len(sites)
    uniform = 26 * len(sites) / (geometry.batch * np.prod(geometry.input_space))
    assert neighbours > times * uniform


@pytest.mark.slow
def test_the_sweep_thins_out_with_distance_and_stands_on_a_road():
    sites, geometry = network_layer("subm_41x1440x1440", Draw(0))
    middle = geometry.input_space[2] / 2
    distance = np.hypot(sites[:, 2] - middle, sites[:, 3] - middle)
    rings = np.histogram(distance, bins=np.arange(100, 701, 100))[0] / (2 * np.arange(1, 7) + 1)
    assert (rings[1:] < rings[:-1]).all()
    depths = np.bincount(sites[:, 1], minlength=41)
    assert depths[13:20].sum() > 0.5 * len(sites)
    assert (depths[25:] > 0).all()


@pytest.mark.slow
def test_the_clouds_never_change():
    digest = hashlib.sha256()
    for name in NAMES:
        digest.update(network_layer(name, Draw(0))[0].tobytes())
        digest.update(small_layer(name, Draw(0))[0].tobytes())
    assert digest.hexdigest() == "5f7501b8024c3824ca98041192c2cbecf1931264644acc779139497e242babe0"


@pytest.mark.parametrize("number", range(4))
def test_other_streets_have_exactly_as_many_sites(number):
    for name in NAMES:
        (declared, geometry), (other, same) = (small_layer(name, draw) for draw in (Draw(0), Draw(0, Reseed(number))))
        assert geometry == same
        assert other.shape == declared.shape
        assert not np.array_equal(other, declared)


def test_an_unknown_layer_is_named_with_the_known_ones():
    with pytest.raises(ValueError, match=r"no network layer 'subm_5x180x18'; choose one of .*subm_5x180x180"):
        network_layer("subm_5x180x18", Draw(0))


@pytest.mark.parametrize(
    ("space", "count"), [((3, 4, 5), 120), ((3, 4, 5), 7), ((41, 1440, 1440), 500), ((1, 1, 1), 1)]
)
def test_random_sites_are_distinct_and_inside(space, count):
    sites = random_sites(Draw(3).stream("indices"), 2, space, count)
    assert sites.shape == (count, 4)
    assert sites.dtype == np.dtype("<i4")
    assert len(np.unique(sites, axis=0)) == count
    assert ((sites >= 0) & (sites < (2, *space))).all()


def test_more_random_sites_than_cells_are_refused():
    with pytest.raises(ValueError, match="3 distinct sites in a space of 2 cells"):
        random_sites(Draw(3).stream("indices"), 1, (1, 1, 2), 3)
