"""The SQLite file of the history: any number of processes may add to it at the same time.

Results over time: a SQLite file of runs, and what it tells of each case.
"""

import contextlib
import hashlib
import json
import math
import os
import sqlite3
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, UnwritableError, UsageError
from mluops_gtest.base.typed_files import Source, convert, decode_json
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.records import sorted_json
from mluops_gtest.results.trends import CaseTrend, CauseTrend, Measured, Point, Run

T = TypeVar("T")
DEFAULT = Path(".mluops-test") / "history.sqlite"
VARIABLE = "MLUOPS_TEST_HISTORY"
_VERSION = 3
# How long one process waits for the others; a whole run is added in well under a second.
_PATIENCE_SECONDS = 30.0
# Somebody else's doing, or a file that cannot be opened.
_UNUSABLE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
# Version 2 added labels, version 3 causes of failures; an older file gets the tables when it is opened.
_LABELS = """CREATE TABLE labels (
      run INTEGER NOT NULL REFERENCES runs, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (run, name))
      WITHOUT ROWID"""
# A headline says when, which changes with the cases of a run; the mark is the same as long as the cause is.
_CAUSES = """CREATE TABLE causes (
      run INTEGER NOT NULL REFERENCES runs, mark TEXT NOT NULL, headline TEXT NOT NULL, cases INTEGER NOT NULL,
      PRIMARY KEY (run, mark)) WITHOUT ROWID"""
_ADDED = {1: (_LABELS, _CAUSES), 2: (_CAUSES,)}
_SCHEMA = (
    """CREATE TABLE runs (
      id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, started TEXT NOT NULL, backend TEXT NOT NULL,
      machine TEXT NOT NULL, tool_version TEXT NOT NULL, seconds REAL NOT NULL, counts TEXT NOT NULL)""",
    "CREATE TABLE cases (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, operator TEXT NOT NULL)",
    """CREATE TABLE results (
      run INTEGER NOT NULL REFERENCES runs, case_id INTEGER NOT NULL REFERENCES cases, outcome TEXT NOT NULL,
      seconds REAL NOT NULL, PRIMARY KEY (case_id, run)) WITHOUT ROWID""",
    # A value that is NULL was NaN, which SQLite does not keep.
    """CREATE TABLE readings (
      run INTEGER NOT NULL REFERENCES runs, case_id INTEGER NOT NULL REFERENCES cases, output TEXT NOT NULL,
      criterion TEXT NOT NULL, dtype TEXT NOT NULL, value REAL, threshold REAL NOT NULL,
      PRIMARY KEY (case_id, run, output, criterion)) WITHOUT ROWID""",
    _LABELS,
    _CAUSES,
)
# Primary codes of SQLite for a full disk, an error of the system's and a file that must stay as it is; those of the
# system's errors that happen while reading tell of a damaged file.
_UNWRITABLE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)
_UNREADABLE = (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ)
_RUN_COLUMNS = "runs.id, runs.started, runs.backend, runs.machine, runs.tool_version, runs.seconds, runs.counts"


def history_path(given: Path | None) -> Path:
    """The file that is meant: the given one, else $MLUOPS_TEST_HISTORY, else one in the current folder."""
    named = os.environ.get(VARIABLE)
    return given or (Path(named) if named else DEFAULT)


class History:
    """The runs in one file; a context manager that closes it."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if not create and not path.is_file():
            raise UsageError(f"{path}: there is no history; `mluops-test history add RESULTS --db {path}` starts one.")
        self._path = path
        self._source = Source(str(path), "The history is damaged: restore a copy, or start another one with --db.")
        with self._clear_errors():
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            # Transactions are written out below, so the module must not open any of its own.
            self._base = sqlite3.connect(path, timeout=_PATIENCE_SECONDS, isolation_level=None)
            try:
                self._prepare()
            except BaseException:
                self._base.close()
                raise

    def __enter__(self) -> "History":
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def add(self, report: RunReport, causes: Sequence[tuple[str, str, int]] = ()) -> bool:
        """Take in a run, whole or not at all; False where this very report is there already.

        `causes` are the mark, the headline and the number of cases of each cause of its failures.
        """
        operators = {result.case: result.operator for result in report.results}
        if len(operators) < len(report.results):
            raise ContentError("The report has a case twice; `mluops-test run` and `merge` write each case once.")
        document = hashlib.sha256()
        for piece in sorted_json(report, (",", ":")):
            document.update(piece.encode())
        digest = document.hexdigest()
        with self._clear_errors(), self._transaction():
            if self._base.execute("SELECT 1 FROM runs WHERE digest = ?", (digest,)).fetchone():
                return False
            run = self._base.execute(
                "INSERT INTO runs (digest, started, backend, machine, tool_version, seconds, counts)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    digest,
                    report.started,
                    str(report.backend.get("name", "")),
                    machine_of(report),
                    report.tool_version,
                    report.seconds,
                    json.dumps(report.summary),
                ),
            ).lastrowid
            assert run is not None, "an INSERT has a row id"
            labels = [(run, name, value) for name, value in report.labels.items()]
            self._base.executemany("INSERT INTO labels VALUES (?, ?, ?)", labels)
            self._base.executemany(
                "INSERT OR IGNORE INTO causes VALUES (?, ?, ?, ?)", [(run, *cause) for cause in causes]
            )
            ids = self._case_ids(operators)
            rows: list[tuple[Any, ...]] = []
            readings: list[tuple[Any, ...]] = []
            for result in report.results:
                case = ids[result.case]
                rows.append((run, case, result.outcome.value, _seconds(result)))
                # Readings of other values would look like drift.
                if report.reseed is None:
                    readings += _reading_rows(run, case, result)
            self._base.executemany("INSERT INTO results VALUES (?, ?, ?, ?)", rows)
            # A criterion named twice on one output reads the same twice.
            self._base.executemany("INSERT OR IGNORE INTO readings VALUES (?, ?, ?, ?, ?, ?, ?)", readings)
        return True

    def runs(
        self, *, backend: str | None = None, last: int | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Run, ...]:
        """The runs from old to new by the time they started; the `last` so many of those that have these labels."""
        known: dict[int, dict[str, str]] = {}
        for run, name, value in self._rows("labels", tuple[int, str, str], "SELECT run, name, value FROM labels"):
            known.setdefault(run, {})[name] = value
        rows = self._rows(
            "runs",
            tuple[int, str, str, str, str, float, str],
            f"SELECT {_RUN_COLUMNS} FROM runs WHERE :backend IS NULL OR backend = :backend ORDER BY started, id",
            {"backend": backend},
        )
        wanted = (labels or {}).items()
        runs = tuple(self._run(row, found) for row in rows if wanted <= (found := known.get(row[0], {})).items())
        return runs if last is None else runs[-last:]

    def trends(
        self, runs: tuple[Run, ...], *, case: str | None = None, operator: str | None = None
    ) -> tuple[CaseTrend, ...]:
        """The cases in these runs, by name and backend; of one case or one operator where said."""
        by_id = {run.id: run for run in runs}
        order = {run.id: place for place, run in enumerate(runs)}
        where = "(:case IS NULL OR cases.name = :case) AND (:operator IS NULL OR cases.operator = :operator)"
        measured: dict[tuple[int, int], list[Measured]] = {}
        points: dict[tuple[str, str, str], list[Point]] = {}
        with self._clear_errors(), self._transaction("DEFERRED"):
            readings = self._rows(
                "readings",
                tuple[int, int, str, str, str, float | None, float],
                "SELECT case_id, run, output, criterion, dtype, value, threshold FROM readings"
                f" JOIN cases ON cases.id = case_id WHERE {where}",
                {"case": case, "operator": operator},
            )
            results = self._rows(
                "results",
                tuple[int, str, str, int, Outcome, float],
                "SELECT case_id, cases.name, cases.operator, run, outcome, results.seconds FROM results"
                f" JOIN cases ON cases.id = case_id WHERE {where}",
                {"case": case, "operator": operator},
            )
        for case_id, run, output, criterion, dtype, value, threshold in readings:
            reading = Measured(output, criterion, dtype, math.nan if value is None else value, threshold)
            measured.setdefault((case_id, run), []).append(reading)
        for case_id, name, of, run, outcome, seconds in sorted(results, key=lambda row: order.get(row[3], -1)):
            if run in by_id:
                point = Point(by_id[run], outcome, self._duration(seconds), tuple(measured.get((case_id, run), ())))
                points.setdefault((name, point.run.backend, of), []).append(point)
        return tuple(CaseTrend(name, of, tuple(found)) for (name, _, of), found in sorted(points.items()))

    def causes(self, runs: tuple[Run, ...]) -> tuple[CauseTrend, ...]:
        """The causes of failures in these runs, the newest first, then those of most cases; newest headlines."""
        order = {run.id: place for place, run in enumerate(runs)}
        rows = self._rows("causes", tuple[int, str, str, int], "SELECT run, mark, headline, cases FROM causes")
        counts: dict[str, list[int]] = {}
        headlines: dict[str, str] = {}
        for run, mark, headline, cases in sorted(rows, key=lambda row: order.get(row[0], -1)):
            if run in order:
                counts.setdefault(mark, [0] * len(runs))[order[run]] = cases
                headlines[mark] = headline
        trends = [CauseTrend(mark, headlines[mark], tuple(found)) for mark, found in counts.items()]
        return tuple(sorted(trends, key=lambda trend: (-trend.last, -trend.counts[trend.last], trend.mark)))

    def case_names(self) -> tuple[str, ...]:
        return tuple(name for (name,) in self._rows("cases", tuple[str], "SELECT name FROM cases ORDER BY name"))

    def operators(self) -> tuple[str, ...]:
        rows = self._rows("cases", tuple[str], "SELECT DISTINCT operator FROM cases ORDER BY 1")
        return tuple(name for (name,) in rows)

    def _rows(self, table: str, wanted: type[T], query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[T]:
        """The rows, held to their types: SQLite itself keeps anything in any column."""
        with self._clear_errors():
            found = self._base.execute(query, values).fetchall()
        return convert(found, list[wanted], replace(self._source, at=table))  # type: ignore[valid-type]

    def _run(self, row: tuple[int, str, str, str, str, float, str], labels: dict[str, str]) -> Run:
        run, started, backend, machine, tool_version, seconds, counts = row
        source = replace(self._source, at="runs.counts")
        numbers = convert(decode_json(counts.encode(), source), dict[str, int], source)
        return Run(run, started, backend, machine, tool_version, self._duration(seconds), numbers, labels)

    def _duration(self, seconds: float) -> float:
        if not (math.isfinite(seconds) and seconds >= 0):
            raise self._source.error(f"{seconds} is not a number of seconds")
        return seconds

    def _case_ids(self, operators: Mapping[str, str]) -> dict[str, int]:
        # An operator that is renamed takes its cases along.
        self._base.executemany(
            "INSERT INTO cases (name, operator) VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET operator = excluded.operator",
            operators.items(),
        )
        return dict(self._rows("cases", tuple[str, int], "SELECT name, id FROM cases"))

    def _prepare(self) -> None:
        self._base.execute(f"PRAGMA busy_timeout = {int(_PATIENCE_SECONDS * 1000)}")
        self._share_reading()
        if self._version() == _VERSION:
            return
        with self._transaction():
            # Another process may have made the tables while this one waited.
            version = self._version()
            if 0 <= version < _VERSION:
                if version == 0 and self._base.execute("SELECT 1 FROM sqlite_master").fetchone():
                    what = "this SQLite file belongs to something else; name another one with --db."
                    raise ContentError(f"{self._path}: {what}")
                for statement in _SCHEMA if version == 0 else _ADDED[version]:
                    self._base.execute(statement)
                self._base.execute(f"PRAGMA user_version = {_VERSION}")
        if self._version() != _VERSION:
            raise ContentError(
                f"{self._path}: a history of version {self._version()}; this version reads {_VERSION}. "
                "Use the mluops-test that wrote it, or another file."
            )

    def _share_reading(self) -> None:
        """Readers and one writer at the same time; the change of a new file is not covered by the busy timeout."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                self._base.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _version(self) -> int:
        return int(self._base.execute("PRAGMA user_version").fetchone()[0])

    @contextlib.contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[None]:
        """IMMEDIATE takes the write lock at once: one that is taken later can be refused without any waiting."""
        self._base.execute(f"BEGIN {kind}")
        try:
            yield
        except BaseException:
            # SQLite itself rolls back after some errors.
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            raise
        self._base.execute("COMMIT")

    @contextlib.contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            # Of its own errors, such as text that is no UTF-8, Python's module tells no code.
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
            if code & 0xFF in _UNWRITABLE and code not in _UNREADABLE:
                raise UnwritableError(f"{self._path}: cannot be written: {error}.") from error
            if code & 0xFF in _UNUSABLE:
                raise UsageError(
                    f"{self._path}: the history cannot be used: {error}. Name another file with --db."
                ) from error
            raise self._source.error(f"not a history of mluops-test: {error}") from error
        except (MemoryError, OverflowError, UnicodeDecodeError) as error:
            # A length that no file has, or a message of SQLite's that quotes what is no text.
            raise self._source.error("not a history of mluops-test: its tables cannot be read") from error
        except OSError as error:
            raise UnwritableError.of(self._path, error) from error


def machine_of(report: RunReport) -> str:
    """The machine in words; times of different ones do not compare."""
    words = [report.environment.get(key) for key in ("platform", "machine", "cpus")]
    return ", ".join(str(word) for word in words if word is not None)


def _seconds(result: CaseResult) -> float:
    samples = result.perf.samples_ns if result.perf is not None else ()
    return statistics.median(samples) * 1e-9 if samples else result.seconds


def _reading_rows(
    run: int, case_id: int, result: CaseResult
) -> Iterator[tuple[int, int, str, str, str, float | None, float]]:
    dtypes = {tensor.id: tensor.dtype for tensor in result.info.outputs}
    for reading in result.readings:
        value = None if math.isnan(reading.value) else reading.value
        yield run, case_id, reading.output, reading.criterion, dtypes.get(reading.output, ""), value, reading.threshold
