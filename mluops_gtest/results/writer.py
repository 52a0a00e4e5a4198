"""What a run leaves: run.json before the first case, results.jsonl line by line, report.json at the end.

Beside them causes.json, the causes of its failures, and with --save-outputs a folder per case with its outputs.
"""

import contextlib
import io
import shlex
import time
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mluops_gtest.base.errors import UnwritableError
from mluops_gtest.base.files import replace_file
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import strip_to_line
from mluops_gtest.base.typed_files import Source, json_bytes
from mluops_gtest.core.report import CaseFinished, CasesRetracted, Event, RunReport, Tally
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.folder import (
    AFTER_RESULTS,
    BEFORE_RESULTS,
    CAUSES,
    REPORT,
    RESULTS,
    RUN,
    ResultsFolder,
    StoredResults,
    is_in_place,
)
from mluops_gtest.results.records import head_to_json, read_result, result_to_json

if TYPE_CHECKING:
    from mluops_gtest.judging.groups import CauseGroup


class _ShortenedError(UnwritableError):
    """What was written is no longer there."""


class ResultFiles:
    """Writes the results of one run; every finished case is on disk before the next one starts.

    Nothing of a result stays in memory but its place in the file.
    """

    def __init__(self, folder: ResultsFolder, request: dict[str, Any], done: Iterable[CaseResult] = ()) -> None:
        self.seconds = 0.0
        # What all results so far come to.
        self.tally = Tally()
        self._folder = folder
        self._request = json_bytes(request, indent=1) + b"\n"
        self._path = folder.path / RESULTS
        # Case → the number of its line; where each line begins, and where the last one ends.
        self._numbers: dict[str, int] = {}
        self._starts = array("q", [0])
        self._write_known(map(self._count, done))
        try:
            # An older report must not survive beside the results of a run that is killed.
            for name in (REPORT, CAUSES):
                (folder.path / name).unlink(missing_ok=True)
        except OSError as error:
            raise UnwritableError.of(folder.path, error) from error
        self._file = self._open_file()

    def _write_known(self, lines: Iterable[bytes]) -> None:
        """Write what is known so far, as the files of a run that goes on from here."""
        replace_file(self._folder.path / RUN, [self._request])
        replace_file(self._path, lines)

    def _open_file(self) -> io.FileIO:
        try:
            return self._path.open("a+b", buffering=0)
        except OSError as error:
            raise UnwritableError.of(self._path, error) from error

    def __enter__(self) -> "ResultFiles":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __call__(self, event: Event) -> None:
        """Listen to the run; UnwritableError where a result cannot be kept."""
        if isinstance(event, CaseFinished):
            start = time.perf_counter()
            self._append(event.result)
            self.seconds += time.perf_counter() - start
        elif isinstance(event, CasesRetracted):
            self._retract(set(event.cases))

    def __contains__(self, case: str) -> bool:
        return case in self._numbers

    def __iter__(self) -> Iterator[CaseResult]:
        return iter(self.in_order(self._numbers))

    def in_order(self, cases: Iterable[str]) -> StoredResults:
        """The results of these cases, read when they are asked for, while the files are open."""
        source = Source(str(self._path), "`mluops-test run` writes this file; start the run again.")
        return StoredResults(array("q", map(self._numbers.__getitem__, cases)), self._line, source, self.tally)

    def write_report(self, report: RunReport, cases: Iterable[str]) -> None:
        """The report on these cases, whole or not at all; their results are copied from the lines that are written."""
        lines = (self._line(self._numbers[case]) for case in cases)
        try:
            replace_file(self._folder.path / REPORT, _encode_report(report, lines), make_folder=False)
        except _ShortenedError:
            raise
        except UnwritableError as error:
            raise UnwritableError(f"{error} {self._advise_to_resume('writes the report')}") from error

    def _append(self, result: CaseResult) -> None:
        line = _encode(result)
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            # Half a line helps nobody; should it stay, whoever reads it drops it.
            with contextlib.suppress(OSError):
                self._file.truncate(self._starts[-1])
            raise UnwritableError.of(self._path, error, self._advise_to_resume("runs the rest")) from error
        self._count(result, line)
        if not self._is_in_place():
            advice = self._advise_to_resume("runs the rest")
            raise UnwritableError(f"{self._path}: cannot be written: the file was removed. {advice}")

    def _retract(self, cases: set[str]) -> None:
        """Write the file again without these cases."""
        lines = [self._line(number) for case, number in self._numbers.items() if case not in cases]
        source = Source(str(self._path), "")
        self.tally, self._numbers, self._starts = Tally(), {}, array("q", [0])
        self._write_known(self._count(read_result(line, source, check=False)) for line in lines)
        self._file.close()
        self._file = self._open_file()

    def _count(self, result: CaseResult, line: bytes = b"") -> bytes:
        """Remember the place of the next line, and return it."""
        line = line or _encode(result)
        self._numbers[result.case] = len(self._starts) - 1
        self._starts.append(self._starts[-1] + len(line))
        self.tally.add(result)
        return line

    def _line(self, number: int) -> bytes:
        """A line that is written; also from a file that was removed, as long as it is open."""
        start, end = self._starts[number : number + 2]
        self._file.seek(start)
        line = self._file.read(end - start) or b""
        if len(line) != end - start:
            raise _ShortenedError(f"{self._path}: another program has shortened the file; run again.")
        return line

    def _is_in_place(self) -> bool:
        """What is written to a file that was removed or moved away reaches nobody."""
        return is_in_place(self._file.fileno(), self._path, follow_symlinks=True)

    def _advise_to_resume(self, resumed: str) -> str:
        """What is on disk, and how to go on; files that somebody removed are written again first."""
        if not self._is_in_place():
            try:
                if not self._folder.recover():
                    return "Another run may be there now; run this one again with another --out."
                self._write_known(map(self._line, range(len(self._starts) - 1)))
            except UnwritableError:
                return "Nothing of this run could be kept; run it again with another --out."
        again = shlex.join(["mluops-test", "run", "--resume", str(self._folder.path)])
        return f"The results of {self.tally.cases} cases are kept there; once it can be written, `{again}` {resumed}."


def write_results(folder: ResultsFolder, report: RunReport) -> None:
    """A finished report as a results folder of its own."""
    folder.clear()
    replace_file(folder.path / RESULTS, map(_encode, report.results))
    replace_file(folder.path / REPORT, _encode_report(report))


def _encode_report(report: RunReport, lines: Iterable[bytes] | None = None) -> Iterator[bytes]:
    """The head for people, then a line per result for programs; `lines` where they are written already."""
    yield json_bytes(head_to_json(report), indent=1).removesuffix(b"\n}")
    yield b",\n" + BEFORE_RESULTS
    separator = b""
    for line in map(_encode, report.results) if lines is None else lines:
        yield separator
        yield line.removesuffix(b"\n")
        separator = b",\n"
    yield b"\n" + AFTER_RESULTS + b"}\n"


def _encode(result: CaseResult) -> bytes:
    return json_bytes(result_to_json(result)) + b"\n"


_MAX_CAUSES_BYTES: Final = 1 << 16
_MAX_CAUSES: Final = 100
_MAX_SMALLEST: Final = 20
_MAX_SAMPLES: Final = 3
# Characters of a text. Each takes at most 4 bytes, so that one cause always fits.
_MAX_TEXT: Final = 400


class CauseSample(Value):
    """A wrong element of the example; values as text, so that NaN survives JSON."""

    index: tuple[int, ...]
    got: str
    expected: str


class CauseSummary(Value):
    """Cases that fail alike, in English; where they have no place, law or condition in common it is empty."""

    # `v3:…`; of a failure that is not explained (a crash, a wrong status) its fingerprint.
    id: str
    # Empty: several fail in the same way.
    operator: str
    outcome: str
    # Of the example's causes, the main one first, as `causes[].kind` of results.
    kinds: tuple[str, ...]
    headline: str
    # Empty: the failure is not explained.
    output: str
    place: str
    law: str
    # As `explained[].fitted[].law.law` of results; empty where the values follow none.
    law_kind: str
    condition: str
    samples: tuple[CauseSample, ...]
    # Number of cases, and the ids of the smallest.
    cases: int
    smallest: tuple[str, ...]
    repro: str
    # A waiver may name the id.
    waivable: bool


def causes_of(report: RunReport, operator: str | None = None) -> tuple[CauseSummary, ...]:
    """Every cause, or those of an operator, those of most cases first."""
    failing = [result for result in report.failing if operator in (None, result.operator)]
    if not failing:
        return ()
    # Late: a run that passes has nothing to explain.
    from mluops_gtest.judging.groups import cause_groups

    return tuple(map(_summarise, cause_groups(failing, report.results, report.shapes)))


def write_causes(folder: Path, report: RunReport) -> None:
    """Write causes.json: as many causes as fit, the rest counted."""
    causes = causes_of(report)
    for number in range(min(len(causes), _MAX_CAUSES), -1, -1):
        rest = causes[number:]
        more = {"more_causes": len(rest), "more_cases": sum(one.cases for one in rest)}
        data = json_bytes({"format": 1, "causes": causes[:number], **more}, indent=1) + b"\n"
        if len(data) <= _MAX_CAUSES_BYTES:
            break
    replace_file(folder / CAUSES, [data], make_folder=False)


def _summarise(group: "CauseGroup") -> CauseSummary:
    from mluops_gtest.core.readings import format_headline, format_headline_parts

    head, example = group.headline, group.example
    operator, outcome = group.operator or "several operators", example.outcome.value
    words = f"{operator}: {outcome}: {example.reason}" if head is None else format_headline(head)
    place, law, condition = ("", "", "") if head is None else format_headline_parts(head)
    wrong = [one for one in example.explained if head is not None and one.output == head.output]
    samples = [sample for one in wrong for sample in one.samples][:_MAX_SAMPLES]
    return CauseSummary(
        id=_shorten(group.mark),
        operator=_shorten(group.operator),
        outcome=outcome,
        kinds=tuple(dict.fromkeys(str(cause.__struct_config__.tag) for cause in example.causes)),
        headline=_shorten(words),
        output="" if head is None else _shorten(head.output),
        place=_shorten(place),
        law=_shorten(law),
        law_kind="" if head is None or head.law is None else str(head.law.__struct_config__.tag),
        condition=_shorten(condition),
        samples=tuple(CauseSample(s.index, _shorten(s.evaluated), _shorten(s.baseline)) for s in samples),
        cases=len(group.members),
        smallest=tuple(_shorten(result.case) for result in group.members[:_MAX_SMALLEST]),
        repro=_shorten(example.repro),
        waivable=group.placed_law is not None,
    )


def _shorten(text: str) -> str:
    line = strip_to_line(text)
    return line if len(line) <= _MAX_TEXT else f"{line[: _MAX_TEXT - 1]}…"
