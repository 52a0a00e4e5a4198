"""The adapter to a shared library with the C API of the operators, on a device or on host memory."""

from mluops_gtest.backends.c_library.backend import CLibraryBackend

__all__ = ["CLibraryBackend"]
