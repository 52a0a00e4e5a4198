"""Conformance tests for accelerator operators: what a backend author needs is importable from here."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Backend", "Declined", "OpCall", "Status", "__version__"]

if TYPE_CHECKING:
    from mluops_gtest.model.backend import Backend
    from mluops_gtest.model.call import Declined, OpCall
    from mluops_gtest.model.status import Status

_HOME = {
    "Backend": "mluops_gtest.model.backend",
    "Declined": "mluops_gtest.model.call",
    "OpCall": "mluops_gtest.model.call",
    "Status": "mluops_gtest.model.status",
}


def __getattr__(name: str) -> Any:
    # Lazy, so that `mluops-test --help` and `--version` do not pay for numpy.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
