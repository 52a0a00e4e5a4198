"""Many products of matrices at once: a thread of ours for each of BLAS, which then do not wait for each other.

Left to itself BLAS shares every single product among its threads, and these meet in it again and again: where the
machine is busy they wait longer than they multiply, and what lies between two products has one thread alone.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any, Final, TypeVar

import numpy as np

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# The number of threads belongs to the process.
_ALONE: Final = Lock()
# numpy's own wheels rename the functions of the OpenBLAS that they bring, and those with 64-bit integers.
_NAMES: Final = [f"{prefix}openblas_%s_num_threads{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "")]


def each(work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
    """`work` on every item, on as many threads as BLAS would take; the results in order."""
    if len(items) < 2:
        return list(map(work, items))
    from concurrent.futures import ThreadPoolExecutor

    # What numpy warns of is set for each thread.
    settings = np.geterr()

    def as_here(item: _Item) -> _Result:
        with np.errstate(**settings):
            return work(item)

    with _one_per_product() as threads, ThreadPoolExecutor(threads) as pool:
        return list(pool.map(as_here, items))


@contextmanager
def _one_per_product() -> Iterator[int]:
    """Inside, a product takes one thread; how many there were. 1 where BLAS is another one, which is left alone."""
    functions = _openblas()
    if functions is None:
        yield 1
        return
    number, set_number = functions
    with _ALONE:
        before = number()
        set_number(1)
        try:
            yield before
        finally:
            set_number(before)


@cache
def _openblas() -> tuple[Any, Any] | None:
    """How many threads the OpenBLAS of numpy takes for a product, and how to change that."""
    try:
        library = ctypes.CDLL(import_module("numpy._core._multiarray_umath").__file__)
    except (ImportError, OSError):
        return None
    for name in _NAMES:
        if hasattr(library, name % "set"):
            return getattr(library, name % "get"), getattr(library, name % "set")
    return None
