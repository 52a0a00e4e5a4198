"""Baselines that prove little: constant, all zero, one element."""

from collections.abc import Mapping

from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.operator import OutputSpec
from mluops_gtest.model.tensor import Tensor


def owned_rows(spec: OutputSpec, results: Mapping[str, int]) -> int | None:
    """How many leading rows the operator owns; None: all."""
    return None if spec.rows_owned is None else results.get(spec.rows_owned)


def owned(tensor: Tensor, spec: OutputSpec, results: Mapping[str, int]) -> Array:
    """The values that the operator owns, flat."""
    return tensor.values[: owned_rows(spec, results)].reshape(-1)


def is_constant(values: Array) -> bool:
    """Every element has the bits of the first; an array without elements is not called constant."""
    if values.size == 0:
        return False
    bits = values.view(f"V{values.itemsize}") if values.itemsize > 8 else values.view(f"u{values.itemsize}")
    # The last element settles almost every array without looking at the rest.
    return bool(bits[-1] == bits[0] and (bits == bits[0]).all())
