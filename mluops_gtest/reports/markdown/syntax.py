"""Markdown as GitHub and GitLab read it: text that stays text, tables."""

import re
from collections.abc import Iterable, Sequence

from mluops_gtest.model.plain_text import plain

# Signs that would begin a link, a tag, an entity, an emphasis or a new cell. An underscore inside a word is none.
_SIGNS = re.compile(r"[\\`*\[\]<>|~$@&]|(?<!\w)_|_(?!\w)")


def text(words: str) -> str:
    """The words on one line, each sign as itself."""
    return _SIGNS.sub(r"\\\g<0>", _one_line(words))


def code(words: str) -> str:
    """The words as code; also where they hold back-quotes themselves."""
    line = _one_line(words)
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    padded = f" {line} " if line.startswith("`") or line.endswith("`") else line
    # A table's cell ends at every bar, in code as well.
    return f"{fence}{padded}{fence}".replace("|", r"\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """The lines of a table; the columns numbered in `right` hold numbers."""
    numbers = set(right)
    rule = ["---:" if place in numbers else "---" for place in range(len(head))]
    return [_row(head), _row(rule), *map(_row, rows), ""]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _one_line(words: str) -> str:
    return " ".join(plain(words).split())
