"""What a standalone file has to know of a case: tensors, what must come back, why it fails."""

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import numpy as np
from msgspec.structs import replace

from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.frozen import Value
from mluops_gtest.cli.standalone import Shown
from mluops_gtest.core.binding import bind_values, has_buffer, owned_rows
from mluops_gtest.core.call import Status
from mluops_gtest.core.cause import BeyondBound
from mluops_gtest.core.operator_parts import C_API, CApi
from mluops_gtest.core.tensor import Array, Criterion, Tensor
from mluops_gtest.judging.elementwise_check import Expectation, expectation_of


class TensorFacts(Value):
    """One tensor of the call; arrays are flat."""

    name: str
    tensor: Tensor
    is_output: bool
    # The descriptor, or the data pointer, is null; a large descriptor has no buffer.
    absent: bool
    null: bool
    has_buffer: bool
    # Of an input.
    values: Array | None = None
    may_become: Array | None = None
    # Of an output: what it must hold in its first elements; None: it must stay as it was.
    expected: Array | None = None
    preset: int | None = None
    kept: Array | None = None
    criteria: tuple[Criterion, ...] = ()
    # An element and what it may be off by.
    allowed: tuple[int, float] | None = None


class Facts(Value):
    """Everything about the call and its answer."""

    shown: Shown
    expectation: Expectation
    tensors: tuple[TensorFacts, ...]

    @property
    def computes(self) -> bool:
        return self.expectation.answer.computes

    @property
    def params(self) -> dict[str, Any] | None:
        """As the backend gets them: without results, None where the descriptor is null."""
        params = bind_values(self.shown.case, self.shown.operator).params
        return None if params is None else dict(params)

    @property
    def why(self) -> str:
        """How it failed, in a line."""
        result = self.shown.result
        return " ".join(f"{result.outcome.words['en']}: {result.reason}".split())


def facts_of(shown: Shown) -> Facts:
    """What is known of the case, gathered."""
    expectation = expectation_of(shown.case, shown.operator)
    return Facts(shown, expectation, tuple(_tensors(shown, expectation)))


def template(name: str) -> str:
    """The fixed part of a file."""
    return files("mluops_gtest.cli").joinpath("templates", "standalone", f"{name}.txt").read_text(encoding="utf-8")


def filled(text: str, holes: Mapping[str, str]) -> str:
    """The text with a value for each hole, one after the other."""
    for hole, value in holes.items():
        text = text.replace(hole, value)
    return text


def owed_by_query(shown: Shown, function: str) -> dict[bool, Status | None]:
    """What the workspace query owes to the call; under True to one without a pointer to the size, if it is made."""
    call = bind_values(shown.case, shown.operator)
    calls = {size_null: replace(call, size_null=size_null) for size_null in (False, call.size_null)}
    owed = {size_null: shown.operator.query_answer(function, one) for size_null, one in calls.items()}
    return {size_null: None if answer is None else answer.status for size_null, answer in owed.items()}


def c_functions(shown: Shown) -> CApi:
    """How a library offers the operator; an error where nobody says it."""
    api = shown.operators.part(shown.operator.name, C_API)
    if not api:
        raise UsageError(f"{shown.operator.name} declares no C functions (c_api.py), so that no file can call them.")
    return api


def _tensors(shown: Shown, expectation: Expectation) -> Iterator[TensorFacts]:
    case, expect = shown.case, shown.case.expect
    for tensor in case.inputs:
        yield TensorFacts(
            tensor.id,
            tensor,
            is_output=False,
            absent=tensor.id in expect.null_descriptor,
            null=tensor.id in expect.null_pointer,
            has_buffer=has_buffer(case, tensor),
            values=tensor.data,
            may_become=_flat(expectation.allowed_input_changes.get(tensor.id)),
        )
    for number, tensor in enumerate(case.outputs):
        yield _output(shown, expectation, number, tensor)


def _output(shown: Shown, expectation: Expectation, number: int, tensor: Tensor) -> TensorFacts:
    case, expect, spec = shown.case, shown.case.expect, shown.operator.output(tensor.id)
    criteria = case.criteria[number] if number < len(case.criteria) else ()
    expected = None
    if expectation.answer.computes and criteria is not None and not tensor.desc.is_empty:
        rows = owned_rows(spec, expectation.counts)
        expected = np.ascontiguousarray(expectation.outputs[number].values[:rows]).reshape(-1)
    return TensorFacts(
        tensor.id,
        tensor,
        is_output=True,
        absent=tensor.id in expect.null_descriptor,
        null=tensor.id in expect.null_pointer,
        has_buffer=has_buffer(case, tensor),
        expected=expected,
        preset=spec.preset,
        kept=_kept(expectation.preserved_rows.get(tensor.id), tensor) if expectation.answer.computes else None,
        criteria=criteria or spec.criteria.get(tensor.desc.dtype, ()),
        allowed=_allowed(shown, tensor),
    )


def _flat(array: Array | None) -> Array | None:
    return None if array is None else np.ascontiguousarray(array).reshape(-1)


def _kept(kept: Array | None, tensor: Tensor) -> Array | None:
    """Of every element, not of leading axes alone."""
    if kept is None:
        return None
    spread = kept.reshape(kept.shape + (1,) * (len(tensor.desc.dims) - kept.ndim))
    return np.broadcast_to(spread, tensor.desc.dims).reshape(-1)


def _allowed(shown: Shown, tensor: Tensor) -> tuple[int, float] | None:
    """Of an output that fails by the element-wise check alone."""
    if not any(isinstance(cause, BeyondBound) and cause.output == tensor.id for cause in shown.result.causes):
        return None
    reading = next(one for one in shown.result.elements if one.output == tensor.id)
    return int(np.ravel_multi_index(reading.index, tensor.desc.dims)), reading.allowed
