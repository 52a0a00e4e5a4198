"""The accuracy criteria beside np.testing, torch.testing, the plain formulas and the machine's read limit."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from importlib.util import find_spec

import numpy as np

from benchmarks.plain_c import at, compiled, number
from benchmarks.rows import Goal, Round, Rounds, Row, interleaved, share
from mluops_gtest.base.native.library import numpy_alone
from mluops_gtest.core.declaration import Bound
from mluops_gtest.core.tensor import Array, CriterionKind, DType
from mluops_gtest.judging.criteria import compare
from mluops_gtest.judging.elementwise import Limits

KINDS = (CriterionKind.DIFF1, CriterionKind.DIFF2, CriterionKind.DIFF3, CriterionKind.DIFF3_2)
LARGE = 10_000_000
LIMIT = "reading the bytes, 2 threads"
NP_TESTING, TORCH_TESTING = "np.testing.assert_allclose", "torch.testing.assert_close"
# The share of the read limit that is to be reached with the native core; without it a twelfth.
SHARES = {DType.FLOAT: 0.45, DType.INT32: 0.45, DType.HALF: 0.25, DType.BFLOAT16: 0.25}
SHARE_WITHOUT = 0.08
# Below 10^4 elements a call costs at most so much.
MOST_SECONDS = {"20 µs": 20e-6}
MOST_SECONDS_WITHOUT = {"80 µs": 80e-6}


def rows() -> list[Row]:
    no_slower = (Goal(NP_TESTING, 1), Goal(TORCH_TESTING, 1))
    small = [
        Row(
            f"criteria/float/{count}",
            f"{count} float32",
            partial(_rounds, count, DType.FLOAT, fixed=MOST_SECONDS if count < 10_000 else {}),
            (Goal("20 µs", 1),) if count < 10_000 else no_slower,
            quick=count == 10_000,
        )
        for count in (10, 1000, 10_000, 100_000, 1_000_000)
    ]
    large = [
        Row(
            f"criteria/{dtype.value}/10M",
            f"10 M {dtype.value}, diff1, diff2, diff3, diff3_2 and what a verdict needs",
            partial(_rounds, LARGE, dtype),
            (share(LIMIT, least), *(no_slower if dtype is DType.FLOAT else ())),
            LIMIT,
            quick=dtype is not DType.INT32,
        )
        for dtype, least in SHARES.items()
    ]
    return [
        *small,
        *large,
        Row("criteria/equal/10M", "10 M float32 that are equal", partial(_rounds, LARGE, DType.FLOAT, True), (), LIMIT),
        Row(
            "criteria/bound/10M",
            "10 M float32 with the element-wise check: each against a bound of its own (its bytes count as read)",
            _elementwise_check,
            (share(LIMIT, 0.45),),
            LIMIT,
        ),
        Row(
            "criteria/numpy/1000",
            "1000 float32 without the native core",
            partial(_rounds, 1000, DType.FLOAT, native=False, fixed=MOST_SECONDS_WITHOUT),
            (Goal("80 µs", 1),),
        ),
        Row(
            "criteria/numpy/10M",
            "10 M float32 without the native core",
            partial(_rounds, LARGE, DType.FLOAT, native=False),
            (share(LIMIT, SHARE_WITHOUT), *no_slower),
            LIMIT,
            quick=True,
        ),
        Row(
            "criteria/growth",
            "seconds per element: 30 M float32 beside 3 M",
            _growth,
            (Goal("3 M", 1.25),),
        ),
    ]


def data(count: int, dtype: DType, equal: bool = False) -> tuple[Array, Array]:
    """Two arrays that differ nearly everywhere by a little, as a kernel's answer does; or nowhere."""
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


def _rounds(
    count: int, dtype: DType, equal: bool = False, *, native: bool = True, fixed: Round | None = None
) -> Rounds:
    evaluated, baseline = data(count, dtype, equal)
    ours = "compare" if native else "compare by numpy"
    with ThreadPoolExecutor(2) as pool:
        contestants = {
            ours: partial(compare if native else _by_numpy, evaluated, baseline, dtype, KINDS),
            **_peers(evaluated, baseline, dtype),
        }
        if evaluated.nbytes >= 1 << 22:  # larger than the caches
            contestants[LIMIT] = partial(read, pool, evaluated, baseline)
        for one in interleaved(contestants):
            yield one | (fixed or {})


def _peers(evaluated: Array, baseline: Array, dtype: DType) -> dict[str, Callable[[], object]]:
    if dtype is DType.BFLOAT16:
        return {}
    peers: dict[str, Callable[[], object]] = {
        NP_TESTING: lambda: np.testing.assert_allclose(evaluated, baseline, rtol=0.1, atol=2),
    }
    if baseline.size < LARGE:  # it takes seconds there
        peers["the formulas in numpy"] = partial(formulas, evaluated, baseline)
    if find_spec("torch"):
        torch = import_module("torch")
        e, b = torch.from_numpy(evaluated), torch.from_numpy(baseline)
        peers[TORCH_TESTING] = lambda: torch.testing.assert_close(e, b, rtol=0.1, atol=2)
    library = compiled()
    if library is not None and dtype is DType.FLOAT:
        sums = np.empty(6)
        peers["the formulas in one C loop"] = lambda: library.formulas(
            at(evaluated), at(baseline), number(baseline.size), at(sums)
        )
    return peers


def _by_numpy(evaluated: Array, baseline: Array, dtype: DType, kinds: tuple[CriterionKind, ...]) -> None:
    with numpy_alone():
        compare(evaluated, baseline, dtype, kinds)


def _elementwise_check() -> Rounds:
    evaluated, baseline = data(LARGE, DType.FLOAT)
    bound = Bound(np.abs(baseline).astype(np.float64) * 4, 30)
    with ThreadPoolExecutor(2) as pool:

        def both() -> None:
            compare(evaluated, baseline, DType.FLOAT, KINDS, lambda: Limits(bound))

        yield from interleaved(
            {"compare and element-wise check": both, LIMIT: partial(read, pool, evaluated, baseline, bound.magnitude)}
        )


def _growth() -> Rounds:
    evaluated, baseline = data(30_000_000, DType.FLOAT)
    few = evaluated[:3_000_000], baseline[:3_000_000]
    for one in interleaved(
        {
            "30 M": lambda: compare(evaluated, baseline, DType.FLOAT, KINDS),
            "3 M": lambda: compare(*few, DType.FLOAT, KINDS),
        }
    ):
        yield {"30 M": one["30 M"] / 30e6, "3 M": one["3 M"] / 3e6}


def read(pool: ThreadPoolExecutor, *arrays: Array) -> None:
    """The limit: every byte read once by two threads, with the cheapest reduction that numpy has."""
    words = [array.view(np.uint64) for array in arrays]
    halves = [half for one in words for half in (one[: len(one) // 2], one[len(one) // 2 :])]
    list(pool.map(np.bitwise_or.reduce, halves))


def formulas(e: Array, b: Array) -> tuple[float, float, float, float]:
    """As they are written, on float64 copies."""
    e, b = e.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(e) & np.isfinite(b)
    difference = np.abs(e[finite] - b[finite])
    size = np.abs(b[finite])
    diff1 = difference.sum() / (size.sum() + 1e-9)
    diff2 = np.sqrt((difference**2).sum() / ((size**2).sum() + 1e-9))
    diff3 = np.where(size >= 1e-6, difference / (size + 1e-9), difference).max()
    return diff1, diff2, diff3, difference.max()
