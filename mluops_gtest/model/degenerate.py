"""The part of an output that the operator owns, and baselines that prove little: constant, all zero, one element."""

from collections.abc import Iterable, Mapping

from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.operator import Operator, OutputSpec
from mluops_gtest.model.tensor import Tensor


def row_counts(operator: Operator, outputs: Iterable[Tensor], results: Mapping[str, int]) -> dict[str, int]:
    """What says how many rows are owned: the scalar results, and the right values of outputs that count."""
    counting = (tensor for tensor in outputs if tensor.id in operator.counts and tensor.data is not None)
    return {**results, **{tensor.id: int(tensor.values.reshape(-1)[0]) for tensor in counting}}


def owned_rows(spec: OutputSpec, counts: Mapping[str, int]) -> int | None:
    """How many leading rows the operator owns; None: all."""
    return None if spec.rows_owned is None else counts.get(spec.rows_owned)


def proves_little(tensor: Tensor, operator: Operator, counts: Mapping[str, int]) -> bool:
    """What the operator owns of this baseline is constant; an output that counts rows is one number by its nature."""
    if tensor.id in operator.counts:
        return False
    return is_constant(tensor.values[: owned_rows(operator.output(tensor.id), counts)].reshape(-1))


def is_constant(values: Array) -> bool:
    """Every element has the bits of the first; an array without elements is not called constant."""
    if values.size == 0:
        return False
    bits = values.view(f"V{values.itemsize}") if values.itemsize > 8 else values.view(f"u{values.itemsize}")
    # The last element settles almost every array without looking at the rest.
    return bool(bits[-1] == bits[0] and (bits == bits[0]).all())
