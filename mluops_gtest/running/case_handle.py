"""A case for Python programs: its data, read when first asked for, and the verdict on outputs computed elsewhere."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.float_state import own_floats
from mluops_gtest.catalog.selection import Selected
from mluops_gtest.core.call import OpCall, Params, Status
from mluops_gtest.core.case import Case
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.tensor import Array, Tensor
from mluops_gtest.judging.elementwise import Expectation, expectation_of
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options, draft_result
from mluops_gtest.running.guarded_call import GuardedCall, Task


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
    ) -> CaseResult:
        """The verdict on these outputs, as a run would reach it; `elementwise=True` fails on single elements, too."""
        given = _Given(self._fitting(outputs or {}), status, dict(results or {}))
        case_run = CaseRun(InlineCaller(given), Options(elementwise=elementwise, strict=False))
        return case_run.run_case(self._case, self._operator)

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
    def _expectation(self) -> Expectation:
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
