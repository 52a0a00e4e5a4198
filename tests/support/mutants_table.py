"""The score of the suite against wrong implementations; `python -m tests.support.mutants_table` writes the pages."""

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

from mluops_gtest.cli.main import run_main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "audit.md"
READMES = (ROOT / "README.md", ROOT / "README.zh.md")
HEADER = "| operator | wrong | caught | wrong statuses | caught |"
_TABLE = re.compile(rf"^{re.escape(HEADER)}\n(?:\|.*\n)+", re.MULTILINE)
# `12 of 12`, `12/12`: what is caught, and how many there are; implementations first, then statuses.
_SCORES = re.compile(
    r"(\d+)( of |/)(\d+)(?= (?:planted wrong implementations|wrong statuses|个植入的错误实现|种错误状态))"
)


def measured(*options: str) -> list[str]:
    """The table as the command prints it now."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        run_main(["audit", "mutants", "--root", str(ROOT), "--first-kill", "--format", "markdown", *options])
    return printed.getvalue().splitlines()


def published_table() -> list[str]:
    """The table on the page."""
    return _TABLE.search(PAGE.read_text(encoding="utf-8"))[0].splitlines()


def counts(table: list[str]) -> dict[str, tuple[int, ...]]:
    """Operator → wrong, caught, wrong statuses, caught."""
    cells = ([cell.strip() for cell in row.strip("|").split("|")] for row in table[2:])
    return {name: tuple(map(int, numbers)) for name, *numbers in cells}


def sums(table: list[str]) -> list[tuple[int, int]]:
    """Caught and all, of implementations and of statuses."""
    wrong, caught, statuses, refused = map(sum, zip(*counts(table).values(), strict=True))
    return [(caught, wrong), (refused, statuses)]


def published_sums(readme: Path) -> list[tuple[int, int]]:
    """The same as the page for newcomers tells it."""
    return [(int(caught), int(wrong)) for caught, _, wrong in _SCORES.findall(readme.read_text(encoding="utf-8"))]


def _replaced(text: str, numbers: Iterator[tuple[int, int]]) -> str:
    def score(match: re.Match[str]) -> str:
        caught, wrong = next(numbers)
        return f"{caught}{match[2]}{wrong}"

    return _SCORES.sub(score, text)


def main() -> None:
    """Measure, and write what was found."""
    table = measured("-j", "2")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_TABLE.sub("\n".join(table) + "\n", page), encoding="utf-8")
    for readme in READMES:
        readme.write_text(_replaced(readme.read_text(encoding="utf-8"), iter(sums(table))), encoding="utf-8")


if __name__ == "__main__":
    main()
