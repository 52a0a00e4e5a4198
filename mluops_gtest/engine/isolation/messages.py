"""A call as a message: descriptors and offsets into shared memory; the tensors themselves are never copied."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mluops_gtest.model.call import Handle, OpCall, ParamValue, TensorArg
from mluops_gtest.model.dtypes import Array, DType, Layout
from mluops_gtest.model.tensor import TensorDesc

OffsetOf = Callable[[Array], int]
# The flat array of a tensor, by its name, its place in the arena, its dtype and its number of elements.
View = Callable[[str, int, "np.dtype[Any]", int], Array]


def call_message(call: OpCall, tensors: OffsetOf, workspace: OffsetOf) -> dict[str, Any]:
    """The call for a worker; `tensors` and `workspace` say where an array lies in their arenas."""
    return {
        "operator": call.operator,
        "params": None if call.params is None else dict(call.params),
        "inputs": _arguments(call.inputs, tensors),
        "outputs": _arguments(call.outputs, tensors),
        "handle": None if call.handle is None else [call.handle.arch, call.handle.nram_bytes],
        "workspace": None if call.workspace is None else [workspace(call.workspace), call.workspace.size],
        "workspace_size": call.workspace_size,
        "size_null": call.size_null,
        "device": call.device,
    }


def view_of(slab: Array) -> View:
    """Arrays at their offsets in a slab."""

    def view(_name: str, offset: int, dtype: "np.dtype[Any]", count: int) -> Array:
        return np.frombuffer(slab.data, dtype, count, offset)

    return view


def call_from(message: Mapping[str, Any], tensors: View, workspace: View) -> OpCall:
    """The call on the worker's own view of the shared memory."""
    place = message["workspace"]
    return OpCall(
        operator=message["operator"],
        params=None if message["params"] is None else {k: _plain(v) for k, v in message["params"].items()},
        inputs={name: _argument(name, line, tensors) for name, line in message["inputs"].items()},
        outputs={name: _argument(name, line, tensors) for name, line in message["outputs"].items()},
        handle=None if message["handle"] is None else Handle(*message["handle"]),
        workspace=None if place is None else workspace("workspace", place[0], np.dtype(np.uint8), place[1]),
        workspace_size=message["workspace_size"],
        size_null=message["size_null"],
        device=message["device"],
    )


def _arguments(arguments: Mapping[str, TensorArg | None], place: OffsetOf) -> dict[str, Any]:
    return {name: None if arg is None else _line(arg, place) for name, arg in arguments.items()}


def _line(arg: TensorArg, place: OffsetOf) -> list[Any]:
    desc = arg.desc
    offset = None if arg.array is None else place(arg.array)
    return [desc.dtype.value, desc.layout.value, desc.dims, desc.strides, offset, arg.null]


def _argument(name: str, line: Any, view: View) -> TensorArg | None:
    if line is None:
        return None
    dtype, layout, dims, strides, offset, null = line
    desc = TensorDesc(
        DType.named(dtype), Layout.named(layout), tuple(dims), None if strides is None else tuple(strides)
    )
    if offset is None:
        return TensorArg(desc, None, null)
    return TensorArg(desc, desc.view(view(name, offset, desc.dtype.storage, desc.extent)), null)


def _plain(value: Any) -> ParamValue:
    result: ParamValue = tuple(value) if isinstance(value, list) else value
    return result
