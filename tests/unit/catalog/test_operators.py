"""Operators loaded by several threads at once."""

import shutil
import time
from concurrent.futures import ThreadPoolExecutor

from mluops_gtest.catalog.operators import load_operators
from tests.conftest import ROOT


def test_the_same_operator_can_be_loaded_by_two_threads(tmp_path):
    """The second begins while the first is in the middle of one of its files."""
    folder = tmp_path / "generators" / "ball_query"
    for name in ("ball_query", "_shared"):
        shutil.copytree(ROOT / "generators" / name, folder.parent / name)
    with open(folder / "checks.py", "a") as file:
        file.write("\nimport time\n\ntime.sleep(0.3)\n")

    def load(seconds):
        time.sleep(seconds)
        return load_operators(tmp_path)["ball_query"].name

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(load, (0, 0.15))) == ["ball_query"] * 2
