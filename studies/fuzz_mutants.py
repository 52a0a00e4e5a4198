"""What fuzzing finds from scratch: `python -m studies.fuzz_mutants [--op OP] [--cases N] [--seed N] [-v]`.

Every wrong implementation that an operator ships, and every wrong answer to faulty calls that its ordered checks allow
(a check forgotten, another status, two checks exchanged, outputs written before the call is refused), is the backend of
a fuzz run of its own: how many draws it takes until one fails. All of them see the same draws, so that each is made
once; an implementation that is found sees no more. Shipped implementations check nothing, so that they see calls that
compute alone. The table is that of docs/reference/finding-bugs.md.
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.call import OpCall, Status
from mluops_gtest.core.case import Case
from mluops_gtest.core.declaration import Mutant
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.operator_parts import MUTANTS, SPACE
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.search.audit_declarations import Implementation
from mluops_gtest.search.draws import Draws, FuzzDraw
from mluops_gtest.search.fuzz import is_failure
from mluops_gtest.search.mutants import status_mutants

HEAD: Final = (
    "| operator | wrong implementations | found | draws, median | most "
    "| wrong statuses | found | draws, median | most | not found |"
)


@dataclass(frozen=True, slots=True)
class TrialDraws:
    """What became of the wrong implementations of one kind: the number of draws until each was found."""

    draws: Mapping[str, int | None]

    @property
    def draws_needed(self) -> list[int]:
        return [number for number in self.draws.values() if number is not None]

    @property
    def missed(self) -> list[str]:
        return [name for name, number in self.draws.items() if number is None]


class _Suspect:
    """A wrong implementation that is not found yet."""

    def __init__(self, mutant: Mutant, checks: tuple[str, ...] | None = None) -> None:
        """`checks`: its answers differ only for calls that one of these refuses; None: for calls that compute."""
        self.mutant, self._checks = mutant, checks
        run: Callable[[OpCall], Status] = mutant.fresh()
        options = Options(elementwise=True, bounds_alone=True, explain=False)
        self._executor = CaseRun(InlineCaller(Implementation(mutant.name, run)), options)

    def fails(self, case: Case, operator: Operator) -> bool:
        """The case tells; an exception of the mutant's own proves nothing."""
        computes = operator.computes(case.expect.status, case.expect.check)
        if not (computes if self._checks is None else case.expect.check in self._checks):
            return False
        with np.errstate(all="ignore"):
            result = self._executor.run_case(case, operator)
        return is_failure(result) and result.outcome is not Outcome.ERROR


def try_mutants(
    operator: Operator, drawn: Iterator[FuzzDraw], mutants: tuple[Mutant, ...]
) -> tuple[TrialDraws, TrialDraws]:
    """The shipped implementations and the wrong statuses, each fuzzed with these draws."""
    statuses = [_Suspect(one.mutant, one.checks) for one in status_mutants(operator)]
    kinds = [[_Suspect(mutant) for mutant in mutants], statuses]
    found: list[dict[str, int | None]] = [dict.fromkeys(one.mutant.name for one in kind) for kind in kinds]
    for one in drawn:
        for kind, known in zip(kinds, found, strict=True):
            for suspect in tuple(kind):
                if suspect.fails(one.case, operator):
                    known[suspect.mutant.name] = one.number + 1
                    kind.remove(suspect)
        if not any(kinds):
            break
    return TrialDraws(found[0]), TrialDraws(found[1])


def main(arguments: list[str] | None = None) -> int:
    """Print the table; exit 1 where less is found than the documentation says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--op", action="append", help="only this operator; repeat it for several")
    parser.add_argument("--cases", type=int, default=2000, help="draws per operator (default: 2000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-v", action="store_true", help="name what was not found, and when the rest was")
    options = parser.parse_args(arguments)
    known = Session().catalogue.operators
    print(HEAD, "|---|" + "---|" * 9, sep="\n")
    good = True
    for name in options.op or list(known):
        operator, space = known.find(name), known.part(known.find(name).name, SPACE)
        assert space is not None, f"{name} has no space.py"
        draws = Draws(operator, space, options.seed)
        cases = (one for number in range(options.cases) if (one := draws.draw(number)) is not None)
        wrong, statuses = try_mutants(operator, cases, known.part(operator.name, MUTANTS) or ())
        good = good and len(wrong.draws_needed) >= 0.95 * len(wrong.draws) and not statuses.missed
        print(_row(operator.name, wrong, statuses), flush=True)
        if options.v:
            for kind in (wrong, statuses):
                late = sorted((number or 0, name) for name, number in kind.draws.items())
                print("  ", ", ".join(f"{name} {number or 'not found'}" for number, name in late), file=sys.stderr)
    return 0 if good else 1


def _row(operator: str, *kinds: TrialDraws) -> str:
    cells = [operator]
    for kind in kinds:
        found = kind.draws_needed or [0]
        cells += map(str, (len(kind.draws), len(kind.draws_needed), round(statistics.median(found)), max(found)))
    return f"| {' | '.join((*cells, ', '.join(name for kind in kinds for name in kind.missed) or '–'))} |"


if __name__ == "__main__":
    sys.exit(main())
