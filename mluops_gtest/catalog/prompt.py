"""Calls in the words of a prompt: `matmul:M=2,K=1,dtype=half` becomes the draft of a case, whose id says all of it.

A name is one of the space of the operator (what fuzzing varies), of its recipe or of its parameters; axes have their
symbols, too. Without `recipe=` the space makes the call, with its first choices and small lengths for the rest.
"""

import contextlib
from collections.abc import Iterator, Mapping
from types import GenericAlias
from typing import Any, Final

from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, UsageError, suggestion
from mluops_gtest.catalog.declarations import param_value, seed_of
from mluops_gtest.catalog.make import changed, make_call, make_case
from mluops_gtest.catalog.templates import Vocabulary, fits, hint_words, recipe_arguments, signature_of
from mluops_gtest.core.buffers import bind_values
from mluops_gtest.core.call import Choice, Drawn, ParamValue, Sizes, Space, Status
from mluops_gtest.core.case import LARGEST_RESEED, Case, CaseDraft, Expect
from mluops_gtest.core.declaration import ParamField
from mluops_gtest.core.operator import Operator, source_of

# Lengths for what nobody typed, in the order in which they are tried.
_LENGTHS: Final = (4, 2, 1, 8, 16, 64)
_CONSTANT: Final = "typed: its values are not chosen"
BESIDE: Final = ("recipe", "dtype", "seed")
_HINTS: Final[Mapping[str, Any]] = {"float": float, "double": float, "bool": bool, "string": str, "enum": int | str}


def words_of(operator: Operator, drawn: Drawn, seed: int) -> str:
    """The words that say exactly this call; empty where none do."""
    drawn = replace(drawn, dtype=drawn.dtype or Vocabulary(operator).default_dtype)
    words = _words(drawn, seed)
    with contextlib.suppress(ContentError, ValueError):
        return words if Prompt(operator, None, words).call({}) == (drawn, seed) else ""
    return ""


def _words(drawn: Drawn, seed: int | None) -> str:
    more = {} if seed is None else {"seed": seed}
    said = {"recipe": drawn.recipe, **drawn.args, **drawn.params, "dtype": drawn.dtype, **more}
    return ",".join(f"{name}={_word(value)}" for name, value in said.items())


def _word(value: object) -> str:
    """3x3x3 for a list, true for True."""
    if isinstance(value, tuple | list):
        return "x".join(map(_word, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def draft_of_call(operator: Operator, drawn: Drawn, seed: int | None) -> CaseDraft:
    """The draft of that call, whose id is its words; wrong parameters take the place of right ones."""
    case_id, fields = f"{operator.name}/{_words(drawn, seed)}", Vocabulary(operator).params
    return CaseDraft(
        id=case_id,
        operator=operator.name,
        tags=("random",),
        doc="",
        recipe=drawn.recipe,
        args=drawn.args,
        params={name: _nearest(fields[name], value) for name, value in drawn.params.items()},
        dtype=drawn.dtype or Vocabulary(operator).default_dtype,
        seed=seed_of(seed, case_id),
        expect=Expect(),
        changes={},
        changed_params=drawn.params,
        criteria={},
        expect_declared=False,
        note="",
        where=source_of(operator.recipes[drawn.recipe]),
        digest="",
    )


def _nearest(field: ParamField, value: Any) -> Any:
    """The value, where the document allows it; else one that it allows, of which a recipe can make a call."""
    if field.is_allowed(value):
        return value
    if field.label == "repeated":
        return tuple(_nearest(replace(field, label="optional", length=None), each) for each in value)
    if field.allowed:
        return field.allowed[0]
    return field.most if field.most is not None and value > field.most else field.least


def typed_case(operator: Operator, space: Space | None, words: str) -> tuple[CaseDraft, Case]:
    """The draft that the words make, and its case; an error says which word does not fit, or why there is no call."""
    prompt = Prompt(operator, space, words)
    refusal: ContentError | None = None
    for guess in prompt.guesses():
        try:
            return _expecting(prompt, draft_of_call(operator, *prompt.call(guess)))
        except ContentError as error:
            refusal = refusal or error
        except ValueError as error:
            raise UsageError(f"{operator.name}:{words}: {str(error).rstrip('.')}.") from error
    raise UsageError(f"{operator.name}:{words}: no such call can be made: {refusal}") from refusal


def _expecting(prompt: "Prompt", draft: CaseDraft) -> tuple[CaseDraft, Case]:
    """The draft with what the checks say of the call, and its case."""
    operator = prompt.operator
    answer = operator.answer(bind_values(changed(make_call(draft, operator), {}, draft.changed_params), operator))
    # A parameter may be wrong on purpose, a length never is.
    if answer.status is not Status.SUCCESS and prompt.fields.keys().isdisjoint(prompt.typed):
        raise ContentError(f"{answer.message} (check {answer.check})")
    draft = replace(draft, doc=answer.message, expect=Expect(answer.status, answer.check))
    with contextlib.suppress(ContentError):
        return draft, make_case(draft, operator)
    draft = replace(draft, expect=replace(draft.expect, degenerate=_CONSTANT))
    return draft, make_case(draft, operator)


class Prompt:
    """The words behind the name of an operator."""

    def __init__(self, operator: Operator, space: Space | None, words: str) -> None:
        """`space` makes calls of words that name no recipe."""
        self.operator, self._vocabulary = operator, Vocabulary(operator)
        self.fields = self._vocabulary.params
        self._words = words.split(",") if words else []
        self.typed = {name: text for name, _, text in (word.partition("=") for word in self._words)}
        # Who names the recipe says all of the call.
        self._space = None if "recipe" in self.typed else space
        self._axes = {} if self._space is None else self._space.axes

    def guesses(self) -> Iterator[dict[str, Any]]:
        """What is tried for what the words leave open: the first choices with each length, then one other number."""
        chosen = {name: axis.values[0] for name, axis in self._axes.items() if isinstance(axis, Choice)}
        sizes = {name: axis for name, axis in self._axes.items() if isinstance(axis, Sizes)}
        for length in _LENGTHS:
            yield chosen | {name: min(max(axis.low, length), axis.high) for name, axis in sizes.items()}
        first = chosen | {name: max(axis.low, _LENGTHS[0]) for name, axis in sizes.items()}
        for name, axis in self._axes.items():
            # Another word would make another kind of call.
            if isinstance(axis, Choice) and not isinstance(axis.values[0], str):
                yield from ({**first, name: value} for value in axis.values[1:])

    def call(self, guess: Mapping[str, Any]) -> tuple[Drawn, int | None]:
        """The call that the words say, with the guess where they leave something open, and its seed."""
        if bare := [each for each in self._words if "=" not in each]:
            raise ValueError(f"{bare[0]!r} has no value; write NAME=VALUE,NAME=VALUE")
        operator, rest = self.operator, dict(self.typed)
        recipe, dtype, seed = (rest.pop(name, None) for name in BESIDE)
        several = {one.value for spec in operator.tensors if len(spec.dtypes) > 1 for one in spec.dtypes}
        allowed = {"recipe": operator.recipes, "dtype": several or self._vocabulary.dtypes}
        for kind, known_words in allowed.items():
            if (word := self.typed.get(kind)) is not None and word not in known_words:
                raise ValueError(f"unknown {kind} {word!r}.{suggestion(word, known_words)}")
        drawn, known = Drawn(recipe or next(iter(operator.recipes))), set[str]()
        if self._space is not None:
            drawn, known = self._draw(self._space, rest, {**guess, **({"dtype": dtype} if dtype else {})})
        hints, names = signature_of(operator.recipes[drawn.recipe])[1], self.names(drawn.recipe)
        if len({names.get(name, name) for name in self.typed}) < len(self._words):
            raise ValueError("two of the names mean the same; leave out one of them")
        args, params = dict(drawn.args), dict(drawn.params)
        for name, text in rest.items():
            target = names.get(name, "")
            if target in self.fields:
                params[target] = self._param(target, text)
                continue
            is_length = isinstance(self._axes.get(target), Sizes)
            if name not in known and (is_length or target not in hints):
                raise ValueError(self._unfit(name, text, names))
            # A length stands for itself, also where the space makes another one of it.
            if target in hints and (is_length or name not in known):
                args[target] = _read(name, text, hints[target])
        args = recipe_arguments(drawn.recipe, operator.recipes[drawn.recipe], args)
        number = None if seed is None else _read("seed", seed, int)
        if number is not None and not 0 <= number <= LARGEST_RESEED:
            raise ValueError(f"seed must be an integer from 0 to {LARGEST_RESEED}, not {seed!r}")
        return Drawn(drawn.recipe, params, args, dtype or drawn.dtype or self._vocabulary.default_dtype), number

    def names(self, recipe: str = "") -> dict[str, str]:
        """Every name that may be typed, and what it means in the space, the parameters or the recipe."""
        own = [*self._axes, *self.fields, *(signature_of(self.operator.recipes[recipe])[0] if recipe else ())]
        names = {name: name for name in own if name not in BESIDE}
        pairs = [(name, axis.symbol) for name, axis in self.operator.axes.items()]
        axes = {one: next(filter(own.__contains__, pair)) for pair in pairs if {*pair} & {*own} for one in pair}
        # A length that is a parameter, too, is set where the space makes both; beside a recipe each word is literal.
        return {**axes, **names} if self._space is None else {**names, **axes}

    def _draw(self, space: Space, rest: Mapping[str, str], point: dict[str, Any]) -> tuple[Drawn, set[str]]:
        """The call that the space makes, and the words that it knows."""
        known: set[str] = set()
        for name, target in self.names().items():
            if name in rest and target in self.fields and target in space.axes:
                point[target] = _nearest(self.fields[target], self._param(target, rest[name]))
            elif name in rest and (meant := _values_of(space.axes.get(target), rest[name])):
                point[target] = meant[0]
                known.add(name)
        try:
            drawn = space.draw({name: point[name] for name in space.axes})
        except Exception as error:
            raise ContentError(f"{type(error).__name__}: {error}") from error
        if drawn is None:
            sizes = (f"{name}={point[name]}" for name, axis in space.axes.items() if isinstance(axis, Sizes))
            raise ContentError(f"{', '.join(sizes)} do not go together. Type other lengths, or a recipe=.")
        return drawn, known

    def _param(self, name: str, text: str) -> ParamValue:
        field = self.fields[name]
        hint: Any = _HINTS.get(field.type, int)
        value = _read(name, text, GenericAlias(tuple, (hint, ...)) if field.label == "repeated" else hint)
        return param_value(field, list(value) if field.label == "repeated" else value)

    def _unfit(self, name: str, text: str, names: Mapping[str, str]) -> str:
        """The name is unknown; or the value of one that only the space knows does not fit."""
        axis = self._axes.get(names.get(name, ""))
        if axis is not None:
            words = "an integer ≥ 0" if isinstance(axis, Sizes) else f"one of {', '.join(map(_word, axis.values))}"
            return f"{name} must be {words}, not {text!r}"
        same = {one: ", ".join(name for name in names if names[name] == one != name) for one in names.values()}
        known = [f"{one} ({others})" if others else one for one, others in same.items()]
        close = suggestion(name, [*names, *BESIDE]).partition(" Known:")[0]
        return f"unknown name {name!r}.{close} Known: {', '.join([*known, *BESIDE])}"


def _read(name: str, text: str, hint: Any) -> Any:
    """The first meaning of the text that fits the annotation."""
    for value in _meanings(text):
        if fits(value, hint):
            return float(value) if hint is float else value
    words = hint_words(hint)
    raise ValueError(f"{name} must be {words}{', e.g. 3x3x3' if 'list' in words else ''}, not {text!r}")


def _meanings(text: str) -> Iterator[Any]:
    """A number, true or false, a word, a list."""
    parts = text.split("x") if text else []
    for number in (int, float):
        with contextlib.suppress(ValueError):
            yield number(text)
    yield {"true": True, "false": False}.get(text, text)
    for kind in (int, float, str):
        with contextlib.suppress(ValueError):
            yield tuple(map(kind, parts))


def _values_of(axis: Sizes | Choice | None, text: str) -> list[Any]:
    """What the text means on the axis: a length, a listed value, or a number or numbers like the listed ones."""
    if isinstance(axis, Choice):
        first = axis.values[0]
        alike = [one for one in _meanings(text) if type(one) is type(first) and not isinstance(one, str | bool)]
        return [one for one in axis.values if _word(one) == text] or alike
    return [one for one in _meanings(text) if type(one) is int and one >= 0] if axis is not None else []
