"""A call that is made up: a check that answers it has asked for nothing but what is known, so its answer is proved."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from mluops_gtest.model.call import OpCall
from mluops_gtest.model.operator import Check, Operator

# A parameter by its name, an axis of a tensor, a number, or the product of some of these in any order.
Term = str | tuple[str, int] | int | frozenset["Term"]
# What comparing two of them gives, by the operator between them.
Facts = Mapping[tuple[str, Term, Term], bool]


class _UnknownError(Exception):
    """Nothing is known of what a check asks for."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of which nothing is known but the facts."""

    term: Term
    facts: Facts

    def __mul__(self, other: "Quantity") -> "Quantity":
        terms = (one.term if isinstance(one.term, frozenset) else frozenset({one.term}) for one in (self, other))
        return Quantity(frozenset().union(*terms), self.facts)

    def __rmul__(self, other: int) -> "Quantity":
        if other != 1:
            raise _UnknownError
        return self

    def __eq__(self, other: object) -> bool:
        return self._compared("==", other)

    def __ne__(self, other: object) -> bool:
        return not self._compared("==", other)

    def __ge__(self, other: object) -> bool:
        return self._compared("≥", other)

    def __gt__(self, other: object) -> bool:
        return self._compared(">", other)

    def __hash__(self) -> int:
        raise _UnknownError

    def _compared(self, how: str, other: object) -> bool:
        term = other.term if isinstance(other, Quantity) else other
        return cast("bool", _known(self.facts, (how, self.term, term)))


class Known:
    """An object with these attributes, and no others."""

    def __init__(self, **facts: Any) -> None:
        self._facts = facts

    def __getattr__(self, name: str) -> Any:
        return _known(self._facts, name)


class _Partly(Mapping[str, Any]):
    """A mapping with these names, of which some values are known."""

    def __init__(self, names: tuple[str, ...], facts: Mapping[str, Any]) -> None:
        self._names, self._facts = names, facts

    def __getitem__(self, name: str) -> Any:
        return _known(self._facts, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _known(facts: Mapping[Any, Any], name: object) -> Any:
    if name not in facts:
        raise _UnknownError(name)
    return facts[name]


def made_up(operator: Operator, tensors: Mapping[str, Known], facts: Facts) -> OpCall:
    """A call of which nothing is known but these tensors and what the facts say of its parameters."""
    sides = [_Partly(tuple(spec.id for spec in specs), tensors) for specs in (operator.inputs, operator.outputs)]
    terms = {
        term for _, *compared in facts for one in compared for term in (one if isinstance(one, frozenset) else (one,))
    }
    params = {term: Quantity(term, facts) for term in terms if isinstance(term, str)}
    made = Known(
        inputs=sides[0],
        outputs=sides[1],
        tensor=lambda name: _known(tensors, name),
        param=lambda name: _known(params, name),
    )
    return cast("OpCall", made)


def answer_to(check: Check, made: OpCall) -> bool | None:
    """Whether the check holds for every call of which so much is known; None where that does not follow."""
    try:
        return check.holds(made)
    except Exception:
        # Whatever it is: the check did not get along with what is known.
        return None
