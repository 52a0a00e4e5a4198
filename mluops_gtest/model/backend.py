"""The backend contract: every member that a backend must or may have, declared once."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, Protocol, runtime_checkable

from mluops_gtest.model.call import OpCall
from mluops_gtest.model.labels import MAX_LETTERS
from mluops_gtest.model.precision import PRECISION_WORDS, PRECISIONS, DeclaredPrecision, Precision, is_precision
from mluops_gtest.model.status import Status
from mluops_gtest.value import Value

# In the environment of a worker or a program: the number of the device that it shall use.
DEVICE_VARIABLE: Final = "MLUOPS_TEST_DEVICE"


@runtime_checkable
class Backend(Protocol):
    """What the harness tests: the required members. MEMBERS lists the optional ones."""

    name: str

    def run(self, call: OpCall) -> Status:
        """Execute the call, write the outputs in place, answer the status."""


class Member(Value):
    """One member of the contract, as it is written, and what it is for."""

    signature: str
    meaning: str
    required: bool = False

    @property
    def name(self) -> str:
        return self.signature.partition("(")[0].partition(":")[0]

    @property
    def is_method(self) -> bool:
        """It is called, not read."""
        return "(" in self.signature

    def fits(self, value: object) -> bool:
        """The value can be this member."""
        if self.is_method:
            return callable(value)
        if self.name == "precision":
            return is_precision(value)
        return isinstance(value, bool if self.signature.endswith("bool") else str)


MEMBERS: Final = (
    Member("name: str", "is shown in reports", required=True),
    Member(
        "run(call: OpCall) -> Status",
        "runs the call, writes the outputs in place, returns the status",
        required=True,
    ),
    Member("supports(operator: str) -> bool", "False skips every case of that operator"),
    Member("workspace_size(call: OpCall) -> int", "bytes of workspace that `run` wants to find in `call.workspace`"),
    Member("healthy() -> bool", "asked after a crash, in the new worker, before the next case"),
    Member("device_seconds() -> float | None", "the device's own time of the last call"),
    Member(
        "run_empty(call: OpCall) -> None",
        "does all that a call does except its kernel, if that takes long; times are compared with it",
    ),
    Member("close() -> None", "called once when the run is over; a worker that had to be killed does not get there"),
    Member("version: str", "every report of the run shows it as the label `backend.version`"),
    Member(
        "deterministic: bool",
        "False if repeated calls may differ in the last bits; the doctor then does not ask for equal bits",
    ),
    Member(
        "precision: str | dict[str, str | dict[str, str]]",
        f"what it computes in ({', '.join(PRECISIONS)}), for all operators, by operator, or by operator and data type; "
        "elements are held to it",
    ),
    Member("host_memory: bool", "False if the kernel works on its own memory, which `--guard-pages` cannot guard"),
    Member("is_reference: bool", "True for the oracle itself: a baseline that it made is not compared with it"),
)


_PRECISION: Final = next(member for member in MEMBERS if member.name == "precision")


def misfits(backend: object, members: Iterable[Member] = MEMBERS) -> Iterator[str]:
    """What is wrong with the members of a backend, in words."""
    for member in members:
        if not hasattr(backend, member.name):
            if member.required:
                yield f"It has no `{member.name}`; it needs `{member.signature}`."
        elif not member.fits(getattr(backend, member.name)):
            allowed = f" {PRECISION_WORDS}" if member is _PRECISION else ""
            yield f"Its `{member.name}` does not fit; it must be `{member.signature}`.{allowed}"


class OfferedBackend:
    """A backend through its contract: members that it does not offer have their defaults."""

    def __init__(self, backend: Backend) -> None:
        self._backend: Any = backend

    @property
    def name(self) -> str:
        return str(self._backend.name)

    @property
    def version(self) -> str:
        """What it says of its version; empty where that is no text, or cannot be asked."""
        try:
            version = getattr(self._backend, "version", "")
        except Exception:
            return ""
        return version[:MAX_LETTERS] if isinstance(version, str) else ""

    @property
    def deterministic(self) -> bool:
        """Repeated calls give the same bits, unless it says otherwise."""
        return bool(getattr(self._backend, "deterministic", True))

    @property
    def host_memory(self) -> bool:
        """It works on the harness's own buffers, unless it says otherwise."""
        return bool(getattr(self._backend, "host_memory", True))

    @property
    def is_reference(self) -> bool:
        """It is the oracle itself."""
        return bool(getattr(self._backend, "is_reference", False))

    @property
    def precision(self) -> DeclaredPrecision:
        """What it computes in; float where it says nothing that is a precision."""
        declared: DeclaredPrecision = getattr(self._backend, "precision", Precision.FLOAT.value)
        return declared if _PRECISION.fits(declared) else Precision.FLOAT.value

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(member.name for member in MEMBERS if hasattr(self._backend, member.name))

    def run(self, call: OpCall) -> Any:
        """Its answer, which may be anything."""
        return self._backend.run(call)

    def run_empty(self, call: OpCall) -> Status:
        """Everything that a call costs but the kernel."""
        self._ask("run_empty", None, call)
        return Status.SUCCESS

    def supports(self, operator: str) -> bool:
        """It offers that operator, unless it says otherwise."""
        return bool(self._ask("supports", True, operator))

    def workspace_size(self, call: OpCall) -> Any:
        """What it asks for, which may be anything; 0 where it asks for nothing."""
        return self._ask("workspace_size", 0, call)

    def healthy(self) -> bool:
        """It can go on, unless it says otherwise."""
        return bool(self._ask("healthy", True))

    def device_seconds(self) -> Any:
        """The device's own time of the last call, which may be anything; None where it tells none."""
        return self._ask("device_seconds", None)

    def close(self) -> None:
        self._ask("close", None)

    def _ask(self, method: str, default: Any, *arguments: Any) -> Any:
        ask = getattr(self._backend, method, None)
        return default if ask is None else ask(*arguments)
