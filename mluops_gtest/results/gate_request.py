"""A gate as the command line asks for it: files read, the decision reached, or the new baseline or ledger written.

What the gate blocks must not become the norm: a new baseline comes with what the gate says of it.
"""

import datetime
import fnmatch
import glob
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

import yaml
from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, NothingSelectedError, UsageError
from mluops_gtest.base.files import TEXT
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import is_plain, pluralize, strip_to_line
from mluops_gtest.catalog.replaced import Successors
from mluops_gtest.catalog.root import recorded_roots
from mluops_gtest.catalog.selection import Filter, Session
from mluops_gtest.core.case import Query
from mluops_gtest.core.outcome import DRIFT_FACTOR, Outcome
from mluops_gtest.core.report import RunReport, backend_of
from mluops_gtest.results.folder import read_report
from mluops_gtest.results.gate import (
    DEFAULT_POLICY,
    Accept,
    CaseChange,
    Decision,
    Policy,
    Switches,
    decide,
    results_by_case,
)
from mluops_gtest.results.gate_reference import (
    DriftLimits,
    Reference,
    ReferenceCase,
    Waiver,
    baseline_from_json,
    is_baseline,
    load_json,
    load_waivers,
    machine_of,
    reference_of,
    with_runs,
)


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
    required_cases: set[str] | None = None,
    replaced: Successors = MappingProxyType({}),
) -> Update:
    """The reference that the results make; old cases beside the `required_cases` stay."""
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
    decision = decide(report, held_against, waivers, today, policy, required_cases, replaced)
    if decision.lacking and not decision.blocked:
        raise NothingSelectedError(f"--update: too little compared{decision.lacking}.")
    covered = {change.case for change in decision.changes if change.now is Outcome.XFAILED}
    new = with_runs(reference_of(report), again)
    cases = {
        case: replace(known, outcome=Outcome.XFAILED) if case in covered else known for case, known in new.cases.items()
    }
    new = _with_old(replace(new, cases=cases), old, required_cases)
    before: Mapping[str, ReferenceCase] = {} if old is None else old.cases
    both = sorted(new.cases.keys() & before.keys())
    return Update(
        new,
        decision,
        added=tuple(sorted(new.cases.keys() - before.keys())),
        dropped=tuple(sorted(before.keys() - new.cases.keys())),
        changed=tuple(case for case in both if new.cases[case].outcome is not before[case].outcome),
    )


def _with_old(new: Reference, old: Reference | None, required_cases: set[str] | None) -> Reference:
    """What stays of the old one: cases that were not asked for, and committed times that were not measured anew."""
    if old is None:
        return new
    timed = any(case.times for case in new.cases.values())
    machine = new.machine if timed else old.machine
    same = machine == old.machine
    others = set() if required_cases is None else old.cases.keys() - required_cases
    cases = {case: old.cases[case] if same else replace(old.cases[case], times=()) for case in others}
    for case, known in new.cases.items():
        before = old.cases.get(case)
        times = known.times
        if not times and same and before is not None and known.outcome is Outcome.PASSED:
            times = before.times
        cases[case] = replace(known, times=times)
    return Reference(new.backend, machine, cases)


_LONGEST_COMMENT = 200


def new_waivers(
    decision: Decision, owner: str, expires: datetime.date, reason: str
) -> tuple[list[str], dict[str, list[str]]]:
    """Entries as YAML, one per cause or fingerprint; and the blocking cases that have none, by the reason."""
    terms = {"reason": reason, "owner": owner, "expires": expires}
    if decision.backend:
        terms["backend"] = decision.backend
    by_cause: dict[str, list[CaseChange]] = defaultdict(list)
    by_mark: dict[tuple[str, str], list[CaseChange]] = defaultdict(list)
    left_out: dict[str, list[str]] = defaultdict(list)
    for change in decision.blocking:
        if change.now is None or not change.now.fails:
            # The ledger's own findings are about those that pass now.
            if change.now is not Outcome.XPASSED:
                left_out[f"{change.transition.value} cannot be waived"].append(change.case)
        elif change.now.has_no_answer or change.now is Outcome.MEMORY or not change.fingerprint:
            # Nobody knows what these hide: a person who does may waive them by hand.
            left_out[f"{change.now.value}: fix it, or waive it by hand"].append(change.case)
        elif change.has_cause:
            by_cause[change.cause].append(change)
        else:
            by_mark[change.operator, change.fingerprint].append(change)
    entries = [_entry(changes, {"cause": cause, **terms}) for cause, changes in by_cause.items()]
    for (_, fingerprint), changes in by_mark.items():
        first, *more = names = [glob.escape(change.case) for change in changes]
        entries.append(_entry(changes, {"case": names if more else first, "fingerprint": fingerprint, **terms}))
    return entries, left_out


def _entry(changes: list[CaseChange], entry: dict[str, Any]) -> str:
    words = f"{pluralize(len(changes), 'case')}: {changes[0].headline or changes[0].reason}"
    # Characters that YAML would take for the end of a line are written as escapes.
    texts = (text for value in entry.values() for text in (value if isinstance(value, list) else [str(value)]))
    is_readable = all(map(is_plain, texts))
    text: str = yaml.safe_dump([entry], allow_unicode=is_readable, sort_keys=False, width=float("inf"))
    return f"# {strip_to_line(words)[:_LONGEST_COMMENT]}\n{text}"


class GateRequest(Switches, kw_only=True):
    """What the user typed."""

    results: Path | RunReport
    against: Path | RunReport
    waivers: Path | None = None
    again: tuple[Path, ...] = ()
    subset: bool = False
    drift_factor: tuple[str, ...] = ()
    min_effect: float = 5.0
    accept: tuple[str, ...] = ()

    def ledger(self) -> tuple[Waiver, ...]:
        return () if self.waivers is None else load_waivers(self.waivers)

    def further_runs(self) -> dict[str, RunReport]:
        """More runs of the build that made the reference."""
        return {str(path): read_report(path) for path in self.again}

    def required_cases(self, report: RunReport, reference: Reference) -> set[str] | None:
        """The cases of the reference that must be there; None for all."""
        if not self.subset:
            return None
        canonical = _canonical(recorded_roots(report.selection))
        return select_required(report.selection, reference.cases, canonical)


def reach_decision(request: GateRequest) -> Decision:
    """Compare the results with the baseline and decide."""
    report = _read_results(request.results)
    reference = with_runs(read_reference(request.against), request.further_runs())
    policy = _policy(request, report, reference)
    required, ledger = request.required_cases(report, reference), request.ledger()
    return decide(
        report, reference, ledger, datetime.date.today(), policy, required, _replaced(report, reference, ledger)
    )


def make_update(request: GateRequest) -> Update:
    """The baseline that the results make; the file is not written yet."""
    report, old = _read_results(request.results), None
    assert isinstance(request.against, Path), "an update writes a file"
    if request.against.exists():
        if request.against.is_dir() or not is_baseline(load_json(request.against)):
            raise UsageError(
                f"--update --against {request.against}: it holds results, not a baseline; name the file to commit, "
                "e.g. --against baseline.json."
            )
        old = read_reference(request.against)
    required = None if old is None else request.required_cases(report, old)
    runs, policy, ledger = request.further_runs(), _policy(request, report, old), request.ledger()
    replaced = _replaced(report, old, ledger)
    return update(report, old, ledger, datetime.date.today(), runs, policy, required, replaced)


def _replaced(report: RunReport, reference: Reference | None, waivers: Sequence[Waiver]) -> Successors:
    """The old ids that the baseline and the waivers name, with what stands for them in the roots of the run."""
    names = {name for waiver in waivers for name in (waiver.case, *waiver.more)}
    names |= set() if reference is None else reference.cases.keys()
    old = sorted(name for name in names - {result.case for result in report.results} if "/" in name)
    if not old:
        return {}
    try:
        catalogue = Session(tuple(recorded_roots(report.selection))).catalogue
    except UsageError:
        # RESULTS may come from a machine with other folders.
        return {}
    return {name: found for name in old if (found := catalogue.successors(name))}


def _policy(request: GateRequest, report: RunReport, reference: Reference | None) -> Policy:
    known = () if reference is None else reference.cases.values()
    operators: set[str] = set()
    # Nothing else names some.
    if request.drift_factor:
        operators = {case.operator for case in known} | {result.operator for result in report.results}
    return Policy(
        drift=_drift_limits(request.drift_factor, operators),
        min_effect=request.min_effect / 100,
        accept=frozenset(map(Accept, request.accept)),
        **{name: getattr(request, name) for name in Switches.__struct_fields__},
    )


def _read_results(results: Path | RunReport) -> RunReport:
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
    catalogue = Session(tuple(roots)).catalogue

    def canonical(word: str) -> str:
        inside = catalogue.inside_store(Path(word).resolve())
        if inside is not None:
            return inside.with_suffix("").as_posix() if inside.suffix == TEXT else (inside / "*").as_posix()
        return catalogue.canonical_id(word)

    return canonical


def select_required(
    selection: Mapping[str, Any], cases: Mapping[str, ReferenceCase], canonical: Callable[[str], str]
) -> set[str]:
    """The ids that the selection names; `canonical` turns a user's word into an id, a glob or an operator."""
    if selection.get("shard"):
        raise UsageError(
            f"--subset: RESULTS is shard {selection['shard']} of a run; `mluops-test merge` all of them first."
        )
    query = Query.from_report(selection)
    if query is None:
        raise ContentError("--subset: RESULTS does not record what was selected; run the cases again.")
    patterns = [canonical(word) for word in query.select]
    operators = {canonical(word) for word in query.operators}
    demands = Filter(query)

    def is_selected(case: str, known: ReferenceCase) -> bool:
        # The id itself, its operator, a glob over ids, or the folder that a case file is in.
        if patterns and not any(fnmatch.fnmatch(case, p) or PurePosixPath(case).is_relative_to(p) for p in patterns):
            return False
        return demands.passes(
            case, known.tags, named=case in patterns, of_operators=lambda: known.operator in operators
        )

    return {case for case, known in cases.items() if is_selected(case, known)}
