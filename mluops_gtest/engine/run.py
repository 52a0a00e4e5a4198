"""A whole run: every planned case gets a result, events tell what happens."""

import datetime
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mluops_gtest.engine.execute import Executor, Options
from mluops_gtest.errors import ContentError
from mluops_gtest.model.call import Backend
from mluops_gtest.model.case import CaseSource
from mluops_gtest.model.event import CaseFinished, CaseStarted, Event, Listener, RunFinished, RunStarted
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult, Outcome


@dataclass(frozen=True, slots=True)
class PlannedCase:
    """A case to run, known before it is loaded."""

    id: str
    operator: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunContext:
    """What the report says about the run besides its results."""

    tool_version: str
    backend: Mapping[str, Any]
    environment: Mapping[str, Any]
    selection: Mapping[str, Any]
    # The options that a repro line needs after `mluops-test run CASE`.
    repro_options: tuple[str, ...] = ()


def run(
    plan: Sequence[PlannedCase],
    backend: Backend,
    operators: Mapping[str, Operator],
    source: CaseSource,
    context: RunContext,
    options: Options,
    listeners: Sequence[Listener],
) -> RunReport:
    """Run every planned case in order; those not reached are not_run, and an interrupt still gives a report."""

    def tell(event: Event) -> None:
        for listener in listeners:
            listener(event)

    executor = Executor(backend, options)
    started = datetime.datetime.now(datetime.UTC)
    begin = time.perf_counter()
    results: list[CaseResult] = []
    tell(RunStarted(backend.name, len(plan)))
    interrupted = False
    try:
        for planned in plan:
            tell(CaseStarted(planned.id))
            result = replace(_run_one(planned, executor, operators, source), repro=_repro(planned, context))
            results.append(result)
            tell(CaseFinished(result))
            if options.stop_at_first and result.outcome.blocks:
                break
    except KeyboardInterrupt:
        interrupted = True
    for planned in plan[len(results) :]:
        reason = "interrupted" if interrupted else "stopped at the first failure"
        result = CaseResult(
            planned.id, planned.operator, planned.tags, Outcome.NOT_RUN, reason=reason, repro=_repro(planned, context)
        )
        results.append(result)
        tell(CaseFinished(result))
    report = RunReport(
        tool_version=context.tool_version,
        backend=context.backend,
        environment=context.environment,
        selection=context.selection,
        started=started.isoformat(timespec="seconds"),
        seconds=time.perf_counter() - begin,
        results=tuple(results),
        timing={"backend": executor.times.backend, "compare": executor.times.compare},
        interrupted=interrupted,
    )
    tell(RunFinished(report))
    return report


def _run_one(
    planned: PlannedCase, executor: Executor, operators: Mapping[str, Operator], source: CaseSource
) -> CaseResult:
    try:
        case = source.load(planned.id)
    except ContentError as error:
        return CaseResult(
            planned.id, planned.operator, planned.tags, Outcome.ERROR, reason=str(error), content_error=True
        )
    return executor.execute(case, operators.get(case.operator))


def _repro(planned: PlannedCase, context: RunContext) -> str:
    return shlex.join(["mluops-test", "run", planned.id, *context.repro_options])
