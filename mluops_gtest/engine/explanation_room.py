"""How much explanations may take in the files of a run; what is over keeps its cause and loses what illustrates it."""

from typing import Final

import msgspec
from msgspec.structs import replace

from mluops_gtest.model.explanation import Explanation
from mluops_gtest.model.result import CaseResult

_MAX_CASE: Final = 16 << 10
_MAX_RUN: Final = 50 << 20


class ExplanationRoom:
    """The room that is left in one run."""

    def __init__(self, of_run: int = _MAX_RUN, of_case: int = _MAX_CASE) -> None:
        self._left, self._of_case = of_run, of_case

    def kept(self, result: CaseResult) -> CaseResult:
        """The result with as much of its explanations as there is room for."""
        kept = result.explained
        if not kept:
            return result
        for less in (_without_samples, _without_map, _told_alone, _first_output, _nothing):
            if _size(kept) <= min(self._of_case, self._left):
                break
            kept = less(kept)
        self._left -= _size(kept)
        return replace(result, explained=kept)


def _size(explained: tuple[Explanation, ...]) -> int:
    return len(msgspec.json.encode(explained)) if explained else 0


def _without_samples(explained: tuple[Explanation, ...]) -> tuple[Explanation, ...]:
    return tuple(msgspec.structs.replace(one, samples=()) for one in explained)


def _without_map(explained: tuple[Explanation, ...]) -> tuple[Explanation, ...]:
    return tuple(msgspec.structs.replace(one, map=None) for one in explained)


def _told_alone(explained: tuple[Explanation, ...]) -> tuple[Explanation, ...]:
    """Without the laws and sets that hold besides what is told."""
    return tuple(
        msgspec.structs.replace(one, fitted=(msgspec.structs.replace(one.told, also=()),)) for one in explained
    )


def _first_output(explained: tuple[Explanation, ...]) -> tuple[Explanation, ...]:
    return explained[:1]


def _nothing(explained: tuple[Explanation, ...]) -> tuple[Explanation, ...]:  # noqa: ARG001
    """The causes of the result say what is wrong without it."""
    return ()
