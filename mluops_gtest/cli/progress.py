"""A progress bar around any iterator, shown only on a terminal."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress

T = TypeVar("T")


def track(items: Iterable[T], total: int, console: Console) -> Iterator[T]:
    """The items, with a bar on a terminal and nothing elsewhere."""
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(items, total=total)
