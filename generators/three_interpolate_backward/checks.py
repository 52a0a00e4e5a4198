"""The parameter checks in their normative order; the device's architecture is not among them."""

from .._shared.interpolation import exclusive_checks, interpolation_checks

TENSORS = ("grad_output", "indices", "weights", "grad_features")

# §1.3 prints grad_features as [B, C, N]; §1.4's [B, C, M] is right, and M is known from it alone.
CHECKS = interpolation_checks("grad_output", "grad_features", points="grad_output", cells="grad_features")

NOT_TOGETHER = exclusive_checks("grad_output", "grad_features")
