"""How a backend is reached: in this process, or (isolation/) in one of its own."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, Protocol, TypeVar, runtime_checkable

from msgspec.structs import replace

from mluops_gtest.engine.buffers import Arena
from mluops_gtest.engine.float_state import OWN, FloatState
from mluops_gtest.engine.reply import Reply, checked_size, failed_reply, reply_of
from mluops_gtest.model.backend import Backend, OfferedBackend
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.cause import DeviceLost, Disturbed, RunLost
from mluops_gtest.model.precision import WorkingPrecision
from mluops_gtest.model.reasons import reason_of
from mluops_gtest.model.reasons.english import DISTURBANCES

T = TypeVar("T")
# Something that comes back every time has to do with the case after all.
_MAX_DISTURBANCES = 3


class LostDeviceError(Exception):
    """The backend can no longer be reached on this device; its cases go to the others."""

    def __init__(self, cause: DeviceLost | RunLost) -> None:
        super().__init__(reason_of((cause,)))
        self.cause = cause


class DisturbedError(Exception):
    """The call was cut short by something that is not its own doing; it is made again from fresh buffers."""

    def __init__(self, by: Literal["late answer", "fork server"]) -> None:
        super().__init__(DISTURBANCES[by])
        self.cause = Disturbed(by)


def undisturbed(callers: "Sequence[Caller]", make: Callable[[], T]) -> T:
    """What `make` gives in the first of a few turns that nothing from outside cuts short; else DisturbedError.

    After the first of them no other case runs beside it: what disturbs it then is its own doing.
    """
    for tries in range(1, _MAX_DISTURBANCES + 1):
        try:
            if len(callers) == 1:
                with callers[0].turn(alone=tries > 1):
                    return make()
            with contextlib.ExitStack() as turns:
                for caller in callers:
                    turns.enter_context(caller.turn(alone=tries > 1))
                return make()
        except DisturbedError:
            if tries == _MAX_DISTURBANCES:
                raise
    raise AssertionError("the last try returns or raises")


class Caller(Protocol):
    """Runs calls on buffers that lie in its arenas."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """What the backend says of its version; empty where it says nothing."""

    @property
    def is_reference(self) -> bool:
        """The backend is the oracle itself: a baseline recomputed here would be compared with its own."""

    @property
    def precision(self) -> WorkingPrecision:
        """What the backend says that it computes in."""

    @property
    def tensors(self) -> Arena:
        """Where inputs and outputs lie."""

    @property
    def workspace(self) -> Arena: ...

    @property
    def growth(self) -> int:
        """Bytes by which the private memory of the worker grew since its first call, or since it was marked."""

    @property
    def has_run(self) -> bool:
        """The worker ran calls of which something may be left for the next."""

    @property
    def was_changed(self) -> bool:
        """One of them changed state that was named and put back."""

    def stopped(self) -> contextlib.AbstractContextManager[None]:
        """What the calls started does nothing while this lasts, as far as it can be stopped."""

    def settle(self, *, give_up: bool = False) -> tuple[str, ...]:
        """Give what the last call left at work time to end; in words, what goes on; `give_up`: no case meets it."""

    def mark_memory(self) -> None:
        """Growth counts from here."""

    def turn(self, *, alone: bool = False, fresh: bool = False) -> contextlib.AbstractContextManager[None]:
        """All calls of one case; `alone`: while it lasts no other case runs; `fresh`: they begin in a new worker."""

    def supports(self, operator: str) -> bool:
        """The backend offers that operator."""

    def begin(self, call: OpCall, timeout: float | None) -> Reply | int:
        """Run the call; where the backend asks for a workspace, only how many bytes that has."""

    def run(self, call: OpCall, timeout: float | None) -> Reply:
        """Run the call; never raises for what the backend does."""

    def run_empty(self, call: OpCall, timeout: float | None) -> Reply:
        """The call without its kernel, to see what the way there takes; what it leaves in buffers says nothing."""


@runtime_checkable
class ThreadsCaller(Caller, Protocol):
    """A caller whose backend can be told to use another number of threads."""

    def use_threads(self, threads: int) -> None:
        """From the next call on libraries of the backend are told to use so many."""


class InlineCaller:
    """The backend in this very process; a time limit cannot be kept here."""

    def __init__(self, backend: Backend, floats: FloatState | None = None) -> None:
        """`floats` is what loading left: calls compute like that, all else as we do. None: all as the caller does."""
        self._floats = floats
        self._backend = offered = OfferedBackend(backend)
        self.name, self.version, self.is_reference = offered.name, offered.version, offered.is_reference
        self.precision = WorkingPrecision(offered.precision)
        self.tensors = Arena()
        self.workspace = Arena()
        self.growth = 0  # this process is the harness's own
        self.has_run = self.was_changed = False  # and nothing can be tried in a fresh one

    def stopped(self) -> contextlib.AbstractContextManager[None]:
        """Nobody can stop threads of this process."""
        return contextlib.nullcontext()

    def settle(self, *, give_up: bool = False) -> tuple[str, ...]:  # noqa: ARG002
        """Nobody waits for threads here."""
        return ()

    def mark_memory(self) -> None:
        """Nobody looks at the memory here."""

    def turn(self, *, alone: bool = False, fresh: bool = False) -> contextlib.AbstractContextManager[None]:  # noqa: ARG002
        """There is one case at a time here."""
        return contextlib.nullcontext()

    def supports(self, operator: str) -> bool:
        """Every backend that does not say otherwise."""
        with self._foreign():
            return self._backend.supports(operator)

    def begin(self, call: OpCall, timeout: float | None) -> Reply | int:
        """Run the call here, unless it wants a workspace."""
        try:
            with self._foreign():
                size = checked_size(self.name, self._backend.workspace_size(call))
        except (Exception, SystemExit) as error:
            return failed_reply(error, call, "workspace_size")
        return size or self.run(call, timeout)

    def run(self, call: OpCall, timeout: float | None) -> Reply:  # noqa: ARG002
        return self._replied(call, empty=False)

    def run_empty(self, call: OpCall, timeout: float | None) -> Reply:  # noqa: ARG002
        return self._replied(call, empty=True)

    def _replied(self, call: OpCall, *, empty: bool) -> Reply:
        with self._foreign() as floats:
            reply = reply_of(self._backend, call, empty=empty)
            changes = floats.changes()
        return replace(reply, notes=(*reply.notes, *changes)) if changes else reply

    @contextlib.contextmanager
    def _foreign(self) -> Iterator[FloatState]:
        """The backend computes; gives the state that it finds."""
        before = FloatState() if self._floats is None else OWN
        floats = self._floats or before
        floats.enter()
        try:
            yield floats
        finally:
            before.enter()

    def close(self) -> None:
        """Let the backend give back what it holds; the run is over, so nobody asks how that went."""
        with contextlib.suppress(Exception, SystemExit), self._foreign():
            self._backend.close()
