"""Checks the types of declared values: recipe arguments by annotation, parameters by schema field."""

import types
from typing import Any, Literal, Union, get_args, get_origin

from mluops_gtest.errors import shown, suggestion
from mluops_gtest.model.call import ParamValue
from mluops_gtest.model.operator import ParamField

_INTEGER_RANGE = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def fits(value: Any, hint: Any) -> bool:
    """The value fits the annotation; a bool is not an int, an int is a float."""
    if type(value) is hint:
        return True
    origin = get_origin(hint)
    if hint is Any:
        return True
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


def param_value(field: ParamField, value: Any) -> ParamValue:
    """A declared parameter as the schema's field holds it: enum words become numbers, lists become tuples."""
    if field.label == "repeated":
        if not isinstance(value, list):
            raise ValueError(f"{field.name} must be a list of {field.type}, not {shown(value)}")
        return tuple(_scalar(field, item) for item in value)
    result: ParamValue = _scalar(field, value)
    return result


def _scalar(field: ParamField, value: Any) -> Any:
    if field.enum is not None and isinstance(value, str):
        if value not in field.enum.values:
            raise ValueError(
                f"{field.name}: unknown {field.enum.name} {shown(value)}.{suggestion(value, field.enum.values)}"
            )
        return field.enum.values[value]
    if field.type in ("float", "double"):
        if not fits(value, float):
            raise ValueError(f"{field.name} must be a number, not {shown(value)}")
        return float(value)
    if field.type in ("bool", "string"):
        if not isinstance(value, bool if field.type == "bool" else str):
            raise ValueError(f"{field.name} must be a {field.type}, not {shown(value)}")
        return value
    low, high = _INTEGER_RANGE.get(field.type, _INTEGER_RANGE["int32"])
    if not fits(value, int) or not low <= value <= high:
        raise ValueError(f"{field.name} must be an integer in {low} … {high}, not {shown(value)}")
    return value


def as_dims(value: Any, name: str) -> tuple[int, ...] | None:
    """A list of axis lengths or strides, or None where none is given."""
    if value is None:
        return None
    if not isinstance(value, list) or not all(fits(item, int) and item >= 0 for item in value):
        raise ValueError(f"{name} must be a list of integers ≥ 0, not {shown(value)}")
    return tuple(value)
