"""What a command works with: the content roots, their catalogue, the selection, the source of cases."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mluops_gtest.content.catalogue import Catalogue
from mluops_gtest.content.root import BUILTIN, find_roots
from mluops_gtest.content.selection import Selected, Selection, select
from mluops_gtest.errors import UsageError
from mluops_gtest.model.query import Query

if TYPE_CHECKING:
    from mluops_gtest.generate.source import StoredCases


class Session:
    """The content that a command works with, loaded on first use."""

    def __init__(self, roots: tuple[str, ...] = (BUILTIN,)) -> None:
        self._roots = roots

    @cached_property
    def catalogue(self) -> Catalogue:
        return Catalogue(*find_roots(self._roots))

    def select(self, query: Query) -> Selection:
        """The cases that the query means."""
        return select(self.catalogue, query, _operator_of)

    def select_one(self, name: str) -> Selected:
        """The one case of that name."""
        chosen = self.select(Query((name,))).cases
        if len(chosen) != 1:
            raise UsageError(f"{name!r} names {len(chosen)} cases; `mluops-test list {name!r}` lists them.")
        return chosen[0]

    def source(
        self,
        selected: tuple[Selected, ...],
        *,
        strict: bool = False,
        allow_outside_paths: bool = False,
        on_generate: Callable[[str], None] | None = None,
        reseed: int | None = None,
    ) -> "StoredCases":
        """Where the selected cases come from."""
        from mluops_gtest.generate.source import StoredCases

        return StoredCases(
            self.catalogue,
            selected,
            strict=strict,
            allow_outside_paths=allow_outside_paths,
            on_generate=on_generate,
            reseed=reseed,
        )


def _operator_of(file: Path) -> str:
    from mluops_gtest.codec.case_files.reader import read_operator_name

    return read_operator_name(file)
