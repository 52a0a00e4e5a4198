"""Options that several commands share, so that they mean the same everywhere."""

import functools
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from mluops_gtest.cli.plain_options import together
from mluops_gtest.content.root import BUILTIN
from mluops_gtest.model.case import LARGEST_RESEED, NAMED_TAGS, TAGS
from mluops_gtest.model.query import Query

if TYPE_CHECKING:
    from mluops_gtest.content.catalogue import Catalogue

T = TypeVar("T")


class BytesType(click.ParamType):  # type: ignore[type-arg]  # generic only in the newest click
    """A number of bytes with K, M or G behind it."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """2G → 2147483648."""
        match = re.fullmatch(r"(\d+)([KMG]?)B?", str(value).strip(), re.IGNORECASE)
        if match is None or not int(match[1]):
            self.fail(f"{value!r} is not a size; write a number with K, M or G, e.g. 512M or 2G.", param, ctx)
        return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2].upper()]


class DevicesType(click.ParamType):  # type: ignore[type-arg]
    """Device numbers with commas between them."""

    name = "0,1,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """`0,1` → (0, 1)."""
        parts = str(value).split(",")
        if not all(part.strip().isdecimal() for part in parts) or len(set(parts)) != len(parts):
            self.fail(f"{value!r} is not a list of different device numbers, e.g. 0,1.", param, ctx)
        return tuple(int(part) for part in parts)


class ReseedType(click.ParamType):  # type: ignore[type-arg]
    """A seed, or the word random."""

    name = "N|random"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """`7` → 7; `random` stays."""
        text = str(value).strip()
        if text == "random":
            return text
        if not (text.isascii() and text.isdecimal()) or int(text) > LARGEST_RESEED:
            self.fail(f"{value!r} is not a seed; write an integer from 0 to {LARGEST_RESEED}, or random.", param, ctx)
        return int(text)


class RootType(click.Path):
    """An existing folder, or the word for what is installed."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The folder as it is written."""
        return value if value == BUILTIN else super().convert(value, param, ctx)


root_option = click.option(
    "--root",
    "roots",
    multiple=True,
    default=(BUILTIN,),
    type=RootType(exists=True, file_okay=False),
    help="Use your own folder with generators/, cases/ and prototxt/ instead of the built-in content; repeat it "
    "to use several, e.g. --root builtin --root ../my_operators.",
)


def selection_options(function: Callable[..., T]) -> Callable[..., T]:
    """SELECT…, --op, --tag, -k, --all, which the command gets as a `query`, and --root."""

    @functools.wraps(function)
    def with_query(*args: Any, **options: Any) -> T:
        given = {name: options.pop(name) for name in Query.__struct_fields__}
        return function(*args, query=Query(**given), **options)

    options = together(
        click.argument("select", nargs=-1, shell_complete=complete_ids),
        click.option(
            "--op",
            "operators",
            multiple=True,
            help="Only this operator, e.g. --op get_indice_pairs.",
            shell_complete=complete_operators,
        ),
        click.option(
            "--tag",
            "tags",
            multiple=True,
            help=f"Only cases with this tag, e.g. --tag boundary (repeat it: any of them). Tags: {', '.join(TAGS)}.",
            shell_complete=lambda ctx, param, incomplete: [tag for tag in TAGS if tag.startswith(incomplete)],  # noqa: ARG005
        ),
        click.option(
            "-k",
            "keyword",
            default="",
            help="Only cases whose id or tags match, e.g. -k 'edge and not half'.",
            metavar="EXPR",
        ),
        click.option(
            "--all",
            "everything",
            is_flag=True,
            help=f"Every declared case except those tagged {', '.join(NAMED_TAGS)}.",
        ),
        root_option,
    )
    return options(with_query)


_REPORTS = {
    "html": ("one page for the browser", "report.html"),
    "markdown": ("the test report that goes with a change", "report.md"),
    "junit": ("results for a CI system", "junit.xml"),
    "ctrf": ("results in the Common Test Report Format", "ctrf.json"),
}


report_options = together(
    *(
        click.option(
            f"--{form}",
            type=click.Path(dir_okay=False),
            metavar="FILE",
            help=f"Also write {what}, as `report` does, e.g. --{form} {file}.",
        )
        for form, (what, file) in _REPORTS.items()
    )
)


def taken_reports(options: dict[str, Any]) -> dict[str, str]:
    """Format → file, taken out of the options of a command."""
    given = {form: options.pop(form) for form in _REPORTS}
    return {form: file for form, file in given.items() if file is not None}


# How case files are read.
file_options = together(
    click.option(
        "--strict",
        is_flag=True,
        help="Treat notes about a case file, and calls that the operator does not define, as errors.",
    ),
    click.option(
        "--allow-outside-paths",
        is_flag=True,
        help="Let case files read data files outside their own folder (only for files you trust).",
    ),
)


reseed_option = click.option(
    "--reseed",
    type=click.IntRange(0, LARGEST_RESEED),
    metavar="N",
    help="Use the values of `run --reseed N`, e.g. --reseed 7.",
)


def complete_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Operators and case ids; where none fits, files and folders."""

    def names(catalogue: "Catalogue") -> list[str]:
        typed = incomplete.partition("/")[0]
        meant = [name for name in catalogue.operators if name.startswith(typed)]
        return [*catalogue.operators, *catalogue.drafts_of(*meant)]

    ids = _known(ctx, names, incomplete)
    return [CompletionItem(case_id) for case_id in ids] or [CompletionItem(incomplete, type="file")]


def complete_operators(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Names of operators."""
    return _known(ctx, lambda catalogue: catalogue.operators, incomplete)


def complete_backends(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Names of backends, Python files, and libraries behind `c:`; nothing is loaded."""
    from mluops_gtest.backends.registry import backend_words

    adapter = incomplete.startswith("c:")
    path, suffix = (incomplete.removeprefix("c:"), ".so") if adapter else (incomplete, ".py")
    files = [f"{'c:' * adapter}{name}" for name in _files(path, suffix)]
    words = [word for word in backend_words() if word.startswith(incomplete)]
    return [CompletionItem(word) for word in (*words, *files)] or [CompletionItem(incomplete, type="file")]


def _files(incomplete: str, suffix: str) -> list[str]:
    """Files with this suffix and beginning, in the folder typed so far."""
    folder, slash, begin = incomplete.rpartition("/")
    try:
        names = sorted(path.name for path in Path(folder + slash or ".").iterdir() if path.suffix == suffix)
    except OSError:
        return []
    return [f"{folder}{slash}{name}" for name in names if name.startswith(begin)]


def _known(ctx: click.Context, names: Callable[["Catalogue"], Iterable[str]], incomplete: str) -> list[str]:
    """The names with this beginning; none if the content is broken, since completion cannot show errors."""
    from mluops_gtest.api.session import Session

    try:
        return [
            name
            for name in names(Session(ctx.params.get("roots") or (BUILTIN,)).catalogue)
            if name.startswith(incomplete)
        ]
    except Exception:
        return []
