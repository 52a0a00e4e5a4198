"""The adapter to the operators' torch kernels: a second opinion, and a competitor in time."""

from mluops_gtest.backends.torch_backend.backend import TorchBackend

__all__ = ["TorchBackend"]
