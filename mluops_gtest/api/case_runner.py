"""Cases run one by one on a backend that stays open, for those who keep an order of their own."""

import contextlib
from types import TracebackType

from mluops_gtest.api.report import CaseResult
from mluops_gtest.api.run_setup import context_of, options_of
from mluops_gtest.api.session import Session
from mluops_gtest.content.selection import Selected
from mluops_gtest.engine.callers import open_callers
from mluops_gtest.engine.confirming import Confirming
from mluops_gtest.engine.float_state import own_floats
from mluops_gtest.engine.lanes import PlannedCase
from mluops_gtest.engine.leaks import LeakWatch
from mluops_gtest.engine.outputs import OutputKeeper
from mluops_gtest.engine.request import RunRequest
from mluops_gtest.engine.run import CaseLane, executor_of, with_commands
from mluops_gtest.generate.source import StoredCases
from mluops_gtest.model import result as model_result
from mluops_gtest.model.case import Case


class CaseRunner:
    """The backend of a request, open for any number of cases."""

    def __init__(self, session: Session, request: RunRequest, keep: OutputKeeper | None = None) -> None:
        """`keep` sees the outputs of every call that answered and should have computed."""
        self._session, self._request, self._keep = session, request, keep
        self._open = contextlib.ExitStack()
        self._lane: CaseLane | None = None
        # What the backend says of its version; empty where it says nothing.
        self.version = ""

    @own_floats()
    def __enter__(self) -> "CaseRunner":
        """Load the backend; an error says why that is impossible."""
        catalogue, request = self._session.catalogue, self._request
        callers = self._open.enter_context(open_callers(request, catalogue))
        options = options_of(request, catalogue, 1, len(callers))
        context = context_of(request, catalogue.root_paths, callers[0].name, 1, 0, None)
        executor = executor_of(callers[0], options, self._keep)
        self.version, self.precision = callers[0].version, callers[0].precision
        self.is_reference = callers[0].is_reference
        self._source = _OneByOne(self._session, request)
        self._lane = CaseLane(executor, catalogue.operators, self._source, context, LeakWatch(), Confirming())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lane = None
        self._open.__exit__(kind, error, trace)

    @property
    def backend(self) -> str:
        """The name that the backend gives itself."""
        assert self._lane is not None, "the runner is open"
        return str(self._lane.context.backend["name"])

    def prepare(self, operator: str) -> None:
        """Read all that is the same for every declared case of the operator, before somebody looks at the clock."""
        _ = self._session.catalogue.operators[operator], self._source.of_operator(operator).lock

    def run(self, case: Selected) -> CaseResult:
        """Load the case, call the backend, judge."""
        return CaseResult.of(self.result_of(case))

    @own_floats()
    def result_of(self, case: Selected) -> model_result.CaseResult:
        """The same for those inside."""
        assert self._lane is not None, "the runner is open"
        self._source.cases[case.id] = case
        finished = self._lane.run(PlannedCase(case.id, case.operator, case.tags))
        return with_commands(finished.result, self._lane.context)


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
