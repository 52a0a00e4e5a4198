"""What `--stress` asks for: how long cases are repeated, and with how many threads.

What a run is asked for: from the command line, and from the run.json of a run that is resumed.
"""

import os
import re
import sys
from typing import Any, Final, Literal

from msgspec import field
from msgspec.structs import asdict, replace

from mluops_gtest.backends.registry import can_be_debugged, is_in_process
from mluops_gtest.base.errors import UsageError, repr_short
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.typed_files import Source, convert
from mluops_gtest.catalog.root import recorded_roots, root_words
from mluops_gtest.core.case import Percentage, Query, required_millionths
from mluops_gtest.core.report import ReportFormat
from mluops_gtest.version import __version__

# Seconds in all, or repetitions of each case; more digits are no time that somebody waits.
_WORD: Final = re.compile(r"(?P<times>[1-9]\d{0,8})x|(?P<seconds>\d{1,8}(?:\.\d{1,6})?)", re.ASCII)


class Stress(Value):
    """How long cases are repeated: for so many seconds, or exactly so many times each."""

    seconds: float = 0.0
    # None: as often as the seconds allow, and with every number of threads at least once.
    times: int | None = None

    @staticmethod
    def parse(word: str) -> "Stress":
        """`60` → 60 seconds for all cases together; `20x` → each case 20 times."""
        found = _WORD.fullmatch(word.strip())
        if found is None or (found["seconds"] and float(found["seconds"]) == 0):
            raise UsageError(
                f"--stress {repr_short(word)}: write the seconds for all cases together, e.g. --stress 60, "
                "or how often each case runs, e.g. --stress 20x."
            )
        return Stress(times=int(found["times"])) if found["times"] else Stress(float(found["seconds"]))

    def shared(self, cases: int, lanes: int) -> "Stress":
        """What falls to one case."""
        return replace(self, seconds=self.seconds * lanes / max(cases, 1))


def thread_counts(cores: int | None = None) -> tuple[int, ...]:
    """The numbers of threads that repetitions take in turn: all cores, few, none beside it, more than there are."""
    cores = cores or os.cpu_count() or 1
    return tuple(dict.fromkeys((max(cores, 2), 2, 1, 2 * cores, cores + 1)))


# Which outputs `--save-outputs` keeps.
Which = Literal["failed", "all"]
# What a run writes in one step; `report` has more, and what a baseline and the history add.
# Smallest values of a request, as the command line has them.
_MIN = {
    "jobs": 1,
    "devices": 0,
    "timeout": 0,
    "memory_limit": 1,
    "repeat": 1,
    "reruns": 0,
    "warmup": 0,
    "samples": 1,
}
# Innermost frames that a debugger shows at once: the kernel's own, without all of Python's below them.
_FRAMES = 12


class RunRequest(Value):
    """Everything that decides what a run does; run.json holds it."""

    selection: Query
    # Folders, or `builtin`.
    roots: tuple[str, ...]
    backend: str
    runtime: str | None = None
    serve: bool = False
    isolate: bool | None = None
    # Every case gets its own worker.
    fresh_workers: bool = False
    jobs: int = 1
    devices: tuple[int, ...] = ()
    timeout: float | None = None
    memory_limit: int | None = None
    guard_pages: bool = False
    fail_on_leak: bool = False
    repeat: int = 1
    # Seconds in all or repetitions of each case, see stress.Stress.
    stress: str | None = None
    bitwise: bool = False
    # See Options.
    elementwise: bool | None = None
    # Disputed elements are recomputed exactly.
    arbitrate: bool = False
    stop_at_first: bool = False
    reruns: int = 0
    perf: bool = False
    warmup: int = 3
    # None: as many as it takes.
    samples: int | None = None
    cold_cache: bool = False
    device_spec: str | None = None
    shard: str | None = None
    # Digest of the recorded times that the shards were cut by.
    times: str | None = None
    strict: bool = False
    allow_outside_paths: bool = False
    # None: the declared values.
    reseed: int | None = None
    save_outputs: Which | None = None
    # Which part of the cases must pass or fail, not be skipped.
    require_coverage: Percentage | None = None
    # What the user says, and from the beginning of the run on also what the harness recorded.
    labels: dict[str, str] = field(default_factory=dict)
    # Format → file, written at the end.
    reports: dict[ReportFormat, str] = field(default_factory=dict)
    # Address of a Dask cluster, `local:N`, or a function that makes one; None: this machine.
    cluster: str | None = None
    # Files of the backend that are sent to the cluster's workers.
    ship: tuple[str, ...] = ()
    # All outputs of its workers are judged here, not only those that are drawn.
    judge_here: bool = False
    # The settings file that was in force; its values are resolved here.
    settings: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be read at the end of the run."""
        if self.require_coverage is not None:
            required_millionths(self.require_coverage)

    @property
    def isolated(self) -> bool:
        """Run in worker processes: if asked to, or by default for everything that is not built in."""
        return not is_in_process(self.backend) if self.isolate is None else self.isolate

    @property
    def lanes(self) -> tuple[int | None, ...]:
        """One device (or none in particular) per worker."""
        return self.devices or (None,) * self.jobs

    def repro_options(self) -> tuple[str, ...]:
        """What a repro line needs after `mluops-test run CASE`."""
        values = (
            ("--runtime", self.runtime),
            ("--backend", None if self.backend == "numpy" and self.settings is None else self.backend),
            ("--timeout", None if self.timeout is None else str(self.timeout).removesuffix(".0")),
            ("--memory-limit", self.memory_limit),
            ("--repeat", self.repeat if self.repeat > 1 else None),
            ("--stress", self.stress),
            ("--reruns", self.reruns or None),
            ("--samples", self.samples),
            ("--reseed", self.reseed),
        )
        flags = (
            ("--serve", self.serve),
            ("--bitwise", self.bitwise),
            ("--elementwise", self.elementwise is True),
            ("--no-elementwise", self.elementwise is False),
            ("--arbitrate", self.arbitrate),
            ("--guard-pages", self.guard_pages),
            ("--strict", self.strict),
            ("--allow-outside-paths", self.allow_outside_paths),
            ("--fail-on-leak", self.fail_on_leak),
            ("--perf", self.perf),
            ("--cold-cache", self.cold_cache),
            ("--fresh-workers", self.fresh_workers),
            ("--isolate", self.isolate is True),
            ("--no-isolate", self.isolate is False),
        )
        given = (word for name, value in values if value is not None for word in (name, str(value)))
        return *root_words(self.roots, self.settings), *given, *(name for name, asked in flags if asked)

    def debug_words(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """The words before and after a case id that run it under gdb, in the process that gdb starts."""
        if self.guard_pages or not can_be_debugged(self.backend):
            return None
        unused = {"timeout": None, "memory_limit": None, "fresh_workers": False, "fail_on_leak": False, "stress": None}
        inline = replace(self, isolate=False, **unused)
        debugger = ("gdb", "-ex", "run", "-ex", f"backtrace {_FRAMES}", "--args")
        return (*debugger, sys.executable, "-m", "mluops_gtest", "run"), inline.repro_options()

    def to_json(self, ids: list[str], left_out: int) -> dict[str, Any]:
        """For run.json; the ids are written out, so that a resumed run plans the very same cases."""
        return {
            "format": 1,
            "tool_version": __version__,
            **asdict(self),
            "selection": asdict(self.selection),
            "cases": ids,
            "left_out": left_out,
        }

    @staticmethod
    def from_json(record: dict[str, Any], source: Source) -> "RunRequest":
        """The request in run.json; a request that no command line could make is refused."""
        from mluops_gtest.results.records import check_labels  # late: a new run reads none

        request = convert({**record, "roots": recorded_roots(record)}, RunRequest, source)
        check_labels(request.labels, replace(source, at="$.labels"))
        for name, least in _MIN.items():
            values = getattr(request, name)
            for value in values if isinstance(values, tuple) else (values,):
                if value is not None and not least <= value < 2**63:
                    raise source.error(f"{value} is too small; it must be at least {least}", f".{name}")
        if request.stress is not None:
            try:
                Stress.parse(request.stress)
            except UsageError as error:
                raise source.error(str(error).removesuffix("."), ".stress") from error
        named = {name: getattr(request, name) for name in ("backend", "roots", "runtime", "device_spec")}
        named |= {f"reports.{form}": file for form, file in request.reports.items()}
        for name, values in named.items():
            for value in values if isinstance(values, tuple) else (values or "",):
                if "\0" in value:
                    raise source.error(f"{repr_short(value)} is not a valid name", f".{name}")
        return request


class RunRecord(Value):
    """What run.json says beside the request."""

    cases: tuple[str, ...]
    left_out: int
