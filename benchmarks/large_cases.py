"""A run of network cases from a warm cache: two workers beside one, and the memory that it takes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from benchmarks.processes import ProcessUsage, commands
from benchmarks.rows import Goal, Rounds, Row, interleaved
from mluops_gtest.authoring import Draw
from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.buffers import BufferSpec
from mluops_gtest.core.case import Query
from mluops_gtest.core.tensor import DType
from mluops_gtest.running.workers.memory import SharedArena

# About as long each, of most operators.
SIDE_BY_SIDE = (
    "voxel_pooling_forward/bevdepth",
    "three_interpolate_forward/propagation_512x128x2048_float",
    "three_interpolate_backward/propagation_512x128x2048_float",
    "three_interpolate_backward/propagation_512x128x2048_half",
    "get_indice_pairs/network_subm_41x1440x1440",
    "get_indice_pairs/network_down_21x720x720",
    "indice_convolution_forward/centerpoint_3_float",
    "indice_convolution_backward_data/centerpoint_0_float",
    "indice_convolution_backward_filter/centerpoint_3_float",
    "three_nn_forward/network_b2_16384_float",
)
# The largest tensors, once of inputs and once of an output with a bound for each element.
LARGEST = ("voxel_pooling_forward/bevdepth", "three_interpolate_forward/propagation_1024x128x4096_float")
ONE, BOTH_CORES = "one worker, 1 thread", "one worker, 2 threads"
TENSORS = "tensors of the largest case"
COPY = "a plain copy"
DRAWN = 75_700_000


def rows() -> list[Row]:
    return [
        Row(
            "large/two-workers",
            f"{len(SIDE_BY_SIDE)} network cases from a warm cache, two workers with 1 thread each",
            _two_workers,
            (Goal(ONE, 1 / 1.5), Goal(BOTH_CORES, 1)),
        ),
        Row(
            "large/memory",
            "peak memory of a run of the largest network cases from a warm cache",
            _memory,
            (Goal(TENSORS, 2),),
            unit="B",
        ),
        Row(
            "large/into-worker",
            "300 MB of inputs into the memory that a worker shares",
            _into_worker,
            (Goal(COPY, 1.5),),
            COPY,
        ),
        Row(
            "large/random",
            "75.7 M float32 lattice values, the same on every machine",
            _random,
            (Goal("Generator.random", 1),),
            "raw Philox words, 1 thread",
        ),
    ]


@contextmanager
def warm_runs(cases: tuple[str, ...]) -> Iterator[Callable[[str, str], ProcessUsage]]:
    """Runs the cases with so many workers, whose libraries use so many threads; a first run has filled the cache."""
    with commands() as python:

        def run(workers: str, threads: str) -> ProcessUsage:
            words = ("run", *cases, "-q", "--isolate", "-j", workers, "--out", "results", "--overwrite")
            return python.threaded(threads).ours(*words)

        run("1", "2")
        yield run


def _two_workers() -> Rounds:
    ways = {"two workers, 1 thread each": ("2", "1"), ONE: ("1", "1"), BOTH_CORES: ("1", "2")}
    with warm_runs(SIDE_BY_SIDE) as run:
        while True:
            yield {name: run(*way).seconds for name, way in ways.items()}


def _memory() -> Rounds:
    largest = max(map(_tensor_bytes, LARGEST))
    with warm_runs(LARGEST) as run:
        while True:
            yield {"peak": run("1", "1").peak_bytes, TENSORS: largest}


def _tensor_bytes(case_id: str) -> int:
    session = Session()
    chosen = session.select(Query((case_id,))).cases
    tensors = session.source(chosen).lock[case_id].tensors
    return sum(
        DType.named(tensor["dtype"]).itemsize * int(np.prod(tensor["dims"]))
        for side in ("inputs", "outputs")
        for tensor in tensors[side]
    )


def _into_worker() -> Rounds:
    source = np.ones(300_000_000, np.uint8)
    target, arena = np.zeros_like(source), SharedArena()
    try:
        data = arena.allocate([BufferSpec("big", source.nbytes)])["big"].data
        yield from interleaved(
            {"shared memory": lambda: np.copyto(data, source), COPY: lambda: np.copyto(target, source)}
        )
    finally:
        arena.close()


def _random() -> Rounds:
    generator = np.random.default_rng(1)
    yield from interleaved(
        {
            "Stream.lattice": lambda: Draw(1).stream("values").lattice(DRAWN, 20),
            "Generator.random": lambda: generator.random(DRAWN, np.float32),
            "Generator.standard_normal": lambda: generator.standard_normal(DRAWN, np.float32),
            "raw Philox words, 1 thread": lambda: np.random.Philox(1).random_raw(DRAWN // 2),
        }
    )
