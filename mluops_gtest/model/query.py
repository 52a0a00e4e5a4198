"""What a user asks for: the words and filters that select cases, as run.json and report.json record them."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict

from mluops_gtest.value import Value


class Query(Value):
    """What the user typed; without anything it means the default set."""

    # Ids, operators, globs over ids, files and folders.
    select: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    keyword: str = ""
    everything: bool = False

    @property
    def is_default(self) -> bool:
        """No argument and no filter: the default set."""
        return self == Query()

    def to_json(self) -> dict[str, Any]:
        """Plain values, as files keep them."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @staticmethod
    def from_report(selection: Mapping[str, Any]) -> "Query | None":
        """What a report, whose types are checked, records; None where it does not record all of it."""
        if not Query().to_json().keys() <= selection.keys():
            return None
        select, operators, tags = (tuple(selection[name]) for name in ("select", "operators", "tags"))
        return Query(select, operators, tags, selection["keyword"], selection["everything"])
