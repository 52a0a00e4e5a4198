"""What kernels refuse by checks of their own: conditions in order, each with its status."""

from collections.abc import Iterator

from mluops_gtest.authoring import OpCall, Status, TensorArg

# Later conditions are not evaluated where one holds.
Refusals = Iterator[tuple[bool, Status]]


def first_status(refusals: Refusals) -> Status | None:
    """The status of the first condition that holds; None where the call must be computed."""
    return next((status for holds, status in refusals if holds), None)


def tensors_of(call: OpCall) -> list[TensorArg]:
    """Inputs, then outputs; without those whose descriptor is null."""
    return [arg for arg in (*call.inputs.values(), *call.outputs.values()) if arg is not None]
