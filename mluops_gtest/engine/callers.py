"""The backend of a run, ready to be called: inline, or in worker processes."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mluops_gtest.backends.registry import runs_inline
from mluops_gtest.content.catalogue import Catalogue
from mluops_gtest.engine.caller import Caller, InlineCaller
from mluops_gtest.engine.float_state import OWN, FloatState, require_float_state
from mluops_gtest.engine.loading import BackendChoice
from mluops_gtest.engine.request import RunRequest

if TYPE_CHECKING:
    from mluops_gtest.engine.isolation.caller import IsolatedCaller
    from mluops_gtest.engine.isolation.forking import ForkServer


@contextlib.contextmanager
def open_callers(
    request: RunRequest, catalogue: Catalogue, fork_server: "ForkServer | None" = None
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
    from mluops_gtest.engine.isolation.callers_by_threads import CallersByThreads
    from mluops_gtest.engine.isolation.descriptors import make_room
    from mluops_gtest.engine.isolation.forking import ForkServer, ForkServers
    from mluops_gtest.engine.stress import thread_counts

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
    request: RunRequest, choice: BackendChoice, fork_server: "ForkServer", device: int | None
) -> "IsolatedCaller":
    from mluops_gtest.engine.isolation.caller import IsolatedCaller

    return IsolatedCaller(
        fork_server,
        choice,
        device=device,
        memory_limit=request.memory_limit,
        fresh_workers=request.fresh_workers,
        guard_pages=request.guard_pages,
    )
