"""A case in the few words that a report needs."""

from collections.abc import Iterable

from mluops_gtest.model.case import Case
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
        reseeded=case.reseeded,
    )


def _described(tensors: Iterable[Tensor]) -> tuple[TensorInfo, ...]:
    return tuple(TensorInfo(t.id, t.desc.dtype.value, t.desc.layout.value, t.desc.dims) for t in tensors)


def _plain(value: object) -> object:
    if not isinstance(value, tuple):
        return value
    if len(value) <= _MAX_VALUES:
        return list(value)
    return f"{list(value[:_MAX_VALUES])} and {len(value) - _MAX_VALUES} more"
