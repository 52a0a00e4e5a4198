"""Reports to test with: the golden one, which has every outcome, and small ones."""

from pathlib import Path

from mluops_gtest.core.call import Status
from mluops_gtest.core.cause import LegacyReason
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import CaseInfo, CaseResult, Reading, TensorInfo
from mluops_gtest.results.folder import ResultsFolder, read_report
from mluops_gtest.results.writer import write_results

GOLDEN = Path(__file__).parents[1] / "golden"


def legacy_reasons(words: str) -> tuple[LegacyReason, ...]:
    """The causes of a result that has words alone."""
    return (LegacyReason(words),) if words else ()


def golden_report() -> RunReport:
    return read_report(GOLDEN / "report.json")


def result(
    name="a",
    outcome=Outcome.PASSED,
    *,
    operator="op",
    tags=("random",),
    value=1e-6,
    dtype="float",
    reason="",
    **changes,
) -> CaseResult:
    """A result that computed one output."""
    info = CaseInfo((TensorInfo("x", dtype, "ARRAY", (4, 65)),), (TensorInfo("y", dtype, "ARRAY", (4, 65)),))
    values = {
        "status": Status.SUCCESS,
        "expected_status": Status.SUCCESS,
        "readings": (Reading("y", "diff1", value, 3e-3, value <= 3e-3),),
        "seconds": 0.5,
        "info": info,
        "compared": True,
        "causes": legacy_reasons(reason),
    }
    return CaseResult(f"{operator}/{name}", operator, tags, outcome, **{**values, **changes})


def report(*results: CaseResult, started="2026-01-01T00:00:00+00:00", backend="numpy", **changes) -> RunReport:
    values = {
        "tool_version": "1.0",
        "backend": {"name": backend},
        "environment": {"platform": "Linux", "machine": "x86_64", "cpus": 2},
        "selection": {},
        "seconds": 1.5,
    }
    return RunReport(started=started, results=results, **{**values, **changes})


def written(folder: Path, whole: RunReport) -> Path:
    """The results folder of a report."""
    with ResultsFolder.new(folder, overwrite=True, advice="") as claimed:
        write_results(claimed, whole)
    return folder
