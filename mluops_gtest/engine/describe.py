"""A case in the few words that a report needs."""

from collections.abc import Iterable

from mluops_gtest.model.case import Case
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.result import CaseInfo, TensorInfo
from mluops_gtest.model.tensor import Tensor

# A long list of numbers tells a reader nothing; its head and length do.
_MAX_VALUES = 32


def case_info(case: Case) -> CaseInfo:
    """Descriptors, parameters and theoretical figures of the case."""
    return CaseInfo(
        inputs=_described(case.inputs),
        outputs=_described(case.outputs),
        params={name: _plain(value) for name, value in case.params.items()},
        doc=case.doc,
        theory_io_bytes=case.theory.get("theory_io_size"),
        theory_ops=case.theory.get("theory_compute_ops"),
        check=case.expect.check or "",
        reseeded=case.reseeded,
    )


def outputs_with_own_criteria(case: Case, operator: Operator) -> tuple[str, ...]:
    """The float outputs for which the case names other criteria than the operator's."""
    return tuple(
        tensor.id
        for tensor, criteria in zip(case.outputs, case.criteria, strict=True)
        if criteria
        and not tensor.desc.dtype.is_integer
        and criteria != operator.output(tensor.id).criteria.get(tensor.desc.dtype)
    )


def _described(tensors: Iterable[Tensor]) -> tuple[TensorInfo, ...]:
    return tuple(TensorInfo(t.id, t.desc.dtype.value, t.desc.layout.value, t.desc.dims) for t in tensors)


def _plain(value: object) -> object:
    if not isinstance(value, tuple):
        return value
    if len(value) <= _MAX_VALUES:
        return list(value)
    return f"{list(value[:_MAX_VALUES])} and {len(value) - _MAX_VALUES} more"
