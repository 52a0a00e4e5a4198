"""The lock line of a case: digests of its values, and its descriptors so that lists need no values."""

import math
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from mluops_gtest.codec.lock import LockedTensor, LockEntry
from mluops_gtest.model.case import Case, CaseDraft
from mluops_gtest.model.criterion import Criterion
from mluops_gtest.model.digest import digest_tensors
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.tensor import Tensor


def lock_entry(case: Case, declared: str, stored: str = "") -> LockEntry:
    """What the lock file records of a case, with the digests of its declaration and of its committed file."""
    return LockEntry(
        id=case.id,
        declared=declared,
        stored=stored,
        inputs=digest_tensors(case.inputs),
        baseline=digest_tensors(case.outputs),
        tensors={"inputs": _described(case.inputs), "outputs": _described(case.outputs)},
        params=_plain_params(case),
        degenerate=case.expect.degenerate or "",
    )


def same_values(case: Case, locked: LockEntry) -> bool:
    """Inputs and parameters are those of the lock's line."""
    return _plain_params(case) == locked.params and digest_tensors(case.inputs) == locked.inputs


def declared_criteria(
    draft: CaseDraft, operator: Operator, outputs: Iterable[Tensor]
) -> tuple[tuple[Criterion, ...], ...]:
    """What each output is held to: by the declaration, else by the operator."""
    return tuple(
        draft.criteria.get(tensor.id) or operator.output(tensor.id).criteria.get(tensor.desc.dtype, ())
        for tensor in outputs
    )


def as_declared(case: Case, draft: CaseDraft, operator: Operator) -> Case:
    """A case from its file, with what the declaration says: tags, document, criteria, why the baseline is constant.

    The file in a cache may be older than the criteria.
    """
    expect, degenerate = case.expect, draft.expect.degenerate
    if expect.degenerate != degenerate:
        expect = replace(expect, degenerate=degenerate)
    criteria = declared_criteria(draft, operator, case.outputs)
    return replace(case, tags=draft.tags, doc=draft.doc, expect=expect, criteria=criteria, declared=True)


def _plain_params(case: Case) -> dict[str, Any]:
    return {name: _plain(value) for name, value in case.params.items()}


def _plain(value: Any) -> Any:
    """JSON has no number that is not finite, and NaN would equal no line of the lock: the word stands for it."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _described(tensors: Iterable[Tensor]) -> list[LockedTensor]:
    described = []
    for tensor in tensors:
        desc = tensor.desc
        line: LockedTensor = {
            "id": tensor.id,
            "dtype": desc.dtype.value,
            "layout": desc.layout.value,
            "dims": list(desc.dims),
        }
        if desc.strides is not None:
            line["strides"] = list(desc.strides)
        described.append(line)
    return described
