"""Cases in batches by what they cost, and what becomes of them when time passes at the wrong moment."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.cluster import dispatch
from mluops_gtest.cluster.answers import Checked, Unit
from mluops_gtest.cluster.dispatch import PATIENCE, Dispatcher
from mluops_gtest.cluster.session import BATCH_NS, MAX_CASES, batches_of
from mluops_gtest.cluster.worker import now_and_then
from mluops_gtest.running.plan import CASE_NS

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
