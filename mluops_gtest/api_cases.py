"""The gate for Python programs.

Cases run one by one on a backend that stays open, for those who keep an order of their own.

Cases for Python programs, their data read when first asked for; and the operators behind them.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from mluops_gtest.api import CaseResult
from mluops_gtest.backends import numpy_backend
from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.float_state import own_floats
from mluops_gtest.catalog.operators import Operators
from mluops_gtest.catalog.root import BUILTIN
from mluops_gtest.catalog.selection import Selected, Session
from mluops_gtest.catalog.source import StoredCases
from mluops_gtest.core import result as model_result
from mluops_gtest.core.binding import baseline_of
from mluops_gtest.core.call import OpCall, Params, Status
from mluops_gtest.core.case import Case, Query
from mluops_gtest.core.operator import Baseline, Operator
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.tensor import Array, Tensor
from mluops_gtest.results.gate import Decision
from mluops_gtest.results.gate_request import GateRequest, reach_decision
from mluops_gtest.results.saved_outputs import OutputListener
from mluops_gtest.running.caller import open_callers
from mluops_gtest.running.case_run import CaseRun, PlannedCase
from mluops_gtest.running.options import RunRequest
from mluops_gtest.running.run import with_commands
from mluops_gtest.running.session import context_of, options_of

if TYPE_CHECKING:
    from mluops_gtest.judging.elementwise_check import Expectation


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


class CaseRunner:
    """The backend of a request, open for any number of cases."""

    def __init__(self, session: Session, request: RunRequest, keep: OutputListener | None = None) -> None:
        """`keep` sees the outputs of every call that answered and should have computed."""
        self._session, self._request, self._keep = session, request, keep
        self._open = contextlib.ExitStack()
        self._case_run: CaseRun | None = None
        # What the backend says of its version; empty where it says nothing.
        self.version = ""

    @own_floats()
    def __enter__(self) -> "CaseRunner":
        """Load the backend; an error says why that is impossible."""
        catalogue, request = self._session.catalogue, self._request
        callers = self._open.enter_context(open_callers(request, catalogue))
        options = options_of(request, catalogue, 1, len(callers))
        self._context = context_of(request, catalogue.root_paths, callers[0].name, 1, 0, None)
        self.version, self.precision = callers[0].version, callers[0].precision
        self.is_reference = callers[0].is_reference
        self._source = _OneByOne(self._session, request)
        self._case_run = CaseRun(callers[0], options, self._keep, self._source, catalogue.operators)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._case_run = None
        self._open.__exit__(kind, error, trace)

    @property
    def backend(self) -> str:
        """The name that the backend gives itself."""
        return str(self._context.backend["name"])

    def prepare(self, operator: str) -> None:
        """Read all that is the same for every declared case of the operator, before somebody looks at the clock."""
        _ = self._session.catalogue.operators[operator], self._source.of_operator(operator).lock

    def run(self, case: Selected) -> CaseResult:
        """Load the case, call the backend, judge."""
        return CaseResult.of(self.result_of(case))

    @own_floats()
    def result_of(self, case: Selected) -> model_result.CaseResult:
        """The same for those inside."""
        assert self._case_run is not None, "the runner is open"
        self._source.cases[case.id] = case
        result = self._case_run.run(PlannedCase(case.id, case.operator, case.tags))
        return with_commands(result, self._context)


class _OneByOne:
    """Loads the cases that were asked for; locks and schema are read once per operator."""

    def __init__(self, session: Session, request: RunRequest) -> None:
        self._session, self._request = session, request
        self._sources: dict[str, StoredCases] = {}
        self.cases: dict[str, Selected] = {}

    def load(self, case_id: str) -> Case:
        case = self.cases[case_id]
        if case.draft is None:
            return self._source((case,)).load(case_id)
        return self.of_operator(case.operator).load(case_id)

    def of_operator(self, operator: str) -> StoredCases:
        """The source of its declared cases."""
        if operator not in self._sources:
            drafts = self._session.catalogue.drafts_of(operator).values()
            declared = tuple(Selected(one.id, one.operator, one.tags, draft=one) for one in drafts)
            self._sources[operator] = self._source(declared)
        return self._sources[operator]

    def _source(self, cases: tuple[Selected, ...]) -> StoredCases:
        request = self._request
        return self._session.source(
            cases, strict=request.strict, allow_outside_paths=request.allow_outside_paths, reseed=request.reseed
        )


@own_floats()
def reference(call: OpCall, *, roots: Sequence[str] = (BUILTIN,)) -> Baseline:
    """The right answer to a call that computes; UsageError where the operator would refuse it."""
    operator = operators_of(tuple(roots)).find(call.operator)
    answer = operator.answer(call)
    if not answer.computes:
        message = "" if answer.check is None else f" ({operator.check(answer.check).message})"
        raise UsageError(f"{call.operator} computes nothing for this call: it answers {answer.status.name}{message}.")
    broken = operator.broken(call)
    if broken is not None:
        raise UsageError(f"{call.operator} does not define this call: {broken}.")
    return baseline_of(operator, call)


class NumpyBackend(numpy_backend.NumpyBackend):
    """Runs every operator's own float32 kernel; a backend that has a few operators may hand it the others."""

    def __init__(self, *, roots: Sequence[str] = (BUILTIN,)) -> None:
        super().__init__(operators_of(tuple(roots)))


@cache
def operators_of(roots: tuple[str, ...]) -> Operators:
    """The operators of these roots, each loaded when first asked for."""
    return Session(roots).catalogue.operators


class CaseHandle:
    """A declared case, or a case in a file.

    Arrays are read-only and have the tensor's own type; half is float16, bfloat16 comes as its bits in uint16.
    """

    def __init__(self, selected: Selected, load: Callable[[], Case], operator_of: Callable[[str], Operator]) -> None:
        self._selected, self._load, self._operator_of = selected, load, operator_of

    def __repr__(self) -> str:
        return f"<case {self.id}>"

    def _repr_html_(self) -> str:
        from mluops_gtest.results.reports.notebook import case_html

        return case_html(self._case)

    @property
    def id(self) -> str:
        """`operator/name`, or the path of the file."""
        return self._selected.id

    @property
    def operator(self) -> str:
        """The operator's name."""
        return self._selected.operator or self._case.operator

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the declaration; none for a file."""
        return self._selected.tags

    @property
    def doc(self) -> str:
        """What the case shows, with the section of the design document."""
        return self._case.doc

    @property
    def params(self) -> Params:
        """The parameters that a backend gets; None where the case passes no parameters."""
        return dict(self.call().params or {})

    @cached_property
    def inputs(self) -> dict[str, Array]:
        """The inputs by name; one that the case gives no values is left out."""
        return _arrays(self._case.inputs)

    @property
    def status(self) -> Status:
        """The status that the operator must answer."""
        return self._expectation.answer.status

    @property
    def check_name(self) -> str | None:
        """The parameter check that must answer; None where the operator computes."""
        return self._expectation.answer.check

    @property
    def computes(self) -> bool:
        """The operator must write its outputs; False where it must refuse or return at once."""
        return self._expectation.answer.computes

    @cached_property
    def expected(self) -> dict[str, Array]:
        """The right outputs by name; empty where the operator computes nothing."""
        return _arrays(self._expectation.outputs) if self.computes else {}

    @property
    def results(self) -> dict[str, int]:
        """The results of the call that are no tensors, e.g. num_act_out."""
        return dict(self._expectation.results)

    def call(self) -> OpCall:
        """The call as a backend gets it, without a workspace, outputs preset or poisoned; make one for each use."""
        from mluops_gtest.running.caller import InlineCaller
        from mluops_gtest.running.case_run import draft_result
        from mluops_gtest.running.guarded_call import GuardedCall, Task

        nobody = InlineCaller(_Given({}, Status.SUCCESS, {}))
        task = Task(self._case, self._operator, self._expectation, draft_result(self._case))
        return GuardedCall(task, nobody).call

    @own_floats()
    def check(
        self,
        outputs: Mapping[str, Any] | None = None,
        *,
        status: Status = Status.SUCCESS,
        results: Mapping[str, int] | None = None,
        elementwise: bool | None = None,
    ) -> "CaseResult":
        """The verdict on these outputs, as a run would reach it; `elementwise=True` fails on single elements, too."""
        from mluops_gtest.running.caller import InlineCaller
        from mluops_gtest.running.case_run import Options

        given = _Given(self._fitting(outputs or {}), status, dict(results or {}))
        case_run = CaseRun(InlineCaller(given), Options(elementwise=elementwise, strict=False))
        return CaseResult.of(case_run.run_case(self._case, self._operator))

    def _fitting(self, outputs: Mapping[str, Any]) -> dict[str, Array]:
        """The arrays, of the very types and shapes that the case has: a silent conversion could hide a mistake."""
        wanted = {tensor.id: tensor.desc for tensor in self._case.outputs}
        fitting = {}
        for name, values in outputs.items():
            if name not in wanted:
                raise UsageError(f"{self.id}: there is no output {name!r}; it has {', '.join(wanted)}.")
            array, desc = np.asarray(values), wanted[name]
            if array.dtype != desc.dtype.storage or array.shape != desc.dims:
                raise UsageError(
                    f"{self.id}: {name} must be {desc.dtype.storage.name} {list(desc.dims)}, not {array.dtype.name} "
                    f"{list(array.shape)}; convert it yourself, so that nothing is rounded unseen."
                )
            fitting[name] = array
        return fitting

    @cached_property
    @own_floats()
    def _case(self) -> Case:
        return self._load()

    @cached_property
    def _operator(self) -> Operator:
        return self._operator_of(self._case.operator)

    @cached_property
    @own_floats()
    def _expectation(self) -> "Expectation":
        from mluops_gtest.judging.elementwise_check import expectation_of

        return expectation_of(self._case, self._operator)


class _Given:
    """Answers with what somebody computed elsewhere; an output that is not given stays as it was."""

    name = "given outputs"

    def __init__(self, outputs: Mapping[str, Array], status: Status, results: Mapping[str, int]) -> None:
        self._outputs, self._status, self._results = outputs, status, results

    def run(self, call: OpCall) -> Status:
        for name, values in self._outputs.items():
            call.array(name)[...] = values
        call.scalars.update(self._results)
        return self._status


def _arrays(tensors: tuple[Tensor, ...]) -> dict[str, Array]:
    """The values of those that have any, read-only."""
    found = {tensor.id: tensor.values.view() for tensor in tensors if tensor.data is not None}
    for array in found.values():
        array.flags.writeable = False
    return found


def cases(
    *select: str,
    operators: Sequence[str] = (),
    tags: Sequence[str] = (),
    keyword: str = "",
    everything: bool = False,
    roots: Sequence[str] = (BUILTIN,),
) -> list[CaseHandle]:
    """The cases that these words select, as `mluops-test run` would: ids, operators, globs, files, folders."""
    session = Session(tuple(roots))
    query = Query(select, tuple(operators), tuple(tags), keyword, everything)
    return handles(session, query)


def handles(session: Session, query: Query) -> list[CaseHandle]:
    """The cases of that query; nothing of their data is read yet."""
    chosen = session.select(query).cases
    source = session.source(chosen)

    def operator_of(name: str) -> Operator:
        return session.catalogue.operators.find(name)

    return [CaseHandle(one, lambda case_id=one.id: source.load(case_id), operator_of) for one in chosen]  # type: ignore[misc]
