"""`mluops-test`: finds the command, runs it, turns errors into one clear message and the right exit code."""

import errno
import importlib
import inspect
import io
import os
import platform
import resource
import sys
import warnings
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar

import click

from mluops_gtest.base.errors import ExitCode, HarnessError, HarnessWarning, UnwritableError, suggestion
from mluops_gtest.base.gc_tuning import raise_gc_threshold, skip_final_gc
from mluops_gtest.base.native.library import native_core
from mluops_gtest.cli.echo import echo, echo_error, install_safe_streams
from mluops_gtest.running.settings import FILE_NAME, SettingsFile, nearest_settings, read_settings
from mluops_gtest.version import __version__

# A literal table, so that --help imports no command: what people do → command → one line for the overview.
GROUPS: Final = {
    "Test a kernel": {
        "run": "Run cases on a backend and judge the results.",
        "fuzz": "Draw calls that nobody declared, and keep what fails.",
        "merge": "Put the results of all shards of one run together.",
        "doctor": "Check a backend before you test it.",
        "bench": "Time two backends side by side and say which is faster.",
        "device-spec": "Describe a device, or measure this machine.",
        "backends": "Show which backends are installed and whether they load.",
    },
    "Look at cases and results": {
        "list": "List the declared cases.",
        "show": "Show one case: tensors, parameters, criteria, status.",
        "diff": "Show which elements of a case are wrong, and by how much.",
        "minimise": "Find the smallest case that fails for the same cause.",
        "explain": "Say why cases failed: where, how and when, cause by cause.",
        "report": "Write a report: HTML, Markdown, JUnit, CTRF, SARIF.",
        "history": "Remember runs and show how cases change over time.",
    },
    "Guard a merge": {
        "gate": "Decide whether a change may be merged.",
        "compare": "Show two sets of results side by side.",
        "submit": "Pack results into an archive that says what it claims.",
        "check-submission": "Check what an archive claims; run a sample of it again.",
    },
    "Write cases and operators": {
        "new": "Write a backend, an operator or a C library to start from.",
        "ops": "Show the known operators, or everything about one.",
        "generate": "Make cases with their baselines and write them.",
        "verify": "Recompute every stored baseline and report differences.",
        "audit": "Check operators against the rules of the suite.",
    },
    "Exchange files and clean up": {
        "convert": "Convert case files between text and binary.",
        "export": "Write cases for the released runner (mluop_gtest).",
        "schema": "Print the .proto files that describe case files.",
        "cache": "Show where large cases are cached, and remove old ones.",
    },
    "Learn more": {
        "docs": "Print a page of the documentation.",
    },
}
# Commands in the file of another one: the file and the function.
_SHARED_FILES: Final = {
    "backends": "doctor:backends",
    "cache": "generate:cache",
    "check-submission": "submit:check",
    "compare": "gate:compare_runs",
    "device-spec": "bench:device_spec",
    "explain": "report:explain",
    "export": "convert:export_cases",
    "merge": "report:merge_shards",
    "ops": "list:operators",
    "schema": "convert:schema",
    "show": "list:show",
    "verify": "generate:verify",
}
COMMANDS: Final = {name: summary for commands in GROUPS.values() for name, summary in commands.items()}
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

C = TypeVar("C", bound=click.Command)
_VERBOSE: Final = f"{__name__}.verbose"
# Below it OpenBLAS, which numpy loads, ends the process itself, with exit code 1.
_LEAST_ADDRESSES: Final = 192 << 20


def _move_examples(command: C) -> C:
    """The command with the examples of its docstring, and what follows them, below the options.

    A part of a group without examples has those of the group.
    """
    words, heading, examples = inspect.cleandoc(command.help or "").partition("Examples:\n")
    if heading:
        command.help = words.rstrip()
        command.epilog = "\n\n".join(f"\b\n{lines}" for lines in (heading + examples).split("\n\n"))
    if isinstance(command, click.Group):
        for part in command.commands.values():
            part.epilog = part.epilog or command.epilog
            _move_examples(part)
    return command


class LazyGroup(click.Group):
    """Imports a command's module only when that command is asked for."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; --version looks for -v behind it, too."""
        ctx.meta[_VERBOSE] = bool({"-v", "--verbose"} & set(args))
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The commands, in the order of the overview."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of this name, or None; MemoryError where the address space (ulimit -v) is too small for any."""
        if cmd_name not in COMMANDS:
            return None
        if 0 <= resource.getrlimit(resource.RLIMIT_AS)[0] < _LEAST_ADDRESSES:
            raise MemoryError
        file, _, function = _SHARED_FILES.get(cmd_name, f"{cmd_name}:command").partition(":")
        command: click.Command = getattr(importlib.import_module(f"mluops_gtest.cli.commands.{file}"), function)
        return _move_examples(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but the error suggests the command that was meant."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            ctx.fail(f"Unknown command {name!r}.{suggestion(name, COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the overview, group by group, without importing any command."""
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in commands.items()])


def describe_installation() -> list[tuple[str, str]]:
    """Names and values: Python, numpy, the native core."""
    import numpy

    return [
        ("python", f"{platform.python_version()} ({platform.machine()})"),
        ("numpy", numpy.__version__),
        ("native core", native_core().words),
    ]


def _print_version(ctx: click.Context, _: click.Parameter, is_given: bool) -> None:
    if not is_given or ctx.resilient_parsing:
        return
    echo(f"mluops-test {__version__}")
    if ctx.meta[_VERBOSE]:
        echo("\n".join(f"{name} {value}" for name, value in describe_installation()))
    ctx.exit()


_SETTINGS_VARIABLE: Final = "MLUOPS_TEST_SETTINGS"
# Instead of a file: no settings.
_NO_SETTINGS: Final = "none"


def _use_settings(ctx: click.Context, param: click.Parameter, value: str | None) -> None:  # noqa: ARG001 - click's signature
    """Make the settings the defaults of every command."""
    path = nearest_settings() if value is None else None if value == _NO_SETTINGS else Path(os.path.abspath(value))
    if path is None:
        return
    assert isinstance(ctx.command, click.Group)
    ctx.obj = read_settings(path)
    defaults = ctx.obj.defaults()
    # For a group, name its commands; history has no option that is in the settings.
    ctx.default_map = {**dict.fromkeys(ctx.command.list_commands(ctx), defaults), "audit": {"operators": defaults}}


@_move_examples
@click.group(cls=LazyGroup, context_settings=CONTEXT)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit; with -v also what it runs on.",
)
@click.option("-v", "--verbose", is_flag=True, expose_value=False, help="With --version: say more.")
@click.option(
    "--settings",
    metavar="FILE|none",
    envvar=_SETTINGS_VARIABLE,
    expose_value=False,
    callback=_use_settings,
    help="Read the defaults of options from FILE, e.g. --settings ci.toml; none: use no file.  "
    f"[default: {_SETTINGS_VARIABLE}, else the nearest {FILE_NAME} in this folder or above it]",
)
def cli() -> None:
    """Conformance tests for accelerator operators: cases, runner, accuracy criteria, one command line.

    Examples:
      mluops-test run                                  the default set on the numpy backend
      mluops-test run --op voxel_pooling_forward       one operator, network scales included
      mluops-test run --backend my_kernels.py:backend  your own kernels
      mluops-test list --tag boundary                  the declared boundary cases
    Every command has its own examples: mluops-test COMMAND --help

    Exit codes: 0 all good, 1 cases failed, 2 wrong usage, 3 content broken,
    4 backend unusable, 5 nothing selected or compared, 70 bug in mluops-test,
    74 output could not be written, 130 interrupted.
    If several apply, the first of 70, 74, 4, 3, 1, 5 wins.

    Shell completion:  eval "$(_MLUOPS_TEST_COMPLETE=bash_source mluops-test)"
    (zsh_source and fish_source likewise)
    """


def _remark_on(error: click.ClickException) -> str:
    """What helps with wrong usage: how operators are named, where a wrong value in the settings is; else empty."""
    if isinstance(error, click.UsageError) and error.ctx is not None and "extra argument" in error.message:
        has_op = any("--op" in one.opts for one in error.ctx.command.params)
        return "\nName an operator by --op, e.g. --op ball_query." if has_op else ""
    if not isinstance(error, click.BadParameter) or error.ctx is None or error.param is None:
        return ""
    name = error.param.name or ""
    is_default = error.ctx.get_parameter_source(name) is click.core.ParameterSource.DEFAULT_MAP
    if not isinstance(error.ctx.obj, SettingsFile) or not is_default:
        return ""
    return f"\nThe value comes from {error.ctx.obj.place(name)}."


# Such a path is unusable for every command, whether it was typed or comes from a file.
_UNUSABLE: Final = (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.ELOOP)
_MAX_OF_A_PATH: Final = 200


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,  # noqa: ARG001 - the signature is Python's
    line: str | None = None,
) -> None:
    """Print what the package warns of as a sentence, and what others warn of with its place."""
    is_ours = issubclass(category, HarnessWarning)
    words = f"warning: {message}" if is_ours else warnings.formatwarning(message, category, filename, lineno, line)
    echo_error(words.rstrip())


def _wants_json(arguments: list[str] | None) -> bool:
    """`--format json` is among the arguments, be the rest as wrong as it may."""
    words = " ".join(["", *(sys.argv[1:] if arguments is None else arguments), ""])
    return " --format json " in words.replace("--format=", "--format ")


def _complain(arguments: list[str] | None, words: str, code: ExitCode) -> int:
    """Print what went wrong, as an object where the command should print one; returns the exit code."""
    if _wants_json(arguments):
        import json

        # Without the usage lines before it, which are for people.
        told = words.rpartition("\n\nError: ")[2].removeprefix("error: ")
        document = {"kind": "error", "format": 1, "error": told, "exit_code": int(code)}
        words = json.dumps(document, ensure_ascii=False)
    echo_error(words)
    return int(code)


def run_main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit code."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", HarnessWarning)
            warnings.showwarning = _show_warning
            result: Any = cli.main(arguments, prog_name="mluops-test", standalone_mode=False)
        return result if isinstance(result, int) else int(ExitCode.OK)
    except HarnessError as error:
        return _complain(arguments, f"error: {error}", error.exit_code)
    except click.ClickException as error:
        message = io.StringIO()
        error.show(message)
        return _complain(arguments, message.getvalue().rstrip() + _remark_on(error), ExitCode.USAGE)
    except (click.Abort, KeyboardInterrupt):
        return _complain(arguments, "interrupted", ExitCode.INTERRUPTED)
    except MemoryError:
        advice = "Raise the limit (ulimit -v), or select fewer or smaller cases."
        return _complain(arguments, f"error: there is not enough memory. {advice}", ExitCode.UNWRITABLE)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _UNUSABLE and error.filename is not None:
            name = str(error.filename)[:_MAX_OF_A_PATH]
            return _complain(arguments, f"error: {name}: {error.strerror}. Name another path.", ExitCode.USAGE)
        import traceback

        words = (
            f"{traceback.format_exc().rstrip()}\n"
            f"bug: mluops-test {__version__} failed unexpectedly ({type(error).__name__}). The lines above say where; "
            "please report them together with the command."
        )
        return _complain(arguments, words, ExitCode.BUG)


def main() -> None:
    """The entry point of the installed script."""
    raise_gc_threshold()
    stdout = install_safe_streams()
    code = run_main()
    sys.stdout.flush()
    if stdout.error is not None:
        code = ExitCode.worst([ExitCode(code), ExitCode.UNWRITABLE])
        _complain(None, f"error: {UnwritableError.of('standard output', stdout.error)}", code)
    skip_final_gc()
    sys.exit(code)
