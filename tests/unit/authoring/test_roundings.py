"""Wrong roundings are wrong where they should be, and nowhere else."""

import numpy as np
import pytest

from mluops_gtest.authoring.roundings import WRONG_COPIES, flushed, rounded_up_to_half, truncated_to_half

SMALLEST = 2.0**-24


@pytest.mark.parametrize(
    ("value", "truncated", "up"),
    [
        (0.25, 0, 0),
        (0.5, 0, 1),
        (0.75, 0, 1),
        (1.5, 1, 2),
        (2.5, 2, 3),
        (2.25, 2, 2),
        (1023.5, 1023, 1024),
        (1024.5, 1024, 1025),
        (2049, 2048, 2050),
        (7, 7, 7),
    ],
)
def test_halves_are_rounded_toward_zero_or_up_from_the_middle(value, truncated, up):
    exact = np.array([value, -value], np.float32) * np.float32(SMALLEST)
    assert truncated_to_half(exact).tolist() == [truncated * SMALLEST, -truncated * SMALLEST]
    assert rounded_up_to_half(exact).tolist() == [up * SMALLEST, -up * SMALLEST]


def test_what_half_does_not_reach_is_infinite_and_what_is_no_number_stays_so():
    values = np.array([1e6, -1e6, np.inf, -np.inf, np.nan], np.float32)
    assert truncated_to_half(values[:4]).tolist() == [np.inf, -np.inf, np.inf, -np.inf]
    assert np.isnan(truncated_to_half(values)[4])
    assert np.isnan(rounded_up_to_half(values)[4])
    assert rounded_up_to_half(values)[:4].tolist() == [np.inf, -np.inf, np.inf, -np.inf]


@pytest.mark.parametrize(("dtype", "smallest"), [(np.float16, 2.0**-14), (np.float32, 2.0**-126)])
def test_only_subnormal_numbers_are_flushed(dtype, smallest):
    values = np.array([smallest, -smallest, smallest / 2, -smallest / 2, 0, 1, np.inf, np.nan], dtype)
    result = flushed(values)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.array([smallest, -smallest, 0, 0, 0, 1, np.inf, np.nan], dtype))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_each_wrong_copy_changes_the_numbers_that_it_names_and_no_other(dtype):
    largest, tiny = np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal
    values = np.array([np.nan, np.inf, -np.inf, tiny, 1 + np.finfo(dtype).eps, largest, -0.0, 3], dtype)
    exact = dtype is np.float16
    changed = {
        "drops_nan": {0: 0},
        "clamps_infinity": {1: largest, 2: -largest},
        "flushes_denormals": {3: 0},
        "through_half": {} if exact else {3: 0, 4: 1, 5: np.inf},
    }
    for name, _, copy in WRONG_COPIES:
        expected = values.copy()
        for place, value in changed[name].items():
            expected[place] = value
        result = copy(values)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, expected)
