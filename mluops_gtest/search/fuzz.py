"""A run of `fuzz`: which operators are drawn for, each call that is made, and what the corpus keeps of every cause."""

import contextlib
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final, Protocol

from msgspec.structs import replace

from mluops_gtest.base.errors import ExitCode, NothingSelectedError, UsageError
from mluops_gtest.base.float_state import own_floats
from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.buffers import Side
from mluops_gtest.core.case import Case, Query
from mluops_gtest.core.cause import Cause, WorkerLost, format_reason
from mluops_gtest.core.declaration import Reduction
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.operator_parts import REDUCTIONS, SPACE
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.readings import format_headline
from mluops_gtest.core.result import CaseResult
from mluops_gtest.judging.groups import cause_groups
from mluops_gtest.judging.verdict import not_loaded
from mluops_gtest.results.saved_outputs import OutputListener
from mluops_gtest.running.caller import open_callers
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.running.options import RunOptions, Stress
from mluops_gtest.running.run import Scheduler, SchedulerProtocol
from mluops_gtest.search.corpus import CauseKey, Corpus, CorpusEntry, KnownCauses, Progress, cause_key
from mluops_gtest.search.draws import Draws
from mluops_gtest.search.fault_search import Coverage, Pairs
from mluops_gtest.search.minimise import Minimised, minimised


@dataclass(slots=True)
class FuzzedOperator:
    """An operator that is drawn for, and how far that has come without a gap."""

    operator: Operator
    draws: Draws
    backend: str
    # How its calls become smaller.
    reductions: Mapping[str, Reduction] = field(default_factory=dict)
    done: int = 0
    coverage: Coverage = field(init=False)
    # Finished draws after one that is not.
    _ahead: dict[int, Pairs] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.coverage = Coverage(self.draws.features)

    @property
    def begun(self) -> Progress:
        """The fuzz run, as if nothing were done."""
        return Progress(self.operator.name, self.backend, self.draws.seed, self.draws.digest)

    @property
    def progress(self) -> Progress:
        """How far the fuzz run is."""
        return replace(self.begun, draws=self.done, seen=self.coverage.to_text())

    def resume(self, progress: Progress) -> None:
        """Go on behind what is done."""
        self.done = progress.draws
        self.coverage = Coverage.from_text(self.draws.features, progress.seen)
        self.draws.coverage.seen = set(self.coverage.seen)

    def finished(self, number: int, pairs: Pairs) -> None:
        """This draw is done; others before it may still run."""
        with self._lock:
            self._ahead[number] = pairs
            while self.done in self._ahead:
                self.coverage.add(self._ahead.pop(self.done))
                self.done += 1


class Job(Value):
    """A case to run: one of the corpus, or a draw."""

    target: FuzzedOperator
    case: Case | None = None
    number: int = -1
    pairs: Pairs = frozenset()
    file: Path | None = None
    words: str = ""


class NewCause(Value):
    """A failure of a cause that was new, with the file that shows it."""

    operator: str
    file: Path
    result: CaseResult
    # The failure as it was drawn, and the words that make it again; empty where none do.
    drawn: CaseResult
    words: str = ""


class StoredFailure(Value):
    """A failure of a cause that is new, in its file as it was drawn."""

    job: Job
    file: Path
    kept: CorpusEntry
    key: CauseKey
    result: CaseResult

    @property
    def can_shrink(self) -> bool:
        """What fails now and then would be lost in the search, and what kills machines shall not kill more of them."""
        lost = any(isinstance(one, WorkerLost) for one in self.result.causes)
        return self.result.outcome is not Outcome.FLAKY and not lost

    @property
    def unminimised(self) -> NewCause:
        """The failure where nothing smaller shows it."""
        return NewCause(self.job.target.operator.name, self.file, self.result, self.result, self.job.words)


class Keeper:
    """Writes failures into the corpus, once per cause."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus, self._known = corpus, KnownCauses()

    def case_of(self, job: Job) -> Case | CaseResult:
        """The case to run; what became of a file that holds none."""
        if job.case is not None:
            return job.case
        assert job.file is not None, "a job has a case or a file"
        try:
            return self._corpus.load(job.file)
        except Exception as error:
            draft = CaseResult(str(job.file), job.target.operator.name, (), Outcome.ERROR)
            return not_loaded(draft, error)

    def store(self, job: Job, case: Case, result: CaseResult) -> StoredFailure | None:
        """A draw that fails for a new cause, kept: whatever ends the search for a smaller one, it is not lost."""
        if not is_failure(result):
            return None
        key = cause_key(result)
        if not self._known.is_new(key) or job.file is not None:
            return None
        operator = job.target.operator
        path = self._corpus.name_for(operator.name, key)
        kept = CorpusEntry(
            path.relative_to(self._corpus.folder).as_posix(),
            operator.name,
            headline_of([result], [result], operator),
            key,
            job.target.backend,
            job.target.draws.seed,
            job.number,
            job.words,
        )
        self._corpus.keep(case, operator, path, kept)
        return StoredFailure(job, path, kept, key, result)

    def smallest(self, found: StoredFailure, small: Minimised) -> NewCause | None:
        """Keep the smallest case instead; None where it turns out to be a failure that is known."""
        again = cause_key(small.result)
        if again != found.key and not self._known.is_new(again):
            self._corpus.forget(found.file, found.kept.file)
            return None
        operator = found.job.target.operator
        self._corpus.keep(small.case, operator, found.file, found.kept)
        return NewCause(operator.name, found.file, small.result, found.result, found.job.words)


def is_failure(result: CaseResult) -> bool:
    """The backend is wrong; broken content and bugs of ours are not its doing."""
    return result.outcome.fails and not result.content_error and not result.bug


def headline_of(failing: Sequence[CaseResult], everything: Sequence[CaseResult], operator: Operator) -> str:
    """These failures of one cause in a sentence; those that passed tell when it does not happen."""
    shapes = {operator.name: {spec.id: spec.shape for spec in operator.tensors}}
    group = cause_groups(failing, everything, shapes)[0]
    if group.headline is not None:
        return format_headline(group.headline)
    return f"{operator.name}: {group.example.outcome.words['en']}: {format_reason(group.example.causes)}"


# Results that headlines rest on, per operator: those that pass, and those of one cause.
_PASSING: Final = 500
_FAILING: Final = 100
# Seconds after which the state is written once more: a machine that goes down costs no more than that.
_SAVED_EVERY: Final = 10.0


class RunsCases(Protocol):
    """What runs a case and judges it."""

    def run_case(self, case: Case, operator: Operator | None) -> CaseResult: ...


class FuzzCaseFinished(Value):
    """A job is done."""

    job: Job
    result: CaseResult
    finding: NewCause | None = None


@dataclass(slots=True)
class FuzzReport:
    """What a fuzz run came to."""

    targets: Sequence[FuzzedOperator]
    seconds: float = 0.0
    draws: int = 0
    failed: int = 0
    # Draws for which no call could be made.
    passed_over: int = 0
    # New ones with their headlines, in the order in which they were found.
    findings: list[tuple[NewCause, str]] = field(default_factory=list)
    # Files of the corpus that were run, and what came out.
    corpus: list[tuple[Path, CaseResult]] = field(default_factory=list)
    # Neither the backend's doing: broken content, or a bug of ours.
    broken: list[CaseResult] = field(default_factory=list)
    # A backend was really asked, and its answer compared.
    compared: bool = False
    skipped: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False
    lost: Cause | None = None


class _FuzzSlot(Value):
    """Runs jobs through one caller."""

    runner: RunsCases
    keeper: Keeper

    def run(self, planned: Job) -> FuzzCaseFinished:
        """The verdict, and where the cause of a failure is new the smallest case that fails so, in its file."""
        operator, case = planned.target.operator, self.keeper.case_of(planned)
        if isinstance(case, CaseResult):
            return FuzzCaseFinished(planned, case)
        result = self.runner.run_case(case, operator)
        found = self.keeper.store(planned, case, result)
        if found is None or not found.can_shrink:
            return FuzzCaseFinished(planned, result, None if found is None else found.unminimised)
        small = minimised(case, operator, planned.target.reductions, lambda one: self.runner.run_case(one, operator))
        finding = self.keeper.smallest(found, small)
        if small.interrupted:
            raise KeyboardInterrupt
        return FuzzCaseFinished(planned, result, finding)


def local_scheduler(runners: Sequence[RunsCases], corpus: Corpus) -> Scheduler[Job, FuzzCaseFinished]:
    """What runs jobs on the worker slots of this machine."""
    keeper = Keeper(corpus)
    return Scheduler([_FuzzSlot(runner, keeper) for runner in runners])


class FuzzRun:
    """Runs the corpus and then draws."""

    def __init__(
        self,
        targets: Sequence[FuzzedOperator],
        scheduler: SchedulerProtocol[Job, Job | FuzzCaseFinished],
        corpus: Corpus,
        tell: Callable[[FuzzCaseFinished, FuzzReport], None] = lambda _ran, _report: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._targets, self._scheduler, self._corpus = targets, scheduler, corpus
        self._tell, self._clock = tell, clock
        self._passing: dict[str, list[CaseResult]] = defaultdict(list)
        self._failing: dict[tuple[str, ...], list[CaseResult]] = defaultdict(list)
        self.report = FuzzReport(targets)

    def run(self, cases: int | None, seconds: float | None) -> FuzzReport:
        """Draw so many cases for each operator, or for so long; an interrupt ends it, and everything is written."""
        begin, saved = self._clock(), self._clock()
        end = None if seconds is None else begin + seconds
        try:
            for event in self._scheduler.run(self._jobs(cases, end)):
                if isinstance(event, FuzzCaseFinished):
                    self._take(event)
                self.report.seconds = self._clock() - begin
                if self._clock() - saved > _SAVED_EVERY:
                    saved = self._clock()
                    self._save()
        except KeyboardInterrupt:
            self.report.interrupted = True
        finally:
            self._scheduler.stop()
            self._save()
        self.report.seconds = self._clock() - begin
        self.report.lost = self._scheduler.lost
        self.report.interrupted = self.report.interrupted or self._scheduler.interrupted
        self._title()
        return self.report

    def _jobs(self, cases: int | None, end: float | None) -> Iterator[Job]:
        for target in self._targets:
            for file in self._corpus.files(target.operator.name):
                yield Job(target, file=file)
        firsts = [target.done for target in self._targets]
        for count in itertools.count() if cases is None else range(cases):
            for target, first in zip(self._targets, firsts, strict=True):
                if end is not None and self._clock() >= end:
                    return
                number = first + count
                drawn = target.draws.draw(number)
                if drawn is None:
                    self.report.passed_over += 1
                    target.finished(number, frozenset())
                else:
                    yield Job(target, drawn.case, number, drawn.pairs, words=drawn.words)

    def _take(self, ran: FuzzCaseFinished) -> None:
        job, result, report = ran.job, ran.result, self.report
        report.compared = report.compared or result.compared
        if result.outcome is Outcome.SKIPPED:
            report.skipped.setdefault(result.operator, result.reason)
        if result.content_error or result.bug:
            report.broken.append(result)
        if job.file is not None:
            report.corpus.append((job.file, result))
        else:
            job.target.finished(job.number, job.pairs)
            report.draws += 1
            report.failed += is_failure(result)
            self._remember(result)
        if ran.finding is not None:
            report.findings.append((ran.finding, self._headline(ran.finding)))
        self._tell(ran, report)

    def _remember(self, result: CaseResult) -> None:
        """What headlines rest on."""
        if is_failure(result):
            known, most = self._failing[cause_key(result)], _FAILING
        else:
            known, most = self._passing[result.operator], _PASSING if result.outcome is Outcome.PASSED else 0
        if len(known) < most:
            known.append(result)

    def _headline(self, finding: NewCause) -> str:
        failing = self._failing.get(cause_key(finding.drawn)) or [finding.drawn]
        everything = [*failing, *self._passing[finding.operator]]
        operator = next(one.operator for one in self._targets if one.operator.name == finding.operator)
        return headline_of(failing, everything, operator)

    def _title(self) -> None:
        """What was found is told with all that is known at the end."""
        self.report.findings = [(finding, self._headline(finding)) for finding, _ in self.report.findings]
        folder = self._corpus.folder
        titles = {one.file.relative_to(folder).as_posix(): words for one, words in self.report.findings}
        if titles:
            self._corpus.retitle(titles)

    def _save(self) -> None:
        self._corpus.remember(tuple(target.progress for target in self._targets))


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
    # Only operators with a declared case that these select.
    tags: tuple[str, ...] = ()
    keyword: str = ""
    # Draw no faults.
    valid: bool = False


def targets_of(request: FuzzRequest, session: Session, corpus: Corpus) -> list[FuzzedOperator]:
    """The operators to draw for, each from where an earlier fuzz run stopped; those without a space are left out."""
    known = session.catalogue.operators
    chosen = [known.find(name) for name in request.operators] or [known[name] for name in known]
    if request.tags or request.keyword:
        query = Query(operators=request.operators, tags=request.tags, keyword=request.keyword)
        selected = {case.operator for case in session.select(query).cases}
        chosen = [operator for operator in chosen if operator.name in selected]
    found = []
    for operator in chosen:
        space = known.part(operator.name, SPACE)
        if space is None:
            continue
        seed = request.seed
        if seed is None:
            seed = corpus.last_seed(operator.name, request.run.backend)
        draws = Draws(operator, space, FIRST_SEED if seed is None else seed, valid=request.valid)
        reductions = known.part(operator.name, REDUCTIONS) or {}
        target = FuzzedOperator(operator, draws, request.run.backend, reductions)
        target.resume(corpus.progress(target.begun))
        found.append(target)
    if not found:
        names = ", ".join(operator.name for operator in chosen) or "no operator"
        raise NothingSelectedError(
            f"Nothing can be drawn for {names}: they declare no space, nor axes whose names a recipe takes as "
            "keyword arguments; see `mluops-test docs finding-bugs`."
        )
    return found


@own_floats()
def run_fuzz(
    request: FuzzRequest,
    session: Session,
    begin: Callable[[Sequence[FuzzedOperator]], None] = lambda _: None,
    tell: Callable[[FuzzCaseFinished, FuzzReport], None] = lambda *_: None,
) -> FuzzReport:
    """Run it; `begin` hears what is drawn for once the backend is loaded, `tell` every verdict."""
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

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

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
    sides = tuple(Side) if request.guard_pages else (None,)
    return Options(elementwise=True, bounds_alone=True, timeout=request.timeout, stress=stress, sides=sides)


def fuzz_exit_code(report: FuzzReport) -> ExitCode:
    """What a fuzz run answers to the shell."""
    if report.interrupted:
        return ExitCode.INTERRUPTED
    has_failed = report.findings or report.failed or any(is_failure(result) for _, result in report.corpus)
    apply = {
        ExitCode.FAILED: has_failed,
        ExitCode.BUG: any(result.bug for result in report.broken),
        ExitCode.CONTENT: any(not result.bug for result in report.broken),
        ExitCode.BACKEND: report.lost is not None,
        ExitCode.EMPTY: not report.compared,
    }
    return ExitCode.worst(code for code, applies in apply.items() if applies)
