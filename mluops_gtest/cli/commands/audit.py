"""`mluops-test audit`: operators against the rules of the suite, and what their cases catch.

`mutants` tries wrong implementations on the cases, `outputs` wrong outputs; each is printed
for people, for pages or for programs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import click

from mluops_gtest.base.errors import ExitCode
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import pluralize
from mluops_gtest.cli.echo import echo, print_json
from mluops_gtest.cli.options import (
    flag_option,
    jobs_option,
    json_option,
    operators_option,
    root_option,
    selection_options,
    value_option,
)
from mluops_gtest.core.case import TAGS, Query

if TYPE_CHECKING:
    from mluops_gtest.search.audit_outputs import FaultRow, MeasuredFaults
    from mluops_gtest.search.mutants import Kind, Score, Trial

_COLUMNS = ("operator", "wrong", "caught", "by one case alone", "wrong statuses", "caught", "by one case alone")
_COUNTS = ("cases", "by_criteria", "by_elementwise", "told")


class MutantsPage(Value):
    """All trials of a command, and what its time did not allow to try."""

    operators: Sequence[str]
    trials: "Sequence[Trial]"
    # (operator, name).
    untried: Sequence[tuple[str, str]]
    # Trials ended at the first case that caught the mistake: nobody knows whether it was the only one.
    first_kill: bool

    @property
    def survivors(self) -> "list[Trial]":
        """What no case caught."""
        return [trial for trial in self.trials if not trial.caught_by and not trial.idle]

    def score(self, kind: "Kind", operator: str | None = None) -> "Score":
        """Of one operator, or of all."""
        from mluops_gtest.search.mutants import Score

        return Score.of(t for t in self.trials if t.kind == kind and operator in (None, t.operator))

    def text(self, *, every: bool) -> Iterator[str]:
        """A row per operator, what was caught by none or by one case alone, and the sum; or `every` single one."""
        yield from _align(self._rows())
        for trial in sorted(self.trials, key=lambda one: (one.operator, one.kind, one.name)):
            is_alone = trial.kind == "implementation" and len(trial.caught_by) == 1 and not self.first_kill
            if trial.idle or not (every or is_alone or not trial.caught_by):
                continue
            head = f"{trial.operator}: {trial.name} ({trial.message})"
            if trial.caught_by:
                yield f"{head} is caught by {', '.join(trial.caught_by)}{' alone' if is_alone else ''}"
            else:
                yield f"{head} is not caught" + (f", and raises: {trial.raised}" if trial.raised else "")
                yield f"  {trial.place}"
        wrong, statuses = self.score("implementation"), self.score("status")
        yield (
            f"{pluralize(len(self.operators), 'operator')}: the cases catch {wrong.caught} of {wrong.tried} wrong "
            f"implementations and {statuses.caught} of {statuses.tried} wrong statuses"
        )
        if self.untried:
            yield f"not passed: the time is up, and {len(self.untried)} were not tried"

    def markdown(self) -> Iterator[str]:
        """The table alone, for pages; it has the columns that `--first-kill` fills."""
        header, *rows = ([row[column] for column in (0, 1, 2, 4, 5)] for row in self._rows())
        for row in (header, ["---", *["---:"] * 4], *rows):
            yield f"| {' | '.join(row)} |"

    def record(self) -> dict[str, Any]:
        """For programs."""

        def scores(operator: str | None = None) -> dict[str, Any]:
            kinds: tuple[Kind, ...] = ("implementation", "status")
            both = {kind: asdict(self.score(kind, operator)) for kind in kinds}
            return {kind: {**score, "by_one_alone": None} if self.first_kill else score for kind, score in both.items()}

        from mluops_gtest.documents import AUDIT_MUTANTS
        from mluops_gtest.results.shapes import fill

        by_name = {name: scores(name) for name in self.operators}
        return fill(AUDIT_MUTANTS, self, score=scores(), operators=by_name)

    def _rows(self) -> Iterator[Sequence[str]]:
        yield _COLUMNS
        for name in self.operators:
            row = [name]
            for score in (self.score("implementation", name), self.score("status", name)):
                row += [str(score.tried), str(score.caught), "-" if self.first_kill else str(score.by_one_alone)]
            yield row


class OutputsPage(Value):
    """What was measured of each operator."""

    measured: "Sequence[MeasuredFaults]"
    # Faults were left at the first case that tells them: nobody knows who else does.
    first_catch: bool

    def text(self, *, every: bool) -> Iterator[str]:
        """Faults by families of cases; with `every` also what each case lets through. Problems come last."""
        for one in self.measured:
            yield from _align(_fault_rows(one))
            if every:
                for case, missed in one.let_through.items():
                    yield f"{case} lets through: {', '.join(missed)}" if missed else f"{case} catches all"
            if not self.first_catch:
                alone, of_cases = len(one.let_through) - len(one.replaceable), pluralize(len(one.let_through), "case")
                yield f"{one.operator}: {alone} of {of_cases} catch what no other catches"
            yield ""
        for one in self.measured:
            for name in one.uncaught:
                why = "no case catches it" if one.rows[name].cases else "it changes nothing in any of the cases"
                yield (
                    f"{one.operator}: {name}: {why}\n  Declare a case that does, or say in the operator's "
                    "accepted_faults why none need."
                )
            for name in one.stale:
                known = "a case catches it" if name in one.rows else "no output can have it"
                yield f"{one.operator}: {name}: {known}, so accepted_faults need not name it"
        cases, faults, uncaught, accepted, stale = (
            sum(len(getattr(one, name)) for one in self.measured)
            for name in ("let_through", "rows", "uncaught", "accepted", "stale")
        )
        yield (
            f"{pluralize(len(self.measured), 'operator')}, {pluralize(cases, 'case')}, {pluralize(faults, 'fault')}: "
            f"{uncaught} not caught, {accepted} accepted, {stale} of these wrongly"
        )

    def markdown(self) -> Iterator[str]:
        """One table over all operators: per fault, how many of the cases that it changes tell it, by whom."""
        by_fault: dict[str, list[tuple[str, FaultRow]]] = {}
        for one in self.measured:
            for name, row in one.rows.items():
                by_fault.setdefault(name.partition(": ")[2], []).append((one.operator, row))
        yield "| fault | cases | by the criteria | by the element-wise check | by either | operators with a miss |"
        yield "|---|---:|---:|---:|---:|---|"
        for fault, rows in by_fault.items():
            totals = [sum(getattr(row, name) for _, row in rows) for name in _COUNTS]
            blind = sorted({operator for operator, row in rows if row.told < row.cases})
            yield f"| {fault} | {' | '.join(map(str, totals))} | {', '.join(blind) or '–'} |"

    def record(self) -> dict[str, Any]:
        """For programs."""
        from mluops_gtest.documents import AUDIT_OUTPUTS
        from mluops_gtest.results.shapes import Overlay, fill

        operators = {
            one.operator: Overlay(one, alone={} if self.first_catch else one.alone, faults=one.rows)
            for one in self.measured
        }
        return fill(AUDIT_OUTPUTS, self, operators=operators)


def _fault_rows(one: "MeasuredFaults") -> Iterator[list[str]]:
    """Yields the head, and a row per fault: the cases that tell it, by whom, and by families of cases."""
    tags = [tag for tag in TAGS if any(row.families[tag] for row in one.rows.values())]
    yield [one.operator, "cases", "criteria", "element-wise", "either", *tags]
    for name, row in one.rows.items():
        shares = [f"{row.told_in[tag]}/{row.families[tag]}" if row.families[tag] else "" for tag in tags]
        accepted = ["accepted"] if name in one.accepted else []
        yield [name, *(str(getattr(row, count)) for count in _COUNTS), *shares, *accepted]


def _align(rows: Iterator[Sequence[str]]) -> Iterator[str]:
    """Yields the rows with columns as wide as their cells: the first to the left, all others to the right."""
    columns = list(zip_longest(*rows, fillvalue=""))
    widths = [max(map(len, column)) for column in columns]
    for first, *cells in zip(*columns, strict=True):
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join((first.ljust(widths[0]), *numbers)).rstrip()


def _print(page: MutantsPage | OutputsPage, form: str, *, every: bool) -> None:
    if form == "json":
        print_json(page.record())
    else:
        echo("\n".join(page.markdown() if form == "markdown" else page.text(every=every)))


_operators_option = operators_option("Only this operator, e.g. --op voxel_pooling_forward.")


@click.group("audit")
def command() -> None:
    """Check operators against the rules of the suite.

    Examples:
      mluops-test audit operators                              every operator
      mluops-test audit operators --op voxel_pooling_forward   one operator
      mluops-test audit operators --root ../my_operators       operators of your own
      mluops-test audit operators --seeds 2                    a quick look
      mluops-test audit operators --rules                      what each rule demands
      mluops-test audit operators --format json                for programs
      mluops-test audit mutants -j 2                           which cases catch which wrong implementation?
      mluops-test audit outputs                                which wrong outputs do the cases catch?
    """


@command.command("operators")
@_operators_option
@root_option
@value_option(
    "--seeds N",
    click.IntRange(0, 1000),
    "Compare kernel and reference under N other seeds, e.g. --seeds 2.",
    default=20,
)
@flag_option("--rules", "Only print the rules and what each demands.")
@json_option()
def audit_rules(roots: tuple[str, ...], operators: tuple[str, ...], seeds: int, rules: bool, form: str) -> int:
    """Check every operator: its checks and their order, cases, twins, shapes, mutants and kernel.

    Exit 1 if an operator breaks a rule. Every finding says what is wrong, where, and what to do; a note breaks none.
    """
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.terminal import stderr, track
    from mluops_gtest.search.audit_values import RULES, audit_operator
    from mluops_gtest.search.mutants import subject_of

    if rules:
        demands = {name: (rule.__doc__ or "").strip().partition("\n")[0] for name, rule in RULES.items()}
        if form == "json":
            print_json(demands)
        else:
            echo("\n".join(f"{name}: {words}" for name, words in demands.items()))
        return int(ExitCode.OK)
    session = Session(roots)
    known = session.catalogue.operators
    if not operators:
        session.catalogue.load_all()
    chosen = [known.find(name).name for name in operators] or list(known)
    found = [
        {"rule": rule, "operator": name, **asdict(problem)}
        for name in track(chosen, len(chosen), stderr())
        for rule, problem in audit_operator(subject_of(session, name, seeds))
    ]
    broken = [one for one in found if not one["is_note"]]
    notes = len(found) - len(broken)
    if form == "json":
        from mluops_gtest.documents import AUDIT_OPERATORS
        from mluops_gtest.results.shapes import fill

        print_json(fill(AUDIT_OPERATORS, operators=chosen, seeds=seeds, findings=found))
    else:
        for one in found:
            note = "note: " if one["is_note"] else ""
            echo("{operator}: {rule}: {note}{message}\n  {place}\n  {remedy}".format(note=note, **one))
        counts = [pluralize(len(broken), "finding"), *([pluralize(notes, "note")] if notes else [])]
        echo(f"{pluralize(len(chosen), 'operator')}, {len(RULES)} rules, {', '.join(counts)}")
    if not chosen:
        return int(ExitCode.EMPTY)
    return int(ExitCode.FAILED if broken else ExitCode.OK)


@command.command("mutants")
@_operators_option
@root_option
@flag_option("--first-kill", "Leave each wrong implementation at the first case that catches it.")
@value_option(
    "--budget SECONDS",
    click.FloatRange(0, min_open=True),
    "Begin nothing more after that time, e.g. --budget 60; what is not tried does not count as passed.",
)
@jobs_option
@flag_option("--list every", "Name every wrong implementation and the cases that catch it.")
@json_option("markdown")
def mutants(
    roots: tuple[str, ...],
    operators: tuple[str, ...],
    first_kill: bool,
    budget: float | None,
    jobs: int,
    every: bool,
    form: str,
) -> int:
    """Try all wrong implementations that operators ship on the stored cases: which cases catch which?

    Beside them, wrong statuses are made from the ordered checks: one forgotten, asked behind later ones, with another
    status, or writing before it refuses. Exit 1 if the cases do not catch one, or one was not tried.

    Examples:
      mluops-test audit mutants -j 2                           every operator, every case
      mluops-test audit mutants --op ball_query --list         which cases catch which
      mluops-test audit mutants --first-kill -j 2              is each caught at all? For CI: a fraction of the time
      mluops-test audit mutants --budget 60                    what can be tried in a minute
      mluops-test audit mutants --first-kill --format markdown the table of `docs audit`
    """
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.terminal import stderr, track
    from mluops_gtest.core.operator_parts import MUTANTS
    from mluops_gtest.search.mutants import STATUSES, TrialPlan, position_mutants, trials

    known = Session(roots).catalogue.operators
    chosen = [known.find(name).name for name in operators] or list(known)
    shipped = {name: (*(known.part(name, MUTANTS) or ()), *position_mutants(known[name])) for name in chosen}
    planned = {name: [*(mutant.name for mutant in shipped[name]), STATUSES] for name in chosen}
    total = sum(map(len, planned.values()))
    tasks = list(track(trials(TrialPlan(roots, planned, first_kill, jobs, budget)), total, stderr()))
    finished = {(task.operator, task.name) for task in tasks}
    untried = [
        (operator, name) for operator in chosen for name in planned[operator] if (operator, name) not in finished
    ]
    done = [trial for task in tasks for trial in task.trials]
    page = MutantsPage(chosen, done, untried, first_kill)
    _print(page, form, every=every)
    if not done and not untried:
        return int(ExitCode.EMPTY)
    return int(ExitCode.FAILED if page.survivors or untried else ExitCode.OK)


@command.command("outputs")
@selection_options
@flag_option("--first-catch", "Leave each fault at the first case that catches it, small ones first.")
@flag_option("--list every", "Name the faults that each case lets through.")
@json_option("markdown")
def outputs(query: Query, roots: tuple[str, ...], first_catch: bool, every: bool, form: str) -> int:
    """Make wrong outputs from the baselines of cases and count which are caught, without any backend.

    Each is judged twice: by the criteria of the documents, and element by element by what arithmetic allows. Without
    a selection the default set is measured. Exit 1 if no case of an operator catches a fault that it does not accept,
    or if one catches a fault that it does.

    Examples:
      mluops-test audit outputs --first-catch                  is each fault caught at all? Takes seconds
      mluops-test audit outputs --op ball_query                one operator: faults by families of cases
      mluops-test audit outputs --op ball_query --list         what each case lets through
      mluops-test audit outputs ball_query/hits_around_nsample_float --list    one case
      mluops-test audit outputs my_cases/ --list               files of your own
      mluops-test audit outputs --format markdown              the table of `docs audit`
    """
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.terminal import stderr, track
    from mluops_gtest.running.plan import case_sizes
    from mluops_gtest.search.audit_outputs import fits_memory, measured

    session = Session(roots)
    selected = session.select(query).cases
    source = session.source(selected)
    sizes = case_sizes(source.lock, selected)
    roomy = {entry.id for entry in source.lock.values() if first_catch and fits_memory(entry.tensors["outputs"])}
    known, names = session.catalogue.operators, sorted({case.operator for case in selected})
    found = []
    for name in track([name for name in names if name in known], len(names), stderr()):
        ids = sorted(
            (case.id for case in selected if case.operator == name), key=lambda one: (one not in roomy, sizes[one])
        )
        found.append(measured(known[name], map(source.load, ids), first_catch=first_catch))
    page = OutputsPage(found, first_catch)
    _print(page, form, every=every)
    if not any(one.let_through for one in found):
        return int(ExitCode.EMPTY)
    return int(ExitCode.FAILED if any(one.uncaught or one.stale for one in found) else ExitCode.OK)
