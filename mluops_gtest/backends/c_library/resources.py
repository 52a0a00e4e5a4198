"""What a call makes in the library and must give back, counted on both sides."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from mluops_gtest.backends.c_library.api import Refused


@dataclass(slots=True)
class Account:
    """How many handles, queues, descriptors, buffers, … were made, and how many of them given back."""

    made: Counter[str] = field(default_factory=Counter)
    returned: Counter[str] = field(default_factory=Counter)

    @property
    def outstanding(self) -> Counter[str]:
        """What was made and not given back."""
        return self.made - self.returned


class Resources:
    """Gives back in reverse order what was made within the `with` block, whatever happened there."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._open: list[tuple[str, Callable[[], None]]] = []
        # What the library refused to take back, in words.
        self.refusals: list[Refused] = []

    def own(self, kind: str, release: Callable[[], None]) -> None:
        """Something was made; `release` gives it back."""
        self._account.made[kind] += 1
        self._open.append((kind, release))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            kind, release = self._open.pop()
            try:
                release()
            except Refused as refusal:
                self.refusals.append(Refused(refusal.status, f"{refusal.note}: a {kind} was not given back"))
            else:
                self._account.returned[kind] += 1
