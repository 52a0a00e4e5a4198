"""What commands print with --format json, and Python gets from `to_json`: one shape each, with a version.

The shapes of the gate and of comparisons stand where these are.
"""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, Literal

from mluops_gtest.backends.doctor import Diagnosis
from mluops_gtest.core.case import Case
from mluops_gtest.core.cause import format_reason
from mluops_gtest.core.declaration import Check, OutputSpec, ParamField, QueryChecks, TensorSpec
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.tensor import TensorDesc
from mluops_gtest.results.gate import Decision
from mluops_gtest.results.gate_findings import decision_to_json
from mluops_gtest.results.history import HISTORY_CASE, CaseTrend, CauseTrend, Run, with_runs
from mluops_gtest.results.saved_outputs import OutputDifference
from mluops_gtest.results.shapes import Overlay, ResultRecord, Text, document_of, fill, list_of, map_of, shape_of
from mluops_gtest.results.submission import Claim, Figures, Finding
from mluops_gtest.results.writer import CauseSummary
from mluops_gtest.search.audit_declarations import Problem
from mluops_gtest.search.audit_outputs import FaultRow, MeasuredFaults
from mluops_gtest.search.fuzz import FuzzedOperator, FuzzReport, NewCause, fuzz_exit_code
from mluops_gtest.search.minimise import Minimised
from mluops_gtest.search.mutants import Score, Trial

_CAUSES: Final = list_of(CauseSummary)
# `results` is the folder, empty where there is none; `errors` are what could not be written.
_HEAD: Final = "tool_version backend environment selection started seconds timing interrupted labels summary exit_code"
RUN: Final = document_of("run", RunReport, f"{_HEAD} cases:int results=folder:str errors:list[str]", causes=_CAUSES)
EXPLAIN: Final = document_of("explain", None, "cases:int", causes=_CAUSES)
_OUTPUTS: Final = list_of(OutputDifference)
# `recorded` is what the run itself said of the case where its saved outputs are now judged otherwise.
_BESIDE: Final = {"result": ResultRecord, "recorded": ResultRecord | None}
DIFF: Final = document_of("diff", None, "saved:list[str]", outputs=_OUTPUTS, **_BESIDE)
_SEARCH: Final = "fails calls sizes elements finished interrupted is_unchanged"
_NAMES: Final = "case:str file:str repro:str standalone:str"
MINIMISE: Final = document_of("minimise", Minimised, f"{_SEARCH} {_NAMES}", result=ResultRecord)
_TARGET: Final = shape_of(
    "FuzzedOperatorRecord", FuzzedOperator, "operator:str backend seed:int draws=done pairs_seen:int pairs:int"
)
_FUZZ_FINDING: Final = shape_of(
    "FuzzFinding", NewCause, "operator headline:str repro:str as_drawn:str", file=Text, result=ResultRecord
)
FUZZ: Final = document_of(
    "fuzz",
    FuzzReport,
    "seconds draws failed passed_over compared skipped interrupted lost:str exit_code:int",
    operators=list_of(_TARGET),
    findings=list_of(_FUZZ_FINDING),
    corpus=list_of(shape_of("CorpusCase", None, file=Text, result=ResultRecord)),
    broken=list_of(ResultRecord),
)
DOCTOR: Final = document_of(
    "doctor", None, "backend:str installation:dict[str,str] problems:int", promises=list_of(Diagnosis)
)
# Figures are of the finite values, `zero` and `nonfinite` shares of all; null where there are none.
_FIGURES: Final = " ".join(f"{name}:float|None" for name in ("min", "max", "mean", "zero", "nonfinite"))
_TENSORS: Final = list_of(shape_of("ShownTensor", TensorDesc, f"id:str dtype layout dims strides {_FIGURES}"))
_CRITERIA: Final = list_of(shape_of("ShownCriterion", None, "output:str criterion:str threshold:float"))
SHOW: Final = document_of(
    "show",
    Case,
    "id operator supported:bool tags doc note:str notices=notes params:dict expect:dict stored:bool reseeded repro:str",
    **dict.fromkeys(("inputs", "outputs"), _TENSORS) | {"criteria": _CRITERIA},
)
_RUNS: Final = list_of(shape_of("HistoryRun", Run, "started backend machine tool_version seconds counts labels commit"))
# `first` and `last` are places in the list of runs.
_TRENDS: Final = list_of(shape_of("HistoryCause", CauseTrend, "mark headline counts first last"))
HISTORY: Final = document_of("history", None, runs=_RUNS, cases=list_of(HISTORY_CASE), causes=_TRENDS)
_VERDICT: Final = Literal["verified", "differs", "skipped"]
_VERIFIED: Final = list_of(shape_of("VerifiedCase", None, "case:str reasons:list[str]", verdict=_VERDICT))
VERIFY: Final = document_of("verify", None, "verified:int differing:int skipped:int", cases=_VERIFIED)
_OPERATOR: Final = shape_of(
    "OperatorRecord",
    Operator,
    "name released_name summary cases:int functions:list[str] recipes:list[str]",
    inputs=list_of(shape_of("InputRecord", TensorSpec, "id shape dtypes layouts=own_layouts optional")),
    outputs=list_of(shape_of("OutputRecord", OutputSpec, "id shape dtypes layouts=own_layouts criteria:str")),
    params=list_of(shape_of("ParamRecord", ParamField, "name type result", default=Any)),
    checks=list_of(shape_of("CheckRecord", Check, "name message doc subsumed", status=Text)),
    queries=map_of(shape_of("QueryRecord", QueryChecks, "checks=names silent")),
)
OPS: Final = document_of("ops", None, operators=list_of(_OPERATOR))
_FINDINGS: Final = list_of(shape_of("RuleFinding", Problem, "rule:str operator:str place message remedy is_note"))
AUDIT_OPERATORS: Final = document_of("audit_operators", None, "operators:list[str] seeds:int", findings=_FINDINGS)
_SCORES: Final = map_of(shape_of("MutantScore", Score, "tried caught by_one_alone:int|None"))
_TRIED: Final = {"score": _SCORES, "operators": map_of(_SCORES), "trials": list_of(Trial)}
AUDIT_MUTANTS: Final = document_of(
    "audit_mutants", None, "first_kill:bool not_tried=untried:list[tuple[str,str]]", **_TRIED
)
_FAULT: Final = shape_of(
    "FaultCounts", FaultRow, "cases by_criteria by_elementwise told families:dict[str,int] told_in:dict[str,int]"
)
_FAULTS: Final = shape_of(
    "OperatorFaults",
    MeasuredFaults,
    "accepted not_told=uncaught wrongly_accepted=stale let_through told_by_one_case_alone=alone",
    faults=map_of(_FAULT),
)
AUDIT_OUTPUTS: Final = document_of("audit_outputs", None, "first_catch:bool", operators=map_of(_FAULTS))
_CLAIMED: Final = shape_of("ClaimedRun", RunReport, "tool_version backend environment selection started labels")
# `not_checked`: fields by file.
_CHECKED: Final = {"claim": Claim, "figures": Figures | None, "run": _CLAIMED | None, "findings": list_of(Finding)}
CHECK_SUBMISSION: Final = document_of(
    "check_submission", None, "not_checked:dict[str,list[str]] exit_code:int", **_CHECKED
)


def to_json(
    value: RunReport | Decision | Minimised | FuzzReport | Sequence[CauseSummary], **more: Any
) -> dict[str, Any]:
    """The document that a command prints of its answer with --format json; `more` is what it alone knows."""
    match value:
        case RunReport():
            return fill(RUN, value, **{"cases": len(value.results), "folder": "", "errors": ()} | more)
        case Decision():
            return decision_to_json(value)
        case Minimised():
            return fill(MINIMISE, value, **{"case": value.case.id, "file": "", "repro": "", "standalone": ""} | more)
        case FuzzReport():
            return _fuzz_to_json(value, **more)
    return fill(EXPLAIN, causes=value, cases=sum(cause.cases for cause in value))


def history_to_json(
    runs: Sequence[Run], cases: Sequence[CaseTrend] = (), causes: Sequence[CauseTrend] = ()
) -> dict[str, Any]:
    """Runs, and what was asked for of their cases or causes."""
    return fill(HISTORY, runs=runs, cases=list(map(with_runs, cases)), causes=causes)


def _fuzz_to_json(report: FuzzReport, commands: Sequence[Mapping[str, str]] = ()) -> dict[str, Any]:
    """`commands` are those of each finding; Python knows none."""
    targets = []
    for one in report.targets:
        pairs = {"pairs_seen": len(one.coverage.seen), "pairs": one.draws.features.total}
        targets.append(Overlay(one, operator=one.operator.name, seed=one.draws.seed, **pairs))
    unknown: Any = {"repro": "", "as_drawn": ""}
    found = {
        "operators": targets,
        "findings": [
            Overlay(finding, headline=headline, **own)
            for (finding, headline), own in zip_longest(report.findings, commands, fillvalue=unknown)
        ],
        "corpus": [{"file": file, "result": result} for file, result in report.corpus],
    }
    lost = "" if report.lost is None else format_reason((report.lost,))
    return fill(FUZZ, report, exit_code=fuzz_exit_code(report), lost=lost, **found)
