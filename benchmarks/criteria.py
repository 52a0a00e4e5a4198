"""Speed of the accuracy criteria beside the machine's read limit and beside peers: `python -m benchmarks.criteria`.

Every figure is the median of rounds in which all contestants run in turn, so that a busy machine slows all alike.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec

import numpy as np

from mluops_gtest.criteria import compare
from mluops_gtest.model.criterion import CriterionKind
from mluops_gtest.model.dtypes import Array, DType
from mluops_gtest.native.library import native_core, numpy_alone

KINDS = (CriterionKind.DIFF1, CriterionKind.DIFF2, CriterionKind.DIFF3, CriterionKind.DIFF3_2)
Contestants = dict[str, Callable[[], object]]
# The share of the read limit that is to be reached with the native core; without it a twelfth.
GOALS = {DType.FLOAT: 0.45, DType.INT32: 0.45, DType.HALF: 0.25, DType.BFLOAT16: 0.25}
GOAL_WITHOUT = 0.08


def data(count: int, dtype: DType, equal: bool) -> tuple[Array, Array]:
    rng = np.random.default_rng(7)
    if dtype.is_integer:
        baseline = rng.integers(-(10**6), 10**6, count).astype(dtype.storage)
        evaluated = baseline + dtype.storage.type(1)
    else:
        baseline = rng.standard_normal(count, dtype=np.float32)
        evaluated = baseline * np.float32(1 + 2**-20)
        if dtype is DType.BFLOAT16:
            evaluated, baseline = ((side.view("<u4") >> np.uint32(16)).astype("<u2") for side in (evaluated, baseline))
            evaluated[::97] ^= 1
        else:
            evaluated, baseline = evaluated.astype(dtype.storage), baseline.astype(dtype.storage)
            evaluated[::97] = np.nextafter(evaluated[::97], dtype.storage.type(0))
    return (baseline.copy() if equal else evaluated), baseline


def read(evaluated: Array, baseline: Array) -> None:
    """The limit: both arrays read once by two threads, with the cheapest reduction numpy has."""

    def halves(array: Array) -> list[Array]:
        words = array.view(np.uint64)
        return [words[: len(words) // 2], words[len(words) // 2 :]]

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(np.bitwise_or.reduce, halves(evaluated) + halves(baseline)))


def naive(e: Array, b: Array) -> tuple[float, float, float, float]:
    """The formulas as they are written, on float64 copies."""
    e, b = e.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(e) & np.isfinite(b)
    difference = np.abs(e[finite] - b[finite])
    size = np.abs(b[finite])
    diff1 = difference.sum() / (size.sum() + 1e-9)
    diff2 = np.sqrt((difference**2).sum() / ((size**2).sum() + 1e-9))
    diff3 = np.where(size >= 1e-6, difference / (size + 1e-9), difference).max()
    return diff1, diff2, diff3, difference.max()


def contestants(evaluated: Array, baseline: Array, dtype: DType) -> Contestants:
    def by_numpy() -> None:
        with numpy_alone():
            compare(evaluated, baseline, dtype, KINDS)

    table: Contestants = {
        "compare": lambda: compare(evaluated, baseline, dtype, KINDS),
        "compare, numpy alone": by_numpy,
    }
    if dtype is DType.BFLOAT16:
        return table | limit(evaluated, baseline)
    table |= {
        "np.testing.assert_allclose": lambda: np.testing.assert_allclose(evaluated, baseline, rtol=0.1, atol=2),
        "naive numpy formulas": lambda: naive(evaluated, baseline),
    }
    if find_spec("torch"):
        torch = import_module("torch")
        e, b = torch.from_numpy(evaluated), torch.from_numpy(baseline)
        table["torch.testing.assert_close"] = lambda: torch.testing.assert_close(e, b, rtol=0.1, atol=2)
    return table | limit(evaluated, baseline)


def limit(evaluated: Array, baseline: Array) -> Contestants:
    """The read limit, for arrays that are larger than the caches."""
    return {"read limit, 2 threads": lambda: read(evaluated, baseline)} if evaluated.nbytes >= 1 << 22 else {}


def medians(table: Contestants, rounds: int, seconds: float) -> dict[str, float]:
    """Seconds per call; a quick contestant repeats within its turn."""
    times: dict[str, list[float]] = {name: [] for name in table}
    for work in table.values():
        work()
    end = time.perf_counter() + seconds
    while min(map(len, times.values())) < rounds and (time.perf_counter() < end or not all(times.values())):
        for name, work in table.items():
            repeats, start = 0, time.perf_counter()
            while repeats == 0 or time.perf_counter() - start < 2e-3:
                work()
                repeats += 1
            times[name].append((time.perf_counter() - start) / repeats)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=10_000_000, help="size of the large arrays")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=10.0, help="at most this long per row (one round at least)")
    options = parser.parse_args()
    rows = [(count, DType.FLOAT, False) for count in (10, 1000, 10_000, 100_000, 1_000_000)]
    rows += [(options.elements, dtype, False) for dtype in GOALS]
    rows += [(options.elements, DType.FLOAT, True)]
    for count, dtype, equal in rows:
        evaluated, baseline = data(count, dtype, equal)
        seconds = medians(contestants(evaluated, baseline, dtype), options.rounds, options.seconds)
        print(f"\n{count} x {dtype.value}{', equal' if equal else ''}, native core {native_core().words}")
        for name, value in seconds.items():
            print(f"  {name:28} {value * 1e6:12.1f} us  {value / seconds['compare']:8.2f} x compare")
        reading = next((value for name, value in seconds.items() if name.startswith("read limit")), None)
        if reading is not None:
            shares = reading / seconds["compare"], reading / seconds["compare, numpy alone"]
            print(
                f"  share of the read limit ({2 * evaluated.nbytes / reading / 1e9:.1f} GB/s): {shares[0]:.1%}, goal ",
                end="",
            )
            print(f"{GOALS[dtype]:.0%}; numpy alone {shares[1]:.1%}, goal {GOAL_WITHOUT:.0%}")


if __name__ == "__main__":
    main()
