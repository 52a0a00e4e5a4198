"""Mistakes that an operator suspects: what its reference says of a call that is read in a wrong way."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from mluops_gtest.core.call import OpCall
from mluops_gtest.core.declaration import Baseline
from mluops_gtest.core.tensor import Array

Suspect = Callable[[OpCall], Mapping[str, Array]]


def with_params(call: OpCall, **params: Any) -> OpCall:
    """The call with these parameters instead of its own."""
    return replace(call, params={**(call.params or {}), **params})


def with_inputs(call: OpCall, **arrays: Array) -> OpCall:
    """The call with these values instead of its own, each of its tensor's shape and type."""
    changed = {name: replace(call.tensor(name), array=array) for name, array in arrays.items()}
    return replace(call, inputs={**call.inputs, **changed})


def misread(**changes: Callable[[Array], Array]) -> Callable[[OpCall], OpCall]:
    """Makes of a call the one with these of its inputs changed."""

    def read(call: OpCall) -> OpCall:
        arrays = {name: np.ascontiguousarray(change(call.array(name))) for name, change in changes.items()}
        return with_inputs(call, **arrays)

    return read


def as_read(reference: Callable[[OpCall], Baseline], change: Callable[[OpCall], OpCall | None]) -> Suspect:
    """What the reference says of the call as `change` gives it; nothing where that is None."""

    def outputs(call: OpCall) -> Mapping[str, Array]:
        read = change(call)
        return {} if read is None else reference(read).outputs

    return outputs
