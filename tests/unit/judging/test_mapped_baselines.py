"""A large baseline lies in a mapped file: whoever has compared a part of it keeps none of it in memory."""

import mmap

import numpy as np
import pytest

from mluops_gtest.base.files import mapped
from mluops_gtest.core.buffers import first_difference
from mluops_gtest.core.operator import Bound
from mluops_gtest.core.tensor import CriterionKind, DType
from mluops_gtest.judging.blocks import profile_of
from mluops_gtest.judging.criteria import compare
from mluops_gtest.judging.elementwise import element_errors
from tests.support.resident import resident

pytestmark = pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="the system cannot be told to drop pages")

COUNT = 1 << 21


@pytest.fixture
def values(tmp_path):
    path = tmp_path / "values.bin"
    np.arange(1, COUNT + 1, dtype="<f4").tofile(path)
    with path.open("rb") as file:
        return np.frombuffer(mapped(file.fileno()), "<f4").reshape(2, -1)


PASSES = {
    "compare": lambda values, other: compare(other, values, DType.FLOAT, (CriterionKind.DIFF1,)),
    "profile": lambda values, other: profile_of("output", other, values, DType.FLOAT),
    "element-wise check": lambda values, other: element_errors(other, values, DType.FLOAT, Bound(values, 3)),
    "inputs": lambda values, other: first_difference(*(one.reshape(-1).view(np.uint8) for one in (other, values))),
}


@pytest.mark.parametrize("name", PASSES)
def test_what_was_compared_is_let_go(values, name):
    other = values + np.float32(0.5) if name != "inputs" else values.copy()
    assert resident(values) > values.nbytes // 2
    PASSES[name](values, other)
    assert resident(values) < values.nbytes // 8
