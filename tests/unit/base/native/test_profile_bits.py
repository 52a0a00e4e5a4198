"""Profiles of the C library and of numpy are equal in every bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mluops_gtest.base.native.library import native_library, numpy_alone
from mluops_gtest.core.tensor import DType
from mluops_gtest.judging.blocks import profile_of

pytestmark = pytest.mark.skipif(native_library() is None, reason="there is no native core")


@given(st.data(), st.sampled_from([DType.FLOAT, DType.HALF, DType.BFLOAT16, DType.DOUBLE]))
def test_both_see_the_same(data, dtype):
    shape = data.draw(st.sampled_from([(1,), (17,), (3, 5), (2, 3, 70), (130, 3), (700,)]))
    patterns = arrays.arrays(dtype.bits, shape, elements=arrays.from_dtype(dtype.bits), fill=st.nothing())
    baseline = data.draw(arrays.arrays(dtype.bits, shape)).view(dtype.storage)
    evaluated = data.draw(patterns if np.prod(shape) < 20 else arrays.arrays(dtype.bits, shape)).view(dtype.storage)
    natively = profile_of("y", evaluated, baseline, dtype)
    with numpy_alone():
        assert profile_of("y", evaluated, baseline, dtype) == natively


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
def test_both_see_the_same_where_everything_differs(dtype):
    random = np.random.default_rng(5)
    baseline = random.standard_normal((61, 333)).astype(dtype.storage)
    evaluated = (baseline * (1 + np.exp2(random.uniform(-35, 5, baseline.shape)))).astype(dtype.storage)
    evaluated.reshape(-1)[[0, 7]] = np.nan, -np.inf
    natively = profile_of("y", evaluated, baseline, dtype)
    with numpy_alone():
        assert profile_of("y", evaluated, baseline, dtype) == natively
