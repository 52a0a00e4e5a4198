"""What a run needs of its options: those that do not go together are refused before anything starts."""

import sys
from typing import Any

from msgspec.structs import replace

from mluops_gtest.backends.registry import has_host_memory
from mluops_gtest.engine.request import RunRequest
from mluops_gtest.errors import UsageError
from mluops_gtest.model.query import Query


def under_stress(query: Query, options: dict[str, Any]) -> Query:
    """The cases to repeat: those in which threads must collide, unless the user selects others."""
    from mluops_gtest.engine.stress import Stress

    Stress.parse(options["stress"])
    beside = {
        "--repeat": options["repeat"] > 1,
        "--reruns": options["reruns"] > 0,
        "--perf": options["perf"],
        "--guard-pages": options["guard_pages"],
    }
    named = [name for name, given in beside.items() if given]
    if named:
        raise UsageError(f"--stress repeats every case itself: leave out {' and '.join(named)}.")
    return replace(query, tags=("race",)) if query.is_default and options["failed"] is None else query


def refuse_inline(backend: str, jobs: int | None, devices: tuple[int, ...], options: dict[str, Any]) -> None:
    """Refuse options that only worker processes can keep."""
    asked = {
        "-j": (jobs or 1) > 1,
        "--devices": bool(devices),
        "--timeout": options["timeout"] is not None,
        "--memory-limit": options["memory_limit"] is not None,
        "--guard-pages": options["guard_pages"],
        "--fresh-workers": options["fresh_workers"],
        "--fail-on-leak": options.get("fail_on_leak"),
        "--stress": options["stress"] is not None,
    }
    named = [name for name, given in asked.items() if given]
    if named:
        raise UsageError(
            f"{' and '.join(named)} needs worker processes; backend {backend!r} runs inline: add --isolate."
        )


def refuse_guard_pages(request: RunRequest) -> None:
    """Only host memory that a worker maps can be guarded, and calls that are timed must not pay for it."""
    if request.perf:
        raise UsageError("--guard-pages changes the memory of the calls that --perf times: leave out one of them.")
    if sys.platform != "linux":
        raise UsageError("--guard-pages needs Linux.")
    if not has_host_memory(request.backend, request.runtime):
        what = f"backend {request.backend!r}" + (
            "" if request.runtime is None else f" with --runtime {request.runtime}"
        )
        raise UsageError(
            f"--guard-pages works on host memory, but {what} has its own memory; use it with Python objects, "
            "numpy and reference with --isolate, and c:LIBRARY without a runtime."
        )


def refuse_on_cluster(request: RunRequest, jobs: int | None) -> None:
    """Refuse what a cluster cannot do, and what only a cluster can."""
    if request.cluster is None:
        if request.ship:
            raise UsageError("--ship sends files to the workers of a cluster: add --cluster ADDRESS.")
        if request.judge_here:
            raise UsageError("--judge-here is about workers of a cluster: add --cluster ADDRESS.")
        return
    refused = {
        "-j": (jobs or 1) > 1,
        "--save-outputs": request.save_outputs is not None,
        "--stress SECONDS": request.stress is not None and not request.stress.endswith("x"),
    }
    advice = {
        "-j": "a cluster has as many workers as it has",
        "--save-outputs": "outputs stay on the workers; run the failing case here with it",
        "--stress SECONDS": "say how often each case is repeated, e.g. --stress 20x",
    }
    for name, given in refused.items():
        if given:
            raise UsageError(f"{name} does not go with --cluster: {advice[name]}.")
    for file in request.ship:
        if file not in request.backend:
            raise UsageError(f"--ship {file}: --backend {request.backend} does not name that file.")
