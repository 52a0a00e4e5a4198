"""`mluops-test audit`."""

import click

from mluops_gtest.cli.options import complete_operators, root_option
from mluops_gtest.errors import ExitCode
from mluops_gtest.model.counted import counted

_EPILOG = """\b
Examples:
  mluops-test audit operators                              every operator
  mluops-test audit operators --op voxel_pooling_forward   one operator
  mluops-test audit operators --root ../my_operators       operators of your own
  mluops-test audit operators --seeds 2                    a quick look
  mluops-test audit operators --rules                      what each rule demands
  mluops-test audit operators --format json                for programs
"""


@click.group("audit", epilog=_EPILOG)
def command() -> None:
    """Check operators against the rules of the suite."""


@command.command("operators", epilog=_EPILOG)
@click.option(
    "--op",
    "names",
    multiple=True,
    help="Only this operator, e.g. --op voxel_pooling_forward.",
    shell_complete=complete_operators,
)
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
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to print, e.g. --format json.",
)
def operators(roots: tuple[str, ...], names: tuple[str, ...], seeds: int, rules: bool, form: str) -> int:
    """Check every operator: its checks and their order, cases, twins, shapes, mutants and kernel.

    Exit 1 if an operator breaks a rule. Every finding says what is wrong, where, and what to do.
    """
    import json
    from dataclasses import asdict

    from mluops_gtest.api.session import Session
    from mluops_gtest.audit.operators import RULES, audit_operator
    from mluops_gtest.cli.audit_subject import subject_of
    from mluops_gtest.cli.consoles import stderr
    from mluops_gtest.cli.lines import say
    from mluops_gtest.cli.progress import track

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
