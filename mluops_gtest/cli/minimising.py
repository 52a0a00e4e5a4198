"""A case made as small as its failure allows, as the command line asks for it: searched, written, told."""

import contextlib
import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from mluops_gtest.base.errors import ExitCode, UnwritableError, UsageError
from mluops_gtest.base.files import CASE_SUFFIXES, TEXT, place_below, replace_text
from mluops_gtest.base.frozen import Value
from mluops_gtest.casefiles.schema import Schema
from mluops_gtest.casefiles.writer import write_case
from mluops_gtest.catalog.selection import Session
from mluops_gtest.cli.echo import complain, one_interrupt, say
from mluops_gtest.cli.standalone import Shown, Standalone, standalone_of
from mluops_gtest.cli.terminal import stderr
from mluops_gtest.core.case import Query
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.operator_parts import REDUCTIONS
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.running.options import RunOptions
from mluops_gtest.running.run import shapes_of
from mluops_gtest.running.session import refuse
from mluops_gtest.search.minimise import FailureCause, Minimised, Step, minimise_case, what_shrank

_MAX_NAME: Final = 100


def minimise(
    case: str,
    *,
    roots: tuple[str, ...],
    backend: str,
    out: Path | None,
    standalone: str | None,
    calls: int,
    strict: bool,
    allow_outside_paths: bool,
    reseed: int | None,
    quiet: bool,
    settings: str | None,
    **how: object,
) -> ExitCode:
    """Search, write the smallest case, and say what became of it."""
    session = Session(roots)
    chosen = session.select_one(case)
    files = {"strict": strict, "allow_outside_paths": allow_outside_paths, "reseed": reseed}
    request = RunOptions(Query((case,)), roots, backend, settings=settings, **files, **how)  # type: ignore[arg-type]
    refuse(request)
    target = _target(out, chosen.id)
    form = None if standalone is None else standalone_of(standalone, backend, request.runtime)
    with one_interrupt(), _progress(quiet) as tell:
        found, confirmed, operator = minimise_case(session, request, case, calls, tell)
    if not found.fails:
        return _told_passing(found, backend)
    operators = session.catalogue.operators
    schema = Schema.of(operators.values())
    write_case(replace(found.case, id=target.stem), operator, target, schema, readable=True)
    written = _Written(
        target,
        request,
        None if form is None else _write_standalone(form, Shown(found.case, confirmed, operator, operators), target),
    )
    reductions = operators.part(operator.name, REDUCTIONS)
    _tell(found, confirmed, written, operator, quiet=quiet, has_reductions=bool(reductions))
    return ExitCode.INTERRUPTED if found.interrupted else ExitCode.OK


class _Written(Value):
    case: Path
    request: RunOptions
    # The command that runs the standalone file.
    standalone: str | None

    @property
    def repro(self) -> str:
        return shlex.join(["mluops-test", "run", str(self.case), *self.request.repro_options()])


def _target(out: Path | None, case_id: str) -> Path:
    """Where the case goes; refused before the search where nothing can be written."""
    name = re.sub(
        r"[^A-Za-z0-9_.-]", "_", Path(case_id).stem if case_id.endswith(CASE_SUFFIXES) else case_id.rpartition("/")[2]
    )
    target = Path(f"{name[:_MAX_NAME]}_minimised{TEXT}") if out is None else out
    if out is None:
        place_below(Path(), target)
    if target.suffix not in CASE_SUFFIXES:
        raise UsageError(f"--out {target}: the name must end in {' or '.join(CASE_SUFFIXES)}.")
    if not target.parent.is_dir():
        raise UsageError(f"--out {target}: there is no folder {target.parent}; make it, or name another file.")
    if not os.access(target.parent, os.W_OK) and not target.exists():
        raise UnwritableError(f"{target}: cannot be written: Permission denied. Name another file by --out.")
    return target


@contextlib.contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[Step], None]]:
    """A line on a terminal: calls, elements left, what is tried."""
    from rich.progress import BarColumn, Progress, TextColumn

    console = stderr()
    columns = (BarColumn(bar_width=20), TextColumn("{task.completed}/{task.total} calls, {task.description}"))
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        task = progress.add_task("the case itself", total=None)

        def tell(step: Step) -> None:
            words = f"{step.elements} elements left, trying fewer {step.tried}"
            progress.update(task, completed=step.calls, total=step.limit, description=words)

        yield tell


def _told_passing(found: Minimised, backend: str) -> ExitCode:
    """Why there is nothing to minimise, and the exit code for that."""
    result = found.result
    if result.outcome is Outcome.PASSED:
        complain(f"{result.case} passes on {backend}: there is nothing to minimise.")
        return ExitCode.EMPTY
    complain(f"{result.case} on {backend}: {result.outcome.words['en']}: {result.reason}")
    if result.bug:
        return ExitCode.BUG
    if result.content_error:
        complain("The case itself is broken, so there is no failure of the backend to minimise.")
        return ExitCode.CONTENT
    complain("That is no failure of the backend: there is nothing to minimise.")
    return ExitCode.EMPTY


def _write_standalone(form: Standalone, shown: Shown, target: Path) -> str:
    path = target.with_suffix(form.suffix)
    replace_text(path, form.text(shown, path))
    return form.command(path)


def _tell(
    found: Minimised, confirmed: CaseResult, written: _Written, operator: Operator, *, quiet: bool, has_reductions: bool
) -> None:
    if quiet:
        say(str(written.case))
        return
    before, after = found.elements
    if found.interrupted:
        say(f"Interrupted after {found.calls} calls; the best case so far has {after} of {before} elements.")
    elif found.is_unchanged:
        say(f"The case is minimal already: nothing can be taken away ({found.calls} calls, {after} elements).")
    else:
        say(f"{before} → {after} elements in {found.calls} calls.")
    say(f"{what_shrank(found)}; fails with: {found.result.outcome.words['en']}: {found.result.reason}")
    for line in _headlines(confirmed, operator):
        say(line)
    if not found.interrupted and not FailureCause.of(found.result).is_also_of(confirmed):
        say("Asked once more, the case did not fail so: the failure does not come every time. `run --repeat` shows it.")
    if not found.finished and not found.interrupted:
        say(f"All {found.calls} calls are used up; --calls {4 * found.calls} goes on looking.")
    if not has_reductions:
        say(f"{operator.name} declares no reductions (reductions.py), so only values could become plainer.")
    say(f"case:  {written.case}")
    say(f"repro: {written.repro}")
    if written.standalone is not None:
        say(f"alone: {written.standalone}")


def _headlines(result: CaseResult, operator: Operator) -> Iterator[str]:
    """What is wrong, where and how, where that could be found out."""
    if not result.explained:
        return
    from mluops_gtest.core.reasons.explained import headline_words
    from mluops_gtest.judging.groups import cause_groups

    shapes = shapes_of({operator.name: operator}, {result.operator})
    for group in cause_groups([result], [result], shapes):
        if group.headline is not None:
            yield headline_words(group.headline)
