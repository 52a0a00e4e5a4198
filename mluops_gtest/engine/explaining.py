"""Where and how the outputs of a case are wrong, found while the values are there; a verdict never depends on it."""

from typing import Final

import numpy as np

from mluops_gtest.criteria import beyond_tolerance
from mluops_gtest.criteria.elements import value_text, widened
from mluops_gtest.engine.second_look import SecondLook
from mluops_gtest.engine.suspects import Suspects
from mluops_gtest.explain.output import explained
from mluops_gtest.explain.wrong_output import MAX_SEARCHED, HeldTo, WrongOutput
from mluops_gtest.model.case import Case
from mluops_gtest.model.dtypes import Array, DType
from mluops_gtest.model.explanation import (
    Explanation,
    Fitted,
    Law,
    OffBy,
    TurnedConstant,
    TurnedZero,
    Where,
    WrongSample,
)
from mluops_gtest.model.numbers import short
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.tensor import Tensor

# Integers that float64 holds.
MAX_EXACT: Final = 1 << 53
# The unit in the last place of 1.
_EPSILON: Final = {DType.HALF: 2.0**-10, DType.BFLOAT16: 2.0**-7, DType.FLOAT: 2.0**-23, DType.DOUBLE: 2.0**-52}


class Explainer:
    """Explains the outputs of one case that fail."""

    def __init__(self, case: Case, operator: Operator, look: SecondLook | None) -> None:
        self._operator, self._look = operator, look
        self._suspects = Suspects(case, operator)

    @property
    def slips(self) -> tuple[str, ...]:
        """Mistakes in what the operator suspects, found on the way, with file and line."""
        return tuple(self._suspects.slips)

    def unwritten(
        self, tensor: Tensor, evaluated: Array, baseline: Array, places: Array, kept: Array | None
    ) -> Explanation:
        """An output of which elements were never written; `kept` are those, by the leading axes, that may be."""
        if kept is not None:
            kept = kept.reshape(kept.shape + (1,) * (evaluated.ndim - kept.ndim))
            kept = np.broadcast_to(kept[: len(evaluated)], evaluated.shape)
        return self._explained(tensor, evaluated, baseline, _mask(places, evaluated.shape), "written", None, kept)

    def differing(self, tensor: Tensor, evaluated: Array, baseline: Array, threshold: float) -> Explanation | None:
        """An output that differs; `threshold` is what one element is held to where no bound is declared."""
        beyond = None if self._look is None else self._look.beyond(tensor, evaluated, baseline)
        if self._look is not None and beyond is not None and beyond.size:
            small = evaluated.size <= MAX_SEARCHED
            allowed = self._look.allowed(tensor, evaluated, baseline) if small else None
            return self._explained(tensor, evaluated, baseline, _mask(beyond, evaluated.shape), "bound", allowed)
        tolerances: tuple[tuple[HeldTo, float], ...] = (("tolerance", threshold), ("equality", 0.0))
        for held_to, tolerance in tolerances[threshold <= 0 :]:
            wrong = beyond_tolerance(evaluated, baseline, tensor.desc.dtype, tolerance)
            if wrong.any():
                return self._explained(tensor, evaluated, baseline, wrong, held_to, None)
        return None

    def _explained(
        self,
        tensor: Tensor,
        evaluated: Array,
        baseline: Array,
        wrong: Array,
        held_to: HeldTo,
        allowed: Array | None,
        kept: Array | None = None,
    ) -> Explanation:
        dtype, spec = tensor.desc.dtype, self._operator.output(tensor.id)
        out = WrongOutput(
            widened(evaluated, dtype),
            widened(baseline, dtype),
            wrong,
            held_to,
            allowed,
            _EPSILON.get(dtype, 0.0),
            spec.filling,
            kept,
        )

        def text(index: tuple[int, ...]) -> tuple[str, str]:
            return value_text(evaluated[index], dtype), value_text(baseline[index], dtype)

        named, recomputed = self._suspects.of(tensor, out)
        return explained(out, tensor.id, text, named, recomputed)


def _mask(places: Array, shape: tuple[int, ...]) -> Array:
    mask = np.zeros(shape, bool)
    mask.reshape(-1)[places] = True
    return mask


def scalar_explained(name: str, got: int, expected: int) -> Explanation:
    """A result that is no tensor: by how much it is off, as far as numbers in files go."""
    far = abs(got - expected) > MAX_EXACT
    laws: list[Law] = [] if far else [OffBy(float(got - expected)), TurnedConstant(str(got))]
    laws = [TurnedZero(), *laws] if got == 0 else laws
    fitted = [Fitted(law, Where(), lawful=1) for law in (*laws, None)]
    sample = WrongSample((), short(got), short(expected))
    return Explanation(name, (), 1, "equality", tuple(fitted), samples=(sample,))
