"""Wrong pairs and weights of a sparse convolution: each is wrong in a call that has what it gets wrong."""

import numpy as np
import pytest

from generators._shared.connections import laid_out
from generators._shared.wrong_pairs import right_rows, wrong_pairs
from generators._shared.wrong_products import right_weights, wrong_weights
from mluops_gtest.authoring import Layout, call_of

ROWS = {"features": 300, "features_out": 290}
COUNTS = (3, 0, 290, 5, 20)
WRONG_PAIRS = wrong_pairs(*ROWS)


def call_with(counts=COUNTS, sub_m=1, kernel=(1, 1, 5), layout=Layout.ARRAY, channels=(65, 3)):
    """Pairs in any order, and −1 behind them; no two weights are the same."""
    random = np.random.default_rng(1)
    pairs = np.full((len(counts), 2, ROWS["features"]), -1, np.int32)
    for k, count in enumerate(counts):
        for side, rows in enumerate(ROWS.values()):
            pairs[k, side, :count] = random.permutation(rows)[:count]
    weights = np.arange(len(counts) * channels[0] * channels[1], dtype=np.float32).reshape(len(counts), *channels)
    return call_of(
        "toy",
        {"indice_num": counts, "sub_m": sub_m},
        {
            "features": np.zeros((ROWS["features"], channels[0]), np.float32),
            "filters": laid_out(weights, kernel, layout),
            "indice_pairs": pairs,
        },
        {"features_out": np.zeros((ROWS["features_out"], channels[1]), np.float32)},
        {"filters": layout},
    )


def as_lists(rows):
    return [[sorted(zip(inputs.tolist(), outputs.tolist(), strict=True))] for inputs, outputs in rows]


@pytest.mark.parametrize("wrong", WRONG_PAIRS, ids=lambda one: one.name)
def test_each_takes_other_rows_and_none_that_there_is_not(wrong):
    call = call_with()
    found = wrong.rows(call)
    assert len(found) == len(COUNTS)
    # Up to −1, which is the last row of an array: what ends an offset there is right where nothing stands behind.
    if wrong.name == "until_minus_one":
        call.array("indice_pairs")[1, :, 0] = 7
        found = wrong.rows(call)
    assert as_lists(found) != as_lists(right_rows(call))
    for rows in found:
        for side, limit in zip(rows, ROWS.values(), strict=True):
            assert ((side >= -1) & (side < limit)).all()


def test_what_is_about_sub_m_is_right_without_it():
    call = call_with(sub_m=0)
    same = {one.name for one in WRONG_PAIRS if as_lists(one.rows(call)) == as_lists(right_rows(call))}
    assert same - {"until_minus_one"} == {"centre_skipped", "centre_doubled", "pairs_by_symmetry", "pairs_repeated"}


def test_names_are_their_own():
    names = [one.name for one in (*WRONG_PAIRS, *wrong_weights(1))]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("summed", [1, 2])
@pytest.mark.parametrize("wrong", range(len(wrong_weights(1))))
def test_each_reads_other_weights_in_some_layout(summed, wrong):
    one = wrong_weights(summed)[wrong]
    channels = (65, 3) if summed == 1 else (3, 65)
    for layout in (Layout.ARRAY, Layout.NDHWC, Layout.NCDHW):
        call = call_with((1,) * 12, kernel=(2, 2, 3), layout=layout, channels=channels)
        found, right = one.weights(call), right_weights(call)
        assert found.shape == right.shape
        if (found != right).any():
            return
    pytest.fail(f"{one.name} reads the right weights")
