"""Runs and fuzz runs on a cluster: workers are checked and try the backend, and this process keeps the results."""

import contextlib
import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec.structs import replace

from mluops_gtest.base.errors import BackendError, ContentError, UsageError
from mluops_gtest.base.files import BINARY
from mluops_gtest.casefiles.reader import read_case
from mluops_gtest.casefiles.schema import Schema
from mluops_gtest.catalog.operators import Operators
from mluops_gtest.catalog.selection import Session
from mluops_gtest.catalog.source import StoredCases
from mluops_gtest.cluster import worker
from mluops_gtest.cluster.answers import (
    BackendTrial,
    BadAnswerError,
    Checked,
    HostTally,
    OutputAudit,
    Unit,
    UnitAnswered,
    WorkerDescription,
    decode,
)
from mluops_gtest.cluster.dispatch import Dispatcher, connected, submit
from mluops_gtest.core import cause
from mluops_gtest.core.case import Case
from mluops_gtest.core.report import Event
from mluops_gtest.core.result import CaseResult
from mluops_gtest.running.case_run import PlannedCase
from mluops_gtest.running.options import RunOptions
from mluops_gtest.running.plan import CASE_NS, RunPlan
from mluops_gtest.running.session import OpenBackend, Opener, options_of
from mluops_gtest.search.corpus import Corpus
from mluops_gtest.search.fuzz import (
    FuzzCaseFinished,
    FuzzedOperator,
    FuzzReport,
    FuzzRequest,
    FuzzRun,
    Job,
    Keeper,
    NewCause,
    StoredFailure,
    fuzz_options,
    targets_of,
)
from mluops_gtest.search.minimise import Minimised
from mluops_gtest.version import __version__

if TYPE_CHECKING:
    from distributed import Client


# A batch takes about this long on one worker: short against a run, long against what handing it out takes.
BATCH_NS: Final = 400_000_000
MAX_CASES: Final = 64
T = TypeVar("T")


class DispatcherScheduler:
    """What the schedulers of a run and of a fuzz run share: how they end."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    @property
    def lost(self) -> cause.Cause | None:
        return self._dispatcher.lost

    @property
    def interrupted(self) -> bool:
        return self._dispatcher.lost is not None

    def stop(self) -> None:
        self._dispatcher.stop()


class ClusterScheduler(DispatcherScheduler):
    """Runs cases on the workers of a cluster; implements running.run.SchedulerProtocol."""

    def __init__(self, dispatcher: Dispatcher, costs: Mapping[str, int], *, in_order: bool) -> None:
        super().__init__(dispatcher)
        self._costs, self._in_order = costs, in_order

    def run(self, cases: Iterable[PlannedCase]) -> Iterator[CaseResult | Event]:
        """The result and the events of every case, from whichever worker."""
        planned = [Unit(case.id, case.operator, case.tags) for case in cases]
        for news in self._dispatcher.run(
            lambda workers: batches_of(planned, self._costs, in_order=self._in_order, workers=workers)
        ):
            yield news.result if isinstance(news, UnitAnswered) else news


def batches_of(
    cases: Sequence[Unit], costs: Mapping[str, int], *, in_order: bool = False, workers: int = 1
) -> Iterator[tuple[Unit, ...]]:
    """All cases, each in one batch, the largest first, so that none of them is left for the end.

    `in_order` keeps their order, for a run that stops at the first failure.
    """

    def cost(case: Unit) -> int:
        return costs.get(case.id, CASE_NS)

    # The last batches shall not keep one worker busy while the others wait.
    fair = sum(map(cost, cases)) // (8 * max(workers, 1))
    room = max(CASE_NS, min(BATCH_NS, fair))
    return in_batches(cases if in_order else sorted(cases, key=cost, reverse=True), cost, room, MAX_CASES)


def in_batches(units: Iterable[T], cost: Callable[[T], int], room: int, most: int) -> Iterator[tuple[T, ...]]:
    """The units in their order, at most so many at a time; one that costs more than the room is alone."""
    batch: list[T] = []
    spent = 0
    for unit in units:
        if batch and (spent + cost(unit) > room or len(batch) == most):
            yield tuple(batch)
            batch, spent = [], 0
        batch.append(unit)
        spent += cost(unit)
    if batch:
        yield tuple(batch)


# Seconds to wait for the first workers, for what a worker says of itself, and for its backend.
_PATIENCE: Final = 60
_ANSWER: Final = 60
_LOADED: Final = 300


@contextlib.contextmanager
def open_cluster(
    request: RunOptions,
    operators: Sequence[str],
    files: Mapping[str, Path],
    complain: Callable[[str], None],
    audit: Callable[[BackendTrial], OutputAudit],
    *,
    is_fuzzing: bool = False,
) -> Iterator[tuple[Dispatcher, BackendTrial]]:
    """What hands work to the cluster that the request names, and what the backend says of itself there.

    Workers that cannot run its cases are refused, and told to `complain`. `files` are case files that travel, by their
    names; `audit` judges outputs again here.
    """
    assert request.cluster is not None, "the request names a cluster"
    with connected(request.cluster) as client:
        # All of a cluster that this run starts, one of any other.
        expected = int(request.cluster.partition("local:")[2] or 1)
        try:
            client.wait_for_workers(expected, timeout=_PATIENCE)
        except TimeoutError as error:
            raise BackendError(f"--cluster {request.cluster}: {error} s; start its workers, then run again.") from error
        opening, run = _Opening(client, request, operators, files), f"mluops-test-{uuid.uuid4().hex}"
        there = replace(request, roots=worker.roots_of(request.roots), reports={}, devices=())
        setup = {
            "request": there.to_json([], 0),
            "parcels": opening.digests,
            "operators": opening.operators,
            "drawn": is_fuzzing,
        }
        # On all of them at once, before the clock of the run starts.
        tried = opening.try_first(run, setup)
        # A fuzz run would have to remember every call that it has made.
        retracts = not is_fuzzing
        look_at, timeout = opening.look_at, request.timeout
        yield Dispatcher(client, run, setup, look_at, complain, audit(tried), timeout, retracts=retracts), tried


def opener_on_cluster(complain: Callable[[str], None]) -> Opener:
    """Opens the backend on the cluster that the plan names; workers that cannot be used are told to `complain`."""

    @contextlib.contextmanager
    def open_there(plan: RunPlan, source: StoredCases) -> Iterator[OpenBackend]:
        request, catalogue = plan.options, plan.session.catalogue
        options = options_of(request, catalogue, 1, 1)
        load = lambda one: source.load(one.unit.id)  # noqa: E731
        audit = partial(OutputAudit, load, catalogue.operators, options, everything=request.judge_here)
        operators = [case.operator for case in plan.todo if case.draft is not None]
        files = {case.id: case.path for case in plan.todo if case.path is not None}
        costs = plan.costs(source)
        with open_cluster(request, operators, files, complain, audit) as (dispatcher, tried):
            scheduler = ClusterScheduler(dispatcher, costs, in_order=request.stop_at_first)
            yield OpenBackend(tried.name, tried.version, scheduler=scheduler, hosts=dispatcher.hosts)

    return open_there


def _ask(
    client: "Client", function: Callable[..., Any], arguments: Mapping[str, Sequence[Any]], seconds: float
) -> dict[str, Any]:
    """What the function gives on each of these workers with its arguments; where it gives nothing, an exception."""
    futures = {address: submit(client, address, function, *given) for address, given in arguments.items()}
    end = time.monotonic() + seconds
    answers: dict[str, Any] = {}
    for address, future in futures.items():
        try:
            # Those that are done need no time; a second for what is on its way.
            answers[address] = future.result(timeout=max(end - time.monotonic(), 1))
        except Exception as error:
            answers[address] = error
            future.cancel()
    return answers


def _parcels(request: RunOptions, files: Mapping[str, Path]) -> dict[str, dict[str, bytes]]:
    """The files that travel: the user's cases with the values beside them, and what --ship names."""
    found = {}
    for name, file in (*files.items(), *((name, Path(name)) for name in request.ship)):
        beside = () if name in request.ship else file.parent.glob(f"{file.stem}.*.bin*")
        try:
            found[name] = {one.name: one.read_bytes() for one in (file, *beside)}
        except OSError as error:
            raise UsageError(f"{file}: cannot be sent to the cluster: {error.strerror}.") from error
    return found


class _Opening:
    """What is known of the workers of one run."""

    def __init__(
        self, client: "Client", request: RunOptions, operators: Sequence[str], files: Mapping[str, Path]
    ) -> None:
        self._client, self._devices = client, request.devices
        self._roots = worker.roots_of(request.roots)
        self.operators = tuple(sorted(set(operators)))
        self._content = worker.content_digests(self._roots, self.operators)
        self._parcels = _parcels(request, files)
        # The controller's name → digest.
        self.digests = {name: worker.parcel_digest(files) for name, files in self._parcels.items()}
        # How many workers of each host have been given devices.
        self._ranks: Counter[str] = Counter()
        # Each worker that was looked at, or what is wrong with it.
        self._found: dict[str, Checked | str] = {}

    def try_first(self, run: str, setup: Mapping[str, Any]) -> BackendTrial:
        """What the backend says of itself on the first worker that can be used; BackendError where it does not load.

        Where no worker can be used the error says what is wrong with the first.
        """
        self._look_at(list(self._client.scheduler_info(n_workers=-1)["workers"]))
        given = {
            address: (run, setup, found.slots) for address, found in self._found.items() if isinstance(found, Checked)
        }
        trials = []
        for address, answer in _ask(self._client, worker.try_backend, given, _LOADED).items():
            try:
                trial = decode(answer, BackendTrial)
            except BadAnswerError as error:
                self._found[address] = f"The worker {address} cannot be used: {error}"
                continue
            if trial.error:
                raise BackendError(f"On the worker {address}: {trial.error}")
            trials.append(trial)
        if not trials:
            problem = next(iter(self._found.values()), "")
            raise BackendError(f"No worker of the cluster can run these cases. {problem}".strip())
        return trials[0]

    def look_at(self, address: str) -> Checked | str:
        """The worker, if it can run the cases; else why not."""
        if address not in self._found:
            self._look_at([address])
        return self._found[address]

    def _look_at(self, addresses: Sequence[str]) -> None:
        """Ask these workers what they are, all at once."""
        given = (self._roots, self.operators, tuple(self.digests.values()))
        answers = _ask(self._client, worker.describe, dict.fromkeys(addresses, given), _ANSWER)
        self._found |= {address: self._checked(address, answer) for address, answer in answers.items()}

    def _checked(self, address: str, answer: Any) -> Checked | str:
        try:
            told = decode(answer, WorkerDescription)
        except BadAnswerError as error:
            # Whatever keeps it from answering, a missing package first of all.
            return (
                f"The worker {address} does not know mluops-test {__version__} or its roots "
                f"({error}); install the same version there."
            )
        name = f"The worker {address} ({told.host})"
        if told.version != __version__:
            return f"{name} has mluops-test {told.version}, this is {__version__}; install the same version there."
        for operator, digest in self._content.items():
            if told.content.get(operator) != digest:
                has = "another lock" if told.content.get(operator) else "no lock"
                return (
                    f"{name} has {has} of {operator} (prototxt/{operator}/baselines.lock) than this machine; "
                    "bring it to the same commit."
                )
        for file, digest in self.digests.items():
            if digest not in told.parcels:
                given = {address: (digest, self._parcels[file])}
                taken = _ask(self._client, worker.keep_parcel, given, _LOADED)[address]
                if isinstance(taken, Exception):
                    return f"{name} did not take {file}: {taken}"
        return Checked(told.host, self._slots_of(address, told.host))

    def _slots_of(self, address: str, host: str) -> tuple[int | None, ...]:
        """As many as the worker has threads, or devices; workers of one host share its devices evenly."""
        info: Mapping[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"].get(address, {})
        slots = int(info.get("resources", {}).get("DEVICE", 0)) or int(info.get("nthreads", 1))
        first = self._ranks[host] * slots
        self._ranks[host] += 1
        devices = self._devices or (None,)
        return tuple(devices[(first + slot) % len(devices)] for slot in range(slots))


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
                yield from self._finish(news)
        yield from self._unread

    def _calls(self, jobs: Iterable[Job]) -> Iterator[FuzzCall]:
        for job in jobs:
            case = self._keeper.case_of(job)
            if isinstance(case, CaseResult):
                self._unread.append(FuzzCaseFinished(job, case))
            else:
                yield FuzzCall(case.id, case.operator, case.tags, job, case, self._operators)

    def _finish(self, news: UnitAnswered) -> Iterator[FuzzCaseFinished]:
        """The job is done, unless a smaller case shall be found first."""
        call, result = _call_of(news), news.result
        if call.found is None:
            found = self._keeper.store(call.job, call.case, result)
            if found is not None and found.can_shrink:
                self._dispatcher.add(replace(call, found=found))
                return
            yield FuzzCaseFinished(call.job, result, None if found is None else found.unminimised)
            return
        # Without an answer workers were lost over it: the failure stays as it was drawn.
        finding: NewCause | None = call.found.unminimised
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
    """As api.fuzz; `begin` also hears of the hosts, `complain` of workers that cannot be used."""
    corpus = Corpus(request.corpus, session.catalogue.operators)
    targets = targets_of(request, session, corpus)
    operators = session.catalogue.operators
    audit = partial(OutputAudit, lambda one: _call_of(one).case, operators, fuzz_options(request.run))
    names = [target.operator.name for target in targets]
    with open_cluster(request.run, names, {}, complain, audit, is_fuzzing=True) as (dispatcher, _):
        begin(targets, dispatcher.hosts)
        scheduler = ClusterFuzzScheduler(dispatcher, Keeper(corpus), operators)
        return FuzzRun(targets, scheduler, corpus, tell).run(request.cases, request.seconds)
