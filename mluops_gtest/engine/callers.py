"""The backend of a run, ready to be called: inline, or in worker processes."""

import contextlib
from collections.abc import Iterator

from mluops_gtest.content.catalogue import Catalogue
from mluops_gtest.engine.caller import Caller, InlineCaller
from mluops_gtest.engine.loading import BackendChoice
from mluops_gtest.engine.request import RunRequest


@contextlib.contextmanager
def open_callers(request: RunRequest, catalogue: Catalogue) -> Iterator[list[Caller]]:
    """The loaded backend, inline or in one worker process per lane; one that does not load is an error at once."""
    choice = BackendChoice(request.backend, catalogue.root_paths, request.runtime, request.serve)
    if not request.isolated:
        inline = InlineCaller(choice.load(catalogue.operators))
        with contextlib.closing(inline):
            yield [inline]
        return
    from mluops_gtest.engine.isolation.caller import IsolatedCaller
    from mluops_gtest.engine.isolation.descriptors import make_room
    from mluops_gtest.engine.isolation.forking import ForkServer

    fork_server = ForkServer(len(request.lanes))
    callers: list[IsolatedCaller] = []
    try:
        # After the fork server has started, so that backends keep the limit that the user gave them.
        make_room(len(request.lanes))
        callers += (
            IsolatedCaller(
                fork_server,
                choice,
                device=device,
                memory_limit=request.memory_limit,
                fresh_workers=request.fresh_workers,
                guard_pages=request.guard_pages,
            )
            for device in request.lanes
        )
        callers[0].start()
        yield [*callers]
    finally:
        for caller in callers:
            caller.close()
        fork_server.close()
