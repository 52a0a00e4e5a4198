"""What one call of a case came to: by its reply, by what it left in memory, by its values."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from mluops_gtest.engine.expectation import Expectation
from mluops_gtest.engine.fingerprint import fingerprinted
from mluops_gtest.engine.guarded_call import GuardedCall
from mluops_gtest.engine.judge import judge_untouched, judge_values
from mluops_gtest.engine.judgement import found_by
from mluops_gtest.engine.reply import Ending, Reply
from mluops_gtest.engine.second_look import SecondLook
from mluops_gtest.model import cause
from mluops_gtest.model.binding import bind_values
from mluops_gtest.model.call import QueryAnswer
from mluops_gtest.model.case import Case
from mluops_gtest.model.cause import Cause, QueryStatus, Refusals
from mluops_gtest.model.exact_element import ExactElements
from mluops_gtest.model.notes import cut_text
from mluops_gtest.model.operator import CheckVerdict, Operator
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.model.status import Status
from mluops_gtest.value import Value

if TYPE_CHECKING:
    from mluops_gtest.engine.arbitration import Arbiter
    from mluops_gtest.engine.explaining import Explainer


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
    found = fingerprinted(answered(**found_by(judgement, notes)))
    if not judgement.arbitrated:
        return found
    from mluops_gtest.engine.arbitration import with_arbitration

    return with_arbitration(found, judgement.arbitrated, ours=_is_ours(task))


def _explainer(task: Task) -> "Explainer":
    # Late: a run that passes never loads what explains failures.
    from mluops_gtest.engine.explaining import Explainer

    return Explainer(task.case, task.operator, task.look)


def _arbiter(task: Task) -> "Arbiter | None":
    # Late, like the explainer.
    from mluops_gtest.engine.arbitration import Arbiter

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
