"""Random numbers are the same, whoever draws them."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mluops_gtest.authoring import random
from mluops_gtest.authoring.random import Stream
from tests.support.examples import examples
from tests.support.native_core import NATIVE, NUMPY, going


def random_bytes(way: str, ask) -> bytes:
    with going(way):
        return ask(Stream(2024, "x")).tobytes()


@settings(derandomize=True, max_examples=examples(60), database=None)
@given(st.integers(0, 2**40), st.integers(0, 70))
def test_lanes_from_anywhere(start: int, count: int) -> None:
    assert random_bytes(NATIVE, lambda s: s.lanes(count, start)) == random_bytes(NUMPY, lambda s: s.lanes(count, start))


@pytest.mark.parametrize("dtype", ["<f4", "<f2"])
@pytest.mark.parametrize("scale", [None, 0, -3, 140, 149, 160])
def test_lattices_of_any_width_and_scale(dtype: str, scale: int | None) -> None:
    for bits in (1, 3, 11) if dtype == "<f2" else (1, 3, 11, 24):
        for count in (0, 1, 7, 8, 9, 1001):
            with np.errstate(all="ignore"):
                ask = partial(Stream.lattice, shape=count, bits=bits, scale=scale, dtype=dtype)
                ways = {random_bytes(way, ask) for way in (NATIVE, NUMPY)}
            assert len(ways) == 1


@pytest.mark.parametrize("threads", [1, 3])
def test_chunks_and_threads_change_nothing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = random_bytes(NUMPY, lambda s: s.lattice((10, 103), 11)), random_bytes(NUMPY, lambda s: s.lanes(1030, 5))
    monkeypatch.setattr(random, "_CHUNK", 64)
    monkeypatch.setattr(random, "_THREADS", threads)
    for way in (NATIVE, NUMPY):
        assert (
            random_bytes(way, lambda s: s.lattice((10, 103), 11)),
            random_bytes(way, lambda s: s.lanes(1030, 5)),
        ) == whole
