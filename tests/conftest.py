"""What all tests share: the content of this checkout, and a cache folder of their own."""

import os
from pathlib import Path

import pytest

from mluops_gtest.content.catalogue import Catalogue
from mluops_gtest.content.root import Root

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """Tests neither use nor fill the user's cache; the workers of one run share a folder."""
    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent
    before = os.environ.get("MLUOPS_TEST_CACHE")
    os.environ["MLUOPS_TEST_CACHE"] = str(shared / "cases-cache")
    yield
    if before is None:
        del os.environ["MLUOPS_TEST_CACHE"]
    else:
        os.environ["MLUOPS_TEST_CACHE"] = before


@pytest.fixture(scope="session")
def catalogue():
    return Catalogue(Root(ROOT))


@pytest.fixture(scope="session")
def operators(catalogue):
    return catalogue.operators
