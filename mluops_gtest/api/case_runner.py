"""Cases run one by one on a backend that stays open, for those who keep an order of their own."""

import contextlib
from types import TracebackType

from mluops_gtest.api.report import CaseResult
from mluops_gtest.api.run_setup import context_of, options_of
from mluops_gtest.api.session import Session
from mluops_gtest.content.selection import Selected
from mluops_gtest.engine.callers import open_callers
from mluops_gtest.engine.execute import Executor
from mluops_gtest.engine.lanes import PlannedCase
from mluops_gtest.engine.request import RunRequest
from mluops_gtest.engine.run import CaseLane


class CaseRunner:
    """The backend of a request, and the cases that it may be asked to run."""

    def __init__(self, session: Session, request: RunRequest, cases: tuple[Selected, ...]) -> None:
        self._session, self._request, self._cases = session, request, cases
        self._open = contextlib.ExitStack()
        self._lane: CaseLane | None = None

    def __enter__(self) -> "CaseRunner":
        """Load the backend; an error says why that is impossible."""
        catalogue, request = self._session.catalogue, self._request
        callers = self._open.enter_context(open_callers(request, catalogue))
        options = options_of(request, catalogue, len(self._cases), len(callers))
        context = context_of(request, catalogue.root_paths, callers[0].name, len(self._cases), 0, None)
        source = self._session.source(self._cases, reseed=request.reseed)
        self._lane = CaseLane(Executor(callers[0], options), catalogue.operators, source, context)
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

    def run(self, case: Selected) -> CaseResult:
        """Load the case, call the backend, judge."""
        assert self._lane is not None, "the runner is open"
        return CaseResult.of(self._lane.run(PlannedCase(case.id, case.operator, case.tags)).result)
