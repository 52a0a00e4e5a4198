"""find_pairs against the definition written out as loops, on geometries that reach every branch."""

import itertools
import random

import numpy as np
import pytest

from generators._shared.sparse import Geometry, Pairs, derive_output_space, find_pairs
from tests.support.examples import examples


def by_definition(indices, geometry):
    """out_indices, and per kernel offset the list of (input row, output row), by loops."""
    sites = [tuple(map(int, row)) for row in indices]
    met = []
    for offset in itertools.product(*(range(k) for k in geometry.kernel)):
        found = []
        for row, (n, *site) in enumerate(sites):
            out = [n]
            for axis in range(3):
                value = site[axis] + geometry.pad[axis] - offset[axis] * geometry.dilation[axis]
                if (
                    value % geometry.stride[axis] == 0
                    and 0 <= value // geometry.stride[axis] < geometry.output_space[axis]
                ):
                    out.append(value // geometry.stride[axis])
            if len(out) == 4 and (not geometry.sub_m or tuple(out) in sites):
                found.append((row, tuple(out)))
        met.append(found)
    outputs = sites if geometry.sub_m else sorted({out for found in met for _, out in found})
    return outputs, [[(row, outputs.index(out)) for row, out in found] for found in met]


def assert_as_defined(pairs: Pairs, indices, geometry) -> None:
    outputs, met = by_definition(indices, geometry)
    assert pairs.out_indices.dtype == pairs.indice_pairs.dtype == pairs.indice_num.dtype == np.dtype("<i4")
    assert pairs.out_indices.shape == (len(outputs), 4)
    assert pairs.indice_pairs.shape == (geometry.offsets, 2, len(indices))
    assert list(map(tuple, pairs.out_indices.tolist())) == outputs
    assert pairs.indice_num.tolist() == [len(found) for found in met]
    for k, found in enumerate(met):
        assert pairs.indice_pairs[k, :, : len(found)].T.tolist() == [list(pair) for pair in found]
        assert (pairs.indice_pairs[k, :, len(found) :] == -1).all()


def draw_sites(rng, batch, space, count, *, shuffled):
    cells = batch * space[0] * space[1] * space[2]
    keys = rng.sample(range(cells), min(count, cells))
    keys = keys if shuffled else sorted(keys)
    return np.stack(np.unravel_index(keys, (batch, *space)), axis=1).astype("<i4")


def triple(rng, low, high):
    return tuple(rng.randint(low, high) for _ in range(3))


@pytest.mark.parametrize("seed", range(examples(150)))
def test_default_mode_is_the_definition(seed):
    rng = random.Random(seed)
    space, kernel, pad = triple(rng, 1, 6), triple(rng, 1, 4), triple(rng, 0, 3)
    stride, dilation = triple(rng, 1, 3), triple(rng, 1, 2)
    output = tuple(max(1, n) for n in derive_output_space(space, kernel, stride, pad, dilation))
    geometry = Geometry(rng.randint(1, 3), space, kernel, stride, pad, dilation, output)
    indices = draw_sites(rng, geometry.batch, space, rng.randint(1, 40), shuffled=seed % 2 == 1)
    assert_as_defined(find_pairs(indices, geometry), indices, geometry)


@pytest.mark.parametrize("seed", range(examples(150)))
def test_sub_m_mode_is_the_definition(seed):
    rng = random.Random(seed)
    space, kernel = triple(rng, 1, 6), triple(rng, 1, 5)
    pad = tuple(k // 2 for k in kernel) if seed % 3 else triple(rng, 0, 7)
    geometry = Geometry(rng.randint(1, 3), space, kernel, (1, 1, 1), pad, (1, 1, 1), space, sub_m=True)
    indices = draw_sites(rng, geometry.batch, space, rng.randint(1, 60), shuffled=seed % 2 == 1)
    assert_as_defined(find_pairs(indices, geometry), indices, geometry)


@pytest.mark.parametrize(
    "space", [(3, 5, 2**21), (3, 2**15, 2**14), (3, 2**15, 2**16), (2**14, 2**14, 2**12)], ids=lambda s: str(np.prod(s))
)
@pytest.mark.parametrize("sub_m", [False, True], ids=["default", "sub_m"])
def test_linear_keys_stay_exact_in_large_spaces(space, sub_m):
    d, h, w = (n - 1 for n in space)
    indices = np.array([[1, d, h, w], [1, d, h, w - 1], [0, 0, 0, 0], [0, 0, 1, w], [1, 0, 0, 0], [0, d, h, w]], "<i4")
    geometry = Geometry(2, space, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), space, sub_m)
    assert_as_defined(find_pairs(indices, geometry), indices, geometry)


def test_a_guard_band_keeps_rows_apart():
    # (…, 0, last) and (…, 1, 0) are neighbours in memory and not in space.
    space = (1, 2, 4)
    indices = np.array([[0, 0, 0, 3], [0, 0, 1, 0]], "<i4")
    geometry = Geometry(1, space, (1, 1, 3), (1, 1, 1), (0, 0, 1), (1, 1, 1), space, sub_m=True)
    assert find_pairs(indices, geometry).indice_num.tolist() == [0, 2, 0]


def test_all_slots_valid_keep_the_last_output():
    indices = np.array([[0, 0, 0, w] for w in range(5)], "<i4")
    geometry = Geometry(1, (1, 1, 5), (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1), (1, 1, 5))
    pairs = find_pairs(indices, geometry)
    assert pairs.out_indices.tolist() == indices.tolist()
    assert pairs.indice_pairs.tolist() == [[[0, 1, 2, 3, 4]] * 2]


def test_a_space_without_exact_keys_is_refused():
    space = (2**21, 2**21, 2**21)
    for sub_m in (False, True):
        geometry = Geometry(1, space, (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1), space, sub_m)
        with pytest.raises(ValueError, match=r"2\^61"):
            find_pairs(np.array([[0, 0, 0, 0]], "<i4"), geometry)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (((11, 360, 360), (3, 3, 3), (2, 2, 2), (0, 1, 1), (1, 1, 1)), (5, 180, 180)),
        (((5, 180, 180), (3, 1, 1), (2, 1, 1), (0, 0, 0), (1, 1, 1)), (2, 180, 180)),
        (((9, 9, 9), (3, 3, 3), (1, 1, 1), (0, 0, 0), (2, 2, 2)), (5, 5, 5)),
    ],
)
def test_the_output_space_is_derived(arguments, expected):
    assert derive_output_space(*arguments) == expected
