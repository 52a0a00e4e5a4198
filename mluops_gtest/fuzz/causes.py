"""Which failures are one: by what went wrong and where it shows, whatever the values, the sizes and the places."""

from collections import Counter
from threading import Lock
from typing import Final

from mluops_gtest.model.cause import BeyondBound, Cause, Exceeded, NonFinite, Prelude
from mluops_gtest.model.result import CaseResult

# What tells two causes of one kind apart; everything else in a cause is a figure, a place or a text.
_TELLING: Final = ("output", "input", "buffer", "side", "signal", "code", "exception", "answered", "expected", "check")
# Laws of wrong values vary with the size of an output: so many are kept of failures that are alike otherwise.
_MAX_LAWS: Final = 3

CauseKey = tuple[str, ...]


def cause_key(result: CaseResult) -> CauseKey:
    """The words that failures of one cause share: operator, outcome, the main cause, and how values are wrong."""
    main = next((cause for cause in result.causes if not isinstance(cause, Prelude)), None)
    law = next((type(one.law).__name__ for one in result.explained if one.law is not None), "")
    return (result.operator, result.outcome.value, *_words(main), law)


def _words(cause: Cause | None) -> tuple[str, ...]:
    if cause is None:
        return ()
    if isinstance(cause, NonFinite | Exceeded | BeyondBound):
        return ("values", cause.output)
    return (type(cause).__name__, *(str(getattr(cause, name)) for name in _TELLING if hasattr(cause, name)))


class KnownCauses:
    """The causes that have been met; lanes ask side by side."""

    def __init__(self) -> None:
        self._met: set[CauseKey] = set()
        self._alike: Counter[CauseKey] = Counter()
        self._lock = Lock()

    def is_new(self, key: CauseKey) -> bool:
        """Nobody met it before; from now on it is known."""
        with self._lock:
            if key in self._met or self._alike[key[:-1]] >= _MAX_LAWS:
                return False
            self._met.add(key)
            self._alike[key[:-1]] += 1
            return True
