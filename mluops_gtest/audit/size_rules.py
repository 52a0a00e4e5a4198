"""Rules on declared sizes: a case that is there for a size has it, and its ends count."""

from typing import Final

from msgspec.structs import replace

from mluops_gtest.audit.finding import Problem, Problems
from mluops_gtest.audit.subject import Subject, judged
from mluops_gtest.model.binding import bind_values
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.case import Case, CaseDraft
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.model.sized_axis import SizedAxis
from mluops_gtest.model.source_place import source_of
from mluops_gtest.model.status import Status

_REMEDY: Final = "Let the recipe draw data in which the first and the last index decide something."


def sizes_live(subject: Subject) -> Problems:
    """A case declared for a size has it, and an implementation that loses the first or the last index is told wrong."""
    declared = [draft for draft in subject.drafts if draft.sizes]
    used = {name for draft in declared for name in draft.sizes}
    if not subject.operator.sizes:
        yield Problem(
            str(subject.generator),
            "no size is declared, so nothing shows that the ends of any axis count",
            'Give the operator `sizes={"rows": SizedAxis(TENSOR, AXIS)}`, and cases of that size `sizes: {rows: N}`.',
        )
    for name in subject.operator.sizes:
        if name not in used:
            yield Problem(
                str(subject.generator),
                f"no case is declared for a size of {name!r}",
                f"Write `sizes: {{{name}: N}}` in the cases that are there for that size, or remove it.",
            )
    for draft in declared:
        yield from _inert_ends(subject, draft, subject.load(draft.id))


def _inert_ends(subject: Subject, draft: CaseDraft, case: Case) -> Problems:
    """Declared sizes that the case does not have, and ends that a kernel may lose unseen."""
    operator = subject.operator
    if "undefined" in case.tags or not operator.computes(case.expect.status, case.expect.check):
        yield Problem(draft.where, f"{case.id} computes nothing that a size could change", "Remove `sizes`.")
        return
    call = bind_values(case, operator)
    for name, wanted in draft.sizes.items():
        axis = operator.sizes[name]
        size = axis.size(call)
        if size != wanted:
            yield Problem(
                draft.where, f"{case.id} is declared for {name} {wanted}, but has {size}", "Correct sizes or data."
            )
            continue
        for index in dict.fromkeys((0, size - 1)):
            result, status = _without(axis, index, case, operator)
            if status is not Status.SUCCESS or result.outcome not in (Outcome.PASSED, Outcome.FAILED):
                yield Problem(
                    source_of(axis.without) if axis.without is not None else str(subject.generator),
                    f"{case.id}: the kernel cannot be run without index {index} of {name}: {result.reason}",
                    "Let `without` of the SizedAxis give inputs that a valid call may have.",
                )
            elif result.outcome is Outcome.PASSED and not _has_elements_beyond(axis, index, case, operator):
                yield Problem(
                    draft.where,
                    f"{case.id}: an implementation that loses index {index} of {name}, one of {size}, passes",
                    _REMEDY,
                )


def _has_elements_beyond(axis: SizedAxis, index: int, case: Case, operator: Operator) -> bool:
    """Some elements lie beyond what any order of operations explains: norms are blind at large sizes."""
    result, _ = _without(axis, index, case, operator, each_element=True)
    return any(reading.beyond for reading in result.elements)


def _without(
    axis: SizedAxis, index: int, case: Case, operator: Operator, *, each_element: bool = False
) -> tuple[CaseResult, Status | None]:
    """The verdict on the kernel that loses one index, and the status that it answers, None if it raises."""
    status: Status | None = None

    def run(call: OpCall) -> Status:
        nonlocal status
        lost = axis.lost(call, index)
        for name, array in lost.items():
            given = call.array(name)
            if (array.shape, array.dtype) != (given.shape, given.dtype):
                raise ValueError(f"{name} is {array.dtype} {list(array.shape)}, not {given.dtype} {list(given.shape)}")
        others = {name: replace(call.tensor(name), array=array) for name, array in lost.items()}
        status = operator.kernel(replace(call, inputs={**call.inputs, **others}))
        if axis.without is None and axis.tensor in call.outputs:
            # What is skipped stays as the caller preset it, or as a kernel leaves it that clears its output first.
            axis.cut(call.array(axis.tensor), index)[...] = operator.output(axis.tensor).preset or 0
        return status

    return judged(f"without index {index}", run, case, operator, each_element=each_element), status
