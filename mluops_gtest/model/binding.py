"""A case and its buffers bound into the call that a backend gets; which rows of its outputs the operator owns."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

import numpy as np

from mluops_gtest.errors import HarnessError, OperatorError
from mluops_gtest.model.call import DEFAULT_ARCH, DEFAULT_NRAM_BYTES, Handle, OpCall, Params, TensorArg
from mluops_gtest.model.case import BUFFER_LIMIT, Case, Expect
from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.operator import Operator, OutputSpec, raised_by, source_of
from mluops_gtest.model.tensor import Tensor, TensorDesc

T = TypeVar("T")


def asked(operator: Operator, function: object, ask: Callable[[OpCall], T], call: OpCall, which: str) -> T:
    """What `ask` gives for the call, `which` in words; `function` is where the operator's code is."""
    try:
        return ask(call)
    except HarnessError:
        raise
    except Exception as error:
        raise OperatorError(
            f"{source_of(function)}: {operator.name} fails on {which}: {raised_by(error, function)}. "
            "Checks answer every call, in their order; the precondition and the reference every call that they let "
            "pass."
        ) from error


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


# A zero of any type.
_ZERO: Final = bytes(16)


def bind(
    case: Case,
    operator: Operator,
    inputs: Mapping[str, Array | None],
    outputs: Mapping[str, Array | None],
    workspace: Array | None = None,
    workspace_size: int = 0,
) -> OpCall:
    """The call of this case with these buffers: nulls and handle as the case asks, results withheld."""
    expect = case.expect
    # 0 is a value, too: no device is older, none has less memory.
    arch = DEFAULT_ARCH if expect.arch is None else expect.arch
    nram_bytes = DEFAULT_NRAM_BYTES if expect.nram_bytes is None else expect.nram_bytes
    handle = Handle(arch, nram_bytes)
    return OpCall(
        operator=case.operator,
        params=_visible_params(case, operator),
        inputs=_arguments(case, case.inputs, inputs),
        outputs=_arguments(case, case.outputs, outputs),
        handle=None if expect.null_handle else handle,
        workspace=None if "workspace" in expect.null_pointer else workspace,
        workspace_size=workspace_size if expect.workspace_size is None else expect.workspace_size,
        size_null="size" in expect.null_pointer,
    )


def bind_values(case: Case, operator: Operator) -> OpCall:
    """The call with the case's input values; outputs and workspace exist on paper only: for checks and references."""
    paper = {tensor.id: _on_paper(tensor.desc) for tensor in case.outputs if not tensor.desc.is_large}
    values = {tensor.id: tensor.values if tensor.data is not None else None for tensor in case.inputs}
    return bind(case, operator, values, paper, workspace=np.empty(0, np.uint8))


def _on_paper(desc: TensorDesc) -> Array:
    """Zeros that are one zero, read only: as np.broadcast_to makes them, at a tenth of its price."""
    return np.ndarray(desc.dims, desc.dtype.storage, _ZERO, strides=(0,) * len(desc.dims))


def expected_results(case: Case, operator: Operator) -> dict[str, int]:
    """The scalar results that the case stores, e.g. num_act_out; those it does not store are absent."""
    found = {name: case.params.get(name) for name in operator.results}
    return {name: value for name, value in found.items() if isinstance(value, int)}


def has_buffer(case: Case, tensor: Tensor) -> bool:
    """The tensor gets a buffer."""
    return gets_buffer(case.expect, tensor.desc, has_values=tensor.data is not None)


def gets_buffer(expect: Expect, desc: TensorDesc, *, has_values: bool) -> bool:
    """In a case that expects a status a large tensor without values is a descriptor alone."""
    if desc.is_large:
        return False
    special = expect.check is not None or expect.status != 0
    return has_values or not special or desc.nbytes <= BUFFER_LIMIT


def _arguments(
    case: Case, tensors: Iterable[Tensor], arrays: Mapping[str, Array | None]
) -> dict[str, TensorArg | None]:
    expect = case.expect
    arguments: dict[str, TensorArg | None] = {}
    for tensor in tensors:
        null = tensor.id in expect.null_pointer
        array = None if null else arrays.get(tensor.id)
        absent = tensor.id in expect.null_descriptor
        arguments[tensor.id] = None if absent else TensorArg(tensor.desc, array, null)
    return arguments


def _visible_params(case: Case, operator: Operator) -> Params | None:
    if operator.params_descriptor in case.expect.null_descriptor:
        return None
    results = operator.results
    return {
        name: None if name in case.expect.null_pointer else value
        for name, value in case.params.items()
        if name not in results
    }
