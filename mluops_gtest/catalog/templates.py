"""`{…}` in declarations: integer arithmetic over the variables of `each`, nothing more.

The words that the declared cases of one operator may use, and the arguments that a recipe takes.
"""

import ast
import functools
import inspect
import itertools
import math
import operator
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from mluops_gtest.base.errors import repr_short, suggestion
from mluops_gtest.base.files import (
    LARGEST_ARGUMENT,
    LARGEST_EXPONENT,
    LARGEST_NUMBER,
    LONGEST_EXPRESSION,
    LONGEST_INSERTION,
    MAX_CASES,
)
from mluops_gtest.core.declaration import Recipe
from mluops_gtest.core.operator import Operator, source_of
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
        self.judged = tuple(spec.id for spec in operator.outputs if any(dtype.is_real for dtype in spec.dtypes))
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


def fits(value: Any, hint: Any) -> bool:
    """The value fits the annotation; a bool is not an int, an int is a float."""
    if type(value) is hint or hint is Any:
        return True
    origin = get_origin(hint)
    if hint is None or hint is type(None):
        return value is None
    if origin in (Union, types.UnionType):
        return any(fits(value, option) for option in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if origin is tuple:
        items = get_args(hint)
        if not isinstance(value, tuple):
            return False
        if len(items) == 2 and items[1] is Ellipsis:
            return all(fits(item, items[0]) for item in value)
        return len(value) == len(items) and all(fits(v, h) for v, h in zip(value, items, strict=True))
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, hint)


def hint_words(hint: Any) -> str:
    """The annotation in words for a message."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(hint_words(option) for option in get_args(hint))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    if origin is tuple:
        items = get_args(hint)
        if len(items) == 2 and items[1] is Ellipsis:
            return f"a list of {hint_words(items[0])}"
        return f"a list of {len(items)} values ({', '.join(hint_words(item) for item in items)})"
    return {int: "an integer", float: "a number", str: "a word", bool: "true or false", type(None): "nothing"}.get(
        hint, str(hint)
    )


def recipe_arguments(name: str, recipe: Recipe, args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a recipe; ValueError where its signature has other names, needs more, or has other types."""
    wanted, hints = signature_of(recipe)
    for key in args:
        if key not in wanted:
            known = suggestion(key, wanted)[:-1]
            raise ValueError(f"recipe {name!r} ({source_of(recipe)}) takes no argument {repr_short(key)}.{known}")
    for key, required in wanted.items():
        if required and key not in args:
            raise ValueError(f"recipe {name!r} needs the argument {key!r}; it takes: {', '.join(wanted)}")
    checked = {}
    for key, value in args.items():
        plain = tuple(value) if isinstance(value, list) else value
        if not fits(plain, hints[key]):
            raise ValueError(
                f"argument {key!r} of recipe {name!r} must be {hint_words(hints[key])}, not {repr_short(value)}"
            )
        if not _is_bounded(plain):
            raise ValueError(f"argument {key!r} of recipe {name!r} is {repr_short(value)}, beyond ±{LARGEST_ARGUMENT}")
        checked[key] = plain
    return checked


def _is_bounded(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_bounded, value))
    return not isinstance(value, int) or abs(value) <= LARGEST_ARGUMENT
