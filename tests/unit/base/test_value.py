"""Values are frozen, compare by their fields, and serve the functions of the dataclasses module."""

import dataclasses
import pickle

import pytest
from msgspec import field

from mluops_gtest.base.frozen import Value


class Plain(Value):
    """Required fields, a default, and one that is made."""

    name: str
    # The type is known to type checkers alone.
    unknown: "Nowhere"  # type: ignore[name-defined]  # noqa: F821
    size: int = 3
    notes: dict[str, str] = field(default_factory=dict)


class Further(Plain, kw_only=True):
    """One more, by name alone."""

    more: bool


def test_a_value_does_not_change_and_equals_those_of_its_class_with_equal_fields():
    value = Plain("a", 1)
    with pytest.raises(AttributeError):
        value.size = 4  # type: ignore[misc]
    assert value == Plain("a", 1)
    assert value.notes is not Plain("a", 1).notes
    assert value != Plain("a", 1, size=4)
    assert value != Further("a", 1, more=True)


def test_dataclasses_knows_fields_with_their_defaults():
    name, unknown, size, notes = dataclasses.fields(Plain)
    assert (name.name, name.type, name.default) == ("name", str, dataclasses.MISSING)
    assert unknown.type == "Nowhere"
    assert size.default == 3
    assert notes.default_factory is dict
    assert dataclasses.asdict(Plain("a", 1)) == {"name": "a", "unknown": 1, "size": 3, "notes": {}}


def test_a_value_survives_pickle_and_dataclasses_replace():
    value = Further("a", 1, 2, {"b": "c"}, more=True)
    assert pickle.loads(pickle.dumps(value)) == value
    assert dataclasses.replace(value, size=5) == Further("a", 1, 5, {"b": "c"}, more=True)
    assert value.size == 2
