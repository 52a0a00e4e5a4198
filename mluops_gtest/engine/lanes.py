"""Cases side by side: each lane takes the next case when it is free; a lane that loses its device gives it back."""

import queue
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from mluops_gtest.engine.caller import LostDeviceError
from mluops_gtest.model.cause import Cause
from mluops_gtest.value import Value

T = TypeVar("T")
E = TypeVar("E")
T_contra = TypeVar("T_contra", contravariant=True)
E_co = TypeVar("E_co", covariant=True)


class PlannedCase(Value):
    """A case to run, known before it is loaded."""

    id: str
    operator: str
    tags: tuple[str, ...]


class Lane(Protocol[T_contra, E_co]):
    """What runs cases one after the other."""

    def start(self, planned: T_contra) -> E_co:
        """Say which case comes next."""

    def run(self, planned: T_contra) -> E_co:
        """Run it; LostDeviceError ends the lane."""


class AnyLanes(Protocol[T_contra, E_co]):
    """What runs cases and tells of each: lanes of this machine, or a cluster."""

    @property
    def lost(self) -> Cause | None:
        """Why nothing can be run any more, once that is so."""

    @property
    def interrupted(self) -> bool:
        """It ended before its time, and somebody may go on with it."""

    def run(self, cases: Iterable[T_contra]) -> Iterator[E_co]:
        """The events of every case; each is asked for when somebody can run it."""

    def stop(self) -> None:
        """Begin no further case."""


class Lanes(Generic[T, E]):
    """Runs cases on one or more lanes and yields their events in the caller's thread."""

    def __init__(self, lanes: Sequence[Lane[T, E]]) -> None:
        self._lanes = lanes
        self._cases: Iterator[T] = iter(())
        self._given_back: deque[T] = deque()
        self._in_hand = 0
        self._stopped = False
        self._changed = threading.Condition()
        # Why no lane is left, once that is so.
        self.lost: Cause | None = None
        self.interrupted = False

    def stop(self) -> None:
        """Take no further case."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def run(self, cases: Iterable[T]) -> Iterator[E]:
        """The events of every case that is taken; each is asked for when a lane is free, by one lane at a time."""
        self._cases = iter(cases)
        if len(self._lanes) == 1:
            # One lane needs no thread, and an interrupt arrives where the work is.
            yield from self._work(self._lanes[0])
            return
        events: queue.SimpleQueue[E | BaseException | None] = queue.SimpleQueue()
        for lane in self._lanes:
            threading.Thread(target=self._work_aside, args=(lane, events), daemon=True).start()
        running = len(self._lanes)
        while running:
            event = events.get()
            if event is None:
                running -= 1
            elif isinstance(event, BaseException):
                self.stop()
                raise event
            else:
                yield event

    def _work_aside(self, lane: Lane[T, E], events: "queue.SimpleQueue[E | BaseException | None]") -> None:
        try:
            for event in self._work(lane):
                events.put(event)
        except BaseException as error:
            events.put(error)
        finally:
            events.put(None)

    def _work(self, lane: Lane[T, E]) -> Iterator[E]:
        while (planned := self._take()) is not None:
            yield lane.start(planned)
            try:
                yield lane.run(planned)
            except LostDeviceError as error:
                self._put_back(planned, error.cause)
                return
            self._finished()

    def _take(self) -> T | None:
        """The next case; while another lane may still give one back, wait for it."""
        with self._changed:
            while not self._stopped:
                planned = self._given_back.popleft() if self._given_back else next(self._cases, None)
                if planned is not None:
                    self._in_hand += 1
                    return planned
                if not self._in_hand:
                    return None
                self._changed.wait()
            return None

    def _put_back(self, planned: T, why: Cause) -> None:
        with self._changed:
            self._given_back.appendleft(planned)
            self.lost = why
            self._in_hand -= 1
            self._changed.notify_all()

    def _finished(self) -> None:
        with self._changed:
            self._in_hand -= 1
            self._changed.notify_all()
