"""One call of a case on buffers that the harness owns: filled before, looked at after."""

import numpy as np

from mluops_gtest.engine.buffers import Buffer, Side, Wanted, fill, first_difference, pattern_of
from mluops_gtest.engine.caller import Caller
from mluops_gtest.engine.expectation import Expectation
from mluops_gtest.engine.reply import Reply
from mluops_gtest.files.mapped import pieces
from mluops_gtest.model.binding import bind, has_buffer, owned_rows
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.case import BUFFER_LIMIT, Case
from mluops_gtest.model.cause import Cause, InputChanged
from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.status import Status
from mluops_gtest.model.tensor import Tensor

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
