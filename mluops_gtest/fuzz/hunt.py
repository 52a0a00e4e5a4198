"""A hunt for failures: the corpus first, then draw after draw; what fails is made smaller and kept, once per cause."""

import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final, Protocol

from mluops_gtest.engine.failures import not_loaded
from mluops_gtest.engine.lanes import Lanes
from mluops_gtest.explain.groups import cause_groups
from mluops_gtest.fuzz.causes import KnownCauses, cause_key
from mluops_gtest.fuzz.corpus import Corpus, Kept, Progress
from mluops_gtest.fuzz.coverage import Coverage, Pairs
from mluops_gtest.fuzz.draws import Draws
from mluops_gtest.minimise.search import minimised
from mluops_gtest.model.case import Case
from mluops_gtest.model.cause import Cause
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.reasons import reason_of
from mluops_gtest.model.reasons.explained import headline_words
from mluops_gtest.model.reduction import Reduction
from mluops_gtest.model.result import CaseResult, Outcome

# Results that headlines rest on, per operator: those that pass, and those of one cause.
_PASSING: Final = 500
_FAILING: Final = 100
# Seconds after which the state is written once more: a machine that goes down costs no more than that.
_SAVED_EVERY: Final = 10.0


class RunsCases(Protocol):
    """What runs a case and judges it."""

    def execute(self, case: Case, operator: Operator | None) -> CaseResult:
        """The verdict."""
        ...


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
        """The hunt, as if nothing were done."""
        return Progress(self.operator.name, self.backend, self.draws.seed, self.draws.digest)

    @property
    def progress(self) -> Progress:
        """How far the hunt is."""
        new = self.begun
        return Progress(new.operator, new.backend, new.seed, new.space, self.done, self.coverage.to_text())

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


@dataclass(frozen=True, slots=True)
class Job:
    """A case to run: one of the corpus, or a draw."""

    target: FuzzedOperator
    case: Case | None = None
    number: int = -1
    pairs: Pairs = frozenset()
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class NewCause:
    """A failure of a cause that was new, with the file that shows it."""

    operator: str
    file: Path
    result: CaseResult
    # The failure as it was drawn.
    drawn: CaseResult


@dataclass(frozen=True, slots=True)
class Ran:
    """A job is done."""

    job: Job
    result: CaseResult
    finding: NewCause | None = None


@dataclass(slots=True)
class HuntReport:
    """What a hunt came to."""

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


@dataclass(frozen=True, slots=True)
class _Lane:
    """One caller's way through the jobs."""

    runner: RunsCases
    corpus: Corpus
    known: KnownCauses

    def start(self, planned: Job) -> Job:
        """The job itself: what is drawn needs no further words."""
        return planned

    def run(self, planned: Job) -> Ran:
        """The verdict, and where the cause of a failure is new the smallest case that fails so, in its file."""
        operator = planned.target.operator
        try:
            case = planned.case if planned.file is None else self.corpus.load(planned.file)
            assert case is not None, "a job has a case or a file"
        except Exception as error:
            return Ran(planned, not_loaded(str(planned.file), operator.name, (), error))
        result = self.runner.execute(case, operator)
        is_new = is_failure(result) and self.known.is_new(cause_key(result))
        finding = self._kept(planned, case, result) if is_new and planned.file is None else None
        return Ran(planned, result, finding)

    def _kept(self, job: Job, case: Case, result: CaseResult) -> NewCause | None:
        operator, key = job.target.operator, cause_key(result)
        path = self.corpus.name_for(operator.name, key)
        kept = Kept(
            path.relative_to(self.corpus.folder).as_posix(),
            operator.name,
            headline_of([result], [result], operator),
            key,
            job.target.backend,
            job.target.draws.seed,
            job.number,
        )
        # As it was drawn first: whatever ends the search for a smaller one, the failure is not lost.
        self.corpus.keep(case, operator, path, kept)
        if result.outcome is Outcome.FLAKY:
            return NewCause(operator.name, path, result, result)
        small = minimised(
            case, operator, job.target.reductions, lambda candidate: self.runner.execute(candidate, operator)
        )
        again = cause_key(small.result)
        if again != key and not self.known.is_new(again):
            # Made smaller it turns out to be a failure that is known.
            self.corpus.forget(path, kept.file)
            return None
        self.corpus.keep(small.case, operator, path, kept)
        if small.interrupted:
            raise KeyboardInterrupt
        return NewCause(operator.name, path, small.result, result)


def is_failure(result: CaseResult) -> bool:
    """The backend is wrong; broken content and bugs of ours are not its doing."""
    return result.outcome.fails and not result.content_error and not result.bug


def headline_of(failing: Sequence[CaseResult], everything: Sequence[CaseResult], operator: Operator) -> str:
    """These failures of one cause in a sentence; those that passed tell when it does not happen."""
    shapes = {operator.name: {spec.id: spec.shape for spec in operator.tensors}}
    group = cause_groups(failing, everything, shapes)[0]
    if group.headline is not None:
        return headline_words(group.headline)
    return f"{operator.name}: {group.first.outcome.words['en']}: {reason_of(group.first.causes)}"


class Hunt:
    """Runs the corpus and then draws on one or more callers."""

    def __init__(
        self,
        targets: Sequence[FuzzedOperator],
        runners: Sequence[RunsCases],
        corpus: Corpus,
        tell: Callable[[Ran, HuntReport], None] = lambda _ran, _report: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._targets, self._corpus = targets, corpus
        self._tell, self._clock = tell, clock
        self._lanes: Lanes[Job, Job | Ran] = Lanes(
            [_Lane(runner, corpus, known) for known in [KnownCauses()] for runner in runners]
        )
        self._passing: dict[str, list[CaseResult]] = defaultdict(list)
        self._failing: dict[tuple[str, ...], list[CaseResult]] = defaultdict(list)
        self.report = HuntReport(targets)

    def run(self, cases: int | None, seconds: float | None) -> HuntReport:
        """Draw so many cases for each operator, or for so long; an interrupt ends it, and everything is written."""
        begin, saved = self._clock(), self._clock()
        end = None if seconds is None else begin + seconds
        try:
            for event in self._lanes.run(self._jobs(cases, end)):
                if isinstance(event, Ran):
                    self._take(event)
                self.report.seconds = self._clock() - begin
                if self._clock() - saved > _SAVED_EVERY:
                    saved = self._clock()
                    self._save()
        except KeyboardInterrupt:
            self.report.interrupted = True
        finally:
            self._lanes.stop()
            self._save()
        self.report.seconds = self._clock() - begin
        self.report.lost = self._lanes.lost
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
                    yield Job(target, drawn.case, number, drawn.pairs)

    def _take(self, ran: Ran) -> None:
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
        operators: Mapping[str, Operator] = {target.operator.name: target.operator for target in self._targets}
        return headline_of(failing, everything, operators[finding.operator])

    def _title(self) -> None:
        """What was found is told with all that is known at the end."""
        self.report.findings = [(finding, self._headline(finding)) for finding, _ in self.report.findings]
        folder = self._corpus.folder
        titles = {one.file.relative_to(folder).as_posix(): words for one, words in self.report.findings}
        if titles:
            self._corpus.retitle(titles)

    def _save(self) -> None:
        self._corpus.remember(tuple(target.progress for target in self._targets))
