"""What a run works with, from what it is asked for: how each case is run, and what the report says of it all."""

import os
import platform
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mluops_gtest.content.catalogue import Catalogue
from mluops_gtest.engine.buffers import Side
from mluops_gtest.engine.execute import Options
from mluops_gtest.engine.request import RunRequest
from mluops_gtest.engine.run import RunContext
from mluops_gtest.generate.kept_bounds import KeptBounds
from mluops_gtest.generate.source import StoredCases
from mluops_gtest.model.parts import EXACT
from mluops_gtest.model.report import RunReport
from mluops_gtest.version import __version__

if TYPE_CHECKING:
    from mluops_gtest.engine.perf import Sampling
    from mluops_gtest.engine.stress import Stress


def options_of(request: RunRequest, catalogue: Catalogue, cases: int, lanes: int) -> Options:
    """How each of so many cases is run, side by side on so many lanes."""
    return Options(
        repeat=request.repeat,
        bitwise=request.bitwise,
        # Under stress a lost addition counts, however small.
        elementwise=True if request.elementwise is None and request.stress is not None else request.elementwise,
        bounds=KeptBounds(lambda operator: catalogue.root_of(operator).generators),
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
    from mluops_gtest.engine.stress import Stress  # late, as the next one: most runs ask for neither

    return Stress.parse(word).shared(cases, lanes)


def _sampling(request: RunRequest) -> "Sampling":
    from mluops_gtest.engine.perf import Sampling

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
