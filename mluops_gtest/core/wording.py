"""Words in both languages: they stand where a value is defined, and are formatted in one way."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Union, dataclass_transform

import msgspec


class Wording(NamedTuple):
    """The same words in English and in Chinese."""

    en: str
    zh: str

    def format(self, lang: str, /, *values: object, **named_values: object) -> str:
        """The words in that language, with their places filled."""
        return str(getattr(self, lang)).format(*values, **named_values)


class _Attributes:
    """The attributes of a value as the names in a pattern."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __getitem__(self, name: str) -> Any:
        return getattr(self._value, name)


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Worded(msgspec.Struct, frozen=True):
    """A value whose class has `en` and `zh`: patterns of its attributes, or methods where grammar needs them."""

    def format(self, lang: str = "en") -> str:
        """What is said of this value."""
        words = getattr(self, lang)
        return words.format_map(_Attributes(self)) if isinstance(words, str) else str(words())


def union_of_kinds(base: type[Worded], *namespaces: Mapping[str, object]) -> Any:
    """The type of what files may hold: any kind of `base` in these modules; what only groups kinds has no words."""
    values = (value for namespace in namespaces for value in namespace.values())
    kinds = (value for value in values if isinstance(value, type) and issubclass(value, base) and hasattr(value, "en"))
    return Union[tuple(kinds)]  # noqa: UP007 - of a tuple
