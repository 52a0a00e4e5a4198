"""Cases side by side: each lane takes the next case when it is free; a lane that loses its device gives it back."""

import queue
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from mluops_gtest.engine.caller import LostDeviceError
from mluops_gtest.model.cause import Cause
from mluops_gtest.model.event import Event


@dataclass(frozen=True, slots=True)
class PlannedCase:
    """A case to run, known before it is loaded."""

    id: str
    operator: str
    tags: tuple[str, ...]


class Lane(Protocol):
    """What runs cases one after the other."""

    def start(self, planned: PlannedCase) -> Event:
        """Say which case comes next."""
        ...

    def run(self, planned: PlannedCase) -> Event:
        """Run it; LostDeviceError ends the lane."""
        ...


class Lanes:
    """Runs cases on one or more lanes and yields their events in the caller's thread."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = lanes
        self._waiting: deque[PlannedCase] = deque()
        self._in_hand = 0
        self._stopped = False
        self._changed = threading.Condition()
        # Why no lane is left, once that is so.
        self.lost: Cause | None = None

    def stop(self) -> None:
        """Take no further case."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def run(self, cases: Sequence[PlannedCase]) -> Iterator[Event]:
        """The events of every case that is taken."""
        self._waiting = deque(cases)
        if len(self._lanes) == 1:
            # One lane needs no thread, and an interrupt arrives where the work is.
            yield from self._work(self._lanes[0])
            return
        events: queue.SimpleQueue[Event | BaseException | None] = queue.SimpleQueue()
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

    def _work_aside(self, lane: Lane, events: "queue.SimpleQueue[Event | BaseException | None]") -> None:
        try:
            for event in self._work(lane):
                events.put(event)
        except BaseException as error:
            events.put(error)
        finally:
            events.put(None)

    def _work(self, lane: Lane) -> Iterator[Event]:
        while (planned := self._take()) is not None:
            yield lane.start(planned)
            try:
                yield lane.run(planned)
            except LostDeviceError as error:
                self._put_back(planned, error.cause)
                return
            self._finished()

    def _take(self) -> PlannedCase | None:
        """The next case; while another lane may still give one back, wait for it."""
        with self._changed:
            while not self._stopped:
                if self._waiting:
                    self._in_hand += 1
                    return self._waiting.popleft()
                if not self._in_hand:
                    return None
                self._changed.wait()
            return None

    def _put_back(self, planned: PlannedCase, why: Cause) -> None:
        with self._changed:
            self._waiting.appendleft(planned)
            self.lost = why
            self._in_hand -= 1
            self._changed.notify_all()

    def _finished(self) -> None:
        with self._changed:
            self._in_hand -= 1
            self._changed.notify_all()
