"""Results that lie in a file: each is read when it is asked for, so that a run of any length fits into memory."""

import os
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, overload

from mluops_gtest.errors import ContentError
from mluops_gtest.model.report import TalliedResults, Tally
from mluops_gtest.model.result import CaseResult

if TYPE_CHECKING:
    from mluops_gtest.results.records import ResultReader


class StoredResults(TalliedResults):
    """Some lines of a file of results, in some order."""

    def __init__(
        self, lines: "array[int]", line: Callable[[int], bytes], reader: "Callable[[], ResultReader]", tally: Tally
    ) -> None:
        """`line` gives a line of the file by its number; all were checked when they were read or written first.

        The reader is made when the first result is asked for.
        """
        self._lines, self._line, self._make_reader = lines, line, reader
        self.tally = tally

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[CaseResult]:
        return map(self._read, self._lines)

    @overload
    def __getitem__(self, index: int) -> CaseResult: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[CaseResult, ...]: ...
    def __getitem__(self, index: int | slice) -> CaseResult | tuple[CaseResult, ...]:
        chosen = self._lines[index]
        return self._read(chosen) if isinstance(chosen, int) else tuple(map(self._read, chosen))

    @cached_property
    def _reader(self) -> "ResultReader":
        return self._make_reader()

    def _read(self, number: int) -> CaseResult:
        return self._reader.read_again(self._line(number))


def left_in_file(file: int, start: int, lines: Iterable[bytes], reader: "ResultReader") -> StoredResults:
    """The results in these lines of an open file, `start` is where they begin; ContentError where one cannot be."""
    starts, tally, cases = array("q", [start]), Tally(), set()
    for line in lines:
        result = reader.read(line)
        tally.add(result)
        cases.add(result.case)
        # Behind it are a comma and the end of the line.
        starts.append(starts[-1] + len(line) + 2)
    if len(cases) < tally.cases:
        raise ContentError("A case occurs twice.")
    kept = os.dup(file)

    def read(number: int) -> bytes:
        line = os.pread(kept, starts[number + 1] - starts[number], starts[number])
        return line[: line.rindex(b"}") + 1]

    results = StoredResults(array("q", range(tally.cases)), read, lambda: reader, tally)
    weakref.finalize(results, os.close, kept)
    return results
