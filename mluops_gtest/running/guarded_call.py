"""One call of a case on buffers that the harness owns: filled before, judged after by memory, status and values."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.base.files import pieces
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import cut_text
from mluops_gtest.core import cause
from mluops_gtest.core.buffers import (
    Buffer,
    BufferSpec,
    Side,
    bind,
    bind_values,
    fill,
    first_difference,
    gaps_touched,
    has_buffer,
    owned_rows,
    pattern_of,
)
from mluops_gtest.core.call import ExactElements, OpCall, QueryAnswer, Status
from mluops_gtest.core.case import BUFFER_LIMIT, Case
from mluops_gtest.core.cause import Cause
from mluops_gtest.core.declaration import CheckVerdict
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.tensor import Array, Tensor
from mluops_gtest.judging.elementwise import ElementwiseCheck, Expectation
from mluops_gtest.judging.fingerprint import with_fingerprint
from mluops_gtest.judging.verdict import judge_untouched, judge_values, result_fields
from mluops_gtest.running.caller import Caller, Ending, Reply

if TYPE_CHECKING:
    from mluops_gtest.judging.arbitration import Arbiter
    from mluops_gtest.judging.explaining import Explainer


WORKSPACE: Final = "workspace"
# A workspace has no element; kernels put what they like there, aligned as allocators align.
_WORKSPACE_ALIGNMENT: Final = 16
_EMPTY_CALLS: Final = 9
# Copies of large tensors need no more.
_EMPTY_SECONDS: Final = 0.1
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
    draft: CaseResult
    # None: elements are not looked at one by one.
    elementwise: ElementwiseCheck | None = None
    # Under --arbitrate: what disputed elements are exactly, and what a right kernel may make of them.
    elements: Callable[[], ExactElements | None] | None = None
    allowed: ElementwiseCheck | None = None


class GuardedCall:
    """One call with fresh buffers."""

    def __init__(self, task: Task, caller: Caller, side: Side | None = None) -> None:
        self._case, self._operator, self._expectation = task.case, task.operator, task.expectation
        self._caller, self._side = caller, side
        case = task.case
        tensors = [tensor for tensor in case.tensors if has_buffer(case, tensor)]
        specs = [BufferSpec(t.id, t.desc.nbytes, t.desc.dtype.itemsize, t.desc.dtype.itemsize) for t in tensors]
        self._buffers: dict[str, Buffer] = caller.tensors.allocate(specs, side)
        self._inputs = {t.id: self._fill_input(t) for t in case.inputs if t.id in self._buffers}
        self.outputs = {t.id: self._poison_output(t) for t in case.outputs if t.id in self._buffers}
        self.workspace_bytes = 0
        # Generous for any right kernel: a minute, and a second more per megabyte of tensors.
        self._timeout = 60.0 + sum(spec.size for spec in specs) / 1e6
        # The call on these buffers, as a backend gets it.
        self.call = self._bind()

    def run(self, timeout: float | None) -> Reply:
        """Make the call, with the workspace that the case dictates, else with the one that the backend asks for."""
        timeout = self._timeout if timeout is None else timeout
        size = self._dictated_workspace()
        if size is None:
            reply = self._caller.request("begin", self.call, timeout)
            if reply.workspace is None:
                return reply
            size = reply.workspace
        if size:
            self._add_workspace(size)
        return self._caller.request("run", self.call, timeout)

    def run_again(self, timeout: float | None) -> Reply:
        """Make it once more: outputs get their poison back, so that each call has all its work to do."""
        for tensor in self._case.outputs:
            if tensor.id in self._buffers:
                self._poison_output(tensor)
        for tensor in self._case.inputs:
            if tensor.id in self._expectation.allowed_input_changes:
                self._fill_input(tensor)
        self.call = self._bind()
        return self._caller.request("run", self.call, self._timeout if timeout is None else timeout)

    def overhead_ns(self, timeout: float | None) -> int | None:
        """The median of a few calls without the kernel; None where one does not succeed. `run_again` follows it."""
        timeout = self._timeout if timeout is None else timeout
        seconds: list[float] = []
        while len(seconds) < _EMPTY_CALLS and sum(seconds) < _EMPTY_SECONDS:
            self.call = self._bind()
            reply = self._caller.request("run empty", self.call, timeout)
            if reply.status is not Status.SUCCESS:
                return None
            seconds.append(reply.seconds)
        return round(median(seconds) * 1e9)

    def whole_outputs(self) -> dict[str, Array]:
        """The outputs as flat buffers, with what lies between the elements of a strided one."""
        tensors = [tensor for tensor in self._case.outputs if tensor.id in self._buffers]
        return {t.id: self._buffers[t.id].data.view(t.desc.dtype.storage) for t in tensors}

    def violations(self) -> list[Cause]:
        """Writes outside buffers and into inputs."""
        overruns = [buffer.overrun(name) for name, buffer in self._buffers.items()]
        changes = [self._input_change(tensor) for tensor in self._case.inputs if tensor.id in self._buffers]
        gaps = [self._gap_written(tensor) for tensor in self._case.outputs if tensor.id in self._buffers]
        return [violation for violation in (*overruns, *changes, *gaps) if violation is not None]

    def _gap_written(self, tensor: Tensor) -> cause.GapWritten | None:
        """What lies between the elements of a strided output and is not as before; a call that computes nothing is held
        to all of the buffer elsewhere."""
        if not (tensor.desc.is_strided and self._expectation.answer.computes):
            return None
        pattern = pattern_of(tensor.desc.dtype, self._operator.output(tensor.id).filling)
        places = gaps_touched(self._buffers[tensor.id].data, tensor.desc, pattern)
        return cause.GapWritten(tensor.id, len(places), int(places[0])) if len(places) else None

    def _input_change(self, tensor: Tensor) -> cause.InputChanged | None:
        """The first element of an input that is not as it must be; None for one as it was, or as it may become."""
        data, dtype = self._buffers[tensor.id].data, tensor.desc.dtype
        offset = first_difference(data, _bytes_of(tensor))
        allowed = self._expectation.allowed_input_changes.get(tensor.id)
        if offset is not None and allowed is not None:
            offset = first_difference(data, np.ascontiguousarray(allowed, dtype.storage).reshape(-1).view(np.uint8))
        return None if offset is None else cause.InputChanged(tensor.id, offset // dtype.itemsize)

    def snapshot(self) -> dict[str, bytes]:
        """The owned bytes of every output, to compare repeated runs bit for bit."""
        return {
            name: array[: owned_rows(self._operator.output(name), self._expectation.counts)].tobytes()
            for name, array in self.outputs.items()
        }

    def _bind(self) -> OpCall:
        workspace = self._buffers[WORKSPACE].data if WORKSPACE in self._buffers else None
        return bind(self._case, self._operator, self._inputs, self.outputs, workspace, self.workspace_bytes)

    def _fill_input(self, tensor: Tensor) -> Array:
        data = self._buffers[tensor.id].data
        for place, piece in pieces(_bytes_of(tensor)):
            data[place] = piece
        return tensor.desc.view(data.view(tensor.desc.dtype.storage))

    def _poison_output(self, tensor: Tensor) -> Array:
        data, spec = self._buffers[tensor.id].data, self._operator.output(tensor.id)
        fill(data, pattern_of(tensor.desc.dtype, spec.filling))
        array = tensor.desc.view(data.view(tensor.desc.dtype.storage))
        held, rows = self._case.initial_content(tensor.id), self._expectation.preserved_rows.get(tensor.id)
        if held is not None and held.data is not None:
            places = slice(None) if rows is None else rows
            array[places] = held.values[places]
        elif rows is not None:
            array[rows] = spec.preset
        return array

    def _dictated_workspace(self) -> int | None:
        """The bytes of workspace that the backend is not asked for: only of a call that computes it is."""
        if self._case.expect.workspace_size is not None:
            return min(self._case.expect.workspace_size, BUFFER_LIMIT)
        return None if self._operator.computes(self._case.expect.status, self._case.expect.check) else 0

    def _add_workspace(self, size: int) -> None:
        # An arena of its own, because its size is asked for when the inputs are in place already.
        spec = BufferSpec(WORKSPACE, size, alignment=_WORKSPACE_ALIGNMENT)
        self._buffers |= self._caller.workspace.allocate([spec], self._side)
        fill(self._buffers[WORKSPACE].data, np.frombuffer(b"\xa5", np.uint8))
        self.workspace_bytes = size
        self.call = self._bind()


def _bytes_of(tensor: Tensor) -> Array:
    """The tensor's values as bytes; a tensor without values in a case that expects a status is all zero."""
    if tensor.data is None:
        return np.zeros(tensor.desc.nbytes, np.uint8)
    return np.ascontiguousarray(tensor.data).view(np.uint8)


def judge(
    task: Task, call: GuardedCall, reply: Reply, *, bitwise: bool, is_reference: bool, explain: bool = True
) -> CaseResult:
    """The result of one call: how it ended, then memory, then the status, then what the outputs hold."""
    expectation, expected = task.expectation, task.expectation.answer
    wrong_queries, on_queries = judge_queries(task.case, task.operator, expected, reply.queries, call.workspace_bytes)
    # What a call did to float or process state: put back, or its worker was replaced.
    effects = (f"{what}; its worker was replaced" for what in reply.side_effects)
    notes = (*task.draft.notes, *on_queries, *reply.notes, *effects)
    compared = reply.ended not in (Ending.DECLINED, Ending.ERROR)
    known = {"status": reply.status, "seconds": reply.seconds, "output": reply.output, "compared": compared}
    draft = replace(task.draft, notes=notes, **known)
    if reply.ended is not None:
        return replace(draft, outcome=_OUTCOME_OF[reply.ended], causes=reply.causes)
    if violations := call.violations():
        return replace(draft, outcome=Outcome.MEMORY, causes=tuple(violations))
    if wrong := (*_wrong_status(expected, reply), *wrong_queries):
        return replace(draft, outcome=Outcome.WRONG_STATUS, causes=wrong)
    if expected.computes:
        judgement = judge_values(
            task.case,
            task.operator,
            expectation,
            call.outputs,
            reply.scalars,
            bitwise=bitwise,
            elementwise=task.elementwise,
            explainer=cache(partial(_explainer, task)) if explain else None,
            arbiter=None if task.elements is None else cache(partial(_arbiter, task)),
        )
    else:
        judgement = judge_untouched(task.case, task.operator, call.whole_outputs(), expected)
        if expected.status == Status.SUCCESS:
            judgement.compare_scalars(expectation.results, reply.scalars)
    if expectation.recomputed:
        judgement.notes.append("baseline recomputed with the reference (device CPU)")
        if is_reference:
            judgement.suspicions.append(cause.ComparedWithItself())
    result = replace(draft, **result_fields(judgement, notes))
    if result.outcome is Outcome.PASSED and not judgement.arbitrated:
        return result
    result = with_fingerprint(result)
    if not judgement.arbitrated:
        return result
    from mluops_gtest.judging.arbitration import with_arbitration

    return with_arbitration(result, judgement.arbitrated, ours=_is_ours(task))


def judge_queries(
    case: Case, operator: Operator, expected: CheckVerdict, answers: Sequence[QueryAnswer], workspace_bytes: int
) -> tuple[list[Cause], list[str]]:
    """What is wrong with the answers, and what is worth a note; `expected` and the workspace are the operator's."""
    wrong: list[Cause] = []
    notes = []
    for one in answers:
        words, refuses = f"{one.function} answered {one.status.name}", one.status is not Status.SUCCESS
        owed = operator.query_answer(one.declared_name, replace(bind_values(case, operator), size_null=one.size_null))
        # A query may have checks that the operator does not make.
        if expected.status is Status.SUCCESS and (owed is None or owed.status is Status.SUCCESS) and not one.size_null:
            if refuses:
                wrong.append(cause.Refusals((words,)))
            elif expected.computes and one.size > workspace_bytes:
                notes.append(f"{one.function} asks for {one.size} bytes, the call has {workspace_bytes}")
            continue
        if owed is None:
            # An answer like the operator's own is no news, nor is one that a declared query may give.
            if refuses and one.status != expected.status and one.declared_name not in operator.queries:
                notes.append(words)
        elif one.status != owed.status:
            remark, statuses = "size NULL" * one.size_null, (one.status.name, owed.status.name)
            wrong.append(cause.QueryStatus(*statuses, remark, owed.check or "", owed.message, one.function))
    return wrong, notes


def _wrong_status(expected: CheckVerdict, reply: Reply) -> Iterator[Cause]:
    """Why the operator's status is not the expected one; nothing where it is."""
    assert reply.status is not None, "a reply has a status or an ending"
    if reply.status != expected.status:
        remarks = cut_text("; ".join(reply.notes), _MAX_REMARKS)
        names = reply.status.name, expected.status.name
        yield cause.WrongStatus(*names, remarks, expected.check or "", expected.message)
    elif expected.status == Status.SUCCESS and reply.refusals:
        yield cause.Refusals(reply.refusals)


def _explainer(task: Task) -> "Explainer":
    # Late: a run that passes never loads what explains failures.
    from mluops_gtest.judging.explaining import Explainer

    return Explainer(task.case, task.operator, task.elementwise)


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
