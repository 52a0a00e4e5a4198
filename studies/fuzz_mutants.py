"""What fuzzing finds from scratch: `python -m studies.fuzz_mutants [--op OP] [--cases N] [--seed N] [-v]`.

Every wrong implementation that an operator ships, and every wrong status that the stored cases show (a check forgotten,
another status, checks asked behind later ones, outputs written before a call is refused, a query that checks nothing),
is the backend of a fuzz run of its own: how many draws it takes until one fails. All of them see the same draws, so
that each is made once; an implementation that is found sees no more. Shipped implementations check nothing, so that
they see calls that compute alone; wrong statuses follow from what each check says of a draw. The table is that of
docs/reference/finding-bugs.md.
"""

import argparse
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.case import Case
from mluops_gtest.core.declaration import Mutant
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.operator_parts import MUTANTS, SPACE
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.search.audit_declarations import Implementation, Subject
from mluops_gtest.search.draws import Draws, FuzzDraw
from mluops_gtest.search.fuzz import is_failure
from mluops_gtest.search.mutants import status_trials, subject_of
from mluops_gtest.search.status_mutants import RefusedCall, StatusMutant, status_mutants

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
    """A wrong implementation that is not found yet, held to calls that compute."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        options = Options(elementwise=True, bounds_alone=True, explain=False)
        self._executor = CaseRun(InlineCaller(Implementation(mutant.name, mutant.fresh())), options)

    def fails(self, case: Case, operator: Operator) -> bool:
        """The case tells; an exception of the mutant's own proves nothing."""
        if not operator.computes(case.expect.status, case.expect.check):
            return False
        with np.errstate(all="ignore"):
            result = self._executor.run_case(case, operator)
        return is_failure(result) and result.outcome is not Outcome.ERROR


def try_mutants(
    operator: Operator, drawn: Iterator[FuzzDraw], mutants: tuple[Mutant, ...], statuses: Iterable[StatusMutant]
) -> tuple[TrialDraws, TrialDraws]:
    """The shipped implementations and the wrong statuses, each fuzzed with these draws."""
    suspects, wrong = [_Suspect(mutant) for mutant in mutants], list(statuses)
    found: dict[str, int | None] = dict.fromkeys(one.mutant.name for one in suspects)
    told: dict[str, int | None] = dict.fromkeys(one.name for one in wrong)
    for one in drawn:
        for suspect in [suspect for suspect in suspects if suspect.fails(one.case, operator)]:
            found[suspect.mutant.name] = one.number + 1
            suspects.remove(suspect)
        if one.case.expect.check is not None:
            call = RefusedCall.of(one.case, operator)
            for mutant in [mutant for mutant in wrong if mutant.is_told_by(call)]:
                told[mutant.name] = one.number + 1
                wrong.remove(mutant)
        if not (suspects or wrong):
            break
    return TrialDraws(found), TrialDraws(told)


def shown_statuses(subject: Subject) -> list[StatusMutant]:
    """The wrong statuses that the stored cases show: those that some call can show."""
    shown = {trial.name for trial in status_trials(subject, first_kill=True) if trial.caught_by}
    return [one for one in status_mutants(subject.operator, subject.derived) if one.name in shown]


def main(arguments: list[str] | None = None) -> int:
    """Print the table; exit 1 where less is found than the documentation says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--op", action="append", help="only this operator; repeat it for several")
    parser.add_argument("--cases", type=int, default=2000, help="draws per operator (default: 2000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-v", action="store_true", help="name what was not found, and when the rest was")
    options = parser.parse_args(arguments)
    session = Session()
    known = session.catalogue.operators
    print(HEAD, "|---|" + "---|" * 9, sep="\n")
    good = True
    for name in options.op or list(known):
        operator, space = known.find(name), known.part(known.find(name).name, SPACE)
        assert space is not None, f"{name} has no space.py"
        draws = Draws(operator, space, options.seed)
        cases = (one for number in range(options.cases) if (one := draws.draw(number)) is not None)
        subject = subject_of(session, operator.name, 0)
        wrong, statuses = try_mutants(
            operator, cases, known.part(operator.name, MUTANTS) or (), shown_statuses(subject)
        )
        good = good and all(len(one.draws_needed) >= 0.95 * len(one.draws) for one in (wrong, statuses))
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
