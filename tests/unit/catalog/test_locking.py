"""The lock line of a case survives being written and read, whatever its parameters are."""

import math

import pytest

from mluops_gtest.casefiles.lock import read_lock, write_lock
from mluops_gtest.catalog.make import lock_entry, same_values
from mluops_gtest.core.case import Case


@pytest.mark.parametrize("value", [0.5, -0.0, math.inf, -math.inf, math.nan, (1.0, math.nan), "word", True, None])
def test_a_line_equals_itself_after_it_was_written(tmp_path, value):
    case = Case("toy/a", "toy", (), (), {"radius": value}, ())
    entry = lock_entry(case, "declared")
    write_lock(tmp_path / "baselines.lock", [entry])
    assert read_lock(tmp_path / "baselines.lock") == {"toy/a": entry}
    assert same_values(case, entry)
