"""A case in the few words that a report needs.

What a call left in its outputs, for those who look at values; judged anew where they come from a file.

`run --save-outputs`: the outputs of cases beside their results, without ever costing the run.
"""

import shlex
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from mluops_gtest.base.errors import UnwritableError
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import pluralize
from mluops_gtest.core.binding import owned_rows
from mluops_gtest.core.case import Case
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseInfo, CaseResult, TensorInfo
from mluops_gtest.core.tensor import Array, Criterion, Tensor
from mluops_gtest.judging.elementwise_check import Expectation, expectation_of
from mluops_gtest.judging.verdict import judge_values, judged, wanted_criteria
from mluops_gtest.results.folder import OUTPUTS
from mluops_gtest.results.saved_outputs import save_outputs
from mluops_gtest.running.options import Which

# A long list of numbers tells a reader nothing; its head and length do.
_MAX_VALUES = 32


def case_info(case: Case) -> CaseInfo:
    """Descriptors, parameters and theoretical figures of the case."""
    return CaseInfo(
        inputs=_described(case.inputs),
        outputs=_described(case.outputs),
        params={name: _plain(value) for name, value in case.params.items()},
        doc=case.doc,
        theory_io_bytes=case.theory.get("theory_io_size"),
        theory_ops=case.theory.get("theory_compute_ops"),
        check=case.expect.check or "",
        reseeded=case.reseeded,
    )


def outputs_with_own_criteria(case: Case, operator: Operator) -> tuple[str, ...]:
    """The float outputs for which the case names other criteria than the operator's."""
    return tuple(
        tensor.id
        for tensor, criteria in zip(case.outputs, case.criteria, strict=True)
        if criteria
        and not tensor.desc.dtype.is_integer
        and criteria != operator.output(tensor.id).criteria.get(tensor.desc.dtype)
    )


def _described(tensors: Iterable[Tensor]) -> tuple[TensorInfo, ...]:
    return tuple(TensorInfo(t.id, t.desc.dtype.value, t.desc.layout.value, t.desc.dims) for t in tensors)


def _plain(value: object) -> object:
    if not isinstance(value, tuple):
        return value
    if len(value) <= _MAX_VALUES:
        return list(value)
    return f"{list(value[:_MAX_VALUES])} and {len(value) - _MAX_VALUES} more"


class OutputPair(Value):
    """An output that is compared: the rows that the operator owns, as the backend left them and as they must be."""

    tensor: Tensor
    criteria: tuple[Criterion, ...]
    got: Array
    expected: Array


class CaseOutputs(Value):
    """One call that answered: the verdict on it and the outputs as the backend left them, by name."""

    case: Case
    operator: Operator
    expectation: Expectation
    result: CaseResult
    arrays: Mapping[str, Array]
    scalars: Mapping[str, int]

    def pairs(self) -> tuple[OutputPair, ...]:
        """Every output that is compared, in order."""
        found = []
        for tensor, criteria in zip(self.expectation.outputs, self.case.criteria, strict=True):
            if criteria is None or tensor.desc.is_empty:
                continue
            spec = self.operator.output(tensor.id)
            wanted = wanted_criteria(tensor.desc.dtype, criteria, spec, recomputed=self.expectation.recomputed)
            rows = owned_rows(spec, self.expectation.counts)
            found.append(OutputPair(tensor, wanted, self.arrays[tensor.id][:rows], tensor.values[:rows]))
        return tuple(found)


# Called while the outputs are still in their buffers; copy what is needed longer.
OutputKeeper = Callable[[CaseOutputs], None]


def judged_again(
    case: Case, operator: Operator, arrays: Mapping[str, Array], scalars: Mapping[str, int]
) -> CaseOutputs:
    """The verdict on the values of an earlier call."""
    expectation = expectation_of(case, operator)
    status = expectation.answer.status
    blank = CaseResult(case.id, case.operator, case.tags, Outcome.SKIPPED, status, status, info=case_info(case))
    judgement = judge_values(case, operator, expectation, arrays, scalars, bitwise=False)
    return CaseOutputs(case, operator, expectation, judged(blank, judgement), arrays, scalars)


class OutputSaver:
    """Writes outputs as the run goes on; from what cannot be written on, it only remembers why."""

    def __init__(self, folder: Path, which: Which) -> None:
        self._folder, self._which = folder, which
        # Lanes save side by side; what they write are files of different cases.
        self._lock = threading.Lock()
        self._sizes: dict[str, int] = {}
        # A case is tried again only after a failure, and its result shows the first one.
        self._failed: set[str] = set()
        self.trouble: UnwritableError | None = None

    def __call__(self, outputs: CaseOutputs) -> None:
        """Save the outputs of one call where they are asked for."""
        case, failed = outputs.case, outputs.result.outcome.blocks
        if self.trouble is not None or case.id in self._failed or not (failed or self._which == "all"):
            return
        try:
            size = save_outputs(self._folder, case, outputs.arrays, outputs.scalars)
        except UnwritableError as error:
            self.trouble = error
            return
        with self._lock:
            self._sizes[case.id] = size
            if failed:
                self._failed.add(case.id)

    def words(self) -> str:
        """What is there, how large it is, and how to look at it; empty where nothing was saved."""
        if not self._sizes:
            return ""
        cases = pluralize(len(self._sizes), "case")
        look = shlex.join(["mluops-test", "diff", min(self._sizes), "--from", str(self._folder)])
        total = size_words(sum(self._sizes.values()))
        return f"Outputs of {cases} ({total}): {self._folder / OUTPUTS}; to look at one: {look}"


def size_words(size: float) -> str:
    """Bytes in the unit that suits."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
