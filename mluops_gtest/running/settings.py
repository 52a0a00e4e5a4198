"""`mluops-test.toml`: options that a team would otherwise type every time; the command line overrides them."""

import math
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args, get_type_hints

from mluops_gtest.base.errors import ContentError, UsageError, repr_short
from mluops_gtest.base.text import GIVEN_NAME, MAX_LETTERS, strip_to_line
from mluops_gtest.catalog.root import BUILTIN

if TYPE_CHECKING:
    from mluops_gtest.running.options import RunOptions

FILE_NAME: Final = "mluops-test.toml"
_MAX_BYTES: Final = 1 << 20
# Keys that are no options of a run: their places among the keys, and their types.
_OF_THE_GATE: Final = {"waivers": (6, str), "require_isolated": (8, bool)}


class SettingsFile(NamedTuple):
    """The settings that a command uses, with file and lines."""

    path: Path
    settings: Mapping[str, Any]
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


def _types() -> dict[str, Any]:
    """What the file may hold, with its types: options of a run that are settings, and two of the gate."""
    from mluops_gtest.running.options import OPTIONS, RunOptions

    hints = get_type_hints(RunOptions)
    places = {name: one.setting for name, one in OPTIONS.items() if one.setting}
    hints |= {name: kind for name, (_, kind) in _OF_THE_GATE.items()}
    places |= {name: place for name, (place, _) in _OF_THE_GATE.items()}
    # A key that is there has a value.
    return {name: _without_none(hints[name]) for name in sorted(places, key=places.__getitem__)}


def _without_none(hint: Any) -> Any:
    return next(kind for kind in get_args(hint) if kind is not NoneType) if NoneType in get_args(hint) else hint


def _value(key: str, value: Any, place: str) -> Any:
    from mluops_gtest.base.typed_files import Source, convert
    from mluops_gtest.core.case import required_millionths

    types = _types()
    remedy = f"Settings are {', '.join(types)}; see `mluops-test docs settings`."
    if key not in types:
        raise Source(place, remedy).error(f"unknown key {repr_short(key)}")
    source = Source(place, remedy, key)
    found = convert(value, types[key], source)
    checks: dict[str, Callable[[Any], Any]] = {
        "labels": lambda labels: parse_labels(label_words(labels)),
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


def parse_labels(words: Sequence[str]) -> dict[str, str]:
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


def with_settings(options: "RunOptions", path: Path) -> "RunOptions":
    """The options with what the file has for those that have their defaults, where the run can use it."""
    from msgspec.structs import replace

    from mluops_gtest.running.options import OPTIONS

    found, changed = read_settings(Path(os.path.abspath(path))), options.changed()
    values = {name: value for name, value in found.defaults().items() if name in OPTIONS and name not in changed}
    values["labels"] = {**found.settings.get("labels", {}), **options.labels}
    options = replace(options, **{"settings": str(found.path), **values})
    unfit = {name for name in unfit_settings(options) if name in values}
    return replace(options, **{name: OPTIONS[name].default for name in unfit})


def unfit_settings(options: "RunOptions") -> set[str]:
    """The settings that this run cannot use: a default that does not fit is left out."""
    inline = set() if options.isolated else {"jobs", "timeout", "fail_on_leak"}
    return inline | ({"jobs"} if options.perf or options.devices else set())
