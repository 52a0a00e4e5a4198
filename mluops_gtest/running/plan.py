"""What cases cost in nanoseconds: guessed by the bytes they make and move, better by times that a run recorded."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import field

from mluops_gtest.base.frozen import Value
from mluops_gtest.casefiles.lock import LockEntry
from mluops_gtest.catalog.selection import Selected
from mluops_gtest.core.binding import gets_buffer
from mluops_gtest.core.case import Expect
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.tensor import DType, Layout, TensorDesc
from mluops_gtest.results.folder import read_report

# Around every call: load, bind, poison, guard, judge, write. Measured on a desktop, as is the next one.
CASE_NS: Final = 8_000_000
# Made or read, copied, poisoned and compared.
BYTE_NS: Final = 8


class RecordedTimes(Value):
    """Seconds inside the backend, by case; of a case that was not run nothing is known."""

    seconds: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> "RecordedTimes":
        """The times in a results folder or a report.json."""
        return RecordedTimes.of(read_report(path))

    @staticmethod
    def of(report: RunReport) -> "RecordedTimes":
        """What the run recorded."""
        ran = [result for result in report.results if result.outcome is not Outcome.NOT_RUN]
        return RecordedTimes({result.case: result.seconds for result in ran})

    @property
    def digest(self) -> str:
        """The same for the same times: parts of one run must be cut by the same ones."""
        return hashlib.sha256(json.dumps(sorted(self.seconds.items())).encode()).hexdigest()[:16]


def moved_bytes(entry: LockEntry, expect: Expect) -> int:
    """The bytes of all tensors that get a buffer; a descriptor alone costs nothing, however many elements it names."""
    descriptors = [
        TensorDesc(DType.named(tensor["dtype"]), Layout.ARRAY, tuple(tensor["dims"]))
        for tensor in (*entry.tensors["inputs"], *entry.tensors["outputs"])
    ]
    # The lock does not tell which tensors of a refused call have values; those that do are small.
    return sum(desc.nbytes for desc in descriptors if gets_buffer(expect, desc, has_values=False))


def costs_of(sizes: Mapping[str, int], times: RecordedTimes) -> dict[str, int]:
    """The cost of each case by its bytes, plus its recorded time; an unknown one is guessed by those that are known."""
    guesses = {case: CASE_NS + size * BYTE_NS for case, size in sizes.items()}
    known = {case: round(times.seconds[case] * 1e9) for case in sizes if case in times.seconds}
    # Whole numbers: every machine cuts the same parts.
    spent, guessed = sum(known.values()), sum(guesses[case] for case in known) or 1
    return {case: guess + known.get(case, guess * spent // guessed) for case, guess in guesses.items()}


def case_sizes(lock: Mapping[str, LockEntry], cases: Iterable[Selected]) -> dict[str, int]:
    """The bytes that each case makes and moves: for a user's file its size, for a case never generated 0."""
    sizes = {}
    for case in cases:
        if case.path is not None:
            sizes[case.id] = _file_size(case.path)
        elif case.draft is not None and case.id in lock:
            sizes[case.id] = moved_bytes(lock[case.id], case.draft.expect)
        else:
            sizes[case.id] = 0
    return sizes


def _file_size(path: Path) -> int:
    """The size; 0 if the file cannot be read, which is reported when the case is loaded."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
