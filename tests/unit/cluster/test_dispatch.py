"""Cases in batches by what they cost; what workers answer a fuzz run is kept, also where they are lost."""

from dataclasses import replace
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.catalog.selection import Session
from mluops_gtest.cluster import dispatch
from mluops_gtest.cluster.answers import Checked, Unit, UnitAnswered
from mluops_gtest.cluster.dispatch import PATIENCE, Dispatcher
from mluops_gtest.cluster.session import BATCH_NS, MAX_CASES, ClusterFuzzScheduler, batches_of
from mluops_gtest.cluster.worker import now_and_then
from mluops_gtest.core.call import Status
from mluops_gtest.core.case import Query
from mluops_gtest.core.cause import RunLost, WorkerLost
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import CaseStarted
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.running.options import RunOptions
from mluops_gtest.running.plan import CASE_NS
from mluops_gtest.search.audit_declarations import Implementation
from mluops_gtest.search.corpus import Corpus
from mluops_gtest.search.fuzz import FuzzRequest, FuzzRun, Job, Keeper, targets_of
from mluops_gtest.search.minimise import minimised

ADDRESS = "tcp://there:1"


class SlowFuture:
    """Done, but its answer does not arrive."""

    def add_done_callback(self, tell):
        tell(self)

    def result(self, timeout):
        raise TimeoutError

    def cancel(self):
        pass


class SlowClient:
    """Has a worker at the first look alone; every look takes longer than anybody is waited for."""

    status = "running"

    def __init__(self, now):
        self.now, self.looks = now, 0

    def run_on_scheduler(self, _):
        self.looks += 1
        self.now[0] += 2 * PATIENCE
        return {ADDRESS: 0.0} if self.looks == 1 else {}

    def submit(self, *_, **__):
        return SlowFuture()

    def subscribe_topic(self, *_):
        pass

    unsubscribe_topic = run = subscribe_topic


def test_a_worker_that_is_gone_after_a_late_look_is_given_up_once(monkeypatch):
    """The look takes it away, and by then the time for its answer is over as well."""
    now = [0.0]
    monkeypatch.setattr(dispatch, "time", SimpleNamespace(monotonic=lambda: now[0]))
    complaints = []
    audit = SimpleNamespace(draws=lambda *_: False)
    dispatcher = Dispatcher(
        SlowClient(now), "run", {}, lambda _: Checked("there", (None,)), complaints.append, audit, None, retracts=True
    )
    assert list(dispatcher.run(lambda _: iter([(Unit("op/case", "op", ()),)]))) == []
    assert dispatcher.hosts["there"].workers == 0
    # Nobody accuses a worker that is simply gone.
    assert complaints == []
    assert dispatcher.lost is not None


def test_a_worker_announces_the_first_unit_and_what_follows_a_slow_one():
    """A word about each of many quick cases would cost more than the cases."""
    now, announced = [0.0], []
    announce = now_and_then(announced.append, lambda: now[0])
    for now[0] in (0.0, 0.01, 0.02, 0.5, 0.51, 0.9):
        announce(str(now[0]))
    assert announced == ["0.0", "0.5", "0.9"]


def planned(number):
    return [Unit(f"op/{i}", "op", ()) for i in range(number)]


@given(st.lists(st.integers(0, 10 * BATCH_NS), max_size=300), st.integers(1, 64), st.booleans())
def test_every_case_is_in_one_batch(costs, workers, in_order):
    cases = planned(len(costs))
    by_case = {case.id: cost for case, cost in zip(cases, costs, strict=True)}
    batches = list(batches_of(cases, by_case, in_order=in_order, workers=workers))
    flat = [case for batch in batches for case in batch]
    assert sorted(case.id for case in flat) == sorted(by_case)
    assert all(0 < len(batch) <= MAX_CASES for batch in batches)
    if in_order:
        assert flat == cases
    else:
        assert [by_case[case.id] for case in flat] == sorted(costs, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or sum(by_case[case.id] for case in batch) <= max(BATCH_NS, CASE_NS)


def test_few_cases_are_shared_by_all_workers():
    batches = list(batches_of(planned(32), {}, workers=4))
    assert max(map(len, batches)) <= 2


NAME = "masked_col2im_forward"


class Workers:
    """Answers as workers do: every computing call is wrong; those in `losing` lose the worker, `ends` the scheduler."""

    def __init__(self, losing=(), ends=None):
        self.lost, self.asked, self._added, self._losing, self._ends = None, [], [], losing, ends
        operator = Session().catalogue.operators[NAME]
        implementation = Implementation("idle", lambda call: operator.early_answer(call) or Status.SUCCESS)
        self._operator = operator
        self._executor = CaseRun(InlineCaller(implementation), Options(elementwise=True, bounds_alone=True))

    def add(self, unit):
        self._added.append(unit)

    def stop(self):
        pass

    def run(self, batches):
        for batch in batches(2):
            for unit in batch:
                yield from self._of(unit)
                while self._added:
                    yield from self._of(self._added.pop())
            if self._ends is not None and len(self.asked) >= self._ends:
                self.lost = RunLost("the scheduler of the cluster was lost")
                return

    def _of(self, unit):
        self.asked.append(unit)
        yield CaseStarted(unit.id)
        result = self._executor.run_case(unit.case, self._operator)
        if (unit.found is not None, result.outcome.fails) in self._losing:
            lost = replace(result, outcome=Outcome.CRASHED, causes=(WorkerLost(3, "node"),), explained=())
            yield UnitAnswered(unit, lost)
        elif unit.found is None:
            yield UnitAnswered(unit, result)
        else:
            reductions = unit.job.target.reductions
            execute = lambda one: self._executor.run_case(one, self._operator)  # noqa: E731
            small = minimised(unit.case, self._operator, reductions, execute)
            yield UnitAnswered(unit, small.result, small.case)


def prepare(folder, workers):
    """The scheduler of these workers, the corpus and the operator that is fuzzed."""
    session = Session()
    corpus = Corpus(folder, session.catalogue.operators)
    request = FuzzRequest(RunOptions(Query(), ("builtin",), "numpy"), (NAME,), folder, seed=0)
    (target,) = targets_of(request, session, corpus)
    return ClusterFuzzScheduler(workers, Keeper(corpus), session.catalogue.operators), corpus, target


def fuzz_with(folder, workers, cases=8):
    scheduler, corpus, target = prepare(folder, workers)
    return FuzzRun([target], scheduler, corpus).run(cases, None), corpus, target


def test_a_failure_is_made_smaller_by_a_worker_and_kept_here(tmp_path):
    workers = Workers()
    report, corpus, target = fuzz_with(tmp_path, workers)
    ((finding, _),) = report.findings
    (file,) = corpus.files(NAME)
    smaller = [unit for unit in workers.asked if unit.found is not None]
    assert (finding.file, len(smaller), target.done, report.draws) == (file, 1, 8, 8)
    assert corpus.load(file).elements < smaller[0].case.elements


def test_a_worker_that_is_lost_over_the_search_leaves_the_failure_as_it_was_drawn(tmp_path):
    report, corpus, _ = fuzz_with(tmp_path, Workers(losing=[(True, True)]))
    ((finding, _),) = report.findings
    assert finding.result is finding.drawn
    assert corpus.files(NAME) == (finding.file,)


def test_a_call_that_kills_workers_is_kept_and_kills_no_more_of_them(tmp_path):
    workers = Workers(losing=[(False, True)])
    report, _, _ = fuzz_with(tmp_path, workers)
    assert report.failed > 0
    assert all(unit.found is None for unit in workers.asked)
    ((_, headline),) = report.findings
    assert "the worker was lost 3 times" in headline


def test_a_lost_scheduler_ends_the_fuzz_run_and_the_next_one_goes_on(tmp_path):
    report, _, target = fuzz_with(tmp_path, Workers(ends=1), cases=40)
    assert report.interrupted
    assert 0 < target.done < 40
    again, _, target = fuzz_with(tmp_path, Workers(), cases=40 - target.done)
    assert (again.interrupted, target.done) == (False, 40)


def test_a_file_that_holds_no_case_is_told(tmp_path):
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "mine.prototxt").write_text("not a case")
    report, _, _ = fuzz_with(tmp_path, Workers(), cases=0)
    ((file, result),) = report.corpus
    assert (file.name, result.content_error) == ("mine.prototxt", True)


class BatchSizes:
    """Asks for all batches, and runs none."""

    def run(self, batches):
        self.sizes = [len(batch) for batch in batches(2)]
        return iter(())


def test_large_calls_travel_alone(tmp_path):
    workers = BatchSizes()
    scheduler, _, target = prepare(tmp_path, workers)
    small = target.draws.draw(0).case
    large = max((target.draws.draw(number).case for number in (49, 99)), key=lambda case: case.elements)
    jobs = [Job(target, case) for case in [small] * 20 + [large, small]]
    assert list(scheduler.run(jobs)) == []
    assert workers.sizes == [16, 4, 1, 1]
