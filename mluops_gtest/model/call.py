"""What a backend sees: one call of an operator with buffers that the harness owns."""

from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from msgspec import field

from mluops_gtest.model.dtypes import Array, DType, Layout
from mluops_gtest.model.notes import REFUSALS_LIMIT, Notes
from mluops_gtest.model.status import Status
from mluops_gtest.model.tensor import TensorDesc
from mluops_gtest.value import Value

if TYPE_CHECKING:
    from mluops_gtest.model.cause import Cause

DEFAULT_ARCH = 590
DEFAULT_NRAM_BYTES = 655360
# The oldest architecture that the operators run on; anything older is a mismatch.
OLDEST_ARCH = 370

ParamValue = int | float | bool | str | tuple[int, ...] | tuple[float, ...] | None
Params = Mapping[str, ParamValue]


class UndefinedDataError(ValueError):
    """Raised by a reference that finds out what no precondition can tell beforehand: the document leaves it open."""


class Declined(Exception):  # noqa: N818 - the name is the public word for "I do not do this", not a fault
    """Raised by a backend that does not offer what the call asks; the case is skipped with this reason."""


class Violated(Exception):  # noqa: N818 - a finding about the kernel, not a fault of the adapter that tells it
    """Raised by a backend that keeps memory of its own and found it overrun; the case's outcome is memory."""

    def __init__(self, *findings: "Cause | str") -> None:
        super().__init__("; ".join(map(_said, findings)))
        self.findings = findings


class Crashed(Exception):  # noqa: N818 - tells how the kernel ended, not a fault of the adapter that tells it
    """Raised by a backend whose own child process died by a signal; the case's outcome is crashed."""

    def __init__(self, how: "Cause | str") -> None:
        super().__init__(_said(how))
        self.how = how


def _said(found: "Cause | str") -> str:
    from mluops_gtest.model.reasons import reason_of  # late: whoever imports OpCall does not pay for it

    return found if isinstance(found, str) else reason_of((found,))


class Handle(Value):
    """The device context of a call."""

    arch: int = DEFAULT_ARCH
    nram_bytes: int = DEFAULT_NRAM_BYTES


class TensorArg(Value):
    """A descriptor with its data pointer: `array` is None where the pointer is null or no buffer exists."""

    desc: TensorDesc
    array: Array | None
    # True where the caller passes a null pointer; a descriptor-only tensor has neither array nor null pointer.
    null: bool = False

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.desc.dtype

    @property
    def layout(self) -> Layout:
        """Layout of the axes."""
        return self.desc.layout

    @property
    def dims(self) -> tuple[int, ...]:
        """Length of every axis."""
        return self.desc.dims

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Distance between neighbours on every axis in elements; None means contiguous."""
        return self.desc.strides


class QueryAnswer(Value):
    """What a workspace query of the C API answered; `size_null` where it got a null pointer for the size."""

    function: str
    status: Status
    size: int = 0
    size_null: bool = False


class OpCall(Value):
    """One call: descriptors, buffers, parameters, workspace. Never the expected answer."""

    operator: str
    params: Params | None
    inputs: Mapping[str, TensorArg | None]
    outputs: Mapping[str, TensorArg | None]
    handle: Handle | None = Handle()
    workspace: Array | None = None
    workspace_size: int = 0
    # The workspace query is also made with a null pointer for the size.
    size_null: bool = False
    # Results that are not tensors, e.g. num_act_out; the backend writes, the harness compares exactly.
    scalars: MutableMapping[str, int] = field(default_factory=dict)
    # Remarks of the backend on this call, e.g. the function whose status it passes on; they appear in the
    # result, at most 1 MiB of them.
    notes: list[str] = field(default_factory=Notes)
    # Functions around the operator that refused, in words: the operator's own status is still the answer, but a call
    # that should succeed must have none of these.
    refusals: list[str] = field(default_factory=lambda: Notes(most=REFUSALS_LIMIT))
    # The workspace queries that were made; the harness holds each to its own checks.
    queries: list[QueryAnswer] = field(default_factory=list)
    # The device the call is meant for, where the run names devices.
    device: int | None = None

    def tensor(self, name: str) -> TensorArg:
        """The input or output of that name; only for calls whose descriptors are known to be present."""
        arg = self.inputs[name] if name in self.inputs else self.outputs[name]
        if arg is None:
            raise ValueError(f"{self.operator}: the descriptor of {name!r} is null")
        return arg

    def array(self, name: str) -> Array:
        """The buffer of that tensor; only for calls whose pointers are known to be present."""
        array = self.tensor(name).array
        if array is None:
            raise ValueError(f"{self.operator}: the data pointer of {name!r} is null")
        return array

    def param(self, name: str) -> Any:
        """The parameter of that name; only for calls whose parameters are known to be present."""
        if self.params is None:
            raise ValueError(f"{self.operator}: the parameter descriptor is null")
        return self.params[name]
