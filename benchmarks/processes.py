"""Commands as processes of their own: what each takes on the clock, of the processors and of memory."""

import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
IMPORTS = ("-c", "import numpy, click")


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """What one process and the children that it waited for took; the memory is that of the process alone."""

    seconds: float
    cpu_seconds: float
    peak_bytes: float


class Commands:
    """Runs Python with arguments in a folder, with compiled modules and kept declarations as in daily use."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder, self._environment = folder, environment

    def take(self, *arguments: str, right: Collection[int] = (0,)) -> ProcessUsage:
        """Run `python ARGUMENTS`; an error where its exit code is none of the right ones."""
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *arguments], cwd=self.folder, env=self._environment, stdout=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in right:
            raise SystemExit(f"python {' '.join(arguments)}: exit code {process.returncode}")
        return ProcessUsage(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)

    def threaded(self, threads: str) -> "Commands":
        """The same where numerical libraries use so many threads."""
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        return Commands(self.folder, {**self._environment, **dict.fromkeys(names, threads)})

    def ours(self, *words: str, right: Collection[int] = (0,)) -> ProcessUsage:
        """Run `mluops-test WORDS`."""
        return self.take("-m", "mluops_gtest", *words, right=right)


@contextmanager
def commands() -> Iterator[Commands]:
    """In a folder of their own, which goes in the end."""
    with TemporaryDirectory() as folder:
        own = {
            "PYTHONPATH": str(ROOT),
            "PYTHONPYCACHEPREFIX": f"{folder}/compiled",
            "MLUOPS_TEST_CACHE": f"{folder}/cache",
            "MLUOPS_TEST_SETTINGS": "none",
        }
        environment = {**os.environ, **own}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yield Commands(Path(folder), environment)
