"""A call as plain JSON values: everything that OpCall has, with file names where it has buffers."""

from typing import Any, Final

from mluops_gtest.model.call import OpCall, TensorArg
from mluops_gtest.model.dtypes import Array

FORMAT: Final = 1
# Values of `data` without a file: the pointer is null, or valid but must not be read.
NULL: Final = "null"
NONE: Final = "none"
_SUFFIX: Final = {"input": "in", "output": "out"}


def call_to_json(call: OpCall) -> dict[str, Any]:
    """The description of the call; values stay out, `data` names the file that holds them or is to hold them."""
    return {
        "format": FORMAT,
        "operator": call.operator,
        "handle": None if call.handle is None else {"arch": call.handle.arch, "nram_bytes": call.handle.nram_bytes},
        "device": call.device,
        "workspace": {"size": call.workspace_size, "null": call.workspace is None},
        "params": None
        if call.params is None
        else {name: list(value) if isinstance(value, tuple) else value for name, value in call.params.items()},
        "tensors": [
            _tensor(role, name, arg)
            for role, args in (("input", call.inputs), ("output", call.outputs))
            for name, arg in args.items()
        ],
        "scalars": dict(call.scalars),
    }


def _tensor(role: str, name: str, arg: TensorArg | None) -> dict[str, Any]:
    tensor: dict[str, Any] = {"id": name, "role": role, "descriptor": None, "data": NONE}
    if arg is None:
        return tensor
    tensor["descriptor"] = {
        "dtype": arg.dtype.value,
        "layout": arg.layout.value,
        "dims": list(arg.dims),
        "strides": None if arg.strides is None else list(arg.strides),
    }
    if arg.null:
        tensor["data"] = NULL
    elif arg.array is not None:
        tensor["data"] = f"{name}.{_SUFFIX[role]}"
        tensor["bytes"] = arg.desc.nbytes
        if role == "output" and arg.array.size:
            tensor |= _filling(arg.array.view(arg.dtype.bits))
    return tensor


def _filling(bits: Array) -> dict[str, str]:
    """One element, poison or preset, fills the whole buffer, unless some rows keep what the caller preset."""
    first = bits.flat[0]
    return {"fill": first.tobytes().hex()} if (bits == first).all() else {}
