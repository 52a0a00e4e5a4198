"""What this machine can do at best, measured with numpy: bytes per second of memory, operations per second."""

import os
import platform
import time
from collections.abc import Callable
from typing import Final

import numpy as np

# Far beyond the caches of most machines, small enough for any.
_COPY_BYTES: Final = 128 << 20
_MATRIX: Final = 1024
_ROUNDS: Final = 7

Clock = Callable[[], float]


def measure_bandwidth(clock: Clock = time.perf_counter, size: int = _COPY_BYTES) -> float:
    """Bytes per second, read and written, of the best of several copies."""
    source, target = np.ones(size, np.uint8), np.empty(size, np.uint8)
    # The first copy also takes the memory from the system; the best of the others counts.
    return 2 * size / _best(lambda: np.copyto(target, source), clock)


def measure_peak(clock: Clock = time.perf_counter, size: int = _MATRIX) -> float:
    """Float32 operations per second of the best of several matrix products, on as many threads as BLAS takes."""
    left, right = np.ones((size, size), np.float32), np.ones((size, size), np.float32)
    product = np.empty_like(left)
    return 2 * size**3 / _best(lambda: np.matmul(left, right, out=product), clock)


def describe_host() -> str:
    """What was measured, for whoever reads the description later."""
    return f"Measured with numpy {np.__version__} on {platform.machine()} with {os.cpu_count()} processors."


def _best(work: Callable[[], object], clock: Clock) -> float:
    work()
    seconds = []
    for _ in range(_ROUNDS):
        start = clock()
        work()
        seconds.append(clock() - start)
    return min(seconds)
