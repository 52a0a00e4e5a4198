"""What the element-wise check costs: default cases with and without it, in one process and in turn, case by case."""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.rows import Goal, Rounds, Row
from mluops_gtest.backends.numpy_backend import NumpyBackend
from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.case import Query
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options

OPERATOR = "voxel_pooling_forward"
WITHOUT = "without it"


@dataclass(slots=True)
class Times:
    """Processor seconds: what both ways share, and each of them."""

    shared: float = 0.0
    looking: float = 0.0
    not_looking: float = 0.0


def seconds_of(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def one_round(session: Session, operators: list[str], turn: int) -> Times:
    """Every default case loaded once and run both ways; which way comes first changes from case to case."""
    chosen = session.select(Query(operators=tuple(operators)) if operators else Query()).cases
    chosen = tuple(case for case in chosen if not {"network", "race"} & set(case.tags))
    source, known = session.source(chosen), session.catalogue.operators
    times = Times()
    caller = InlineCaller(NumpyBackend(known))
    ways = [("looking", CaseRun(caller, Options())), ("not_looking", CaseRun(caller, Options(elementwise=False)))]
    for number, selected in enumerate(chosen):
        start = time.process_time()
        case = source.load(selected.id)
        times.shared += time.process_time() - start
        for way, executor in ways if (number + turn) % 2 else ways[::-1]:
            taken = seconds_of(lambda: executor.run_case(case, known[case.operator]))  # noqa: B023 - called at once
            setattr(times, way, getattr(times, way) + taken)
    return times


def rows() -> list[Row]:
    goals = (Goal(WITHOUT, 1.3),)
    what = "on the numpy backend with the element-wise check"
    few = Row("elementwise-check/default", f"default cases of {OPERATOR} {what}", partial(_rounds, [OPERATOR]), goals)
    return [
        few,
        Row("elementwise-check/every-operator", f"default cases of every operator {what}", partial(_rounds, []), goals),
    ]


def _rounds(operators: list[str]) -> Rounds:
    session = Session()
    for turn in itertools.count():
        times = one_round(session, operators, turn)
        yield {"with": times.shared + times.looking, WITHOUT: times.shared + times.not_looking}
