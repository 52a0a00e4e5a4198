"""JSON shapes of values: which of their fields and properties programs get, with the types that these have there.

A shape is a type of msgspec's, so that a schema follows from it. It is filled from a value by attributes; whatever fits
no shape is refused, so that no document can differ from its schema. `mluops-test docs json` lists the documents.
"""

import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from inspect import get_annotations
from typing import Any, Literal, TypeAlias

import msgspec

from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.records import result_to_json, with_words


class Text(str):
    """What is written as text: a path, a number of a table by its name."""


class ResultRecord(dict[str, Any]):
    """A result as report.json has it."""


# Made at run time.
Shape: TypeAlias = Any


class Overlay:
    """A value with some attributes besides its own, or instead of them; of no value these alone."""

    def __init__(self, value: object = None, /, **more: Any) -> None:
        self._value, self._more = value, more

    def __getattr__(self, name: str) -> Any:
        return self._more[name] if name in self._more else getattr(self._value, name)


def shape_of(title: str, source: type | None, words: str = "", /, **others: Shape) -> Shape:
    """The shape with the fields and properties of a type that these words name, and others with their shapes.

    `name` is one of them, `name=attribute` has another name in JSON, `name:type` is no field of the type's own.
    """
    return msgspec.defstruct(title, _fields(source, words, others), kw_only=True)


def document_of(kind: str, source: type | None, words: str = "", /, **others: Shape) -> Shape:
    """The shape of what a command prints with --format json: it has its kind and its version."""
    title = f"{kind.title().replace('_', '')}Document"
    # The version: a key that goes, or means something else, makes it 2; a further key does not.
    fields = [("format", Literal[1]), *_fields(source, words, others)]
    return msgspec.defstruct(title, fields, tag_field="kind", tag=kind, kw_only=True)


def list_of(shape: Shape) -> Shape:
    """Any number of values of that shape."""
    return Sequence[shape]


def map_of(shape: Shape) -> Shape:
    """Values of that shape by name."""
    return Mapping[str, shape]


def _fields(source: type | None, words: str, others: Mapping[str, Shape]) -> list[Any]:
    fields: list[Any] = []
    for word in (*words.split(), *others):
        written, _, hint = word.partition(":")
        name, _, attribute = written.partition("=")
        shape = others.get(word) or (eval(hint) if hint else _hint(source, attribute or name))
        fields.append((attribute or name, shape, msgspec.field(name=name)))
    return fields


def _hint(source: type | None, name: str) -> Any:
    """The type of a field or of a property."""
    for kind in source.__mro__ if source is not None else ():
        member = vars(kind).get(name)
        hint = get_annotations(kind).get(name)
        if isinstance(member, property) and member.fget is not None:
            hint = get_annotations(member.fget)["return"]
        if hint is not None:
            return eval(hint, vars(sys.modules[kind.__module__])) if isinstance(hint, str) else hint
    raise AttributeError(f"{source} has no {name!r}")


def fill(shape: Shape, value: object = None, /, **more: Any) -> dict[str, Any]:
    """The value in that shape as plain JSON values; NaN and infinities are words."""
    filled = msgspec.convert(Overlay(value, format=1, **more), shape, from_attributes=True, dec_hook=_represent)
    record: dict[str, Any] = with_words(msgspec.to_builtins(filled, enc_hook=lambda own: type(own).mro()[1](own)))
    return record


def _represent(kind: type, value: Any) -> Any:
    if kind is ResultRecord and isinstance(value, CaseResult):
        return ResultRecord(result_to_json(value))
    if kind is Text:
        return Text(value.name if isinstance(value, Enum) else value)
    raise NotImplementedError(kind)
