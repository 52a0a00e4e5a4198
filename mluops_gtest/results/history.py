"""Results over time: a SQLite file of runs, to which any number of processes may add, and what it says of each case.

How often a case passes, flakes and flips, and whether its accuracy drifts.
"""

import contextlib
import hashlib
import itertools
import json
import math
import os
import sqlite3
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from msgspec import field
from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, UnwritableError, UsageError
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import commit_words
from mluops_gtest.base.typed_files import Source, convert, decode_json
from mluops_gtest.core.outcome import FLOOR, SIZELESS, Outcome, reading_floor
from mluops_gtest.core.report import RunReport, backend_of
from mluops_gtest.results.records import head_to_json, result_to_json, share_of_threshold
from mluops_gtest.results.shapes import Overlay, fill, list_of, shape_of
from mluops_gtest.results.times import usual_seconds

T = TypeVar("T")
DEFAULT = Path(".mluops-test") / "history.sqlite"
VARIABLE = "MLUOPS_TEST_HISTORY"
_VERSION = 3
# Version 2 added labels, version 3 causes of failures; an older file gets the tables when it is opened.
_TABLES_BEFORE = {0: 0, 1: 4, 2: 5}
# How long one process waits for the others; a whole run is added in well under a second.
_PATIENCE_SECONDS = 30.0
# Somebody else's doing, or a file that cannot be opened.
_UNUSABLE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
_TABLES = (
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
    """CREATE TABLE labels (
      run INTEGER NOT NULL REFERENCES runs, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (run, name))
      WITHOUT ROWID""",
    # A headline says when, which changes with the cases of a run; the mark is the same as long as the cause is.
    """CREATE TABLE causes (
      run INTEGER NOT NULL REFERENCES runs, mark TEXT NOT NULL, headline TEXT NOT NULL, cases INTEGER NOT NULL,
      PRIMARY KEY (run, mark)) WITHOUT ROWID""",
)
# Primary codes of SQLite for a full disk, an error of the system's and a file that must stay as it is; those of the
# system's errors that happen while reading tell of a damaged file.
_UNWRITABLE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)
_UNREADABLE = (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ)
_BARS = "▁▂▃▄▅▆▇█"


class Run(Value):
    """One run that the history holds."""

    id: int
    started: str
    backend: str
    machine: str
    tool_version: str
    seconds: float
    # Outcome word → number of cases.
    counts: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def commit(self) -> str:
        """The commit that it ran on, in short; empty where none is known."""
        return commit_words(self.labels)


class CauseTrend(Value):
    """One cause of failures over runs: how many cases it had in each."""

    mark: str
    headline: str
    counts: tuple[int, ...]

    @property
    def first(self) -> int:
        """The place of the first run that has it."""
        return next(place for place, count in enumerate(self.counts) if count)

    @property
    def last(self) -> int:
        """The place of the last run that has it."""
        return max(place for place, count in enumerate(self.counts) if count)


class Measured(Value):
    """One criterion on one output, as one run read it."""

    output: str
    criterion: str
    dtype: str
    value: float
    threshold: float


class Point(Value):
    """One case in one run; `seconds` is the median of the samples where the run took several."""

    run: Run
    outcome: Outcome
    seconds: float
    measured: tuple[Measured, ...] = ()

    @property
    def used(self) -> float | None:
        """The largest reading as a multiple of its threshold; None where nothing was read."""
        return max((share_of_threshold(m.value, m.threshold) for m in self.measured), default=None)


class ReadingGrowth(Value):
    """How many times larger the newest reading is than the usual one before; `values` from old to new."""

    output: str
    criterion: str
    factor: float
    values: tuple[float, ...]


class CaseTrend(Value):
    """One case on one backend over all runs, from old to new."""

    case: str
    operator: str
    points: tuple[Point, ...] = field(default=())

    @property
    def ran(self) -> tuple[Point, ...]:
        """The points where the backend was asked, so that they say something of it."""
        return tuple(point for point in self.points if point.outcome.was_called)

    @property
    def pass_rate(self) -> float | None:
        """Share of the runs in which the case passed; None where it never ran."""
        return self._rate(Outcome.PASSED)

    @property
    def flake_rate(self) -> float | None:
        """Share of the runs in which the case both failed and passed; None where it never ran."""
        return self._rate(Outcome.FLAKY)

    def _rate(self, outcome: Outcome) -> float | None:
        return sum(point.outcome is outcome for point in self.ran) / len(self.ran) if self.ran else None

    @property
    def flips(self) -> int:
        """How often the case went from good to bad or back from one run to the next."""
        blocks = [point.outcome.blocks for point in self.ran]
        return sum(before != after for before, after in itertools.pairwise(blocks))

    @property
    def drifts(self) -> tuple[ReadingGrowth, ...]:
        """Every criterion read at least once, the one that grew most first."""
        series: dict[tuple[str, str, str], list[float]] = {}
        for point in self.points:
            for m in point.measured:
                if m.criterion != SIZELESS:
                    series.setdefault((m.output, m.criterion, m.dtype), []).append(m.value)
        drifts = [
            ReadingGrowth(output, criterion, _growth(values, reading_floor(dtype)), tuple(values))
            for (output, criterion, dtype), values in series.items()
        ]
        return tuple(sorted(drifts, key=lambda drift: -drift.factor))

    @property
    def seconds(self) -> tuple[float, ...]:
        """The times, from old to new."""
        return tuple(point.seconds for point in self.ran)

    @property
    def story(self) -> tuple[tuple[str, str, float | None, str, float | None], ...]:
        """Start, outcome, largest reading as a multiple of its threshold, commit and time, from old to new."""
        return tuple(
            (p.run.started, p.outcome.value, p.used, p.run.commit, p.seconds if p.outcome.was_called else None)
            for p in self.points
        )

    def to_json(self) -> dict[str, Any]:
        """The trend for programs."""
        return fill(HISTORY_CASE, with_runs(self))


def with_runs(trend: CaseTrend) -> Overlay:
    """The trend with what programs get of its runs."""
    runs = [
        Overlay(point, started=point.run.started, labels=point.run.labels, readings=point.measured)
        for point in trend.points
    ]
    return Overlay(trend, runs=runs, backend=trend.points[-1].run.backend)


_READING: Final = shape_of("HistoryReading", Measured, "output criterion value")
_DRIFT: Final = shape_of("HistoryDrift", ReadingGrowth, "output criterion factor")
_POINT: Final = shape_of(
    "HistoryPoint", Point, "started:str labels:dict[str,str] outcome seconds", readings=list_of(_READING)
)
HISTORY_CASE: Final = shape_of(
    "HistoryCase",
    CaseTrend,
    "case operator backend:str pass_rate flake_rate flips",
    drifts=list_of(_DRIFT),
    runs=list_of(_POINT),
)


def _growth(values: list[float], floor: float) -> float:
    """The newest over the median before it, neither below the floor; a NaN where there was none is unbounded growth."""
    *before, newest = values
    known = [value for value in before if not math.isnan(value)]
    if not known:
        return 1.0
    usual = max(statistics.median(known), floor)
    if math.isnan(newest):
        return math.inf
    # Infinite before and now is no growth.
    return 1.0 if math.isinf(usual) else max(newest, floor) / usual


def sparkline(values: tuple[float, ...], *, log: bool = False) -> str:
    """A bar per value between the smallest and the largest, a dot for no number; with `log` a factor is a step."""
    # Nothing below the floor of float is told apart.
    heights = [math.log2(max(value, FLOOR)) if log and not math.isnan(value) else value for value in values]
    known = [height for height in heights if math.isfinite(height)]
    low, span = (min(known), max(known) - min(known)) if known else (0.0, 0.0)
    bars = []
    for height in heights:
        if math.isnan(height):
            bars.append("·")
        elif math.isinf(height):
            bars.append(_BARS[-1] if height > 0 else _BARS[0])
        else:
            place = int((height - low) / span * len(_BARS)) if span > 0 else 0
            bars.append(_BARS[min(place, len(_BARS) - 1)])
    return "".join(bars)


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
        """Add a run, whole or not at all, with mark, headline and size of its causes; False if it is there already."""
        operators = {result.case: result.operator for result in report.results}
        if len(operators) < len(report.results):
            raise ContentError("The report has a case twice; `mluops-test run` and `merge` write each case once.")
        digest, reseeded = _digest(report), report.reseed is not None
        # Times of different machines do not compare.
        words = [report.environment.get(key) for key in ("platform", "machine", "cpus")]
        machine = ", ".join(str(word) for word in words if word is not None)
        with self._clear_errors(), self._transaction():
            if self._base.execute("SELECT 1 FROM runs WHERE digest = ?", (digest,)).fetchone():
                return False
            facts = (report.tool_version, report.seconds, json.dumps(report.summary))
            run = self._base.execute(
                "INSERT INTO runs (digest, started, backend, machine, tool_version, seconds, counts)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (digest, report.started, backend_of(report), machine, *facts),
            ).lastrowid
            assert run is not None, "an INSERT has a row id"
            labels = [(run, *item) for item in report.labels.items()]
            self._base.executemany("INSERT INTO labels VALUES (?, ?, ?)", labels)
            self._base.executemany("INSERT OR IGNORE INTO causes VALUES (?, ?, ?, ?)", [(run, *one) for one in causes])
            # An operator that is renamed takes its cases along.
            self._base.executemany(
                "INSERT INTO cases (name, operator) VALUES (?, ?)"
                " ON CONFLICT (name) DO UPDATE SET operator = excluded.operator",
                operators.items(),
            )
            ids = dict(self._rows("cases", tuple[str, int], "SELECT name, id FROM cases"))
            rows: list[tuple[Any, ...]] = []
            readings: list[tuple[Any, ...]] = []
            for result in report.results:
                case = ids[result.case]
                rows.append((run, case, result.outcome.value, usual_seconds(result)))
                dtypes = {tensor.id: tensor.dtype for tensor in result.info.outputs}
                # Readings of other values would look like drift.
                for r in () if reseeded else result.readings:
                    value = None if math.isnan(r.value) else r.value
                    readings.append((run, case, r.output, r.criterion, dtypes.get(r.output, ""), value, r.threshold))
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
            "SELECT id, started, backend, machine, tool_version, seconds, counts FROM runs"
            " WHERE :backend IS NULL OR backend = :backend ORDER BY started, id",
            {"backend": backend},
        )
        source, runs = replace(self._source, at="runs.counts"), []
        for run, started, of, machine, version, seconds, counts in rows:
            if (labels or {}).items() <= known.get(run, {}).items():
                numbers = convert(decode_json(counts.encode(), source), dict[str, int], source)
                duration = self._duration(seconds)
                runs.append(Run(run, started, of, machine, version, duration, numbers, known.get(run, {})))
        return tuple(runs if last is None else runs[-last:])

    def trends(
        self, runs: tuple[Run, ...], *, case: str | None = None, operator: str | None = None
    ) -> tuple[CaseTrend, ...]:
        """The cases in these runs, by name and backend; of one case or one operator where said."""
        order = {run.id: place for place, run in enumerate(runs)}
        where = (
            "JOIN cases ON cases.id = case_id"
            " WHERE (:case IS NULL OR cases.name = :case) AND (:operator IS NULL OR cases.operator = :operator)"
        )
        measured: dict[tuple[int, int], list[Measured]] = {}
        points: dict[tuple[str, str, str], list[Point]] = {}
        values = {"case": case, "operator": operator}
        with self._clear_errors(), self._transaction("DEFERRED"):
            readings = self._rows(
                "readings",
                tuple[int, int, str, str, str, float | None, float],
                f"SELECT case_id, run, output, criterion, dtype, value, threshold FROM readings {where}",
                values,
            )
            results = self._rows(
                "results",
                tuple[int, str, str, int, Outcome, float],
                f"SELECT case_id, cases.name, cases.operator, run, outcome, results.seconds FROM results {where}",
                values,
            )
        for case_id, run, output, criterion, dtype, value, threshold in readings:
            reading = Measured(output, criterion, dtype, math.nan if value is None else value, threshold)
            measured.setdefault((case_id, run), []).append(reading)
        for case_id, name, of, run, outcome, seconds in sorted(results, key=lambda row: order.get(row[3], -1)):
            if run in order:
                seen = tuple(measured.get((case_id, run), ()))
                point = Point(runs[order[run]], outcome, self._duration(seconds), seen)
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

    def names(self, column: Literal["name", "operator"]) -> tuple[str, ...]:
        """The names of all cases, or of all operators, sorted."""
        rows = self._rows("cases", tuple[str], f"SELECT DISTINCT {column} FROM cases ORDER BY 1")
        return tuple(name for (name,) in rows)

    def _rows(self, table: str, wanted: type[T], query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[T]:
        """The rows, held to their types: SQLite itself keeps anything in any column."""
        with self._clear_errors():
            found = self._base.execute(query, values).fetchall()
        return convert(found, list[wanted], replace(self._source, at=table))  # type: ignore[valid-type]

    def _duration(self, seconds: float) -> float:
        if not (math.isfinite(seconds) and seconds >= 0):
            raise self._source.error(f"{seconds} is not a number of seconds")
        return seconds

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
                for statement in _TABLES[_TABLES_BEFORE[version] :]:
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


def _digest(report: RunReport) -> str:
    """The SHA-256 of the whole report as one line of JSON with sorted keys; never more than one result is there."""
    encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
    head = head_to_json(report)
    before, after = ({key: head[key] for key in head if (key > "results") is late} for late in (False, True))
    digest = hashlib.sha256(f'{encode(before)[:-1]},"results":['.encode())
    for place, result in enumerate(report.results):
        digest.update(f"{',' if place else ''}{encode(result_to_json(result))}".encode())
    digest.update(f"],{encode(after)[1:]}".encode())
    return digest.hexdigest()
