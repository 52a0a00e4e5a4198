"""`mluops-test audit`."""

import click

from mluops_gtest.cli.options import complete_operators, root_option, selection_options
from mluops_gtest.cli.plain_options import format_option, jobs_option
from mluops_gtest.errors import ExitCode
from mluops_gtest.model.counted import counted
from mluops_gtest.model.query import Query

_EPILOG = """\b
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
_OUTPUTS_EPILOG = """\b
Examples:
  mluops-test audit outputs --first-catch                  is each fault caught at all? Takes seconds
  mluops-test audit outputs --op ball_query                one operator: faults by families of cases
  mluops-test audit outputs --op ball_query --list         what each case lets through
  mluops-test audit outputs ball_query/hits_around_nsample_float --list    one case
  mluops-test audit outputs my_cases/ --list               files of your own
  mluops-test audit outputs --format markdown              the table of docs/reference/audit.md
"""
_MUTANTS_EPILOG = """\b
Examples:
  mluops-test audit mutants -j 2                           every operator, every case
  mluops-test audit mutants --op ball_query --list         which cases catch which
  mluops-test audit mutants --first-kill -j 2              is each caught at all? For CI: a fraction of the time
  mluops-test audit mutants --budget 60                    what can be tried in a minute
  mluops-test audit mutants --first-kill --format markdown the table of docs/reference/audit.md
"""


_operators_option = click.option(
    "--op",
    "names",
    multiple=True,
    help="Only this operator, e.g. --op voxel_pooling_forward.",
    shell_complete=complete_operators,
)


@click.group("audit", epilog=_EPILOG)
def command() -> None:
    """Check operators against the rules of the suite."""


@command.command("operators", epilog=_EPILOG)
@_operators_option
@root_option
@click.option(
    "--seeds",
    type=click.IntRange(0, 1000),
    default=20,
    show_default=True,
    metavar="N",
    help="Compare kernel and reference under N other seeds, e.g. --seeds 2.",
)
@click.option("--rules", is_flag=True, help="Only print the rules and what each demands.")
@format_option("text", "json")
def operators(roots: tuple[str, ...], names: tuple[str, ...], seeds: int, rules: bool, form: str) -> int:
    """Check every operator: its checks and their order, cases, twins, shapes, mutants and kernel.

    Exit 1 if an operator breaks a rule. Every finding says what is wrong, where, and what to do.
    """
    import json
    from dataclasses import asdict

    from mluops_gtest.api.session import Session
    from mluops_gtest.audit.operators import RULES, audit_operator
    from mluops_gtest.cli.consoles import stderr, track
    from mluops_gtest.cli.lines import say
    from mluops_gtest.cli.mutant_trials import subject_of

    if rules:
        demands = {name: (rule.__doc__ or "").strip().partition("\n")[0] for name, rule in RULES.items()}
        say(json.dumps(demands, indent=1) if form == "json" else "\n".join(f"{k}: {v}" for k, v in demands.items()))
        return int(ExitCode.OK)
    session = Session(roots)
    known = session.catalogue.operators
    if not names:
        session.catalogue.load_all()
    chosen = [known.find(name).name for name in names] or list(known)
    found = [
        finding
        for name in track(chosen, len(chosen), stderr())
        for finding in audit_operator(subject_of(session, name, seeds))
    ]
    if form == "json":
        record = {"operators": chosen, "seeds": seeds, "findings": [asdict(finding) for finding in found]}
        say(json.dumps(record, indent=1, ensure_ascii=False))
    else:
        for finding in found:
            say(f"{finding.operator}: {finding.rule}: {finding.message}\n  {finding.place}\n  {finding.remedy}")
        say(f"{counted(len(chosen), 'operator')}, {len(RULES)} rules, {counted(len(found), 'finding')}")
    if not chosen:
        return int(ExitCode.EMPTY)
    return int(ExitCode.FAILED if found else ExitCode.OK)


@command.command("mutants", epilog=_MUTANTS_EPILOG)
@_operators_option
@root_option
@click.option("--first-kill", is_flag=True, help="Leave each wrong implementation at the first case that catches it.")
@click.option(
    "--budget",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Begin nothing more after that time, e.g. --budget 60; what is not tried does not count as passed.",
)
@jobs_option
@click.option("--list", "every", is_flag=True, help="Name every wrong implementation and the cases that catch it.")
@format_option("text", "json", "markdown")
def mutants(
    roots: tuple[str, ...],
    names: tuple[str, ...],
    first_kill: bool,
    budget: float | None,
    jobs: int,
    every: bool,
    form: str,
) -> int:
    """Try all wrong implementations that operators ship on the stored cases: which cases catch which?

    Beside them, wrong statuses are made from the ordered checks: one forgotten, exchanged with its neighbour, with
    another status, or writing before it refuses. Exit 1 if the cases do not catch one, or one was not tried.
    """
    from mluops_gtest.api.session import Session
    from mluops_gtest.audit.mutants import names_planted
    from mluops_gtest.cli.consoles import stderr, track
    from mluops_gtest.cli.lines import say
    from mluops_gtest.cli.mutant_trials import TrialPlan, trials
    from mluops_gtest.cli.pages.mutants import MutantsPage
    from mluops_gtest.model.parts import MUTANTS

    known = Session(roots).catalogue.operators
    chosen = [known.find(name).name for name in names] or list(known)
    shipped = {name: known.part(name, MUTANTS) or () for name in chosen}
    wanted = {name: names_planted(known[name], shipped[name]) for name in chosen}
    total = sum(map(len, wanted.values()))
    found = list(track(trials(TrialPlan(roots, wanted, first_kill, jobs, budget)), total, stderr()))
    tried = {(trial.operator, trial.name) for trial in found}
    untried = [(operator, name) for operator in chosen for name in wanted[operator] if (operator, name) not in tried]
    page = MutantsPage(chosen, found, untried, first_kill)
    if form == "json":
        say(page.json())
    else:
        say("\n".join(page.markdown() if form == "markdown" else page.text(every=every)))
    if not found and not untried:
        return int(ExitCode.EMPTY)
    return int(ExitCode.FAILED if page.survivors or untried else ExitCode.OK)


@command.command("outputs", epilog=_OUTPUTS_EPILOG)
@selection_options
@click.option(
    "--first-catch", is_flag=True, help="Leave each fault at the first case that catches it, small ones first."
)
@click.option("--list", "every", is_flag=True, help="Name the faults that each case lets through.")
@format_option("text", "json", "markdown")
def outputs(query: Query, roots: tuple[str, ...], first_catch: bool, every: bool, form: str) -> int:
    """Make wrong outputs from the baselines of cases and count which are caught, without any backend.

    Each is judged twice: by the criteria of the documents, and element by element by what arithmetic allows. Without
    a selection the default set is measured. Exit 1 if no case of an operator catches a fault that it does not accept,
    or if one catches a fault that it does.
    """
    from mluops_gtest.api.session import Session
    from mluops_gtest.audit.outputs import has_room, measured
    from mluops_gtest.cli.consoles import stderr, track
    from mluops_gtest.cli.lines import say
    from mluops_gtest.cli.pages.outputs import OutputsPage
    from mluops_gtest.engine.costs import case_sizes

    session = Session(roots)
    selected = session.select(query).cases
    source = session.source(selected)
    sizes = case_sizes(source.lock, selected)
    roomy = {entry.id for entry in source.lock.values() if first_catch and has_room(entry.tensors["outputs"])}
    known, names = session.catalogue.operators, sorted({case.operator for case in selected})
    found = []
    for name in track([name for name in names if name in known], len(names), stderr()):
        ids = sorted(
            (case.id for case in selected if case.operator == name), key=lambda one: (one not in roomy, sizes[one])
        )
        found.append(measured(known[name], map(source.load, ids), first_catch=first_catch))
    page = OutputsPage(found, first_catch)
    if form == "json":
        say(page.json())
    else:
        say("\n".join(page.markdown() if form == "markdown" else page.text(every=every)))
    if not any(one.let_through for one in found):
        return int(ExitCode.EMPTY)
    return int(ExitCode.FAILED if any(one.uncaught or one.stale for one in found) else ExitCode.OK)
