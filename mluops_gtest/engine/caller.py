"""How a backend is reached: in this process, or (isolation/) in one of its own."""

import contextlib
from collections.abc import Callable
from typing import Protocol, TypeVar

from mluops_gtest.engine.buffers import Arena
from mluops_gtest.engine.reply import NoAnswerError, Reply, checked_size, failed_reply, reply_of
from mluops_gtest.model.call import Backend, OpCall

T = TypeVar("T")
# Something that comes back every time has to do with the case after all.
_MOST_DISTURBANCES = 3


class LostDeviceError(Exception):
    """The backend can no longer be reached on this device; its cases go to the others."""


class DisturbedError(Exception):
    """The call was cut short by something that is not its own doing; it is made again from fresh buffers."""


def undisturbed(make: Callable[[], T]) -> T:
    """What `make` gives in the first of a few tries that nothing from outside cuts short; else DisturbedError."""
    for _ in range(_MOST_DISTURBANCES - 1):
        with contextlib.suppress(DisturbedError):
            return make()
    return make()


class Caller(Protocol):
    """Runs calls on buffers that lie in its arenas."""

    @property
    def name(self) -> str:
        """The backend's own name."""
        ...

    @property
    def is_reference(self) -> bool:
        """The backend is the oracle itself: a baseline recomputed here would be compared with its own."""
        ...

    @property
    def tensors(self) -> Arena:
        """Where inputs and outputs lie."""
        ...

    @property
    def workspace(self) -> Arena:
        """Where the workspace lies."""
        ...

    def supports(self, operator: str) -> bool:
        """The backend offers that operator."""
        ...

    def workspace_size(self, call: OpCall, timeout: float | None) -> int:
        """The bytes of workspace that the backend asks for, 0 where it asks for none; or NoAnswerError."""
        ...

    def run(self, call: OpCall, timeout: float | None) -> Reply:
        """Run the call; never raises for what the backend does."""
        ...


class InlineCaller:
    """The backend in this very process; a time limit cannot be kept here."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.name = backend.name
        self.is_reference = bool(getattr(backend, "is_reference", False))
        self.tensors = Arena()
        self.workspace = Arena()

    def supports(self, operator: str) -> bool:
        """Every backend that does not say otherwise."""
        ask = getattr(self._backend, "supports", None)
        return True if ask is None else bool(ask(operator))

    def workspace_size(self, call: OpCall, timeout: float | None) -> int:  # noqa: ARG002
        """What the backend says, held to being a size."""
        ask = getattr(self._backend, "workspace_size", None)
        if ask is None:
            return 0
        try:
            return checked_size(self.name, ask(call))
        except (Exception, SystemExit) as error:
            raise NoAnswerError(failed_reply(error, call)) from error

    def run(self, call: OpCall, timeout: float | None) -> Reply:  # noqa: ARG002
        """Run the call here."""
        return reply_of(self._backend, call)
