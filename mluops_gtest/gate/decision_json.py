"""The decision for programs."""

from typing import Any

from mluops_gtest.gate.decision import CaseChange, Decision
from mluops_gtest.gate.drift import Drift
from mluops_gtest.gate.findings import verdict
from mluops_gtest.gate.performance import TimeChange
from mluops_gtest.gate.waivers import WaiverProblem
from mluops_gtest.model.result import Outcome
from mluops_gtest.timing.statistics import Ratio


def decision_to_json(decision: Decision) -> dict[str, Any]:
    """Everything as plain JSON values."""
    performance = decision.performance
    slow = {change.case for change in decision.blocking_times}
    return {
        "format": 1,
        "verdict": verdict(decision),
        "blocked": decision.blocked,
        "exit_code": int(decision.exit_code),
        "backend": decision.backend,
        "compared": decision.compared,
        "other_values": decision.other_values,
        "lacking": decision.lacking,
        "isolated": decision.is_isolated,
        "transitions": {word.value: number for word, number in decision.transitions.items()},
        "cases": [_change(change) for change in decision.changes],
        "waivers": [_problem(problem) for problem in decision.problems],
        "drift": [_drift(drift, blocks=decision.policy.strict_accuracy) for drift in decision.drifts],
        "blocking_outliers": [change.case for change in decision.blocking_outliers],
        "performance": {
            "noise": performance.noise,
            "shift": None if performance.shift is None else _ratio(performance.shift),
            "cases": [_time(change, blocks=change.case in slow) for change in performance.changes],
        },
    }


def _change(change: CaseChange) -> dict[str, Any]:
    return {
        "case": change.case,
        "operator": change.operator,
        "transition": change.transition.value,
        "before": _word(change.before),
        "now": _word(change.now),
        "blocks": change.blocks,
        "reason": change.reason,
        "fingerprint": change.fingerprint,
        **({"cause": change.cause, "headline": change.headline, "has_cause": change.has_cause} if change.cause else {}),
        "repro": change.repro,
        "waiver": None if change.waiver is None else f"{change.waiver.file}:{change.waiver.line}",
        "outliers": change.outliers,
        "outliers_before": change.outliers_before,
    }


def _word(outcome: Outcome | None) -> str | None:
    return None if outcome is None else outcome.value


def _problem(problem: WaiverProblem) -> dict[str, Any]:
    waiver = problem.waiver
    return {
        "case": waiver.case,
        "failure": waiver.failure,
        "owner": waiver.owner,
        "expires": waiver.expires.isoformat(),
        "file": waiver.file,
        "line": waiver.line,
        "problem": problem.word,
        "text": problem.text,
    }


def _drift(drift: Drift, *, blocks: bool) -> dict[str, Any]:
    return {
        "case": drift.case,
        "output": drift.output,
        "criterion": drift.criterion,
        "before": drift.before,
        "after": drift.after,
        "factor": drift.factor,
        "limit": drift.limit,
        "blocks": blocks,
    }


def _time(change: TimeChange, *, blocks: bool) -> dict[str, Any]:
    return {
        "case": change.case,
        "answer": change.answer.value,
        "before_ns": change.before_ns,
        "now_ns": change.now_ns,
        **(_ratio(change.ratio) if change.ratio is not None else {"ratio": None, "low": None, "high": None}),
        "needed_samples": change.needed,
        "reason": change.reason,
        "blocks": blocks,
    }


def _ratio(ratio: Ratio) -> dict[str, Any]:
    return {"answer": ratio.answer.value, "ratio": ratio.ratio, "low": ratio.low, "high": ratio.high}
