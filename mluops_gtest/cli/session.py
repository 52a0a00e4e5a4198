"""What a command works with: the content roots, their catalogue, the selection, the source of cases."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from mluops_gtest.codec.case_files.case import read_operator_name
from mluops_gtest.content.catalogue import Catalogue
from mluops_gtest.content.root import BUILTIN, find_roots
from mluops_gtest.content.selection import Query, Selected, Selection, select
from mluops_gtest.generate.source import StoredCases


def root_words(roots: tuple[str, ...], settings: object = None) -> Iterator[str]:
    """The options that name these roots; none for the default, unless settings could change it."""
    if roots != (BUILTIN,) or settings is not None:
        for root in roots:
            yield from ("--root", root)


class Session:
    """The content that a command works with, loaded on first use."""

    def __init__(self, roots: tuple[str, ...] = (BUILTIN,)) -> None:
        self._roots = roots

    @cached_property
    def catalogue(self) -> Catalogue:
        return Catalogue(*find_roots(self._roots))

    @property
    def root_paths(self) -> tuple[str, ...]:
        """The folders of the content roots, for those who load operators elsewhere."""
        return tuple(str(root.path) for root in self.catalogue.roots)

    def select(self, options: dict[str, Any]) -> Selection:
        """The selection that the shared options describe; they are taken out of `options`."""
        query = Query(
            tuple(options.pop("select")),
            tuple(options.pop("operators")),
            tuple(options.pop("tags")),
            options.pop("keyword"),
            options.pop("everything"),
        )
        return select(self.catalogue, query, read_operator_name)

    def source(
        self,
        selected: tuple[Selected, ...],
        *,
        strict: bool = False,
        allow_outside_paths: bool = False,
        on_generate: Callable[[str], None] | None = None,
        reseed: int | None = None,
    ) -> StoredCases:
        """Where the selected cases come from."""
        return StoredCases(
            self.catalogue,
            selected,
            strict=strict,
            allow_outside_paths=allow_outside_paths,
            on_generate=on_generate,
            reseed=reseed,
        )
