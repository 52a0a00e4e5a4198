"""A fuzz run as it is asked for: which operators, from which draw on, on which callers, into which corpus."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from mluops_gtest.base.errors import ExitCode, NothingSelectedError, UsageError
from mluops_gtest.base.float_state import own_floats
from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.buffers import Side
from mluops_gtest.core.case import Case
from mluops_gtest.core.operator_parts import REDUCTIONS, SPACE
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.saved_outputs import OutputListener
from mluops_gtest.running.caller import open_callers
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.running.options import RunOptions, Stress
from mluops_gtest.search.corpus import Corpus
from mluops_gtest.search.draws import Draws
from mluops_gtest.search.fuzz import FuzzCaseFinished, FuzzedOperator, FuzzReport, FuzzRun, is_failure, local_scheduler
from mluops_gtest.search.minimise import Minimised, minimised

FIRST_SEED: Final = 0
# How long a fuzz run takes for which neither a time nor a number of cases is said.
SECONDS: Final = 60.0


class FuzzRequest(Value):
    """What is asked for."""

    # How the backend is called; its selection is not used.
    run: RunOptions
    operators: tuple[str, ...]
    corpus: Path
    # None: the seed of the newest fuzz run in the corpus, else the first.
    seed: int | None = None
    # Per operator.
    cases: int | None = None
    seconds: float | None = None


def targets_of(request: FuzzRequest, session: Session, corpus: Corpus) -> list[FuzzedOperator]:
    """The operators to draw for, each from where an earlier hunt stopped; those without a space are left out."""
    known = session.catalogue.operators
    chosen = [known.find(name) for name in request.operators] or [known[name] for name in known]
    found = []
    for operator in chosen:
        space = known.part(operator.name, SPACE)
        if space is None:
            continue
        seed = request.seed
        if seed is None:
            seed = corpus.last_seed(operator.name, request.run.backend)
        draws = Draws(operator, space, FIRST_SEED if seed is None else seed)
        reductions = known.part(operator.name, REDUCTIONS) or {}
        target = FuzzedOperator(operator, draws, request.run.backend, reductions)
        target.resume(corpus.progress(target.begun))
        found.append(target)
    if not found:
        names = ", ".join(operator.name for operator in chosen) or "no operator"
        raise NothingSelectedError(
            f"Nothing can be drawn for {names}: there is no space.py; see docs/reference/finding-bugs.md."
        )
    return found


@own_floats()
def run_fuzz(
    request: FuzzRequest,
    session: Session,
    begin: Callable[[Sequence[FuzzedOperator]], None] = lambda _: None,
    tell: Callable[[FuzzCaseFinished, FuzzReport], None] = lambda *_: None,
) -> FuzzReport:
    """Run the hunt; `begin` hears what is drawn for once the backend is loaded, `tell` every verdict."""
    corpus = Corpus(request.corpus, session.catalogue.operators)
    targets = targets_of(request, session, corpus)
    options = fuzz_options(request.run)
    with open_callers(request.run, session.catalogue) as callers:
        runners = [CaseRun(caller, options) for caller in callers]
        begin(targets)
        return FuzzRun(targets, local_scheduler(runners, corpus), corpus, tell).run(request.cases, request.seconds)


class FuzzRunner:
    """The backend of a fuzz run, open for any number of calls that somebody else draws."""

    def __init__(self, session: Session, request: RunOptions, keep: OutputListener | None = None) -> None:
        """`keep` sees the outputs of every call that answered and should have computed."""
        self._operators, self._request, self._catalogue = session.catalogue.operators, request, session.catalogue
        self._keep = keep
        self._open = contextlib.ExitStack()
        # What the backend says of itself.
        self.backend = self.version = ""

    @own_floats()
    def __enter__(self) -> "FuzzRunner":
        """Load the backend; an error says why that is impossible."""
        (caller,) = self._open.enter_context(open_callers(self._request, self._catalogue))
        self._runner = CaseRun(caller, fuzz_options(self._request), self._keep)
        self.backend, self.version = caller.name, caller.version
        self.precision, self.is_reference = caller.precision, caller.is_reference
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)

    def prepare(self, operator: str) -> None:
        """Load the operator, before somebody looks at the clock."""
        _ = self._operators[operator]

    @own_floats()
    def run(self, case: Case, smaller: bool) -> tuple[CaseResult, Minimised | None]:
        """The verdict on a call; on the smallest one that fails for the same cause if that is asked for, with it."""
        operator = self._operators[case.operator]
        if not smaller:
            return self._runner.run_case(case, operator), None
        reductions = self._operators.part(operator.name, REDUCTIONS) or {}
        small = minimised(case, operator, reductions, lambda one: self._runner.run_case(one, operator))
        return small.result, small


def fuzz_options(request: RunOptions) -> Options:
    """How calls of a fuzz run are run and judged."""
    stress = None if request.stress is None else Stress.parse(request.stress)
    if stress is not None and stress.times is None:
        raise UsageError(
            "--stress: say how often each draw is repeated, e.g. --stress 5x; --seconds is for the whole fuzz run."
        )
    return Options(
        elementwise=True,
        bounds_alone=True,
        timeout=request.timeout,
        stress=stress,
        sides=tuple(Side) if request.guard_pages else (None,),
    )


def fuzz_exit_code(report: FuzzReport) -> ExitCode:
    """What a fuzz run answers to the shell."""
    codes = set()
    if report.findings or report.failed or any(is_failure(result) for _, result in report.corpus):
        codes.add(ExitCode.FAILED)
    codes |= {ExitCode.BUG if result.bug else ExitCode.CONTENT for result in report.broken}
    if report.lost is not None:
        codes.add(ExitCode.BACKEND)
    if report.interrupted:
        return ExitCode.INTERRUPTED
    if not report.compared:
        codes.add(ExitCode.EMPTY)
    return ExitCode.worst(codes)
