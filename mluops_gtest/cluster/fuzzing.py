"""A fuzz run on a cluster: this process draws and keeps what fails, the workers call and judge."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError
from mluops_gtest.base.files import BINARY
from mluops_gtest.casefiles.reader import read_case
from mluops_gtest.casefiles.schema import Schema
from mluops_gtest.catalog.operators import Operators
from mluops_gtest.catalog.selection import Session
from mluops_gtest.cluster.answers import BadAnswerError, HostTally, OutputAudit, Unit, UnitAnswered
from mluops_gtest.cluster.dispatch import Dispatcher
from mluops_gtest.cluster.session import DispatcherScheduler, in_batches, open_cluster
from mluops_gtest.core.case import Case
from mluops_gtest.core.result import CaseResult
from mluops_gtest.search.corpus import Corpus
from mluops_gtest.search.fuzz import (
    FuzzCaseFinished,
    FuzzedOperator,
    FuzzReport,
    FuzzRun,
    Job,
    Keeper,
    NewCause,
    StoredFailure,
)
from mluops_gtest.search.fuzz_session import FuzzRequest, fuzz_options, targets_of
from mluops_gtest.search.minimise import Minimised

# A batch of draws: few enough that a lost worker takes little with it.
_DRAWS: Final = 16
_ELEMENTS: Final = 1 << 16
# A case that comes as bytes; nothing lies beside it.
_NOWHERE: Final = Path(os.devnull, f"answer{BINARY}")


class FuzzCall(Unit):
    """A call for a worker: to be judged, or where it was found wrong to be made smaller."""

    job: Job
    case: Case
    operators: Operators
    found: StoredFailure | None = None

    @property
    def order(self) -> tuple[Case, bool]:
        return self.case, self.found is not None

    def read_smallest(self, data: bytes) -> Case | None:
        if self.found is None:
            return super().read_smallest(data)
        schema = Schema.of(self.operators.values())
        try:
            case = read_case(_NOWHERE, schema, self.operators, memoryview(data), case_id=self.id)
        except ContentError as error:
            raise BadAnswerError(f"its answer to {self.id}: {error}") from None
        if case.operator != self.operator:
            raise BadAnswerError(f"its answer to {self.id} is a case of {case.operator}")
        return case


def _call_of(answered: UnitAnswered) -> FuzzCall:
    assert isinstance(answered.unit, FuzzCall), "a fuzz run has no other units"
    return answered.unit


class ClusterFuzzScheduler(DispatcherScheduler):
    """Runs the jobs of a fuzz run on the workers of a cluster; implements running.run.SchedulerProtocol."""

    def __init__(self, dispatcher: Dispatcher, keeper: Keeper, operators: Operators) -> None:
        super().__init__(dispatcher)
        self._keeper, self._operators = keeper, operators
        # Files of the corpus that hold no case.
        self._unread: list[FuzzCaseFinished] = []

    def run(self, cases: Iterable[Job]) -> Iterator[FuzzCaseFinished]:
        """What comes of every job, from whichever worker."""
        for news in self._dispatcher.run(
            lambda _workers: in_batches(self._calls(cases), lambda call: call.case.elements, _ELEMENTS, _DRAWS)
        ):
            if isinstance(news, UnitAnswered):
                yield from self._taken(news)
        yield from self._unread

    def _calls(self, jobs: Iterable[Job]) -> Iterator[FuzzCall]:
        for job in jobs:
            case = self._keeper.case_of(job)
            if isinstance(case, CaseResult):
                self._unread.append(FuzzCaseFinished(job, case))
            else:
                yield FuzzCall(case.id, case.operator, case.tags, job, case, self._operators)

    def _taken(self, news: UnitAnswered) -> Iterator[FuzzCaseFinished]:
        """The job is done, unless a smaller case shall be found first."""
        call, result = _call_of(news), news.result
        if call.found is None:
            found = self._keeper.found(call.job, call.case, result)
            if found is not None and found.can_shrink:
                self._dispatcher.add(replace(call, found=found))
                return
            yield FuzzCaseFinished(call.job, result, None if found is None else found.as_drawn)
            return
        # Without an answer workers were lost over it: the failure stays as it was drawn.
        finding: NewCause | None = call.found.as_drawn
        if news.smallest is not None:
            sizes = (call.case.elements, news.smallest.elements)
            finding = self._keeper.smallest(call.found, Minimised(news.smallest, result, 0, {}, sizes))
        yield FuzzCaseFinished(call.job, call.found.result, finding)


def fuzz_on_cluster(
    request: FuzzRequest,
    session: Session,
    begin: Callable[[Sequence[FuzzedOperator], Mapping[str, HostTally]], None],
    tell: Callable[[FuzzCaseFinished, FuzzReport], None],
    complain: Callable[[str], None],
) -> FuzzReport:
    """As api.fuzzing.hunt; `begin` also hears of the hosts, `complain` of workers that cannot be used."""
    corpus = Corpus(request.corpus, session.catalogue.operators)
    targets = targets_of(request, session, corpus)
    operators = session.catalogue.operators
    audit = partial(OutputAudit, lambda one: _call_of(one).case, operators, fuzz_options(request.run))
    names = [target.operator.name for target in targets]
    with open_cluster(request.run, names, {}, complain, audit, is_hunt=True) as (dispatcher, _):
        begin(targets, dispatcher.hosts)
        scheduler = ClusterFuzzScheduler(dispatcher, Keeper(corpus), operators)
        return FuzzRun(targets, scheduler, corpus, tell).run(request.cases, request.seconds)
