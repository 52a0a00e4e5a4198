"""The gate for Python programs."""

from pathlib import Path

from mluops_gtest.api.gate_request import GateRequest, reach_decision
from mluops_gtest.gate.decision import Decision
from mluops_gtest.model.report import RunReport


def decide(
    results: RunReport | str | Path,
    against: RunReport | str | Path,
    *,
    waivers: str | Path | None = None,
    subset: bool = False,
    cross_backend: bool = False,
    strict_accuracy: bool = False,
    strict_perf: bool = False,
    allow_outliers: bool = False,
    require_coverage: str | None = None,
    require_isolated: bool = False,
) -> Decision:
    """Whether a change may be merged, and why; each argument means what the option of `mluops-test gate` means."""
    return reach_decision(
        GateRequest(
            results=results if isinstance(results, RunReport) else Path(results),
            against=against if isinstance(against, RunReport) else Path(against),
            waivers=None if waivers is None else Path(waivers),
            subset=subset,
            cross_backend=cross_backend,
            strict_accuracy=strict_accuracy,
            strict_perf=strict_perf,
            allow_outliers=allow_outliers,
            require_coverage=require_coverage,
            require_isolated=require_isolated,
        )
    )
