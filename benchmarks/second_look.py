"""What the second look costs: `python -m benchmarks.second_look [--op OP] [--rounds N] [--network]`.

Default runs on the numpy backend with and without it, in one process and in turn, case by case, so that a busy machine
slows both alike: read the ratio. `--network` compares, for every network case, the time of its bound with that of its
reference: computed, and read from the cache.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mluops_gtest.api.session import Session
from mluops_gtest.backends.numpy_backend import NumpyBackend
from mluops_gtest.engine.caller import InlineCaller
from mluops_gtest.engine.execute import Executor, Options
from mluops_gtest.generate.kept_bounds import KeptBounds
from mluops_gtest.model.binding import bind_values
from mluops_gtest.model.bounds import bounds_of
from mluops_gtest.model.query import Query

# Seconds: of this process and its threads, and on the wall.
CLOCKS: dict[str, Callable[[], float]] = {"processor": time.process_time, "wall": time.perf_counter}
GOAL = 1.3
NAMES = ("bound", "kept")


@dataclass(slots=True)
class Times:
    """Seconds by clock: what both ways share, and each of them."""

    shared: dict[str, float]
    looking: dict[str, float]
    not_looking: dict[str, float]

    def ratio(self, clock: str) -> float:
        """A default run with the second look over one without."""
        return (self.shared[clock] + self.looking[clock]) / (self.shared[clock] + self.not_looking[clock])


def timed(times: dict[str, float], work: Callable[[], object]) -> None:
    """Add what the work takes."""
    before = {name: clock() for name, clock in CLOCKS.items()}
    work()
    for name, clock in CLOCKS.items():
        times[name] += clock() - before[name]


def one_round(session: Session, operators: list[str], turn: int) -> Times:
    """Every default case loaded once and run both ways; which way comes first changes from case to case."""
    chosen = session.select(Query(operators=tuple(operators)) if operators else Query()).cases
    chosen = tuple(case for case in chosen if not {"network", "race"} & set(case.tags))
    source, known = session.source(chosen), session.catalogue.operators
    times = Times(*(dict.fromkeys(CLOCKS, 0.0) for _ in range(3)))
    caller = InlineCaller(NumpyBackend(known))
    ways = [
        (times.looking, Executor(caller, Options())),
        (times.not_looking, Executor(caller, Options(elementwise=False))),
    ]
    for number, selected in enumerate(chosen):
        loaded = []
        timed(times.shared, lambda: loaded.append(source.load(selected.id)))  # noqa: B023 - called at once
        (case,) = loaded
        for way, executor in ways if (number + turn) % 2 else ways[::-1]:
            timed(way, lambda: executor.execute(case, known[case.operator]))  # noqa: B023
    return times


def network(session: Session, operators: list[str]) -> Iterator[str]:
    """A line per network case: seconds of reference and bound."""
    chosen = session.select(Query(operators=tuple(operators), tags=("network",))).cases
    source, known = session.source(chosen), session.catalogue.operators
    for selected in chosen:
        case, operator = source.load(selected.id), known[selected.operator]
        if operator.bound is None:
            continue
        call = bind_values(case, operator)
        kept = KeptBounds(lambda name: session.catalogue.root_of(name).generators)
        kept(case, operator)
        reference, bound, read = (dict.fromkeys(CLOCKS, 0.0) for _ in range(3))
        timed(reference, lambda: operator.reference(call))  # noqa: B023
        timed(bound, lambda: bounds_of(operator, call))  # noqa: B023
        timed(read, lambda: kept(case, operator))  # noqa: B023
        first, *others = (times["processor"] for times in (reference, bound, read))
        shares = (
            f"{name} {time:6.3f} s {time / max(first, 1e-9):5.2f}×" for name, time in zip(NAMES, others, strict=True)
        )
        yield f"{selected.id:56} reference {first:6.3f} s  {'  '.join(shares)}"


def main() -> int:
    """The ratio; 1 where it is beyond the goal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--op", action="append", default=[], help="only this operator")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="runs of the default set both ways (3)")
    parser.add_argument("--network", action="store_true", help="bounds of network cases beside their references")
    options = parser.parse_args()
    session = Session()
    if options.network:
        for line in network(session, options.op):
            print(line, flush=True)
        return 0
    rounds = [one_round(session, options.op, turn) for turn in range(options.rounds)]
    ratios = {clock: statistics.median(times.ratio(clock) for times in rounds) for clock in CLOCKS}
    for clock, ratio in ratios.items():
        seconds = min(times.shared[clock] + times.looking[clock] for times in rounds)
        print(f"{clock}: {ratio:.3f}× (a default run with the second look: {seconds:.1f} s)")
    print(f"goal: at most {GOAL}×")
    return int(ratios["processor"] > GOAL)


if __name__ == "__main__":
    sys.exit(main())
