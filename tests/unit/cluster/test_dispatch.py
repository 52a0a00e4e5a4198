"""What becomes of batches when time passes at the wrong moment; a client that nothing is behind."""

from types import SimpleNamespace

from mluops_gtest.cluster import dispatch
from mluops_gtest.cluster.answers import Checked, Unit
from mluops_gtest.cluster.dispatch import PATIENCE, Dispatcher
from mluops_gtest.cluster.worker import now_and_then

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
