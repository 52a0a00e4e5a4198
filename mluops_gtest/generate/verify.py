"""Stored baselines recomputed from stored inputs."""

import numpy as np

from mluops_gtest.errors import UndefinedCallError
from mluops_gtest.model.baselines import baseline_of
from mluops_gtest.model.binding import bind_values, expected_results, owned_rows
from mluops_gtest.model.case import Case
from mluops_gtest.model.dtypes import Array, DType
from mluops_gtest.model.operator import CheckVerdict, Operator


def verify_case(case: Case, operator: Operator) -> list[str]:
    """How the stored answer differs from the reference's, in words; empty when it does not."""
    call = bind_values(case, operator)
    answer = operator.answer(call)
    expect = case.expect
    if answer.status != expect.status or (expect.check is not None and answer.check != expect.check):
        return [f"expects {_words(CheckVerdict(expect.status, expect.check))}, the checks say {_words(answer)}"]
    if not answer.computes or not case.baseline_stored:
        return []
    try:
        broken = operator.broken(call)
        if broken is not None:
            raise UndefinedCallError(case.id, operator.name, broken)
        baseline = baseline_of(operator, call)
    except (ValueError, AssertionError, LookupError, TypeError, ArithmeticError, MemoryError) as error:
        # A user's file may hold anything: rows that do not exist, lists of another length.
        return [f"the reference cannot work with the stored inputs: {type(error).__name__}: {error}"]
    found = []
    counts = {**baseline.scalars, **{name: int(baseline.outputs[name].reshape(-1)[0]) for name in operator.counts}}
    for tensor in case.outputs:
        if tensor.data is None:
            found.append(f"{tensor.id}: no stored values")
            continue
        # Behind the rows that the operator owns a file may hold anything.
        rows = owned_rows(operator.output(tensor.id), counts)
        unequal = _unequal(tensor.values, baseline.outputs[tensor.id], tensor.desc.dtype, rows)
        if unequal:
            found.append(f"{tensor.id}: {unequal} of {tensor.desc.count} elements differ")
    stored = expected_results(case, operator)
    found += [
        f"{name}: stored {stored[name]}, recomputed {value}"
        for name, value in baseline.scalars.items()
        if name in stored and stored[name] != value
    ]
    return found


def _unequal(stored: Array, recomputed: Array, dtype: DType, rows: int | None) -> int:
    """Elements of the leading rows whose bits differ; NaNs are equal whatever their payload, which arithmetic leaves
    open."""
    if stored.shape != recomputed.shape:
        return max(stored.size, recomputed.size, 1)
    left, right = (np.ascontiguousarray(array[:rows]).reshape(-1) for array in (stored, recomputed))
    differing = left.view(dtype.bits) != right.view(dtype.bits)
    if dtype.is_float and differing.any():
        differing &= ~(np.isnan(left) & np.isnan(right))
    return int(np.count_nonzero(differing))


def _words(answer: CheckVerdict) -> str:
    return f"{answer.status.name}{f' ({answer.check})' if answer.check else ''}"
