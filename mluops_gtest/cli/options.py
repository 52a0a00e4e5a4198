"""Options that many commands have, apart from those that know cases: a help page needs no more than click.

Options that several commands share, so that they mean the same everywhere.

Options of every command that calls a backend: which one, and in which processes.

Options for timing calls, shared by several commands.

The labels that the user types.
"""

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from mluops_gtest.base.errors import UsageError, repr_short
from mluops_gtest.base.text import GIVEN_NAME, MAX_LETTERS, strip_to_line
from mluops_gtest.catalog.root import BUILTIN
from mluops_gtest.core.case import LARGEST_RESEED, NAMED_TAGS, TAGS, Query

if TYPE_CHECKING:
    from mluops_gtest.catalog.selection import Catalogue


F = TypeVar("F", bound=Callable[..., Any])


def together(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    """One decorator for these, which stand in the order of the help page."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def format_option(*forms: str, words: str = "How to print, e.g. --format json.") -> Callable[[F], F]:
    """--format, by default the first of these, which the command gets as `form`."""
    choice = click.Choice(forms)
    return click.option("--format", "form", type=choice, default=forms[0], show_default=True, help=words)


def lang_option(words: str) -> Callable[[F], F]:
    """--lang."""
    return click.option("--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True, help=words)


coverage_option = click.option(
    "--require-coverage",
    metavar="PERCENT",
    help="Exit 5 unless so many of the selected cases passed or failed, not skipped, e.g. --require-coverage 95%.",
)
# How many processes do the work.
jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Use N processes, e.g. -j 2.",
)


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
    from mluops_gtest.catalog.selection import Session

    try:
        return [
            name
            for name in names(Session(ctx.params.get("roots") or (BUILTIN,)).catalogue)
            if name.startswith(incomplete)
        ]
    except Exception:
        return []


def backend_option(words: str, *names: str, **more: Any) -> Callable[[F], F]:
    """--backend."""
    return click.option("--backend", "-b", *names, help=words, shell_complete=complete_backends, **more)


def isolate_option(where: str) -> Callable[[F], F]:
    """--isolate and --no-isolate."""
    words = f"Run the backend in {where}, or in this one.  [default: isolated, except numpy and reference]"
    return click.option("--isolate/--no-isolate", default=None, help=words)


def timeout_option(words: str) -> Callable[[F], F]:
    """--timeout, by default as long as the case is large."""
    return click.option(
        "--timeout",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help=f"{words}  [default: 60, plus 1 per megabyte of tensors]",
    )


adapter_options = together(
    click.option(
        "--runtime",
        metavar="LIB",
        help="For c:LIBRARY: the library that has the cnrt functions, e.g. --runtime libcnrt.so.",
    ),
    click.option(
        "--serve", is_flag=True, help="For exec:COMMAND: keep one process running instead of starting one per call."
    ),
)

backend_options = together(
    backend_option(
        "What to test: numpy, reference, c:LIBRARY, mlu, exec:COMMAND, torch[:DEVICE], an entry point, "
        "module:attribute or path/file.py[:attribute], e.g. -b my_kernels.py (its `backend`).",
        default="numpy",
        show_default=True,
    ),
    adapter_options,
)

worker_options = together(
    isolate_option("worker processes"),
    click.option(
        "-j", "--jobs", type=click.IntRange(1), metavar="N", help="Use N worker processes, e.g. -j 2.  [default: 1]"
    ),
    click.option("--devices", type=DevicesType(), help="Use one worker per device, e.g. --devices 0,1."),
    timeout_option("Stop a case in a worker after so long, e.g. --timeout 20."),
    click.option(
        "--memory-limit",
        type=BytesType(),
        help="Memory that a case may use beyond the loaded backend and the tensors, e.g. --memory-limit 2G.",
    ),
    click.option(
        "--fresh-workers",
        is_flag=True,
        help="Run every case in a new worker, so that no case sees what another left behind, e.g. --fresh-workers "
        "--backend c:./libk.so.",
    ),
    click.option(
        "--guard-pages",
        is_flag=True,
        help="Find reads and writes outside a buffer: call every case twice, with inaccessible memory right after "
        "every buffer, then right before it, e.g. --backend c:./libmykernels.so --guard-pages.",
    ),
)


elementwise_option = click.option(
    "--elementwise/--no-elementwise",
    default=None,
    help="Elements further off than arithmetic allows: fail the case, or do not check. Default: report them.",
)
cluster_options = together(
    click.option(
        "--cluster",
        metavar="ADDRESS",
        help="Run on a Dask cluster: tcp://SCHEDULER:8786 (or tls://, ucx://), local:N for N processes here, or "
        "path/file.py:FUNCTION that makes one, e.g. --cluster tcp://node1:8786.",
    ),
    click.option(
        "--ship",
        multiple=True,
        type=click.Path(exists=True, dir_okay=False),
        metavar="PATH",
        help="Send this file of the backend to the cluster's workers, e.g. --backend c:./libk.so --ship ./libk.so "
        "--cluster local:2.",
    ),
)


def taken_lanes(options: dict[str, Any]) -> tuple[int | None, tuple[int, ...]]:
    """The jobs, None where none are asked for, and the devices, taken out of the options of a command."""
    jobs, devices = options.pop("jobs"), options.pop("devices") or ()
    if jobs and devices:
        raise UsageError("Use either -j or --devices: with --devices each device has one worker.")
    return jobs, tuple(devices)


class SamplesType(click.ParamType):  # type: ignore[type-arg]  # generic only in the newest click
    """A number of samples, or auto."""

    name = "N|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """`auto` → None."""
        text = str(value).strip()
        if text == "auto":
            return None
        if not text.isdecimal() or not int(text):
            self.fail(
                f"{value!r} is neither auto nor a number of samples of at least 1, e.g. --samples 100.", param, ctx
            )
        return int(text)


sampling_options = together(
    click.option(
        "--warmup",
        type=click.IntRange(0),
        default=3,
        show_default=True,
        metavar="W",
        help="Untimed calls before the first sample, e.g. --warmup 10.",
    ),
    click.option(
        "--samples",
        type=SamplesType(),
        default="auto",
        show_default=True,
        metavar="N|auto",
        help="Timed calls per case, e.g. --samples 100; auto goes on until the median is known to 1 %, but "
        "stops at 1000 calls or about two seconds.",
    ),
    click.option("--cold-cache", is_flag=True, help="Empty this machine's caches before each sample."),
)


def given_labels(words: Sequence[str]) -> dict[str, str]:
    """The labels in `--label NAME=VALUE`, checked."""
    labels: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not GIVEN_NAME.fullmatch(name):
            raise UsageError(
                f"--label {repr_short(word)}: write NAME=VALUE, e.g. --label device=mlu370; a name begins with a "
                "letter and has at most 64 letters, digits, - and _."
            )
        if not value.strip() or len(value) > MAX_LETTERS or strip_to_line(value) != value:
            raise UsageError(
                f"--label {repr_short(word)}: the value must be one line of 1 to {MAX_LETTERS} characters."
            )
        if name in labels:
            raise UsageError(f"--label {name} is given twice, as {labels[name]!r} and as {value!r}; give it once.")
        labels[name] = value
    return labels
