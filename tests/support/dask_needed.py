"""What tests that run cases on a Dask cluster share: the mark."""

import importlib.util
import os

import pytest

# A machine that must run everything fails where Dask is missing instead of skipping.
needs_dask = [
    pytest.mark.needs_dask,
    pytest.mark.skipif(
        importlib.util.find_spec("distributed") is None and os.environ.get("MLUOPS_TEST_REQUIRE_ALL") != "1",
        reason="dask.distributed is not installed: pip install 'mluops-test[dask]'",
    ),
]
