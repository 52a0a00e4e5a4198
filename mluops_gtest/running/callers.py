"""One backend in several worker processes, each told to use another number of threads; one at a time is called.

Room for the descriptors of many workers: the soft limit is raised as far as it takes, and no further.

The backend of a run, ready to be called: inline, or in worker processes.
"""

import contextlib
import resource
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from mluops_gtest.backends.registry import runs_inline
from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.float_state import OWN, FloatState, require_float_state
from mluops_gtest.catalog.selection import Catalogue
from mluops_gtest.core.call import OpCall
from mluops_gtest.core.tensor import WorkingPrecision
from mluops_gtest.running.caller import BackendChoice, Caller, InlineCaller, Reply
from mluops_gtest.running.options import RunOptions
from mluops_gtest.running.workers.memory import SharedArena
from mluops_gtest.running.workers.pool import IsolatedCaller

if TYPE_CHECKING:
    from mluops_gtest.running.workers.fork_server_client import ForkServer


class CallersByThreads:
    """Seen from outside one caller; libraries read how many threads to use when they are loaded, so each is its own."""

    def __init__(self, plain: IsolatedCaller, caller_with: Callable[[int], IsolatedCaller]) -> None:
        """`plain` is in use until a number of threads is asked for; `caller_with` makes a caller for a number."""
        self._now = plain
        self._plain = plain
        self._make = caller_with
        self._by_threads: dict[int, IsolatedCaller] = {}

    def use_threads(self, threads: int) -> None:
        """From the next call on: a worker whose libraries were told to use so many threads."""
        if threads not in self._by_threads:
            self._by_threads[threads] = self._make(threads)
        self._now = self._by_threads[threads]

    @property
    def name(self) -> str:
        return self._plain.name

    @property
    def version(self) -> str:
        return self._plain.version

    @property
    def is_reference(self) -> bool:
        return self._plain.is_reference

    @property
    def precision(self) -> WorkingPrecision:
        return self._plain.precision

    @property
    def tensors(self) -> SharedArena:
        return self._now.tensors

    @property
    def workspace(self) -> SharedArena:
        return self._now.workspace

    def start(self) -> None:
        """Load the backend once, to know what it is."""
        self._plain.start()

    @property
    def growth(self) -> int:
        return self._now.growth

    @property
    def has_run(self) -> bool:
        return self._now.has_run

    @property
    def was_changed(self) -> bool:
        return self._now.was_changed

    def stopped(self) -> contextlib.AbstractContextManager[None]:
        return self._now.stopped()

    def settle(self, *, give_up: bool = False) -> tuple[str, ...]:
        return self._now.settle(give_up=give_up)

    def mark_memory(self) -> None:
        self._now.mark_memory()

    def turn(self, *, alone: bool = False, fresh: bool = False) -> contextlib.AbstractContextManager[None]:
        return self._now.turn(alone=alone, fresh=fresh)

    def supports(self, operator: str) -> bool:
        return self._now.supports(operator)

    def begin(self, call: OpCall, timeout: float | None) -> Reply | int:
        return self._now.begin(call, timeout)

    def run(self, call: OpCall, timeout: float | None) -> Reply:
        return self._now.run(call, timeout)

    def run_empty(self, call: OpCall, timeout: float | None) -> Reply:
        return self._now.run_empty(call, timeout)

    def close(self) -> None:
        for caller in (*self._by_threads.values(), self._plain):
            caller.close()


# Files of the run itself, and what libraries hold open.
_OWN: Final = 64
# The line, the worker's death, its output, two slabs of tensors, and as many while one worker follows another.
_PER_WORKER: Final = 10


def make_room(workers: int) -> None:
    """Let this process hold what so many workers need; a hard limit below that is told before anything starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _OWN + workers * _PER_WORKER
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        most = max(1, (hard - _OWN) // _PER_WORKER)
        raise UsageError(
            f"{workers} workers need up to {needed} open files, and this system allows {hard}. "
            f"Take at most {most} workers (-j {most}), or raise the limit (ulimit -Hn)."
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


@contextlib.contextmanager
def open_callers(
    request: RunOptions, catalogue: Catalogue, fork_server: "ForkServer | None" = None
) -> Iterator[list[Caller]]:
    """The loaded backend, inline or in one worker process per lane; one that does not load is an error at once.

    `fork_server` is one that was started ahead; it is closed in the end.
    """
    choice = BackendChoice(request.backend, catalogue.root_paths, request.runtime, request.serve)
    if not request.isolated:
        if not runs_inline(request.backend):
            require_float_state(request.backend)
        try:
            inline = InlineCaller(choice.load(catalogue.operators), FloatState())
        finally:
            OWN.enter()
        with contextlib.closing(inline):
            yield [inline]
        return
    from mluops_gtest.running.options import thread_counts
    from mluops_gtest.running.workers.fork_server_client import ForkServer, ForkServers

    lanes = request.lanes
    fork_server, by_threads = fork_server or ForkServer(len(lanes)), ForkServers(len(lanes))
    callers: list[IsolatedCaller | CallersByThreads] = []
    try:
        # After the fork server has started, so that backends keep the limit that the user gave them.
        make_room(len(lanes) * (1 if request.stress is None else 1 + len(thread_counts())))
        for device in lanes:
            caller = _isolated(request, choice, fork_server, device)
            if request.stress is None:
                callers.append(caller)
                continue

            def with_threads(threads: int, device: int | None = device) -> "IsolatedCaller":
                return _isolated(request, choice, by_threads.of(threads), device)

            callers.append(CallersByThreads(caller, with_threads))
        callers[0].start()
        yield [*callers]
    finally:
        for started in callers:
            started.close()
        by_threads.close()
        fork_server.close()


def _isolated(
    request: RunOptions, choice: BackendChoice, fork_server: "ForkServer", device: int | None
) -> "IsolatedCaller":
    from mluops_gtest.running.workers.pool import IsolatedCaller

    return IsolatedCaller(
        fork_server,
        choice,
        device=device,
        memory_limit=request.memory_limit,
        fresh_workers=request.fresh_workers,
        guard_pages=request.guard_pages,
    )
