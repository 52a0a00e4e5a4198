"""The cache for people: where it is, and what it holds."""

import datetime
from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from mluops_gtest.generate.cache import CacheContents, CachedCase
from mluops_gtest.model.counted import counted
from mluops_gtest.reports.markup import escape
from mluops_gtest.reports.tables import table_of


def cache_page(folder: Path, found: CacheContents) -> Iterator[Table | str]:
    """The folder, a row per kind of case, and what else lies there."""
    yield escape(str(folder))
    if not found.cases:
        yield "empty" if not found.declarations else "no cases"
    else:
        yield _table(found.cases)
    if found.declarations:
        size = size_words(sum(entry.nbytes for entry in found.declarations))
        yield f"expanded declarations: {counted(len(found.declarations), 'file')}, {size}"
    if found.abandoned:
        yield f"left by killed runs: {len(found.abandoned)}, to remove them: mluops-test cache prune"
    if found.foreign:
        yield escape(f"not put there by mluops-test: {len(found.foreign)}, e.g. {found.foreign[0]}")


def _table(cases: list[CachedCase]) -> Table:
    kinds: dict[int | None, list[CachedCase]] = {}
    for case in cases:
        kinds.setdefault(case.seed, []).append(case)
    table = table_of((("values",), {}), (("cases", "size", "last used"), {"justify": "right"}))
    for seed in sorted(kinds, key=lambda one: -1 if one is None else one):
        table.add_row("as declared" if seed is None else f"--reseed {seed}", *_figures(kinds[seed]))
    if len(kinds) > 1:
        table.add_row("together", *_figures(cases))
    return table


def _figures(cases: list[CachedCase]) -> tuple[str, str, str]:
    used = datetime.datetime.fromtimestamp(max(case.used for case in cases)).astimezone()
    return str(len(cases)), size_words(sum(case.nbytes for case in cases)), f"{used:%Y-%m-%d}"


def size_words(nbytes: int) -> str:
    """1536 → 1.5 KiB."""
    size = float(nbytes)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
