"""The doctor checks a backend: what it does right, what is missing, and what to do about it.

It sees a backend as the harness does, through the results of cases, so that it serves one in a worker process, too.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

from mluops_gtest.base.frozen import Value
from mluops_gtest.core import cause as c
from mluops_gtest.core.call import Status
from mluops_gtest.core.case import Case
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult

# Runs one case on the backend and judges it. To see whether results are reproducible, it runs each case at least
# twice from fresh buffers.
Execute = Callable[[Case, Operator], CaseResult]

UNKNOWN_OPERATOR: Final = "no_such_operator"
_HANDLE_CHECK: Final = "handle_null"
_EXAMPLES: Final = 3


class Verdict(Enum):
    """What the doctor found out about one promise."""

    OK = "ok"
    PROBLEM = "problem"
    SKIPPED = "skipped"


class Diagnosis(Value):
    """One promise of a backend: kept, broken (with what to do), or not looked at (with the reason)."""

    name: str
    verdict: Verdict
    detail: str


class _Run(Value):
    """A case with what came out."""

    case: Case
    operator: Operator
    result: CaseResult

    @property
    def computes(self) -> bool:
        return self.operator.computes(self.case.expect.status, self.case.expect.check)

    @property
    def is_empty(self) -> bool:
        return self.case.expect.status == Status.SUCCESS and not self.computes

    @property
    def is_refused(self) -> bool:
        return self.case.expect.status != Status.SUCCESS

    @property
    def misuses_workspace(self) -> bool:
        return any(
            (isinstance(cause, c.Overrun) and cause.buffer == "workspace")
            or (isinstance(cause, c.Raised | c.BadAnswer) and cause.asked == "workspace_size")
            for cause in self.result.causes
        )

    def has(self, *kinds: type) -> bool:
        """One of its causes is of one of these kinds."""
        return any(isinstance(cause, kinds) for cause in self.result.causes)


class _Promise(Value):
    """What is promised, the cases that show it, how a broken promise looks, and what to do then."""

    name: str
    message: str
    broken_by: Callable[[_Run], bool]
    advice: str
    shown_by: Callable[[_Run], bool] = lambda run: run.computes


def _always(_: _Run) -> bool:
    return True


# A case that blocks is held against the first promise that it breaks: the cause before its consequences.
_PROMISES: Final = (
    _Promise(
        "cases",
        "the cases themselves are sound",
        lambda run: run.result.content_error,
        "Not the backend's fault: run `mluops-test verify`.",
        shown_by=_always,
    ),
    _Promise(
        "empty tensors",
        "tensors without elements end the call at once and nothing is written",
        lambda run: run.is_empty,
        "Answer SUCCESS before any memory is touched; report scalar results as 0.",
        shown_by=lambda run: run.is_empty,
    ),
    _Promise(
        "workspace",
        "works with exactly the workspace that it asks for",
        lambda run: run.misuses_workspace,
        "workspace_size(call) must return an int ≥ 0, and run() may write no byte beyond call.workspace_size.",
    ),
    _Promise(
        "inputs",
        "inputs stay as they are",
        lambda run: run.has(c.InputChanged),
        "Inputs belong to the caller: work on a copy or in the workspace.",
    ),
    _Promise(
        "memory",
        "nothing is written outside of the buffers",
        lambda run: run.result.outcome is Outcome.MEMORY,
        "Look at the last tile and at sizes that are no multiple of it.",
        shown_by=_always,
    ),
    _Promise(
        "refusals",
        "a refused call writes nothing",
        lambda run: run.is_refused and run.result.outcome is Outcome.FAILED,
        "Make all checks before the first write.",
        shown_by=lambda run: run.is_refused,
    ),
    _Promise(
        "statuses",
        "wrong calls are refused with the status of the first check that fails",
        lambda run: run.is_refused or run.result.outcome is Outcome.WRONG_STATUS,
        "`mluops-test ops OPERATOR` lists the checks in their order.",
        shown_by=lambda run: run.is_refused,
    ),
    _Promise(
        "calls",
        "every call comes back with a status",
        lambda run: run.result.outcome.has_no_answer,
        "run(call) must return a Status; raise Declined(reason) for what you do not offer.",
    ),
    _Promise(
        "deterministic",
        "repeated calls give the same bits",
        lambda run: run.has(c.NotReproducible),
        "Fix the order of sums, or say `deterministic = False` on the backend if it is meant so.",
        shown_by=lambda run: run.computes and not run.operator.order_free,
    ),
    _Promise(
        "outputs",
        "outputs are written whole, in their own shape and element type, and results reported",
        lambda run: run.has(c.Unwritten, c.ScalarMissing),
        "Write in place: call.array(name)[...] = values; scalar results go to call.scalars[name].",
    ),
    _Promise(
        "values",
        "values are within the criteria",
        _always,
        "`mluops-test run CASE --backend …` shows the worst element.",
    ),
)


def check_interface(offered: Sequence[str], misfits: Sequence[str]) -> Diagnosis:
    """The members that a backend has, and what is wrong with them."""
    if misfits:
        return Diagnosis("interface", Verdict.PROBLEM, " ".join(misfits))
    return Diagnosis("interface", Verdict.OK, f"offers {', '.join(offered)}")


def check_behaviour(
    cases: Iterable[tuple[Case, Operator]], execute: Execute, *, deterministic: bool = True
) -> list[Diagnosis]:
    """Run the cases, and calls made from them, on a backend; small cases tagged smoke and negative show most.

    `deterministic` is what the backend says of itself.
    """
    prepared = list(cases)
    runs = [_Run(case, operator, execute(case, operator)) for case, operator in (*prepared, *_null_handles(prepared))]
    offered = [run for run in runs if run.result.outcome is not Outcome.SKIPPED]
    findings = [_operators(runs), _unknown_operator(prepared, execute)]
    broken: dict[str, list[_Run]] = {promise.name: [] for promise in _PROMISES}
    for run in offered:
        if run.result.outcome.blocks:
            broken[next(promise.name for promise in _PROMISES if promise.broken_by(run))].append(run)
    for promise in _PROMISES:
        if promise.name == "deterministic" and not deterministic:
            findings.append(Diagnosis(promise.name, Verdict.SKIPPED, "the backend says that it is not"))
        else:
            findings.append(_finding(promise, offered, broken[promise.name]))
    return findings


def _finding(promise: _Promise, runs: Sequence[_Run], broken: Sequence[_Run]) -> Diagnosis:
    if broken:
        return Diagnosis(promise.name, Verdict.PROBLEM, f"{_examples(broken)}. {promise.advice}")
    shown = sum(promise.shown_by(run) for run in runs)
    if shown == 0:
        return Diagnosis(promise.name, Verdict.SKIPPED, "none of the cases shows it")
    return Diagnosis(promise.name, Verdict.OK, f"{promise.message} ({shown} cases)")


def _examples(runs: Sequence[_Run]) -> str:
    words = [f"{run.case.id}: {run.result.outcome.value}, {run.result.reason.rstrip('.')}" for run in runs[:_EXAMPLES]]
    more = len(runs) - len(words)
    return "; ".join(words) + (f"; and {more} more" if more else "")


def _operators(runs: Sequence[_Run]) -> Diagnosis:
    """Which operators the backend offers at all."""
    names = list(dict.fromkeys(run.operator.name for run in runs))
    offered = {run.operator.name for run in runs if run.result.outcome is not Outcome.SKIPPED}
    if not names:
        return Diagnosis("operators", Verdict.SKIPPED, "there are no cases")
    if not offered:
        reason = runs[0].result.reason
        problem = f"offers none of {', '.join(names)}: {reason}. Offer one of them."
        return Diagnosis("operators", Verdict.PROBLEM, problem)
    declined = [name for name in names if name not in offered]
    rest = f"; declines {', '.join(declined)}" if declined else ""
    return Diagnosis("operators", Verdict.OK, f"offers {', '.join(n for n in names if n in offered)}{rest}")


def _unknown_operator(prepared: Sequence[tuple[Case, Operator]], execute: Execute) -> Diagnosis:
    """A backend must decline an operator that does not exist, whatever the call holds."""
    name = "unknown operators"
    if not prepared:
        return Diagnosis(name, Verdict.SKIPPED, "there are no cases")
    case, operator = prepared[0]
    result = execute(
        replace(case, id=f"{UNKNOWN_OPERATOR}/call", operator=UNKNOWN_OPERATOR),
        replace(operator, name=UNKNOWN_OPERATOR, released_name=UNKNOWN_OPERATOR),
    )
    if result.outcome is Outcome.SKIPPED:
        return Diagnosis(name, Verdict.OK, "are declined")
    came = f"a call of {UNKNOWN_OPERATOR!r} came to {result.outcome.value} ({result.reason or 'as if it were known'})"
    return Diagnosis(name, Verdict.PROBLEM, f"{came}. Raise Declined(reason), or offer supports(operator) -> bool.")


def _null_handles(prepared: Sequence[tuple[Case, Operator]]) -> list[tuple[Case, Operator]]:
    """Per operator a call that computes, made with a null handle."""
    made: dict[str, tuple[Case, Operator]] = {}
    for case, operator in prepared:
        plain = case.expect.check is None and case.expect.status == Status.SUCCESS
        if plain and operator.name not in made and any(check.name == _HANDLE_CHECK for check in operator.checks):
            expect = replace(case.expect, status=Status.BAD_PARAM, check=_HANDLE_CHECK, null_handle=True)
            made[operator.name] = replace(case, id=f"{case.id} with a null handle", expect=expect), operator
    return list(made.values())
