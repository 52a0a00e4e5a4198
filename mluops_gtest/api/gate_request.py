"""A gate as the command line asks for it: files read, the decision reached or the baseline written."""

import datetime
from collections.abc import Callable
from pathlib import Path

from mluops_gtest.content.root import recorded_roots
from mluops_gtest.errors import UsageError
from mluops_gtest.files.case_suffixes import TEXT
from mluops_gtest.gate.decision import Accept, Decision, Policy, decide
from mluops_gtest.gate.drift import DriftLimits
from mluops_gtest.gate.reference import Reference, baseline_from_json, is_baseline, load_json, reference_of, with_runs
from mluops_gtest.gate.update import Update, update
from mluops_gtest.gate.waivers import Waiver, load_waivers
from mluops_gtest.model.drift import DRIFT_FACTOR
from mluops_gtest.model.report import RunReport
from mluops_gtest.results.files import read_report
from mluops_gtest.value import Value


class GateRequest(Value):
    """What the user typed."""

    results: Path | RunReport
    against: Path | RunReport
    waivers: Path | None = None
    again: tuple[Path, ...] = ()
    subset: bool = False
    cross_backend: bool = False
    strict_accuracy: bool = False
    strict_perf: bool = False
    allow_outliers: bool = False
    drift_factor: tuple[str, ...] = ()
    min_effect: float = 5.0
    accept: tuple[str, ...] = ()
    require_coverage: str | None = None
    require_isolated: bool = False

    def ledger(self) -> tuple[Waiver, ...]:
        return () if self.waivers is None else load_waivers(self.waivers)

    def further_runs(self) -> dict[str, RunReport]:
        """More runs of the build that made the reference."""
        return {str(path): read_report(path) for path in self.again}

    def asked_for(self, report: RunReport, reference: Reference) -> set[str] | None:
        """The cases of the reference that must be there; None for all."""
        if not self.subset:
            return None
        from mluops_gtest.gate.reference import cases_asked_for  # late: most gates need no content

        return cases_asked_for(report.selection, reference.cases, _canonical(recorded_roots(report.selection)))


def reach_decision(request: GateRequest) -> Decision:
    """Compare the results with the baseline and decide."""
    report = _report(request.results)
    reference = with_runs(read_reference(request.against), request.further_runs())
    policy = _policy(request, report, reference)
    wanted = request.asked_for(report, reference)
    return decide(report, reference, request.ledger(), datetime.date.today(), policy, wanted)


def make_update(request: GateRequest) -> Update:
    """The baseline that the results make; the file is not written yet."""
    report, old = _report(request.results), None
    assert isinstance(request.against, Path), "an update writes a file"
    if request.against.exists():
        if request.against.is_dir() or not is_baseline(load_json(request.against)):
            raise UsageError(
                f"--update --against {request.against}: it holds results, not a baseline; name the file to commit, "
                "e.g. --against baseline.json."
            )
        old = read_reference(request.against)
    wanted = None if old is None else request.asked_for(report, old)
    runs, policy = request.further_runs(), _policy(request, report, old)
    return update(report, old, request.ledger(), datetime.date.today(), runs, policy, wanted)


def _policy(request: GateRequest, report: RunReport, reference: Reference | None) -> Policy:
    known = () if reference is None else reference.cases.values()
    operators: set[str] = set()
    # Nothing else names some.
    if request.drift_factor:
        operators = {case.operator for case in known} | {result.operator for result in report.results}
    return Policy(
        cross_backend=request.cross_backend,
        strict_accuracy=request.strict_accuracy,
        strict_perf=request.strict_perf,
        drift=_drift_limits(request.drift_factor, operators),
        min_effect=request.min_effect / 100,
        allow_outliers=request.allow_outliers,
        accept=frozenset(Accept(word) for word in request.accept),
        require_coverage=request.require_coverage,
        require_isolated=request.require_isolated,
    )


def _report(results: Path | RunReport) -> RunReport:
    return results if isinstance(results, RunReport) else read_report(results)


def read_reference(path: Path | RunReport) -> Reference:
    """A results folder, a report.json or a baseline file; or a report that is at hand."""
    if isinstance(path, RunReport):
        return reference_of(path)
    if not path.exists():
        raise UsageError(f"--against {path}: no such file; `--update` writes a baseline file.")
    if path.is_file():
        record = load_json(path)
        if is_baseline(record):
            return baseline_from_json(path, record)
    return reference_of(read_report(path))


def _drift_limits(words: tuple[str, ...], operators: set[str]) -> DriftLimits:
    """`8` for all, `OPERATOR=8` for one of the operators that the gate sees."""
    factor, single = DRIFT_FACTOR, {}
    for word in words:
        operator, equals, number = word.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = 0.0
        if not 1 < value < float("inf"):
            raise UsageError(
                f"--drift-factor {word}: write a number above 1, or OPERATOR=NUMBER, e.g. --drift-factor 8."
            )
        if not equals:
            factor = value
        elif operator in operators:
            single[operator] = value
        else:
            known = ", ".join(sorted(operators)) or "none"
            raise UsageError(f"--drift-factor {word}: no case belongs to operator {operator!r}. Known: {known}.")
    return DriftLimits(factor, single)


def _canonical(roots: list[str]) -> Callable[[str], str]:
    """Translates a word of a selection: released names to operators, stored files to cases."""
    from mluops_gtest.api.session import Session

    catalogue = Session(tuple(roots)).catalogue

    def canonical(word: str) -> str:
        inside = catalogue.inside_store(Path(word).resolve())
        if inside is not None:
            return inside.with_suffix("").as_posix() if inside.suffix == TEXT else (inside / "*").as_posix()
        return catalogue.canonical_id(word)

    return canonical
