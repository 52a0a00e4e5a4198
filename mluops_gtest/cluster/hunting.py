"""A hunt on a cluster: this process draws and keeps what fails, the workers call and judge."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from mluops_gtest.api.fuzzing import HuntRequest, hunt_options, targets_of
from mluops_gtest.api.session import Session
from mluops_gtest.cluster.answers import BadAnswerError, HostTally, UnitAnswered
from mluops_gtest.cluster.auditing import OutputAudit
from mluops_gtest.cluster.dispatch import Dispatcher, refuse_smallest
from mluops_gtest.cluster.lanes import DispatcherLanes, in_batches
from mluops_gtest.cluster.opening import open_cluster
from mluops_gtest.codec.case_files.reader import read_case
from mluops_gtest.codec.schema.schema import Schema
from mluops_gtest.content.operators import Operators
from mluops_gtest.engine.lanes import PlannedCase
from mluops_gtest.errors import ContentError
from mluops_gtest.files.case_suffixes import BINARY
from mluops_gtest.fuzz.corpus import Corpus
from mluops_gtest.fuzz.hunt import Hunt, HuntReport, Ran
from mluops_gtest.fuzz.keeping import FoundFailure, Keeper, NewCause
from mluops_gtest.fuzz.targets import FuzzedOperator, Job
from mluops_gtest.minimise.search import Minimised
from mluops_gtest.model.case import Case
from mluops_gtest.model.result import CaseResult

# A batch of draws: few enough that a lost worker takes little with it.
_DRAWS: Final = 16
_ELEMENTS: Final = 1 << 16
# A case that comes as bytes; nothing lies beside it.
_NOWHERE: Final = Path(os.devnull, f"answer{BINARY}")


class DrawnCall(PlannedCase):
    """A call for a worker: to be judged, or where it was found wrong to be made smaller."""

    job: Job
    case: Case
    found: FoundFailure | None = None

    @staticmethod
    def of(job: Job, case: Case) -> "DrawnCall":
        """The call of a case, to be judged."""
        return DrawnCall(case.id, case.operator, case.tags, job, case)


def _order(call: DrawnCall) -> tuple[Case, bool]:
    """What the worker is told, see HuntRunner.run."""
    return call.case, call.found is not None


def read_smallest(operators: Operators, call: DrawnCall, data: bytes) -> Case | None:
    """The case that a search for a smaller one answers; None for a call that was only to be judged."""
    if call.found is None:
        refuse_smallest(call, data)
        return None
    try:
        case = read_case(_NOWHERE, Schema.of(operators.values()), operators, memoryview(data), case_id=call.id)
    except ContentError as error:
        raise BadAnswerError(f"its answer to {call.id}: {error}") from None
    if case.operator != call.operator:
        raise BadAnswerError(f"its answer to {call.id} is a case of {case.operator}")
    return case


class ClusterHuntLanes(DispatcherLanes[DrawnCall]):
    """Runs the jobs of a hunt on the workers of a cluster; implements engine.lanes.AnyLanes."""

    def __init__(self, dispatcher: Dispatcher[DrawnCall], keeper: Keeper) -> None:
        super().__init__(dispatcher)
        self._keeper = keeper
        # Files of the corpus that hold no case.
        self._unread: list[Ran] = []

    def run(self, cases: Iterable[Job]) -> Iterator[Ran]:
        """What comes of every job, from whichever worker."""
        for news in self._dispatcher.run(
            lambda _workers: in_batches(self._calls(cases), lambda call: call.case.elements, _ELEMENTS, _DRAWS)
        ):
            if isinstance(news, UnitAnswered):
                yield from self._taken(news)
        yield from self._unread

    def _calls(self, jobs: Iterable[Job]) -> Iterator[DrawnCall]:
        for job in jobs:
            case = self._keeper.case_of(job)
            if isinstance(case, CaseResult):
                self._unread.append(Ran(job, case))
            else:
                yield DrawnCall.of(job, case)

    def _taken(self, news: UnitAnswered[DrawnCall]) -> Iterator[Ran]:
        """The job is done, unless a smaller case shall be found first."""
        call, result = news.unit, news.result
        if call.found is None:
            found = self._keeper.found(call.job, call.case, result)
            if found is not None and found.can_shrink:
                self._dispatcher.add(replace(call, found=found))
                return
            yield Ran(call.job, result, None if found is None else found.as_drawn)
            return
        # Without an answer workers were lost over it: the failure stays as it was drawn.
        finding: NewCause | None = call.found.as_drawn
        if news.smallest is not None:
            sizes = (call.case.elements, news.smallest.elements)
            finding = self._keeper.smallest(call.found, Minimised(news.smallest, result, 0, {}, sizes))
        yield Ran(call.job, call.found.result, finding)


def hunt_on_cluster(
    request: HuntRequest,
    session: Session,
    begin: Callable[[Sequence[FuzzedOperator], Mapping[str, HostTally]], None],
    tell: Callable[[Ran, HuntReport], None],
    complain: Callable[[str], None],
) -> HuntReport:
    """As api.fuzzing.hunt; `begin` also hears of the hosts, `complain` of workers that cannot be used."""
    corpus = Corpus(request.corpus, session.catalogue.operators)
    targets = targets_of(request, session, corpus)
    operators = session.catalogue.operators
    audit = partial(OutputAudit, lambda one: one.unit.case, operators, hunt_options(request.run))
    names, read = [target.operator.name for target in targets], partial(read_smallest, operators)
    with open_cluster(request.run, names, {}, complain, audit, read, _order) as (dispatcher, _):
        begin(targets, dispatcher.hosts)
        lanes = ClusterHuntLanes(dispatcher, Keeper(corpus))
        return Hunt(targets, lanes, corpus, tell).run(request.cases, request.seconds)
