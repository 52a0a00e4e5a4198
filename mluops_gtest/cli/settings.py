"""`mluops-test.toml`: options that a team would otherwise type every time; the command line overrides them."""

import math
import os
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypedDict, get_type_hints

import click

from mluops_gtest.base.errors import ContentError, UsageError, repr_short
from mluops_gtest.catalog.root import BUILTIN

FILE_NAME: Final = "mluops-test.toml"
VARIABLE: Final = "MLUOPS_TEST_SETTINGS"
# Instead of a file: no settings.
NONE: Final = "none"
_MAX_BYTES: Final = 1 << 20


class Settings(TypedDict, total=False):
    """What the file may hold; paths are relative to the file."""

    backend: str
    roots: tuple[str, ...]
    timeout: float
    jobs: int
    fail_on_leak: bool
    waivers: str
    require_coverage: str
    require_isolated: bool
    labels: dict[str, str]


_TYPES: Final = get_type_hints(Settings)


class SettingsFile(NamedTuple):
    """The settings that a command uses, with file and lines."""

    path: Path
    settings: Settings
    lines: Mapping[str, int]

    def place(self, key: str) -> str:
        """File and line of a key."""
        return f"{self.path}:{self.lines[key]}"

    def defaults(self) -> dict[str, Any]:
        """The value of each option that is set, by the option's name, as if it were typed in the current folder."""
        as_typed: dict[str, Callable[[Any], Any]] = {"labels": label_words}
        if self.path.parent != Path.cwd():
            as_typed |= {
                "backend": self._backend,
                "roots": lambda words: tuple(word if word == BUILTIN else self._from_here(word) for word in words),
                "waivers": self._from_here,
            }
        return {name: as_typed.get(name, lambda value: value)(value) for name, value in self.settings.items()}

    def _from_here(self, path: str) -> str:
        """The path as it is written from the current folder, so that a repro line works there."""
        if os.path.isabs(path):
            return path
        moved = os.path.relpath(self.path.parent / path)
        return moved if moved.startswith("..") else f"./{moved}"

    def _backend(self, spec: str) -> str:
        """Make file names in a backend relative to the settings file; leave names of modules and programs alone."""
        adapter, colon, rest = spec.partition(":")
        if adapter == "c":
            return f"c:{self._file(rest)}"
        if adapter == "exec":
            try:
                return f"exec:{shlex.join(map(self._file, shlex.split(rest)))}"
            except ValueError:  # an unclosed quote; loading the backend reports it
                return spec
        target, colon, attribute = (spec, "", "") if spec.endswith(".py") else spec.rpartition(":")
        return f"{self._file(target)}{colon}{attribute}"

    def _file(self, word: str) -> str:
        return self._from_here(word) if "/" in word or (self.path.parent / word).is_file() else word


def read_settings(path: Path) -> SettingsFile:
    """The settings in a file; errors name the line."""
    import tomllib

    from mluops_gtest.base.typed_files import plain_file_bytes

    try:
        text = plain_file_bytes(path, _MAX_BYTES).decode()
        document = tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"{path}: cannot read the settings: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not valid UTF-8 (byte {error.start}).") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not valid TOML: {error}.") from error
    except RecursionError:
        raise UsageError(f"{path}: nested too deeply.") from None
    lines = {key: _line_of(key, text) for key in document}
    settings: Any = {}
    for key, value in document.items():
        try:
            settings[key] = _value(key, value, f"{path}:{lines[key]}")
        except ContentError as error:
            raise UsageError(str(error)) from error
    return SettingsFile(path, settings, lines)


def _value(key: str, value: Any, place: str) -> Any:
    from mluops_gtest.base.typed_files import Source, convert
    from mluops_gtest.cli.options import given_labels
    from mluops_gtest.core.case import required_millionths

    remedy = f"Settings are {', '.join(_TYPES)}; see docs/reference/settings.md."
    if key not in _TYPES:
        raise Source(place, remedy).error(f"unknown key {repr_short(key)}")
    source = Source(place, remedy, key)
    found = convert(value, _TYPES[key], source)
    checks: dict[str, Callable[[Any], Any]] = {
        "labels": lambda labels: given_labels(label_words(labels)),
        "require_coverage": required_millionths,
    }
    if key in checks:
        try:
            checks[key](found)
        except UsageError as error:
            raise source.error(str(error).removesuffix(".")) from error
    if key == "roots" and not found:
        raise source.error(f'name at least one root, e.g. roots = ["{BUILTIN}"]')
    if key == "timeout" and not math.isfinite(found):
        raise source.error(f"{found} is not a number of seconds")
    if any("\0" in text for text in (found if isinstance(found, tuple) else (str(found),))):
        raise source.error(f"{repr_short(found)} contains a NUL character")
    return found


def label_words(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Labels as they are typed behind --label."""
    return tuple(f"{name}={value}" for name, value in labels.items())


def _line_of(key: str, text: str) -> int:
    """The line on which the key or its table begins; 1 where it is written in an unusual way."""
    begins = re.compile(rf"\s*\[?\s*[\"']?{re.escape(key)}[\"']?\s*[].=]")
    return next((number for number, line in enumerate(text.splitlines(), 1) if begins.match(line)), 1)


def nearest_settings() -> Path | None:
    """The file in the current folder, or in the nearest folder above it that has one."""
    try:
        here = Path.cwd()
    except OSError:  # the current folder was removed
        return None
    return next((folder / FILE_NAME for folder in (here, *here.parents) if os.path.isfile(folder / FILE_NAME)), None)


def use_settings(ctx: click.Context, param: click.Parameter, value: str | None) -> None:  # noqa: ARG001 - click's signature
    """Make the settings the defaults of every command."""
    path = nearest_settings() if value is None else None if value == NONE else Path(os.path.abspath(value))
    if path is None:
        return
    assert isinstance(ctx.command, click.Group)
    ctx.obj = read_settings(path)
    defaults = ctx.obj.defaults()
    # For a group, name its commands; history has no option that is in the settings.
    ctx.default_map = {**dict.fromkeys(ctx.command.list_commands(ctx), defaults), "audit": {"operators": defaults}}


def stands_in_settings(ctx: click.Context, name: str) -> bool:
    """The parameter has its value from the settings, not from the command line."""
    return ctx.get_parameter_source(name) is click.core.ParameterSource.DEFAULT_MAP


def typed_options(ctx: click.Context) -> dict[str, str]:
    """The parameters that the command line gives, and how each is written."""
    source = click.core.ParameterSource.COMMANDLINE
    written = {parameter.name or "": parameter.opts[0] for parameter in ctx.command.params}
    return {name: option for name, option in written.items() if ctx.get_parameter_source(name) is source}


def remark(error: click.ClickException) -> str:
    """Where a wrong value in the settings is; empty for a value from the command line."""
    if not isinstance(error, click.BadParameter) or error.ctx is None or error.param is None:
        return ""
    name = error.param.name or ""
    if not isinstance(error.ctx.obj, SettingsFile) or not stands_in_settings(error.ctx, name):
        return ""
    return f"\nThe value comes from {error.ctx.obj.place(name)}."
