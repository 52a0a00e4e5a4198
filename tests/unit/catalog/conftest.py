"""The catalogue of a root with one tiny operator."""

import pytest

from mluops_gtest.catalog.root import Root
from mluops_gtest.catalog.selection import Catalogue
from tests.support.toy_root import write_toy_root


@pytest.fixture
def toy(tmp_path):
    return Catalogue(Root(write_toy_root(tmp_path)))
