"""Wrong triples are wrong each in its own way, and name no cell that does not exist."""

import numpy as np
import pytest

from generators._shared.wrong_interpolation import WRONG_TRIPLES, Entries

BATCHES, POINTS, CELLS = 2, 70, 300
RIGHT = Entries(
    np.random.default_rng(1).integers(0, CELLS, (BATCHES, POINTS, 3), np.int32),
    np.random.default_rng(2).normal(size=(BATCHES, POINTS, 3)).astype(np.float32),
    CELLS,
)
# One cell of each kind that a mistake is about, so that chance decides nothing.
RIGHT.indices[0, :2] = [[0, CELLS - 1, 256], [7, 7, 9]]


@pytest.mark.parametrize(("name", "change"), [(name, change) for name, _, change in WRONG_TRIPLES])
def test_a_mistake_changes_something_and_keeps_types_and_range(name, change):
    wrong = change(RIGHT)
    assert (wrong.indices.shape, wrong.weights.shape) == (RIGHT.indices.shape, RIGHT.weights.shape)
    assert wrong.weights.dtype == np.float32
    assert wrong.indices.min() >= 0
    assert wrong.indices.max() < CELLS
    assert (wrong.indices != RIGHT.indices).any() or (wrong.weights != RIGHT.weights).any()


def test_no_two_mistakes_are_the_same():
    made = [change(RIGHT) for _, _, change in WRONG_TRIPLES]
    assert len({(wrong.indices.tobytes(), wrong.weights.tobytes()) for wrong in made}) == len(WRONG_TRIPLES)


@pytest.mark.parametrize(
    ("name", "indices", "weights"),
    [
        ("next_weight", [4, 4, 9], [3, 1, 2]),
        ("weights_sum_to_one", [4, 4, 9], [1, 2, -2]),
        ("repeated_once", [4, 4, 9], [1, 0, 3]),
        ("second_left_out", [4, 4, 9], [1, 0, 3]),
        ("from_one", [3, 3, 8], [1, 2, 3]),
        ("last_cell_clipped", [4, 4, 8], [1, 2, 3]),
        ("tile_base_lost", [4, 4, 9], [1, 2, 3]),
        ("indices_sorted", [4, 4, 9], [1, 2, 3]),
        ("weights_within_1", [4, 4, 9], [1, 1, 1]),
    ],
)
def test_what_one_point_becomes(name, indices, weights):
    change = next(change for known, _, change in WRONG_TRIPLES if known == name)
    wrong = change(Entries(np.array([[[4, 4, 9]]], np.int32), np.array([[[1, 2, 3]]], np.float32), 10))
    assert (wrong.indices.tolist(), wrong.weights.tolist()) == ([[indices]], [[weights]])
