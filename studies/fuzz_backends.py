"""Several backends fuzzed with the same draws: `python -m studies.fuzz_backends --cases N BACKEND…`.

As `mluops-test fuzz`, but each call is drawn, and what must come back is computed, once for all backends: that is most
of the work of a fuzz run. The corpus keeps failures and how far each operator has come, so that the same command goes
on where the last one stopped; `--cases` is the number of draws per operator in all. Prints one row per operator.
"""

import argparse
import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.buffers import computed_bounds
from mluops_gtest.core.case import Case, Query
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.judging.elementwise import expectation_of
from mluops_gtest.running.caller import open_callers
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.running.options import RunOptions
from mluops_gtest.search.corpus import Corpus
from mluops_gtest.search.fuzz import FuzzedOperator, FuzzRequest, FuzzRun, is_failure, local_scheduler, targets_of

T = TypeVar("T")
HEAD: Final = "| operator | draws in all | of which now | failed | pairs of classes | seconds |"


def cache_last(compute: Callable[[Case, Operator], T]) -> Callable[[Case, Operator], T]:
    """What `compute` says of the last case: the backends ask one after the other."""
    last: list[tuple[Case, T]] = []

    def cached(case: Case, operator: Operator) -> T:
        if not last or last[0][0] is not case:
            last[:] = [(case, compute(case, operator))]
        return last[0][1]

    return cached


class EveryBackend:
    """Runs a case on one backend after the other; the first that fails gives the verdict."""

    def __init__(self, executors: Mapping[str, CaseRun]) -> None:
        self._executors = executors
        self._asked: Counter[str] = Counter()

    def run_case(self, case: Case, operator: Operator | None) -> CaseResult:
        """The first failure, else the first verdict."""
        results = {name: executor.run_case(case, operator) for name, executor in self._executors.items()}
        self._asked["refused" if case.expect.check else "computing"] += 1
        self._asked.update(name for name, result in results.items() if result.outcome is not Outcome.SKIPPED)
        for name, result in results.items():
            if result.outcome is not Outcome.PASSED:
                print(f"{case.id} on {name}: {result.outcome.value}: {result.reason}", file=sys.stderr, flush=True)
            if is_failure(result):
                return result
        return next(iter(results.values()))

    @property
    def words(self) -> str:
        """How many calls of each kind were made, and how many each backend answered."""
        return ", ".join(f"{name} {self._asked[name]}" for name in ("computing", "refused", *self._executors))


def fuzz_operator(target: FuzzedOperator, runner: EveryBackend, corpus: Corpus, cases: int) -> int:
    """Print the row of an operator after as many draws as are missing; how many of them failed."""
    report = FuzzRun([target], local_scheduler([runner], corpus), corpus).run(max(0, cases - target.done), None)
    for result in report.broken:
        print(f"broken: {result.case}: {result.reason}", file=sys.stderr)
    failed = report.failed + len(report.broken)
    covered = f"{len(target.coverage.seen)} of {target.draws.features.total}"
    cells = (target.operator.name, target.done, runner.words, failed, covered, f"{report.seconds:.0f} s")
    print(f"| {' | '.join(map(str, cells))} |", flush=True)
    if report.interrupted:
        raise KeyboardInterrupt
    return failed


def main(arguments: list[str] | None = None) -> int:
    """Fuzz operator by operator; exit 1 where anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("backends", nargs="+", help="as for --backend of mluops-test")
    parser.add_argument("--op", action="append", default=[], help="only this operator; repeat it for several")
    parser.add_argument("--cases", type=int, default=20_000, help="draws per operator in all (default: 20000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-isolate", action="store_true", help="call the backends in this process: a crash ends it")
    parser.add_argument("--corpus", type=Path, default=Path("mluops-corpus"))
    options = parser.parse_args(arguments)
    session = Session()
    corpus = Corpus(options.corpus, session.catalogue.operators)
    judged = Options(
        elementwise=True,
        bounds_alone=True,
        expect=cache_last(expectation_of),
        bounds=cache_last(computed_bounds),
    )
    isolate = False if options.no_isolate else None
    together = RunOptions(Query(), ("builtin",), " ".join(options.backends), isolate=isolate, elementwise=True)
    with contextlib.ExitStack() as stack:
        executors = {}
        for backend in options.backends:
            (caller,) = stack.enter_context(open_callers(replace(together, backend=backend), session.catalogue))
            executors[backend] = CaseRun(caller, judged)
        print(HEAD, "|---" * HEAD.count(" | ") + "|---|", sep="\n")
        targets = targets_of(FuzzRequest(together, tuple(options.op), options.corpus, options.seed), session, corpus)
        return int(sum(fuzz_operator(target, EveryBackend(executors), corpus, options.cases) for target in targets) > 0)


if __name__ == "__main__":
    sys.exit(main())
