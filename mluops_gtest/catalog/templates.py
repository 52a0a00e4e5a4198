"""`{…}` in declarations: integer arithmetic over the variables of `each`, nothing more.

The words that the declared cases of one operator may use.
"""

import ast
import functools
import inspect
import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, get_type_hints

from mluops_gtest.base.errors import repr_short
from mluops_gtest.base.files import (
    LARGEST_EXPONENT,
    LARGEST_NUMBER,
    LONGEST_EXPRESSION,
    LONGEST_INSERTION,
    MAX_CASES,
)
from mluops_gtest.core.declaration import Recipe
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.tensor import CriterionKind, DType, Layout

_HOLE = re.compile(r"\{([^{}]*)\}")
_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def count(each: Mapping[str, Any]) -> int:
    """How many combinations `expand` gives."""
    return math.prod(len(_choices(name, values)) for name, values in each.items())


def expand(each: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the variables: a list gives its items, {from, to, step} the inclusive range."""
    choices = {name: _choices(name, values) for name, values in each.items()}
    for combination in itertools.product(*choices.values()):
        yield dict(zip(choices, combination, strict=True))


def _choices(name: str, values: Any) -> Sequence[Any]:
    if isinstance(values, list) and values:
        return values
    if isinstance(values, dict) and set(values) <= {"from", "to", "step"} and {"from", "to"} <= set(values):
        if all(isinstance(v, int) and not isinstance(v, bool) for v in values.values()) and values.get("step", 1) > 0:
            numbers = range(values["from"], values["to"] + 1, values.get("step", 1))
            if numbers and numbers[-1] - numbers[0] < MAX_CASES * values.get("step", 1):
                return numbers
        raise ValueError(
            f"the range of {name!r} must have integers with from ≤ to and step > 0, at most {MAX_CASES} of them"
        )
    raise ValueError(f"{name!r} must be a list with at least one item or a range {{from: A, to: B}}")


def fill(value: Any, variables: Mapping[str, Any]) -> Any:
    """`value` with every hole filled; a string that is exactly one hole becomes the value itself."""
    if isinstance(value, str):
        if "{" not in value:
            return value
        whole = _HOLE.fullmatch(value)
        if whole:
            return evaluate(whole[1], variables)
        return _HOLE.sub(lambda match: _inserted(match[1], variables), value)
    if isinstance(value, list):
        return [fill(item, variables) for item in value]
    if isinstance(value, dict):
        return {key: fill(item, variables) for key, item in value.items()}
    return value


def _inserted(expression: str, variables: Mapping[str, Any]) -> str:
    value = evaluate(expression, variables)
    text = value if isinstance(value, str) else repr_short(value, LONGEST_INSERTION)
    if len(text) > LONGEST_INSERTION:
        raise ValueError(f"{{{expression}}} inserts more than {LONGEST_INSERTION} characters into a text")
    return text


def evaluate(expression: str, variables: Mapping[str, Any]) -> Any:
    """A variable, an integer, or + - * // % ** of such."""
    if len(expression) > LONGEST_EXPRESSION:
        raise ValueError(f"{{{expression[:20]}…}} is longer than {LONGEST_EXPRESSION} characters")
    try:
        return _value(_parsed(expression.strip()), variables)
    except (SyntaxError, TypeError, ZeroDivisionError) as error:
        raise ValueError(f"{{{expression}}} is not integer arithmetic: {error}") from error


@functools.lru_cache(maxsize=1024)
def _parsed(expression: str) -> ast.expr:
    """Each expression stands in many cases of its entry."""
    return ast.parse(expression, mode="eval").body


def _value(node: ast.AST, variables: Mapping[str, Any]) -> Any:
    match node:
        case ast.Name(id=name):
            if name not in variables:
                known = ", ".join(variables) or "none (the case has no `each`)"
                raise ValueError(f"{{{name}}} is not a variable of this case; known: {known}")
            return variables[name]
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_integer(operand, variables)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            first, second = _integer(left, variables), _integer(right, variables)
            if isinstance(op, ast.Pow) and not 0 <= second <= LARGEST_EXPONENT:
                raise ValueError(f"exponents must lie in 0 … {LARGEST_EXPONENT}, not {second}")
            return _bounded(_OPERATORS[type(op)](first, second))
    raise ValueError(f"only variables, integers and + - * // % ** are allowed, not {ast.unparse(node)!r}")


def _integer(node: ast.AST, variables: Mapping[str, Any]) -> int:
    value = _value(node, variables)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"only integers can be used in arithmetic, not {repr_short(value)}")
    return value


def _bounded(number: int) -> int:
    """Operands are bounded, so that even a power has no more than a few thousand digits before it is looked at."""
    if abs(number) > LARGEST_NUMBER:
        raise ValueError(f"a result is beyond ±{LARGEST_NUMBER}")
    return number


DTYPES: Final = tuple(dtype.value for dtype in DType)
LAYOUTS: Final = tuple(layout.value for layout in Layout)
CRITERIA: Final = {kind.value: kind for kind in CriterionKind if kind.has_formula}


class Vocabulary:
    """Names of the operator's tensors, parameters, checks, …: gathered once, asked for by every case."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.tensors = tuple(spec.id for spec in operator.tensors)
        self.dtypes = frozenset(dtype.value for spec in operator.tensors for dtype in spec.dtypes)
        self.params = {field.name: field for field in operator.param_fields if not field.result}
        self.checks = tuple(check.name for check in operator.checks)
        # Outputs whose criteria a case may set.
        self.judged = tuple(spec.id for spec in operator.outputs if any(dtype.is_float for dtype in spec.dtypes))
        self.descriptors = (*self.tensors, *filter(None, [operator.params_descriptor]))
        self.pointers = operator.pointers

    @functools.cached_property
    def default_dtype(self) -> str:
        """The type of a case that declares none: the first of the first output that has a choice."""
        outputs = self.operator.outputs
        first = next((spec.dtypes[0] for spec in outputs if len(spec.dtypes) > 1), outputs[0].dtypes[0])
        return str(first.value)


@functools.cache
def signature_of(recipe: Recipe) -> tuple[dict[str, bool], dict[str, Any]]:
    """The keyword arguments of a recipe: required or not, and their types; asked once per recipe, not per case."""
    parameters = inspect.signature(recipe).parameters.values()
    keywords = {p.name: p.default is p.empty for p in parameters if p.kind is p.KEYWORD_ONLY}
    return keywords, get_type_hints(recipe)
