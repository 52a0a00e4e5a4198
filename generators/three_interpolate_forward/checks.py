"""The parameter checks in their normative order; the device's architecture is not among them."""

from .._shared.interpolation import exclusive_checks, interpolation_checks

TENSORS = ("features", "indices", "weights", "output")

CHECKS = interpolation_checks("features", "output", points="output", cells="features")

NOT_TOGETHER = exclusive_checks("features", "output")
