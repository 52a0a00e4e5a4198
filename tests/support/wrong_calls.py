"""Calls with one thing changed at a time, for tests of what answers a call that is wrong."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from mluops_gtest.authoring import DType, Layout, OpCall, TensorArg

Change = Callable[[OpCall, random.Random], OpCall]
# Elements up to which a tensor gets a buffer.
AFFORDABLE = 10_000


def put(call: OpCall, name: str, argument: TensorArg | None) -> OpCall:
    """The call with another argument for one tensor."""
    side = "inputs" if name in call.inputs else "outputs"
    return replace(call, **{side: {**getattr(call, side), name: argument}})


def with_params(call: OpCall, **changes: object) -> OpCall:
    return replace(call, params={**call.params, **changes})


def mutated(
    call: OpCall, rng: random.Random, others: Sequence[Change] = (), lengths: Sequence[int] = (0, 1, 2, 5, 2**31)
) -> OpCall:
    """The call with one thing changed, usually for the worse: a null, the device, one property of a descriptor.

    A descriptor that is null stays so. `others` change what only this operator has.
    """
    name = rng.choice([*call.inputs, *call.outputs])
    argument = {**call.inputs, **call.outputs}[name]
    kind = rng.choice(("handle", "workspace", "null", *("descriptor",) * 4, *others))
    match kind:
        case "handle":
            arch = rng.choice((None, 200, 270, 290, 370))
            return replace(
                call, handle=None if arch is None or call.handle is None else replace(call.handle, arch=arch)
            )
        case "workspace":
            return replace(call, workspace_size=rng.choice((0, 1)), workspace=rng.choice((None, np.empty(1, "u1"))))
        case "null" if argument is not None:
            return put(call, name, rng.choice((None, replace(argument, array=None, null=True))))
        case "descriptor" if argument is not None:
            return put(call, name, redescribed(argument, rng, lengths))
        case str():
            return call
    return kind(call, rng)


def redescribed(arg: TensorArg, rng: random.Random, lengths: Sequence[int]) -> TensorArg:
    """Another rank, length, dtype, layout or stride; zeros behind it where that is affordable."""
    dims = list(arg.dims)
    axis = rng.randrange(len(dims))
    desc = replace(arg.desc, strides=None)
    match rng.choice(("rank", "dim", "dim", "dim", "dtype", "layout", "strides")):
        case "rank":
            desc = desc.resized(tuple(rng.choice(([*dims, 1], dims[1:] or [1]))))
        case "dim":
            dims[axis] = rng.choice((*lengths, dims[axis] + 1, max(dims[axis] - 1, 0)))
            desc = desc.resized(tuple(dims))
        case "dtype":
            desc = replace(desc, dtype=rng.choice((DType.HALF, DType.FLOAT, DType.INT32, DType.INT64, DType.DOUBLE)))
        case "layout":
            desc = replace(desc, layout=rng.choice(list(Layout)))
        case "strides":
            desc = replace(desc, strides=tuple(rng.choice((1, 2, 9)) for _ in dims))
    affordable = not arg.null and desc.extent <= AFFORDABLE
    return replace(arg, desc=desc, array=desc.view(np.zeros(desc.extent, desc.dtype.storage)) if affordable else None)
