"""What a run works with, from what it is asked for: how each case is run, and what the report says of it all.

What a run needs of its options: those that do not go together are refused before anything starts.
"""

import os
import platform
import sys
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mluops_gtest.backends.registry import has_host_memory
from mluops_gtest.base.errors import UsageError
from mluops_gtest.catalog.bound_cache import BoundCache
from mluops_gtest.catalog.selection import Catalogue
from mluops_gtest.catalog.source import StoredCases
from mluops_gtest.core.buffers import Side
from mluops_gtest.core.case import Query
from mluops_gtest.core.operator_parts import EXACT
from mluops_gtest.core.report import RunReport
from mluops_gtest.running.case_run import Options
from mluops_gtest.running.options import RunRequest
from mluops_gtest.running.run import RunContext
from mluops_gtest.version import __version__

if TYPE_CHECKING:
    from mluops_gtest.running.options import Stress
    from mluops_gtest.running.timing import Sampling


def options_of(request: RunRequest, catalogue: Catalogue, cases: int, lanes: int) -> Options:
    """How each of so many cases is run, side by side on so many lanes."""
    return Options(
        repeat=request.repeat,
        bitwise=request.bitwise,
        # Under stress a lost addition counts, however small.
        elementwise=True if request.elementwise is None and request.stress is not None else request.elementwise,
        bounds=BoundCache(lambda operator: catalogue.root_of(operator).generators),
        arbitrate=(lambda operator: catalogue.operators.part(operator, EXACT)) if request.arbitrate else None,
        strict=request.strict,
        stop_at_first=request.stop_at_first,
        timeout=request.timeout,
        reruns=request.reruns,
        fail_on_leak=request.fail_on_leak,
        stress=None if request.stress is None else _stress(request.stress, cases, lanes),
        sampling=_sampling(request) if request.perf else None,
        sides=tuple(Side) if request.guard_pages else (None,),
    )


def _stress(word: str, cases: int, lanes: int) -> "Stress":
    from mluops_gtest.running.options import Stress  # late, as the next one: most runs ask for neither

    return Stress.parse(word).shared(cases, lanes)


def _sampling(request: RunRequest) -> "Sampling":
    from mluops_gtest.running.timing import Sampling

    return Sampling(request.warmup, request.samples, request.cold_cache)


def context_of(
    request: RunRequest, content: tuple[str, ...], name: str, count: int, left_out: int, device: dict[str, Any] | None
) -> RunContext:
    """What the report says about the run besides its results."""
    import numpy as np

    measured = {}
    if request.perf:
        how = {"warmup": request.warmup, "samples": request.samples or "auto", "cold_cache": request.cold_cache}
        measured = {"perf": how, "device": device}
    selection = {**request.selection.to_json(), "roots": list(request.roots), "shard": request.shard}
    looked = request.elementwise is not False
    selection = {**selection, "times": request.times, "reseed": request.reseed, "elementwise": looked}
    if request.require_coverage is not None:
        selection["require_coverage"] = request.require_coverage
    return RunContext(
        tool_version=__version__,
        backend={
            "name": name,
            "spec": request.backend,
            "runtime": request.runtime,
            "isolated": request.isolated,
            "repeat": request.repeat,
            "guard_pages": request.guard_pages,
            **({} if request.stress is None else {"stress": request.stress}),
        },
        environment={
            "python": platform.python_version(),
            "numpy": np.__version__,
            "platform": _platform(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "content": list(content),
            "settings": request.settings,
            **measured,
        },
        selection={**selection, "cases": count, "left_out": left_out},
        repro_options=request.repro_options(),
        debug_words=request.debug_words(),
        labels=request.labels,
    )


def _platform() -> str:
    """What platform.platform() says; on Linux without the process that it starts for a word it leaves out."""
    if platform.system() != "Linux":
        return platform.platform()
    libc = "".join(platform.libc_ver())
    return "-".join(filter(None, (platform.system(), platform.release(), platform.machine(), libc and f"with-{libc}")))


def timed(report: RunReport, source: StoredCases, writing: float) -> RunReport:
    """The report with the seconds that making, loading and writing took."""
    times = {"generate": source.times.generate, "load": source.times.load}
    return replace(report, timing={**times, **report.timing, "write": writing})


def under_stress(query: Query, options: dict[str, Any]) -> Query:
    """The cases to repeat: those in which threads must collide, unless the user selects others."""
    from mluops_gtest.running.options import Stress

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
