"""Checks of which it is proved that no call which they refuse has an output that can be written.

The proof asks the checks themselves. Those before show what a call that gets as far has: each is asked about calls of
which nothing is known but that two lengths differ, or that one tensor is large, and what one of them refuses is not so.
The check itself is then asked about a call of which nothing is known but this, and that one output can be written: if
it holds, whichever the output is, it refuses no call with an output to write to.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Any, Final, cast

from mluops_gtest.catalog.make import check_answer
from mluops_gtest.core.call import OpCall
from mluops_gtest.core.case import BUFFER_LIMIT
from mluops_gtest.core.declaration import Check, OutputSpec, TensorSpec
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.shape import Axis, readable_shape
from mluops_gtest.core.tensor import LARGE_ELEMENTS

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
        # Facts are about whole numbers; of others none is known.
        return self._compared(">", other - 1) if isinstance(other, int) else self._compared("≥", other)

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


def symbolic_call(operator: Operator, tensors: Mapping[str, Known], facts: Facts) -> OpCall:
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


# No descriptor has more axes.
_MOST_AXES: Final = 8
_SMALL: Final = Known(desc=Known(is_empty=False, is_large=False))
_WRITABLE: Final = Known(null=False, desc=Known(is_empty=False, is_large=False))


def never_written(operator: Operator, check: Check) -> bool:
    """No call that this check answers has an output that can be written."""
    everything = {spec.id: _SMALL for spec in operator.tensors}
    params: Facts = {(">", field.name, 0): True for field in operator.param_fields}
    # Most checks ask for something else, and no proof need be looked for.
    written = (symbolic_call(operator, {**everything, one.id: _WRITABLE}, params) for one in operator.outputs)
    if not all(check_answer(check, call) for call in written):
        return False
    earlier = operator.checks[: operator.checks.index(check)]
    shapes = [form for spec in operator.tensors for form in readable_shape(spec.shape).forms[:1]]
    return all(
        check_answer(check, symbolic_call(operator, *_known_beside(output.id, _Before(operator, earlier, missing))))
        for missing in range(1 + max((shape.optional for shape in shapes), default=0))
        for output in operator.outputs
    )


def _known_beside(output: str, before: "_Before") -> tuple[dict[str, Known], Facts]:
    """What is so in every call that gets as far and has this output to write to."""
    tensors = {output: _WRITABLE}
    positive = before.positive_beside(output)
    for name, terms in before.axes.items():
        if name != output:
            empty = {"is_empty": False} if all(term in positive for term in terms) else {}
            large = {"is_large": False} if before.is_small_beside(output, name, positive) else {}
            tensors[name] = Known(desc=Known(**empty, **large))
    return tensors, {(">", term, 0): True for term in positive if isinstance(term, str)}


class _Before:
    """What is so in every call that these checks let pass; terms that are equal are told by one of them.

    Of the axes that may be missing so many are.
    """

    def __init__(self, operator: Operator, checks: tuple[Check, ...], missing: int) -> None:
        self._operator, self._checks, self._missing = operator, checks, missing
        self._params = [field.name for field in operator.param_fields]

    @cached_property
    def _shapes(self) -> dict[str, tuple[Axis, ...]]:
        """The axes of the tensors whose number of axes is certain."""
        return {spec.id: shape for spec in self._operator.tensors if (shape := self._fixed(spec)) is not None}

    @cached_property
    def axes(self) -> dict[str, list[Term]]:
        """Tensor → what the length of each axis equals, for tensors whose number of axes is certain."""
        return {name: [self._same[name, axis] for axis in range(len(shape))] for name, shape in self._shapes.items()}

    def positive_beside(self, output: str) -> set[Term]:
        """The terms that are at least 1 where the output has elements."""
        found: set[Term] = {term for terms in self.axes.values() for term in terms if isinstance(term, int) and term}
        passed = (name for name in self.axes if self._refuses({}, {name: Known(desc=Known(is_empty=True))}))
        found.update(term for name in passed for term in self.axes[name])
        found.update(self._products_of(output))
        for axis, term in enumerate(self.axes.get(output, ())):
            found.add(term)
            factors = self._shapes[output][axis].factors
            if len(factors) > 1 and self._refuses_other_product(output, axis):
                # Lengths are not negative, so that of one parameter beside positive ones the sign is certain.
                unsure = [
                    name for name in factors if name in self._params and not self._refuses({(">", name, 0): False})
                ]
                found.update(unsure if len(unsure) == 1 else ())
        return found

    def _products_of(self, output: str) -> Iterator[Term]:
        """Lengths that are the product of some neighbouring axes of the output."""
        axes: list[Term] = [(output, axis) for axis in range(len(self.axes.get(output, ())))]
        runs = [
            frozenset(axes[start:stop]) for start, stop in combinations(range(len(axes) + 1), 2) if stop > start + 1
        ]
        for name, terms in self.axes.items():
            for axis, term in enumerate(terms):
                if name != output and any(self._differing((name, axis), run) for run in runs):
                    yield term

    def is_small_beside(self, output: str, name: str, positive: set[Term]) -> bool:
        """The tensor is not large, since another has as many elements or more: one that passed, or the output."""
        if output in self.axes and self._fits(name, output, BUFFER_LIMIT, positive):
            return True
        passed = (other for other in self.axes if self._refuses({}, {other: Known(desc=Known(is_large=True))}))
        return any(self._fits(name, other, LARGE_ELEMENTS - 1, positive) for other in passed)

    def _fits(self, name: str, other: str, most: int, positive: set[Term]) -> bool:
        """Each axis is at most as long as one of the other's, and what is left of these is not empty."""
        rest = list(self.axes[other])
        numbers = math.prod(term for term in self.axes[name] if isinstance(term, int))
        for term in self.axes[name]:
            if isinstance(term, int):
                continue
            longer = next((one for one in rest if one == term or self._is_at_most(term, one)), None)
            if longer is None:
                return False
            rest.remove(longer)
        return all(term in positive for term in rest) and numbers * most < LARGE_ELEMENTS

    def _is_at_most(self, term: Term, other: Term) -> bool:
        alike = [[one for one, stands in self._same.items() if stands == term] for term in (other, term)]
        return self._refuses({("≥", long, short): False for long, short in product(*alike)})

    def _refuses_other_product(self, output: str, axis: int) -> bool:
        """The length of that axis is the product that its shape says."""
        where: dict[str, Term] = {name: name for name in self._params}
        where |= {
            shape[place].text: (name, place) for name, shape in self._shapes.items() for place in range(len(shape))
        }
        factors = self._shapes[output][axis].factors
        if not all(factor in where for factor in factors):
            return False
        return self._differing((output, axis), frozenset(where[factor] for factor in factors))

    @cached_property
    def _same(self) -> dict[Term, Term]:
        """Each length and parameter → one that stands for all that are equal; a number where it is one."""
        places: dict[str, list[Term]] = {name: [name] for name in self._params}
        for name, shape in self._shapes.items():
            for axis, length in enumerate(shape):
                number: list[Term] = [int(length.text)] if length.text.isdecimal() else []
                places.setdefault(length.text, number).append((name, axis))
        same: dict[Term, Term] = {term: term for terms in places.values() for term in terms}
        for one, other in (pair for terms in places.values() for pair in combinations(terms, 2)):
            if same[one] != same[other] and self._differing(one, other):
                first, second = sorted((same[one], same[other]), key=lambda term: not isinstance(term, int))
                same = {term: first if stands == second else stands for term, stands in same.items()}
        return same

    def _differing(self, one: Term, other: Term) -> bool:
        """These two are equal in every call that passes."""
        return self._refuses({("==", one, other): False, ("==", other, one): False})

    def _refuses(self, facts: Facts, tensors: dict[str, Known] | None = None) -> bool:
        """Every call of which this is known is refused."""
        known = tensors or {
            name: Known(dims=tuple(Quantity((name, axis), facts) for axis in range(len(shape))))
            for name, shape in self._shapes.items()
        }
        call = symbolic_call(self._operator, known, facts)
        return any(check_answer(check, call) is False for check in self._checks)

    def _fixed(self, spec: TensorSpec | OutputSpec) -> tuple[Axis, ...] | None:
        """The axes of a tensor that cannot have any other number of them."""
        forms = readable_shape(spec.shape).forms
        if not forms:
            return None
        shape, most = forms[0], len(forms[0].axes)
        others = [rank for rank in range(_MOST_AXES + 1) if not most - shape.optional <= rank <= most]
        certain = all(self._refuses({}, {spec.id: Known(dims=(1,) * rank)}) for rank in others)
        return shape.axes[min(shape.optional, self._missing) :] if certain else None
