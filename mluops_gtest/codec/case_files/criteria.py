"""The criteria of a case in its file: the older test_param, shared thresholds, or thresholds per output."""

import math
from collections.abc import Iterable
from typing import Any, Final

from mluops_gtest.codec.schema.schema import Document
from mluops_gtest.errors import CaseFileError, ContentError
from mluops_gtest.model.criterion import Criterion, CriterionKind

Criteria = tuple[Criterion, ...]

_KINDS: Final = {kind.schema_number: kind for kind in CriterionKind}


def read_criteria(document: Document) -> tuple[Criteria | None, ...]:
    """The criteria of each output; empty if the file has none, None if the file says not to compare it."""
    node = document.node
    test_param = node.test_param
    if len(test_param.error_func) or len(test_param.error_threshold):
        shared = _criteria(test_param.error_func, test_param.error_threshold, "test_param: error_func")
        return tuple(None if _unused(output.message) else shared for output in document.outputs)
    kinds = node.evaluation_criterion
    if len(node.evaluation_threshold):
        shared = _criteria(kinds, node.evaluation_threshold, "evaluation_criterion")
        return tuple(None if _unused(output.message) else shared for output in document.outputs)
    if not len(kinds) and not any(len(_thresholds(output.message)) for output in document.outputs):
        return tuple(None if _unused(output.message) else () for output in document.outputs)
    return tuple(
        None
        if _unused(output.message)
        else _criteria(kinds, _thresholds(output.message), f"output {index}: evaluation_criterion")
        for index, output in enumerate(document.outputs)
    )


def _unused(message: Any) -> bool:
    return bool(message.HasField("threshold_use") and message.threshold_use == 0)


def _thresholds(message: Any) -> Any:
    return message.thresholds.evaluation_threshold


def _criteria(kinds: Any, thresholds: Any, what: str) -> Criteria:
    if len(kinds) != len(thresholds):
        raise CaseFileError(f"{what} names {len(kinds)} criteria, but there are {len(thresholds)} thresholds for them")
    return tuple(Criterion(_KINDS[kind], threshold) for kind, threshold in zip(kinds, thresholds, strict=True))


def check_judgeable(criteria: Iterable[Criteria | None]) -> None:
    """An error for a criterion that cannot decide anything: a name without formula, a threshold that bounds nothing."""
    for criterion in {criterion for items in criteria for criterion in items or ()}:
        if not criterion.kind.has_formula:
            known = ", ".join(kind.name for kind in CriterionKind if kind.has_formula)
            raise CaseFileError(f"the criterion {criterion.kind.name} has no formula; name one of {known}")
        if not 0 <= criterion.threshold < math.inf:
            raise CaseFileError(f"the threshold {criterion.threshold} of {criterion.kind.name} must be finite and ≥ 0")


def write_criteria(criteria: Iterable[Criteria | None], document: Document) -> None:
    """Shared thresholds where all outputs have the same, else thresholds per output."""
    per_output = _alike(tuple(criteria))
    compared = [items for items in per_output if items is not None]
    for items, output in zip(per_output, document.outputs, strict=True):
        if items is None:
            output.message.threshold_use = 0
    if not any(compared):
        return
    document.node.evaluation_criterion.extend(criterion.kind.schema_number for criterion in compared[0])
    if len(set(compared)) == 1:
        document.node.evaluation_threshold.extend(criterion.threshold for criterion in compared[0])
        return
    for items, output in zip(per_output, document.outputs, strict=True):
        if items is not None:
            _thresholds(output.message).extend(criterion.threshold for criterion in items)


def _alike(criteria: tuple[Criteria | None, ...]) -> tuple[Criteria | None, ...]:
    """The same kinds for every output, because the format has one list of them.

    An output that must be exact says so by a threshold of 0 whatever the kind.
    """
    given = [items for items in criteria if items is not None]
    if not any(given):
        return criteria
    tolerant = [items for items in given if any(criterion.threshold for criterion in items)]
    kinds = {tuple(criterion.kind for criterion in items) for items in tolerant or given[:1]}
    if len(kinds) > 1 or not all(given):
        raise ContentError(
            "The case format has one list of criteria for all outputs; give them the same, in one order."
        )
    (common,) = kinds
    zero = tuple(Criterion(kind, 0.0) for kind in common)
    return tuple(zero if items and items not in tolerant else items for items in criteria)
