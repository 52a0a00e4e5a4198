"""Reports and results for Python programs: what the engine gives, which can be saved and which notebooks can show."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec.structs import asdict, replace

from mluops_gtest.model import report as model_report
from mluops_gtest.model import result as model_result
from mluops_gtest.model.counted import counted

if TYPE_CHECKING:
    from mluops_gtest.api.explained_causes import CauseSummary

# Failing cases that a notebook shows with their pictures.
_MAX_SHOWN = 10
Format = Literal["html", "markdown", "junit", "ctrf", "json"]


class CaseResult(model_result.CaseResult):
    """The verdict on one case with everything needed to understand it."""

    @staticmethod
    def of(result: model_result.CaseResult) -> "CaseResult":
        """The same result."""
        return CaseResult(**asdict(result))

    @property
    def passed(self) -> bool:
        return self.outcome is model_result.Outcome.PASSED

    def __repr__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"<{self.case} {self.outcome.value}{reason}>"

    def _repr_html_(self) -> str:
        from mluops_gtest.reports.notebook import result_html

        return result_html(self)


class RunReport(model_report.RunReport):
    """A whole run: what it ran on, and a result for every case."""

    @staticmethod
    def of(report: model_report.RunReport) -> "RunReport":
        """The same report."""
        return RunReport(**asdict(report) | {"results": tuple(map(CaseResult.of, report.results))})

    @staticmethod
    def load(path: str | Path) -> "RunReport":
        """The report in a results folder or a report.json."""
        from mluops_gtest.results.files import read_report

        return RunReport.of(read_report(Path(path)))

    def without_commands(self) -> "RunReport":
        """The report without the commands that run a case again."""
        return replace(self, results=tuple(replace(result, repro="", debug="") for result in self.results))

    @property
    def failures(self) -> tuple[CaseResult, ...]:
        """The cases that ran and did not pass; a skipped case is none of them."""
        return tuple(result for result in self.failing if isinstance(result, CaseResult))

    @property
    def passed(self) -> bool:
        """The command would exit with 0: something was compared, and nothing failed."""
        return int(self.exit_code) == 0

    @cached_property
    def _by_case(self) -> dict[str, CaseResult]:
        return {result.case: CaseResult.of(result) for result in self.results}

    def __getitem__(self, case: str) -> CaseResult:
        """The result of that case."""
        return self._by_case[case]

    @cached_property
    def headlines(self) -> tuple[str, ...]:
        """What is wrong, one line per cause."""
        return tuple(cause.headline for cause in self.causes if cause.output)

    @cached_property
    def causes(self) -> "tuple[CauseSummary, ...]":
        """Why cases fail: what causes.json has, all of it."""
        from mluops_gtest.api.explained_causes import causes_of

        return causes_of(self)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write a results folder, as `run --out` does: gate, report, history and compare read it."""
        from mluops_gtest.api.explained_causes import write_causes
        from mluops_gtest.results.folder import ResultsFolder
        from mluops_gtest.results.writer import write_results

        advice = "name another one, or say overwrite=True"
        with ResultsFolder.new(Path(folder), overwrite=overwrite, advice=advice) as claimed:
            write_results(claimed, self)
            write_causes(claimed.path, self)
        return Path(folder)

    def render(self, form: Format, *, lang: Literal["en", "zh"] = "en") -> str:
        """The report as `mluops-test report` writes it."""
        from mluops_gtest.api.report_files import rendered

        return "".join(rendered(self, form, lang, None, None))

    def __repr__(self) -> str:
        name = self.backend.get("name", "?")
        counts = ", ".join(f"{number} {outcome}" for outcome, number in self.summary.items())
        return f"<RunReport of {counted(len(self.results), 'case')} on {name}: {counts}>"

    def _repr_html_(self) -> str:
        from mluops_gtest.reports.notebook import report_html

        return report_html(self, _MAX_SHOWN)
