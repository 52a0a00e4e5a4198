"""What a hunt keeps: of each cause the first failure, as it was drawn, and then the smallest case that fails so."""

from collections.abc import Sequence
from pathlib import Path

from mluops_gtest.engine.failures import not_loaded
from mluops_gtest.explain.groups import cause_groups
from mluops_gtest.fuzz.causes import CauseKey, KnownCauses, cause_key
from mluops_gtest.fuzz.corpus import Corpus, Kept
from mluops_gtest.fuzz.targets import Job
from mluops_gtest.minimise.search import Minimised
from mluops_gtest.model.case import Case
from mluops_gtest.model.cause import WorkerLost
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.reasons import reason_of
from mluops_gtest.model.reasons.explained import headline_words
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.value import Value


class NewCause(Value):
    """A failure of a cause that was new, with the file that shows it."""

    operator: str
    file: Path
    result: CaseResult
    # The failure as it was drawn.
    drawn: CaseResult


class FoundFailure(Value):
    """A failure of a cause that is new, in its file as it was drawn."""

    job: Job
    file: Path
    kept: Kept
    key: CauseKey
    result: CaseResult

    @property
    def can_shrink(self) -> bool:
        """What fails now and then would be lost in the search, and what kills machines shall not kill more of them."""
        lost = any(isinstance(one, WorkerLost) for one in self.result.causes)
        return self.result.outcome is not Outcome.FLAKY and not lost

    @property
    def as_drawn(self) -> NewCause:
        """The failure where nothing smaller shows it."""
        return NewCause(self.job.target.operator.name, self.file, self.result, self.result)


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
            return not_loaded(str(job.file), job.target.operator.name, (), error)

    def found(self, job: Job, case: Case, result: CaseResult) -> FoundFailure | None:
        """A draw that fails for a new cause, kept: whatever ends the search for a smaller one, it is not lost."""
        if not is_failure(result):
            return None
        key = cause_key(result)
        if not self._known.is_new(key) or job.file is not None:
            return None
        operator = job.target.operator
        path = self._corpus.name_for(operator.name, key)
        kept = Kept(
            path.relative_to(self._corpus.folder).as_posix(),
            operator.name,
            headline_of([result], [result], operator),
            key,
            job.target.backend,
            job.target.draws.seed,
            job.number,
        )
        self._corpus.keep(case, operator, path, kept)
        return FoundFailure(job, path, kept, key, result)

    def smallest(self, found: FoundFailure, small: Minimised) -> NewCause | None:
        """Keep the smallest case instead; None where it turns out to be a failure that is known."""
        again = cause_key(small.result)
        if again != found.key and not self._known.is_new(again):
            self._corpus.forget(found.file, found.kept.file)
            return None
        operator = found.job.target.operator
        self._corpus.keep(small.case, operator, found.file, found.kept)
        return NewCause(operator.name, found.file, small.result, found.result)


def is_failure(result: CaseResult) -> bool:
    """The backend is wrong; broken content and bugs of ours are not its doing."""
    return result.outcome.fails and not result.content_error and not result.bug


def headline_of(failing: Sequence[CaseResult], everything: Sequence[CaseResult], operator: Operator) -> str:
    """These failures of one cause in a sentence; those that passed tell when it does not happen."""
    shapes = {operator.name: {spec.id: spec.shape for spec in operator.tensors}}
    group = cause_groups(failing, everything, shapes)[0]
    if group.headline is not None:
        return headline_words(group.headline)
    return f"{operator.name}: {group.example.outcome.words['en']}: {reason_of(group.example.causes)}"
