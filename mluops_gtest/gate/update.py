"""A new baseline from results, and what the gate says of it: what it blocks must not become the norm."""

import datetime
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from mluops_gtest.errors import NothingSelectedError, UsageError
from mluops_gtest.gate.decision import DEFAULT_POLICY, Decision, Policy, decide
from mluops_gtest.gate.reference import (
    Reference,
    ReferenceCase,
    backend_of,
    machine_of,
    reference_of,
    results_by_case,
    with_runs,
)
from mluops_gtest.gate.waivers import Waiver
from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import Outcome
from mluops_gtest.value import Value


class Update(Value):
    """The new reference, how it differs from the old one, and what the gate says of that: not to be written if blocked.

    The first baseline is compared with an empty one.
    """

    reference: Reference
    decision: Decision
    added: tuple[str, ...]
    dropped: tuple[str, ...]
    changed: tuple[str, ...]


def update(
    report: RunReport,
    old: Reference | None,
    waivers: Sequence[Waiver],
    today: datetime.date,
    again: Mapping[str, RunReport],
    policy: Policy = DEFAULT_POLICY,
    asked_for: set[str] | None = None,
) -> Update:
    """The reference that the results make; with `asked_for` the old cases that were not asked for stay."""
    if report.selection.get("shard"):
        raise UsageError(
            f"--update: RESULTS is shard {report.selection['shard']}; `mluops-test merge` all of them first."
        )
    if report.reseed is not None:
        raise UsageError(
            f"--update: RESULTS has the values of --reseed {report.reseed}; a baseline needs the declared ones: "
            "run without --reseed."
        )
    results = results_by_case(report)
    if not any(result.compared for result in results.values()):
        raise NothingSelectedError(
            "--update: RESULTS compared nothing, so later runs would have nothing to be compared with."
        )
    held_against = Reference(backend_of(report), machine_of(report), {}) if old is None else old
    decision = decide(report, held_against, waivers, today, policy, asked_for)
    if decision.lacking and not decision.blocked:
        raise NothingSelectedError(f"--update: too little compared{decision.lacking}.")
    covered = {change.case for change in decision.changes if change.now is Outcome.XFAILED}
    new = with_runs(reference_of(report), again)
    cases = {
        case: replace(known, outcome=Outcome.XFAILED) if case in covered else known for case, known in new.cases.items()
    }
    new = _with_old(replace(new, cases=cases), old, asked_for)
    before: Mapping[str, ReferenceCase] = {} if old is None else old.cases
    both = sorted(new.cases.keys() & before.keys())
    return Update(
        new,
        decision,
        added=tuple(sorted(new.cases.keys() - before.keys())),
        dropped=tuple(sorted(before.keys() - new.cases.keys())),
        changed=tuple(case for case in both if new.cases[case].outcome is not before[case].outcome),
    )


def _with_old(new: Reference, old: Reference | None, asked_for: set[str] | None) -> Reference:
    """What stays of the old one: cases that were not asked for, and committed times that were not measured anew."""
    if old is None:
        return new
    timed = any(case.times for case in new.cases.values())
    machine = new.machine if timed else old.machine
    same = machine == old.machine
    kept = {} if asked_for is None else {case: old.cases[case] for case in old.cases.keys() - asked_for}
    cases = {case: known if same else replace(known, times=()) for case, known in kept.items()}
    for case, known in new.cases.items():
        before = old.cases.get(case)
        times = known.times
        if not times and same and before is not None and known.outcome is Outcome.PASSED:
            times = before.times
        cases[case] = replace(known, times=times)
    return Reference(new.backend, machine, cases)
