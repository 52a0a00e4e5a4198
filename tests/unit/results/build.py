"""Reports, references and waivers in one line each."""

import datetime

from mluops_gtest.core.call import Status
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import CaseInfo, CaseResult, Perf, Reading, TensorInfo
from mluops_gtest.results.gate import Policy, decide
from mluops_gtest.results.gate_reference import Waiver, reference_of
from tests.support.reports import legacy_reasons

TODAY = datetime.date(2026, 5, 20)
MACHINE = {"platform": "Linux", "machine": "x86_64", "cpus": 2, "python": "3.11.7", "numpy": "2.4"}
EVERYTHING = {"select": [], "operators": [], "tags": [], "keyword": "", "everything": True, "root": None, "shard": None}
UNCOMPARED = (Outcome.SKIPPED, Outcome.NOT_RUN)


def result(case, outcome="passed", *, value=None, dtype="float", times=None, fingerprint=None, reason=None, **more):
    outcome = Outcome.named(outcome)
    if fingerprint is None:
        fingerprint = "v1:0" if outcome.blocks else ""
    fields = {
        "readings": () if value is None else (Reading("y", "diff1", value, 3e-3, True),),
        "operator": case.partition("/")[0],
        "status": Status.SUCCESS,
        "expected_status": Status.SUCCESS,
        "tags": ("boundary",),
        "causes": legacy_reasons(reason or (f"{outcome.value} somehow" if outcome is not Outcome.PASSED else "")),
        "repro": f"mluops-test run {case}",
        "info": CaseInfo(outputs=(TensorInfo("y", dtype, "ARRAY", (8,)),)),
        "perf": None if times is None else Perf(tuple(int(t) for t in times)),
        "compared": outcome not in UNCOMPARED,
    }
    return CaseResult(case=case, outcome=outcome, fingerprint=fingerprint, **{**fields, **more})


def report(*results, backend="numpy", machine=MACHINE, selection=EVERYTHING):
    return RunReport("0.1.0", {"name": backend}, machine, selection, "2026-05-20T00:00:00+00:00", 1.0, tuple(results))


def outcomes(**words):
    """a="passed" → a report with the case op/a."""
    return report(*(result(f"op/{name}", word) for name, word in words.items()))


def waiver(case="op/*", *, outcome="failed", fingerprint="", expires="2026-12-31", **more):
    return Waiver(
        case=case,
        reason="known",
        owner="ann",
        expires=datetime.date.fromisoformat(expires),
        outcome=None if fingerprint else Outcome.named(outcome),
        fingerprint=fingerprint,
        file="waivers.yaml",
        line=3,
        **more,
    )


def gate(before, now, *waivers, asked_for=None, **policy):
    return decide(now, reference_of(before), waivers, TODAY, Policy(**policy), asked_for)
