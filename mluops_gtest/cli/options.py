"""The options of commands: those of a run as its table declares them, what several commands share beside them, and
their defaults from the settings file."""

import contextlib
import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

import click
from click.shell_completion import CompletionItem

from mluops_gtest.catalog.root import BUILTIN
from mluops_gtest.core.case import LARGEST_RESEED, NAMED_TAGS, TAGS, Query
from mluops_gtest.core.report import REPORT_KINDS
from mluops_gtest.running.options import OPTIONS, RunOptions
from mluops_gtest.running.settings import parse_labels

if TYPE_CHECKING:
    from mluops_gtest.catalog.selection import Catalogue

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def together(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    """One decorator for these, which stand in the order of the help page."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


# What stands for the newest results.
LATEST: Final = "latest"


class ResultsType(click.Path):
    """A results folder or a report.json; `latest` stands for the newest finished run below ./mluops-results."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, which exists."""
        if value == LATEST:
            from mluops_gtest.cli.echo import echo_error
            from mluops_gtest.results.folder import RUNS, newest_run

            folder = newest_run(RUNS)
            if folder is None:
                self.fail(
                    f"{LATEST}: no finished run is in ./{RUNS}; name a results folder or a report.json.", param, ctx
                )
            echo_error(f"{LATEST}: {folder}")
            value = str(folder)
        return super().convert(value, param, ctx)


RESULTS: Final = ResultsType(path_type=Path, exists=True)


class GroupedCommand(click.Command):
    """A command whose help page puts its options under headings."""

    # The names of the options by heading; an option that is under none comes last, with --help.
    headings: ClassVar[Mapping[str, Sequence[str]]] = {}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section per heading."""
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        lines = {one.name: line for one in options if (line := one.get_help_record(ctx)) is not None}
        for heading, names in self.headings.items():
            with formatter.section(heading):
                formatter.write_dl([lines.pop(name) for name in names])
        with formatter.section("Others"):
            formatter.write_dl([*lines.values()])


_PATHS: Final = {
    "path": click.Path(path_type=Path),
    "file": click.Path(path_type=Path, dir_okay=False),
    "folder": click.Path(path_type=Path, file_okay=False),
    "existing": click.Path(path_type=Path, exists=True),
    "results": RESULTS,
    "results folder": ResultsType(path_type=Path, exists=True, file_okay=False),
    "existing file": click.Path(path_type=Path, exists=True, dir_okay=False),
    "existing folder": click.Path(path_type=Path, exists=True, file_okay=False),
}


def value_option(typed: str, kind: Any, words: str, **own: Any) -> Callable[[F], F]:
    """An option with a value, as the help page writes it: `-o --out FILE`, behind its flags its name in Python if that
    is another; `kind` is a type of click's, or says which path it is. A default is shown."""
    names = typed.split()
    metavar = names.pop() if names[-1].isupper() else None
    how = {"type": _PATHS.get(kind, kind), "metavar": metavar, "show_default": "default" in own, "help": words}
    return click.option(*names, **how | own)


def flag_option(typed: str, words: str) -> Callable[[F], F]:
    """An option without a value, written as in `value_option`."""
    return click.option(*typed.split(), is_flag=True, help=words)


def format_option(*forms: str, words: str = "How to print, e.g. --format json.") -> Callable[[F], F]:
    """--format, by default the first of these, which the command gets as `form`."""
    choice = click.Choice(forms)
    return click.option("--format", "form", type=choice, default=forms[0], show_default=True, help=words)


def json_option(*further: str, words: str = "How to print, e.g. --format json.") -> Callable[[F], F]:
    """--format text or json, by which standard output has one document and nothing else."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def alone(*args: Any, **options: Any) -> Any:
            from mluops_gtest.cli.echo import documents_alone

            with documents_alone() if options["form"] == "json" else contextlib.nullcontext():
                return function(*args, **options)

        return format_option("text", "json", *further, words=words)(cast("F", alone))

    return decorate


def lang_option(words: str) -> Callable[[F], F]:
    """--lang."""
    return click.option("--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True, help=words)


class ParsedType(click.ParamType):  # type: ignore[type-arg]  # generic only in the newest click
    """What a parser makes of the text; the words of its ValueError refuse it."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value."""
        try:
            return self._parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _parse_size(text: str) -> int:
    """2G → 2147483648."""
    match = re.fullmatch(r"(\d+)([KMG]?)B?", text.strip(), re.IGNORECASE)
    if match is None or not int(match[1]):
        raise ValueError(f"{text!r} is not a size; write a number with K, M or G, e.g. 512M or 2G.")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2].upper()]


def _parse_devices(text: str) -> tuple[int, ...]:
    """`0,1` → (0, 1)."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts) or len(set(parts)) != len(parts):
        raise ValueError(f"{text!r} is not a list of different device numbers, e.g. 0,1.")
    return tuple(int(part) for part in parts)


def _parse_seed(text: str) -> int | str:
    """`7` → 7; `random` stays."""
    number = text.strip()
    if number == "random":
        return number
    if not (number.isascii() and number.isdecimal()) or int(number) > LARGEST_RESEED:
        raise ValueError(f"{text!r} is not a seed; write an integer from 0 to {LARGEST_RESEED}, or random.")
    return int(number)


def _parse_samples(text: str) -> int | None:
    """`auto` → None."""
    number = text.strip()
    if number == "auto":
        return None
    if not number.isdecimal() or not int(number):
        raise ValueError(f"{text!r} is neither auto nor a number of samples of at least 1, e.g. --samples 100.")
    return int(number)


class RootType(click.Path):
    """An existing folder, or the word for what is installed."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The folder as it is written."""
        return value if value == BUILTIN else super().convert(value, param, ctx)


def complete_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Operators and case ids, behind a colon the names of a call; where none fits, files and folders."""

    def names(catalogue: "Catalogue") -> list[str]:
        typed, colon, words = incomplete.partition(":")
        if colon and typed in catalogue.operators:
            from mluops_gtest.catalog.prompt import BESIDE, Prompt
            from mluops_gtest.core.operator_parts import SPACE

            begun = incomplete.removesuffix(words.rpartition(",")[2])
            known = Prompt(catalogue.operators[typed], catalogue.operators.part(typed, SPACE), "").names()
            return [f"{begun}{name}=" for name in (*known, *BESIDE)]
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
    from mluops_gtest.catalog.selection import Session

    try:
        return [
            name
            for name in names(Session(ctx.params.get("roots") or (BUILTIN,)).catalogue)
            if name.startswith(incomplete)
        ]
    except Exception:
        return []


_FORMS: dict[str, click.ParamType] = {  # type: ignore[type-arg]
    "size": ParsedType("size", _parse_size),
    "devices": ParsedType("0,1,…", _parse_devices),
    "seed": ParsedType("N|random", _parse_seed),
    "samples": ParsedType("N|auto", _parse_samples),
    "root": RootType(exists=True, file_okay=False),
    "folder": click.Path(file_okay=False),
    "existing file": click.Path(exists=True, dir_okay=False),
    "results": ResultsType(exists=True),
}
_KINDS: Final = get_type_hints(RunOptions)


def run_option(name: str, words: str | None = None, /, **own: Any) -> Callable[[F], F]:
    """The option of a run with this name; a command may have words, a default and more of its own."""
    one, kind = OPTIONS[name], _KINDS[name]
    how: dict[str, Any] = {"help": words or one.help, "metavar": one.metavar, "show_default": one.show_default}
    kinds = get_args(kind)
    if kind is bool:
        how["is_flag"] = True
    elif bool in kinds:
        how["default"] = None
    else:
        how["default"] = one.untyped or (one.default if one.show_default else None)
        how["multiple"] = one.form != "devices" and get_origin(kind) in (tuple, dict)
        if one.form:
            how["type"] = _FORMS[one.form]
        elif one.least is not None:
            how["type"] = click.IntRange(one.least)
        elif one.above is not None:
            how["type"] = click.FloatRange(one.above, min_open=True)
        elif get_origin(next(iter(kinds), None)) is Literal:
            how["type"] = click.Choice(get_args(kinds[0]))
    if name == "backend":
        how["shell_complete"] = complete_backends
    return click.option(*one.flags, own.pop("into", name), **how | own)


def run_options(first: str, last: str) -> Callable[[F], F]:
    """The options of a run from the first to the last, in the order of its table."""
    names = [*OPTIONS]
    chosen = names[names.index(first) : names.index(last) + 1]
    return together(*(run_option(name) if name != "reports" else report_options for name in chosen))


# The reports that a run can write, too.
REPORT_FILES: Final = {form: kind for form, kind in REPORT_KINDS.items() if kind.file}
report_options = together(
    *(
        click.option(
            f"--{form}",
            type=click.Path(dir_okay=False),
            metavar="FILE",
            help=f"Also write {what}, as `report` does, e.g. --{form} {file}.",
        )
        for form, (_, what, file) in REPORT_FILES.items()
    )
)
root_option = run_option("roots")
coverage_option = run_option("require_coverage")
# How many processes do the work.
jobs_option = run_option("jobs", "Use N processes, e.g. -j 2.", default=1, show_default=True)
elementwise_option = run_option("elementwise")
adapter_options = run_options("runtime", "serve")
worker_options = run_options("isolate", "guard_pages")
sampling_options = run_options("warmup", "cold_cache")
cluster_options = run_options("cluster", "ship")
# How case files are read.
file_options = run_options("strict", "allow_outside_paths")
reseed_option = value_option(
    "--reseed N", click.IntRange(0, LARGEST_RESEED), "Use the values of `run --reseed N`, e.g. --reseed 7."
)


def backend_option(words: str, **own: Any) -> Callable[[F], F]:
    """--backend, without a default."""
    return run_option("backend", words, **{"default": None, "show_default": False} | own)


def isolate_option(where: str) -> Callable[[F], F]:
    """--isolate and --no-isolate."""
    words = f"Run the backend in {where}, or in this one.  [default: isolated, except numpy and reference]"
    return run_option("isolate", words)


def timeout_option(words: str) -> Callable[[F], F]:
    """--timeout, by default as long as the case is large."""
    return run_option("timeout", f"{words}  [default: 60, plus 1 per megabyte of tensors]")


def operators_option(words: str) -> Callable[[F], F]:
    """--op, any number of them, which the command gets as `operators`."""
    return click.option("--op", "operators", multiple=True, help=words, shell_complete=complete_operators)


def tags_option(words: str) -> Callable[[F], F]:
    """--tag, any number of them."""
    return click.option(
        "--tag",
        "tags",
        multiple=True,
        help=f"{words} Tags: {', '.join(TAGS)}.",
        shell_complete=lambda ctx, param, incomplete: [tag for tag in TAGS if tag.startswith(incomplete)],  # noqa: ARG005
    )


def keyword_option(words: str) -> Callable[[F], F]:
    """-k."""
    return value_option("-k keyword EXPR", None, words, default="", show_default=False)


def selection_options(function: Callable[..., T]) -> Callable[..., T]:
    """SELECT…, --op, --tag, -k, --all, which the command gets as a `query`, and --root."""

    @functools.wraps(function)
    def with_query(*args: Any, **options: Any) -> T:
        given = {name: options.pop(name) for name in Query.__struct_fields__}
        return function(*args, query=Query(**given), **options)

    options = together(
        click.argument("select", nargs=-1, shell_complete=complete_ids),
        operators_option("Only this operator, e.g. --op get_indice_pairs."),
        tags_option("Only cases with this tag, e.g. --tag boundary (repeat it: any of them)."),
        keyword_option("Only cases whose id or tags match, e.g. -k 'edge and not half'."),
        flag_option("--all everything", f"Every declared case except those tagged {', '.join(NAMED_TAGS)}."),
        root_option,
    )
    return options(with_query)


def options_from(ctx: click.Context, query: Query, given: dict[str, Any], **more: Any) -> RunOptions:
    """The options of a run as they were typed, with the settings; what is none of them is in the way."""
    reports = {form: given.pop(form) for form in REPORT_FILES if form in given}
    given["labels"] = parse_labels(given.pop("labels", ()))
    if ctx.obj is not None:
        given["labels"] = {**ctx.obj.settings.get("labels", {}), **given["labels"]}
        given["settings"] = str(ctx.obj.path)
    given["reports"] = {form: file for form, file in reports.items() if file is not None}
    return RunOptions(query, **{name: value for name, value in given.items() if value is not None}, **more)


def stands_in_settings(ctx: click.Context, name: str) -> bool:
    """The parameter has its value from the settings, not from the command line."""
    return ctx.get_parameter_source(name) is click.core.ParameterSource.DEFAULT_MAP


def typed_options(ctx: click.Context) -> dict[str, str]:
    """The parameters that the command line gives, and how each is written."""
    source = click.core.ParameterSource.COMMANDLINE
    written = {
        one.name or "": one.human_readable_name if isinstance(one, click.Argument) else one.opts[0]
        for one in ctx.command.params
    }
    return {name: option for name, option in written.items() if ctx.get_parameter_source(name) is source}
