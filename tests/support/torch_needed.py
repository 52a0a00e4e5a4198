"""The mark of tests that compute with torch."""

import importlib.util
import os

import pytest

needs_torch = [
    pytest.mark.needs_torch,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None and os.environ.get("MLUOPS_TEST_REQUIRE_ALL") != "1",
        reason="torch is not installed: pip install 'mluops-test[torch]'",
    ),
]
