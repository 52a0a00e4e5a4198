"""What isolation costs: `python benchmarks/isolation.py`. Ratios and differences are taken in one run, side by side.

1. A tiny case inline and in a worker, in blocks by turns (a run is all one or all the other): the difference per case.
2. 300 MB of tensors into a worker's memory against a plain copy of the same bytes.
"""

import statistics
import time
from pathlib import Path

import numpy as np

from mluops_gtest.backends.reference_backend import ReferenceBackend
from mluops_gtest.content.catalogue import Catalogue
from mluops_gtest.content.root import Root
from mluops_gtest.engine.buffers import Wanted
from mluops_gtest.engine.caller import InlineCaller
from mluops_gtest.engine.execute import Executor, Options
from mluops_gtest.engine.isolation.caller import IsolatedCaller
from mluops_gtest.engine.isolation.forking import ForkServer
from mluops_gtest.engine.loading import BackendChoice
from mluops_gtest.generate.make import make_case

ROOT = Path(__file__).parents[1]
TINY = "masked_im2col_forward/retinanet_1x1_twin_float"
ROUNDS = 10
BLOCK = 50
BIG_BYTES = 300_000_000
BIG_ROUNDS = 7


def median_seconds(calls, rounds, block=1):
    """The median time of each call, taken in turn, `block` of each at a time, so that noise meets them alike."""
    times = [[] for _ in calls]
    for _ in range(rounds):
        for call, kept in zip(calls, times, strict=True):
            for _ in range(block):
                start = time.perf_counter()
                call()
                kept.append(time.perf_counter() - start)
    return [statistics.median(kept) for kept in times]


def main():
    catalogue = Catalogue(Root(ROOT))
    draft = catalogue.drafts[TINY]
    operator = catalogue.operators[draft.operator]
    case = make_case(draft, operator)
    fork_server = ForkServer()
    caller = IsolatedCaller(fork_server, BackendChoice("reference", (str(ROOT),)))
    try:
        caller.start()
        inline = Executor(InlineCaller(ReferenceBackend(catalogue.operators)), Options())
        isolated = Executor(caller, Options())
        here, there = median_seconds(
            [lambda: inline.execute(case, operator), lambda: isolated.execute(case, operator)], ROUNDS, BLOCK
        )
        print(
            f"tiny case: inline {here * 1e3:.3f} ms, isolated {there * 1e3:.3f} ms, "
            f"difference {(there - here) * 1e3:.3f} ms"
        )

        source = np.ones(BIG_BYTES // 4, "<f4")
        target = np.zeros_like(source)
        data = caller.tensors.lay_out([Wanted("big", source.nbytes)])["big"].data.view("<f4")

        def plain():
            target[:] = source

        def shared():
            data[:] = source

        plain()
        shared()
        copy, into = median_seconds([plain, shared], BIG_ROUNDS)
        print(
            f"300 MB: plain copy {copy * 1e3:.1f} ms, into a worker's memory {into * 1e3:.1f} ms, "
            f"ratio {into / copy:.2f}"
        )
    finally:
        caller.close()
        fork_server.close()


if __name__ == "__main__":
    main()
