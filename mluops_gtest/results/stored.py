"""Results that lie in a file: each is read when it is asked for, so that a run of any length fits into memory."""

from array import array
from collections.abc import Callable, Iterator
from typing import overload

from mluops_gtest.files.typed import Source
from mluops_gtest.model.report import TalliedResults, Tally
from mluops_gtest.model.result import CaseResult
from mluops_gtest.results.lines import ResultReader


class StoredResults(TalliedResults):
    """Some lines of a file of results, in some order."""

    def __init__(self, lines: "array[int]", line: Callable[[int], bytes], source: Source, tally: Tally) -> None:
        """`line` gives a line of the file by its number."""
        self._lines, self._line, self._reader = lines, line, ResultReader(source)
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

    def _read(self, number: int) -> CaseResult:
        return self._reader.read(self._line(number))
