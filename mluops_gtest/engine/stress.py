"""What `--stress` asks for: how long cases are repeated, and with how many threads."""

import os
import re
from typing import Final

from msgspec.structs import replace

from mluops_gtest.errors import UsageError, shown
from mluops_gtest.value import Value

# Seconds in all, or repetitions of each case; more digits are no time that somebody waits.
_WORD: Final = re.compile(r"(?P<times>[1-9]\d{0,8})x|(?P<seconds>\d{1,8}(?:\.\d{1,6})?)", re.ASCII)


class Stress(Value):
    """How long cases are repeated: for so many seconds, or exactly so many times each."""

    seconds: float = 0.0
    # None: as often as the seconds allow, and with every number of threads at least once.
    times: int | None = None

    @staticmethod
    def parse(word: str) -> "Stress":
        """`60` → 60 seconds for all cases together; `20x` → each case 20 times."""
        found = _WORD.fullmatch(word.strip())
        if found is None or (found["seconds"] and float(found["seconds"]) == 0):
            raise UsageError(
                f"--stress {shown(word)}: write the seconds for all cases together, e.g. --stress 60, "
                "or how often each case runs, e.g. --stress 20x."
            )
        return Stress(times=int(found["times"])) if found["times"] else Stress(float(found["seconds"]))

    def shared(self, cases: int, lanes: int) -> "Stress":
        """What falls to one case."""
        return replace(self, seconds=self.seconds * lanes / max(cases, 1))


def thread_counts(cores: int | None = None) -> tuple[int, ...]:
    """The numbers of threads that repetitions take in turn: all cores, few, none beside it, more than there are."""
    cores = cores or os.cpu_count() or 1
    return tuple(dict.fromkeys((max(cores, 2), 2, 1, 2 * cores, cores + 1)))
