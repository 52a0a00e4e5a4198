"""One call of a case on buffers that the harness owns: filled before, looked at after.

What one call of a case came to: by its reply, by what it left in memory, by its values.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.base.files import pieces
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import cut_text
from mluops_gtest.core import cause
from mluops_gtest.core.binding import bind, bind_values, has_buffer, owned_rows
from mluops_gtest.core.buffers import Buffer, Side, Wanted, fill, first_difference, pattern_of
from mluops_gtest.core.call import ExactElements, OpCall, QueryAnswer, Status
from mluops_gtest.core.case import BUFFER_LIMIT, Case
from mluops_gtest.core.cause import Cause, InputChanged, QueryStatus, Refusals
from mluops_gtest.core.operator import CheckVerdict, Operator
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.tensor import Array, Tensor
from mluops_gtest.judging.elementwise_check import Expectation, SecondLook
from mluops_gtest.judging.fingerprint import with_fingerprint
from mluops_gtest.judging.verdict import found_by, judge_untouched, judge_values
from mluops_gtest.running.caller import Caller, Ending, Reply

if TYPE_CHECKING:
    from mluops_gtest.judging.arbitration import Arbiter
    from mluops_gtest.judging.explaining import Explainer


WORKSPACE = "workspace"
# A workspace has no element; kernels put what they like there, aligned as allocators align.
_WORKSPACE_ALIGNMENT = 16
_EMPTY_CALLS = 9
# Copies of large tensors need no more.
_EMPTY_SECONDS = 0.1


class GuardedCall:
    """One call with fresh buffers."""

    def __init__(
        self, case: Case, operator: Operator, expectation: Expectation, caller: Caller, side: Side | None = None
    ) -> None:
        self.case, self.operator, self._expectation = case, operator, expectation
        self._caller, self._side = caller, side
        tensors = [t for t in case.tensors if has_buffer(case, t)]
        sizes = [(t.id, t.desc.nbytes, t.desc.dtype.itemsize) for t in tensors]
        wanted = [Wanted(name, size, item, item) for name, size, item in sizes]
        self._buffers: dict[str, Buffer] = caller.tensors.lay_out(wanted, side)
        self._inputs = {t.id: self._input(t) for t in case.inputs if t.id in self._buffers}
        self.outputs = {t.id: self._output(t) for t in case.outputs if t.id in self._buffers}
        self.workspace_bytes = 0
        # Generous for any right kernel: a minute, and a second more per megabyte of tensors.
        self._timeout = 60.0 + sum(one.size for one in wanted) / 1e6

    def call(self, timeout: float | None) -> Reply:
        """Run, with the workspace that the case dictates, else with the one that the backend asks for."""
        timeout = self._timeout if timeout is None else timeout
        size = self._dictated_workspace()
        if size is None:
            answer = self._caller.begin(self.bound(), timeout)
            if isinstance(answer, Reply):
                return answer
            size = answer
        self.workspace_bytes = size
        if size:
            self._workspace(size)
        return self._caller.run(self.bound(), timeout)

    def again(self, timeout: float | None) -> Reply:
        """Run once more: outputs get their poison back, so that each call has all its work to do."""
        for tensor in self.case.outputs:
            if tensor.id in self._buffers:
                self._output(tensor)
        for tensor in self.case.inputs:
            if tensor.id in self._expectation.tolerated:
                self._input(tensor)
        return self._caller.run(self.bound(), self._timeout if timeout is None else timeout)

    def overhead_ns(self, timeout: float | None) -> int | None:
        """The median of a few calls without the kernel; None where one does not succeed. Behind it comes `again`."""
        timeout = self._timeout if timeout is None else timeout
        import statistics

        seconds: list[float] = []
        while len(seconds) < _EMPTY_CALLS and sum(seconds) < _EMPTY_SECONDS:
            reply = self._caller.run_empty(self.bound(), timeout)
            if reply.status is not Status.SUCCESS:
                return None
            seconds.append(reply.seconds)
        return round(statistics.median(seconds) * 1e9)

    def bound(self) -> OpCall:
        """The call on these buffers, as a backend gets it."""
        workspace = self._buffers[WORKSPACE].data if WORKSPACE in self._buffers else None
        return bind(self.case, self.operator, self._inputs, self.outputs, workspace, self.workspace_bytes)

    def whole_outputs(self) -> dict[str, Array]:
        """The outputs as flat buffers, with what lies between the elements of a strided one."""
        tensors = [tensor for tensor in self.case.outputs if tensor.id in self._buffers]
        return {t.id: self._buffers[t.id].data.view(t.desc.dtype.storage) for t in tensors}

    def violations(self) -> list[Cause]:
        """Writes outside buffers and into inputs."""
        found: list[Cause] = []
        for name, buffer in self._buffers.items():
            overrun = buffer.overrun(name)
            if overrun:
                found.append(overrun)
        for tensor in self.case.inputs:
            if tensor.id in self._buffers:
                offset = self._changed_at(tensor)
                if offset is not None:
                    found.append(InputChanged(tensor.id, offset // tensor.desc.dtype.itemsize))
        return found

    def _changed_at(self, tensor: Tensor) -> int | None:
        """The first byte of an input that is not as it must be; None for one as it was, or as it may become."""
        data = self._buffers[tensor.id].data
        offset = first_difference(data, _bytes_of(tensor))
        tolerated = self._expectation.tolerated.get(tensor.id)
        if offset is None or tolerated is None:
            return offset
        wanted = np.ascontiguousarray(tolerated, tensor.desc.dtype.storage).reshape(-1).view(np.uint8)
        return first_difference(data, wanted)

    def snapshot(self) -> dict[str, bytes]:
        """The owned bytes of every output, to compare repeated runs bit for bit."""
        return {
            name: array[: owned_rows(self.operator.output(name), self._expectation.counts)].tobytes()
            for name, array in self.outputs.items()
        }

    def _input(self, tensor: Tensor) -> Array:
        data = self._buffers[tensor.id].data
        for place, piece in pieces(_bytes_of(tensor)):
            data[place] = piece
        return tensor.desc.view(data.view(tensor.desc.dtype.storage))

    def _output(self, tensor: Tensor) -> Array:
        data, spec = self._buffers[tensor.id].data, self.operator.output(tensor.id)
        fill(data, pattern_of(tensor.desc.dtype, spec.filling))
        array = tensor.desc.view(data.view(tensor.desc.dtype.storage))
        if tensor.id in self._expectation.kept:
            array[self._expectation.kept[tensor.id]] = spec.preset
        return array

    def _dictated_workspace(self) -> int | None:
        """The bytes of workspace that the backend is not asked for: only of a call that computes it is."""
        if self.case.expect.workspace_size is not None:
            return min(self.case.expect.workspace_size, BUFFER_LIMIT)
        if not self.operator.computes(self.case.expect.status, self.case.expect.check):
            return 0
        return None

    def _workspace(self, size: int) -> None:
        # An arena of its own, because its size is asked for when the inputs are in place already.
        wanted = Wanted(WORKSPACE, size, alignment=_WORKSPACE_ALIGNMENT)
        self._buffers |= self._caller.workspace.lay_out([wanted], self._side)
        fill(self._buffers[WORKSPACE].data, np.frombuffer(b"\xa5", np.uint8))


def _bytes_of(tensor: Tensor) -> Array:
    """The tensor's values as bytes; a tensor without values in a case that expects a status is all zero."""
    if tensor.data is None:
        return np.zeros(tensor.desc.nbytes, np.uint8)
    return np.ascontiguousarray(tensor.data).view(np.uint8)


def judge_queries(
    case: Case, operator: Operator, wanted: CheckVerdict, answers: Sequence[QueryAnswer], workspace_bytes: int
) -> tuple[list[Cause], list[str]]:
    """What is wrong with the answers, and what is worth a note; `wanted` and the workspace are the operator's."""
    wrong: list[Cause] = []
    notes = []
    for one in answers:
        words, refuses = f"{one.function} answered {one.status.name}", one.status is not Status.SUCCESS
        if wanted.status is Status.SUCCESS and not one.size_null:
            if refuses:
                wrong.append(Refusals((words,)))
            elif wanted.computes and one.size > workspace_bytes:
                notes.append(f"{one.function} asks for {one.size} bytes, the call has {workspace_bytes}")
            continue
        owed = operator.query_answer(one.function, replace(bind_values(case, operator), size_null=one.size_null))
        if owed is None:
            # An answer like the operator's own is no news, nor is one that a declared query may give.
            if refuses and one.status != wanted.status and one.function not in operator.queries:
                notes.append(words)
        elif one.status != owed.status:
            remark, statuses = "size NULL" * one.size_null, (one.status.name, owed.status.name)
            wrong.append(QueryStatus(*statuses, remark, owed.check or "", owed.message, one.function))
    return wrong, notes


# Of the backend's remarks, in a reason.
_MAX_REMARKS: Final = 4 << 10
# What happened in a call is the backend's to tell; what that means for the case is decided here and nowhere else.
_OUTCOME_OF: Final = {
    Ending.DECLINED: Outcome.SKIPPED,
    Ending.MEMORY: Outcome.MEMORY,
    Ending.CRASHED: Outcome.CRASHED,
    Ending.ERROR: Outcome.ERROR,
    Ending.TIMED_OUT: Outcome.TIMED_OUT,
}


class Task(Value):
    """A case that is ready to be called: what must come back, and the result as far as it is known before."""

    case: Case
    operator: Operator
    expectation: Expectation
    blank: CaseResult
    # None: elements are not looked at one by one.
    look: SecondLook | None = None
    # Under --arbitrate: what disputed elements are exactly, and what a right kernel may make of them.
    elements: Callable[[], ExactElements | None] | None = None
    allowed: SecondLook | None = None


def verdict(
    task: Task, run: GuardedCall, reply: Reply, *, bitwise: bool, is_reference: bool, explain: bool = True
) -> CaseResult:
    """The result of one call: how it ended, then memory, then the status, then what the outputs hold."""
    wanted, expectation = task.expectation.answer, task.expectation
    wrong_queries, on_queries = judge_queries(task.case, task.operator, wanted, reply.queries, run.workspace_bytes)
    left = (f"{what}; its worker was replaced" for what in reply.left)
    notes = (*task.blank.notes, *on_queries, *reply.notes, *left)
    compared = reply.ended not in (Ending.DECLINED, Ending.ERROR)

    def answered(**further: Any) -> CaseResult:
        told = {"status": reply.status, "seconds": reply.seconds, "output": reply.output}
        return replace(task.blank, **{**told, "notes": notes, "compared": compared, **further})

    if reply.ended is not None:
        return answered(outcome=_OUTCOME_OF[reply.ended], causes=reply.causes)
    violations = run.violations()
    if violations:
        return answered(outcome=Outcome.MEMORY, causes=tuple(violations))
    wrong = (*_wrong_status(wanted, reply), *wrong_queries)
    if wrong:
        return answered(outcome=Outcome.WRONG_STATUS, causes=wrong)
    if wanted.computes:
        judgement = judge_values(
            task.case,
            task.operator,
            expectation,
            run.outputs,
            reply.scalars,
            bitwise=bitwise,
            look=task.look,
            explainer=cache(lambda: _explainer(task)) if explain else None,
            arbiter=None if task.elements is None else cache(lambda: _arbiter(task)),
        )
    else:
        judgement = judge_untouched(task.case, task.operator, run.whole_outputs(), wanted)
        if wanted.status == Status.SUCCESS:
            judgement.compare_scalars(expectation.results, reply.scalars)
    if expectation.recomputed:
        judgement.notes.append("baseline recomputed with the reference (device CPU)")
        if is_reference:
            judgement.suspicions.append(cause.ComparedWithItself())
    found = with_fingerprint(answered(**found_by(judgement, notes)))
    if not judgement.arbitrated:
        return found
    from mluops_gtest.judging.arbitration import with_arbitration

    return with_arbitration(found, judgement.arbitrated, ours=_is_ours(task))


def _explainer(task: Task) -> "Explainer":
    # Late: a run that passes never loads what explains failures.
    from mluops_gtest.judging.explaining import Explainer

    return Explainer(task.case, task.operator, task.look)


def _arbiter(task: Task) -> "Arbiter | None":
    # Late, like the explainer.
    from mluops_gtest.judging.arbitration import Arbiter

    elements = None if task.elements is None else task.elements()
    if elements is None:
        return None
    return Arbiter(task.case, task.operator, task.allowed, elements, ours=_is_ours(task))


def _is_ours(task: Task) -> bool:
    """The reference answers for the baseline."""
    return task.case.declared or task.expectation.recomputed


def _wrong_status(wanted: CheckVerdict, reply: Reply) -> Iterator[cause.Cause]:
    """Why the operator's status is not the expected one; nothing where it is."""
    assert reply.status is not None, "a reply has a status or an ending"
    if reply.status != wanted.status:
        remarks = cut_text("; ".join(reply.notes), _MAX_REMARKS)
        yield cause.WrongStatus(reply.status.name, wanted.status.name, remarks, wanted.check or "", wanted.message)
    elif wanted.status == Status.SUCCESS and reply.refusals:
        yield cause.Refusals(reply.refusals)
