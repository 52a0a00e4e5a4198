"""The call that a case makes."""

import pytest

from mluops_gtest.catalog.root import builtin_root
from mluops_gtest.catalog.selection import Catalogue
from mluops_gtest.core.buffers import bind
from mluops_gtest.core.call import DEFAULT_ARCH, DEFAULT_NRAM_BYTES
from mluops_gtest.core.case import Case, Expect


@pytest.mark.parametrize(
    ("expect", "arch", "nram_bytes"),
    [
        (Expect(), DEFAULT_ARCH, DEFAULT_NRAM_BYTES),
        (Expect(arch=270), 270, DEFAULT_NRAM_BYTES),
        (Expect(arch=0, nram_bytes=0), 0, 0),
    ],
)
def test_the_handle_is_as_the_case_asks(expect, arch, nram_bytes):
    operator = Catalogue(builtin_root()).operators["voxel_pooling_forward"]
    call = bind(Case("id", operator.name, (), (), {}, (), expect), operator, {}, {})
    assert call.handle is not None
    assert (call.handle.arch, call.handle.nram_bytes) == (arch, nram_bytes)
