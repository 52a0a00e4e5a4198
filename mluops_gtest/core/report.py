"""A whole run: its results, what it ran on, the exit code that follows, and the events while it runs."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, overload

from msgspec import field
from msgspec.structs import replace

from mluops_gtest.base.errors import ExitCode
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import pluralize
from mluops_gtest.core.case import required_millionths
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult

if TYPE_CHECKING:
    from mluops_gtest.results.writer import CauseSummary

# Those that `run` has an option for.
ReportFormat = Literal["html", "markdown", "junit", "ctrf"]


class ReportKind(NamedTuple):
    """A format of reports: what writes it, and for the option of `run` what it is and the name of a file."""

    # module:function in results/reports, which gets report, transitions, language and past, and returns text in pieces.
    renderer: str
    what: str = ""
    file: str = ""


# Everything that `report --format` takes, in the order of its help page.
REPORT_KINDS: Final = {
    "html": ReportKind("files:html_pieces", "one page for the browser", "report.html"),
    "markdown": ReportKind("markdown:render_markdown", "the test report that goes with a change", "report.md"),
    "text": ReportKind("terminal:render_text"),
    "junit": ReportKind("files:render_junit", "results for a CI system", "junit.xml"),
    "ctrf": ReportKind("files:render_ctrf", "results in the Common Test Report Format", "ctrf.json"),
    "sarif": ReportKind("sarif:render_sarif"),
    "json": ReportKind("files:json_pieces"),
}


FORMAT = 1
# Causes that a notebook shows, each with an example.
_MAX_SHOWN = 10
# They run in the process of the harness by design: it is their own.
_OWN_BACKENDS = ("numpy", "reference")
ISOLATION_OFF = (
    "Isolation was off: the backend ran in the process that judged it, and could reach everything there; "
    "no failure was confirmed in a fresh worker."
)


class Tally:
    """What follows from all results of a run together, gathered one by one."""

    def __init__(self, results: Iterable[CaseResult] = ()) -> None:
        self.cases = 0
        # Cases that --reseed left with the values that they have without it, and those that drew more than once.
        self.fixed = self.redrawn = 0
        self._outcomes: Counter[Outcome] = Counter()
        self._codes: set[ExitCode] = set()
        self._compared = False
        for result in results:
            self.add(result)

    def add(self, result: CaseResult) -> None:
        """Count it."""
        self.cases += 1
        self._outcomes[result.outcome] += 1
        self._compared = self._compared or result.compared
        if result.bug:
            self._codes.add(ExitCode.BUG)
        elif result.content_error:
            self._codes.add(ExitCode.CONTENT)
        elif result.outcome.blocks:
            self._codes.add(ExitCode.FAILED)
        if result.info.reseeded is not None:
            self.fixed += result.info.reseeded.fixed
            self.redrawn += result.info.reseeded.redraws > 0

    @property
    def summary(self) -> dict[str, int]:
        """How many results have each outcome, in the order of the outcomes; absent ones are left out."""
        return {outcome.value: self._outcomes[outcome] for outcome in Outcome if self._outcomes[outcome]}

    @property
    def failing(self) -> int:
        """Cases that ran and block."""
        return sum(n for outcome, n in self._outcomes.items() if _fails(outcome))

    @property
    def covered(self) -> int:
        """Cases that passed or failed, not skipped or not run."""
        return sum(n for outcome, n in self._outcomes.items() if outcome.was_called)

    def lacks(self, percentage: str | None) -> bool:
        """Fewer of the cases are covered than that."""
        return percentage is not None and self.covered * 1_000_000 < required_millionths(percentage) * self.cases

    def coverage_words(self, percentage: str | None) -> str:
        """That too little was compared, for the end of a line; empty where it was enough."""
        compared = f"{self.covered} of {pluralize(self.cases, 'case')} compared"
        if self.lacks(percentage):
            return f"; less than --require-coverage {percentage}: {compared}"
        return f"; more was skipped than compared: {compared}" if self._outcomes[Outcome.SKIPPED] > self.covered else ""

    @property
    def exit_code(self) -> ExitCode:
        """Broken content, blocking outcomes, nothing compared: the worst of what applies."""
        return ExitCode.worst(self._codes if self._compared else {*self._codes, ExitCode.EMPTY})


class TalliedResults(Sequence[CaseResult]):
    """Results that are read when they are asked for; what is asked of all together is known without that."""

    tally: Tally

    @abstractmethod
    def read(self, place: int) -> CaseResult:
        """The result at that place, from 0 on."""

    @overload
    def __getitem__(self, index: int) -> CaseResult: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[CaseResult, ...]: ...
    def __getitem__(self, index: int | slice) -> CaseResult | tuple[CaseResult, ...]:
        chosen = range(len(self))[index]
        return self.read(chosen) if isinstance(chosen, int) else tuple(map(self.read, chosen))


class PickedResults(TalliedResults):
    """Results of other reports in an order of their own; those that are read when asked for still are."""

    def __init__(self, picked: Sequence[tuple[Sequence[CaseResult], int]], tally: Tally) -> None:
        self._picked = picked
        self.tally = tally

    def __len__(self) -> int:
        return len(self._picked)

    def read(self, place: int) -> CaseResult:
        """The result at that place, as its own report has it."""
        results, there = self._picked[place]
        return results[there]


class ResultsByCase(Mapping[str, CaseResult]):
    """Results by the names of their cases; those that are read when asked for still are."""

    def __init__(self, results: Sequence[CaseResult], places: Mapping[str, int]) -> None:
        self._results, self._places = results, places

    def __getitem__(self, case: str) -> CaseResult:
        return self._results[self._places[case]]

    def among(self, cases: Iterable[str]) -> "ResultsByCase":
        """Those of these cases."""
        return ResultsByCase(self._results, {case: self._places[case] for case in cases})

    def __contains__(self, case: object) -> bool:
        return case in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


# With room for what is found out once.
class RunReport(Value, dict=True):
    """What report.json holds."""

    tool_version: str
    backend: Mapping[str, Any]
    environment: Mapping[str, Any]
    selection: Mapping[str, Any]
    started: str
    seconds: float
    results: Sequence[CaseResult]
    # Seconds by phase: generate, load, backend, compare, write.
    timing: Mapping[str, float] = field(default_factory=dict)
    interrupted: bool = False
    # Which code was tested, see base/text.py.
    labels: Mapping[str, str] = field(default_factory=dict)
    # Operator → tensor → its shape in symbols, as the operator declares it.
    shapes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @cached_property
    def tally(self) -> Tally:
        """What follows from all results together."""
        return self.results.tally if isinstance(self.results, TalliedResults) else Tally(self.results)

    @property
    def failing(self) -> tuple[CaseResult, ...]:
        """Cases that ran and block; those that are read for this without their maps, which take most of the memory."""
        if not self.tally.failing:
            return ()
        found = (result for result in self.results if _fails(result.outcome))
        if isinstance(self.results, TalliedResults):
            found = (replace(result, profile=None) for result in found)
        return tuple(found)

    @property
    def failures(self) -> tuple[CaseResult, ...]:
        """The cases that ran and did not pass; a skipped case is none of them."""
        return self.failing

    @property
    def passed(self) -> bool:
        """The command would exit with 0: something was compared, and nothing failed."""
        return int(self.exit_code) == 0

    @property
    def summary(self) -> dict[str, int]:
        """How many results have each outcome, in the order of the outcomes; absent ones are left out."""
        return self.tally.summary

    @property
    def reseed(self) -> int | None:
        """The N of --reseed N; None for a run with the declared values."""
        number = self.selection.get("reseed")
        return number if isinstance(number, int) else None

    @property
    def is_isolated(self) -> bool | None:
        """The backend ran in workers, or is one of our own; None where the report does not say."""
        isolated = self.backend.get("isolated")
        is_ours = self.backend.get("spec") in _OWN_BACKENDS
        return True if is_ours else isolated if isinstance(isolated, bool) else None

    @property
    def required_coverage(self) -> str | None:
        """The percentage of --require-coverage; None where none was asked for."""
        return self.selection.get("require_coverage")

    @property
    def looked_at_elements(self) -> bool:
        """Every element was held to what arithmetic allows, where the operator declares that."""
        return self.selection.get("elementwise") is True

    @property
    def fixed(self) -> int:
        """How many cases --reseed left with the values that they have without it."""
        return self.tally.fixed

    @property
    def exit_code(self) -> ExitCode:
        """What the run answers to the shell; too little coverage is the least of it."""
        if self.interrupted:
            return ExitCode.INTERRUPTED
        code = self.tally.exit_code
        return ExitCode.worst((code, ExitCode.EMPTY)) if self.tally.lacks(self.required_coverage) else code

    @cached_property
    def _by_case(self) -> dict[str, CaseResult]:
        return {result.case: result for result in self.results}

    def __getitem__(self, case: str) -> CaseResult:
        """The result of that case."""
        return self._by_case[case]

    @cached_property
    def headlines(self) -> tuple[str, ...]:
        """What is wrong, one line per cause."""
        return tuple(cause.headline for cause in self.causes if cause.output)

    # The members below load what is above this package when they are used; pyproject.toml names these imports.

    @cached_property
    def causes(self) -> "tuple[CauseSummary, ...]":
        """Why cases fail: what causes.json has, all of it."""
        from mluops_gtest.results.writer import causes_of

        return causes_of(self)

    @staticmethod
    def load(path: str | Path) -> "RunReport":
        """The report in a results folder or a report.json."""
        from mluops_gtest.results.folder import read_report

        report = read_report(Path(path))
        return replace(report, results=tuple(report.results))

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write a results folder, as `run --out` does: gate, report, history and compare read it."""
        from mluops_gtest.results.folder import ResultsFolder
        from mluops_gtest.results.writer import write_causes, write_results

        advice = "name another one, or say overwrite=True"
        with ResultsFolder.new(Path(folder), overwrite=overwrite, advice=advice) as claimed:
            write_results(claimed, self)
            write_causes(claimed.path, self)
        return Path(folder)

    def render(self, form: ReportFormat | Literal["json"], *, lang: Literal["en", "zh"] = "en") -> str:
        """The report as `mluops-test report` writes it."""
        from mluops_gtest.results.reports.files import render

        return "".join(render(self, form, lang, None, None))

    def without_commands(self) -> "RunReport":
        """The report without the commands that run a case again."""
        return replace(self, results=tuple(replace(result, repro="", debug="") for result in self.results))

    def __repr__(self) -> str:
        name = self.backend.get("name", "?")
        counts = ", ".join(f"{number} {outcome}" for outcome, number in self.summary.items())
        return f"<RunReport of {pluralize(len(self.results), 'case')} on {name}: {counts}>"

    def _repr_html_(self) -> str:
        from mluops_gtest.results.reports.html import report_html

        return report_html(self, _MAX_SHOWN)


def backend_of(report: RunReport) -> str:
    """The name of the backend; empty where the report does not say."""
    return str(report.backend.get("name", ""))


def exit_code(results: Iterable[CaseResult]) -> ExitCode:
    """What these results answer to the shell."""
    return Tally(results).exit_code


def _fails(outcome: Outcome) -> bool:
    return outcome.blocks and outcome is not Outcome.NOT_RUN


class RunStarted(Value):
    """The plan stands; nothing has run yet."""

    backend: str
    total: int


class CaseStarted(Value):
    """A case is about to be loaded and run."""

    case: str


class CaseFinished(Value):
    """A case has its verdict."""

    result: CaseResult


class CasesRetracted(Value):
    """Verdicts on these cases do not count any more; the cases run again."""

    cases: tuple[str, ...]


class RunFinished(Value):
    """Every planned case has a result, be it not_run."""

    report: RunReport


Event = RunStarted | CaseStarted | CaseFinished | CasesRetracted | RunFinished
Listener = Callable[[Event], None]
