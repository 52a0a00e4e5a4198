"""The operators of all content roots: loaded by path, as pytest loads tests, refused where they contradict themselves.

The generators/ of a root are a package of their own, so that `from .._shared.clouds import …` reaches what operators of
that root share, and two roots keep apart.
"""

import hashlib
import importlib.util
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, ValuesView
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final, get_args

from mluops_gtest.base.errors import ContentError, OperatorError, UnknownNameError, suggestion
from mluops_gtest.base.files import settled_bytecode
from mluops_gtest.core.call import Status
from mluops_gtest.core.declaration import AskedBy, Check, CriteriaByParam, OutputSpec, ParamField
from mluops_gtest.core.operator import SHARED, Operator, raised_at
from mluops_gtest.core.operator_parts import C_API, MUTANTS, RECIPES, REDUCTIONS, SPACE, KnownOperators, Part, T

# What makes a folder an operator.
_FOLDER_FILE: Final = "__init__.py"
# How the names of the packages begin that the generators/ of the roots are.
_PACKAGES: Final = "_mluops_gtest_generators_"
# Files of the built-in content's generators/_shared/, and the modules of authoring that they once were.
_ONCE_AUTHORING: Final = {
    "clouds": ("clouds", "lidar"),
    "connections": ("connected", "connections", "filters"),
    "convolution_space": ("convolution_space", "fewer_pairs"),
    "interpolation": ("interpolation", "interpolation_checks", "interpolation_space", "interpolation_verdict"),
    "points": ("points",),
    "products": ("blas_threads", "factors", "gathered", "products"),
    "sparse": ("sparse",),
    "wrong_interpolation": ("wrong_interpolation", "wrong_triples"),
    "wrong_pairs": ("wrong_pairs",),
    "wrong_products": ("wrong_products", "wrong_weights"),
}
_MOVED: Final = {
    f"mluops_gtest.authoring.{module}": file for file, modules in _ONCE_AUTHORING.items() for module in modules
}

# Name, size and time of the last change of each file.
FileStates = list[tuple[str, int, int]]

# Slots of a run and workers of a cluster may be threads, and modules are those of the process: no two load the same.
_LOADING: Final = threading.RLock()


class Operators(KnownOperators):
    """The operators of all content roots by canonical name, each loaded when first asked for."""

    def __init__(
        self,
        operators: tuple[Operator, ...] = (),
        files: Mapping[str, Path] = MappingProxyType({}),
        hidden: Iterable[Path] = (),
    ) -> None:
        # By canonical name; an operator that was not loaded from a file has none, and no parts.
        self.files = files
        # Operators of that name which another root's hides.
        self.hidden = tuple(hidden)
        self._loaded = {operator.name: operator for operator in operators}
        # Of those loaded so far.
        self._released = {operator.released_name: operator for operator in operators}
        self._names = tuple(sorted({*self._loaded, *files}))
        self._parts: dict[tuple[str, str], Any] = {}
        # Of the code as it was when it was loaded.
        self._states: dict[str, FileStates] = {}

    def __getitem__(self, name: str) -> Operator:
        if name not in self._loaded:
            with _LOADING:
                if name not in self._loaded:
                    self._states[name] = self._state(name)
                    operator = self._loaded[name] = load_operator(self.files[name])
                    self._released[operator.released_name] = operator
        return self._loaded[name]

    def is_current(self, name: str) -> bool:
        """The code of a loaded operator is as it was when it was loaded."""
        return self._states.get(name) == self._state(name)

    def _state(self, name: str) -> FileStates:
        return file_states(code_files(generators_of(self.files[name]), name))

    def __contains__(self, name: object) -> bool:
        return name in self._loaded or name in self.files

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def values(self) -> ValuesView[Operator]:
        """All of them, loaded; two that share a name are an error."""
        return {operator.name: operator for operator in self._by_any_name.values()}.values()

    @cached_property
    def _by_any_name(self) -> dict[str, Operator]:
        operators = [self[name] for name in self]
        self.refuse_twins({operator.name: operator.names for operator in operators})
        return {name: operator for operator in operators for name in operator.names}

    def get_any(self, name: str) -> Operator | None:
        """The operator of that canonical or released name, or None; a name that none loaded so far has needs all."""
        if name in self:
            return self[name]
        return self._released.get(name) or self._by_any_name.get(name)

    def find(self, name: str) -> Operator:
        """The operator of that canonical or released name, or an error that lists them."""
        operator = self.get_any(name)
        if operator is None:
            raise UnknownNameError("operator", name, self._by_any_name)
        return operator

    def canonical(self, name: str) -> str:
        """The canonical name of the operator that goes by this name; one that is typed in full is not loaded for it."""
        return name if name in self else self.find(name).name

    def refuse_twins(self, names: Mapping[str, Iterable[str]]) -> None:
        """Two operators that share one of these names, given by operator, are an error."""
        owners: dict[str, str] = {}
        for operator, own in names.items():
            for name in own:
                other = owners.setdefault(name, operator)
                if other != operator:
                    raise _twins(name, self.files[other], self.files[operator])

    def part(self, operator: str, part: Part[T]) -> T | None:
        """The part of the operator's folder, loaded once; None if there is no such file or folder."""
        key = operator, part.file
        if key not in self._parts:
            with _LOADING:
                self._parts[key] = self._load_part(operator, part)
        loaded: T | None = self._parts[key]
        return loaded

    def _load_part(self, operator: str, part: Part[T]) -> T | None:
        generator = self.files.get(operator)
        return None if generator is None else load_part(self[operator], generator, part)


def load_part(operator: Operator, generator: Path, part: Part[T]) -> T | None:
    """What OPERATOR says by the name of the part, else what a file in its folder defines; None where neither does."""
    value: Any = getattr(operator, part.file) or None
    place, where = generator, f"{part.file}= of OPERATOR"
    for stem in (part.file, part.beside):
        path = generator.with_name(f"{stem}.py")
        if stem is None or generator.name != _FOLDER_FILE or not path.is_file():
            continue
        module = _load_module(f"{_module_name(generator)}.{stem}", path, generators_of(generator))
        found = getattr(module, part.name, None)
        if found is not None or stem == part.file:
            if value is not None:
                raise ContentError(f"{path}: {part.name} is defined by {place}, too. Remove one of them.")
            value, place, where = found, path, part.name
    value = _derived(part.file, value, operator)
    if value is None and place is generator:
        return None
    if not part.accepts(value):
        raise ContentError(f"{place}: the file must define {where}, {part.description}.")
    mistake = part.mistake(value, operator)
    if mistake is not None:
        raise ContentError(f"{place}: {mistake}.")
    loaded: T = value
    return loaded


def _derived(part: str, value: Any, operator: Operator) -> Any:
    """The value with what follows from the declaration; its own reductions replace those along axes by name."""
    if part in (C_API.file, MUTANTS.file, REDUCTIONS.file) and callable(value):
        value = value(operator)
    if part == REDUCTIONS.file and operator.axes and (value is None or isinstance(value, Mapping)):
        from mluops_gtest.authoring.reductions import axis_reductions  # late: it needs numpy

        return {**axis_reductions(operator), **(value or {})}
    if part == SPACE.file and operator.axes and value is None:
        from mluops_gtest.catalog.default_space import default_space  # late: most commands draw nothing

        return default_space(operator)
    return value


def load_operators(*roots: Path) -> Operators:
    """The operators in the generators/ of these roots: one .py file or one folder each, named after the operator.

    Of a name that stands in several roots the last root's is taken.
    """
    files: dict[str, Path] = {}
    hidden: list[Path] = []
    for folder in [root / "generators" for root in roots]:
        own: dict[str, Path] = {}
        for path in (*sorted(folder.glob("*.py")), *sorted(folder.glob(f"*/{_FOLDER_FILE}"))):
            name = operator_name(path)
            if not name.startswith("_") and own.setdefault(name, path) is not path:
                raise _twins(name, own[name], path)
        hidden += [files[name] for name in own if name in files]
        files |= own
    return Operators(files=files, hidden=hidden)


def operator_name(path: Path) -> str:
    """The name that the file, or the folder of that __init__.py, gives to its operator."""
    return path.parent.name if path.name == _FOLDER_FILE else path.stem


def _twins(name: str, first: Path, second: Path) -> ContentError:
    return ContentError(
        f"Two operators are called {name!r}: {first} and {second}. Rename one of them, or leave out one --root."
    )


def code_files(generators: Path, operator: str) -> list[str]:
    """The Python files that make an operator what it is: its own, and all that the operators of its root share."""
    alone = generators / f"{operator}.py"
    return [
        *([str(alone)] if alone.is_file() else []),
        *python_files(generators / operator),
        *python_files(generators / SHARED),
    ]


_IMPORT: Final = re.compile(rb"^\s*from +([.\w]+) +import +(\([^)]*\)|.*)", re.MULTILINE)


def imported_files(generators: Path, operator: str) -> list[Path]:
    """Of the same files the operator's own, and those shared ones that they import, directly or not."""
    own = generators / SHARED
    files = [Path(one) for one in code_files(generators, operator)]
    shared = {path: {*path.relative_to(own).with_suffix("").parts} for path in files if own in path.parents}
    found = [path for path in files if path not in shared]
    for path in found:
        words = {
            word.decode()
            for line in _IMPORT.findall(path.read_bytes())
            for word in re.findall(rb"\w+", b" ".join(line))
        }
        found += [one for one, names in shared.items() if names & words and one not in found]
    return found


def python_files(folder: Path | str) -> Iterator[str]:
    """The Python files in a folder and below it, in order; none where there is no such folder."""
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.name.endswith(".py"):
            yield entry.path
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from python_files(entry.path)


def file_states(files: Iterable[str]) -> FileStates:
    """What tells whether one of the files was edited."""
    return [(path, status.st_size, status.st_mtime_ns) for path, status in ((path, os.stat(path)) for path in files)]


def load_operator(path: Path) -> Operator:
    """The OPERATOR of one generator file."""
    generators, module_name = generators_of(path), _module_name(path)
    load_package(generators)
    _forget(f"{module_name}.")  # a second load reads the folder's other files again, too
    # A folder is a package, so that its files may import each other relatively.
    folder = [str(path.parent)] if path.name == _FOLDER_FILE else None
    operator = getattr(_load_module(module_name, path, generators, folder), "OPERATOR", None)
    if not isinstance(operator, Operator):
        raise ContentError(f"{path}: the file must define OPERATOR, an mluops_gtest.authoring.Operator.")
    name = operator_name(path)
    if operator.name != name:
        raise ContentError(f"{path}: OPERATOR.name is {operator.name!r}; it must be the file's name, {name!r}.")
    mistake = first_mistake(operator, path)
    if mistake is not None:
        raise OperatorError(mistake)
    if not operator.recipes:
        operator = replace(operator, recipes=load_part(operator, path, RECIPES) or {})
    return operator


def generators_of(path: Path) -> Path:
    """The generators/ that the file of an operator stands in."""
    return path.parent.parent if path.name == _FOLDER_FILE else path.parent


def load_package(generators: Path) -> str:
    """The name of the package that the generators of a root are, which has `_shared` as it is now, and nothing else."""
    name = _package_name(generators)
    state = file_states(python_files(generators / SHARED))
    if getattr(sys.modules.get(name), "state", None) != state:
        _forget(f"{name}.{SHARED}")
        # Operators are loaded by path: nothing lets one of them import another.
        package, shared = _package(name, []), generators / SHARED
        if (shared / _FOLDER_FILE).is_file():
            _load_module(f"{name}.{SHARED}", shared / _FOLDER_FILE, generators, [str(shared)])
        elif state:
            _package(f"{name}.{SHARED}", [str(shared)])
        vars(package)["state"] = state
    return name


def _package(name: str, folders: list[str]) -> ModuleType:
    package = sys.modules[name] = ModuleType(name)
    package.__path__ = folders
    return package


def _forget(prefix: str) -> None:
    for name in [name for name in sys.modules if name.startswith(prefix)]:
        del sys.modules[name]


def _package_name(generators: Path) -> str:
    """Unique per root: operators of two roots may have the same name."""
    return f"{_PACKAGES}{hashlib.sha256(str(generators.resolve()).encode()).hexdigest()[:16]}"


def _module_name(path: Path) -> str:
    return f"{_package_name(generators_of(path))}.{operator_name(path)}"


def _load_module(name: str, path: Path, generators: Path, locations: list[str] | None = None) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=locations)
    if spec is None or spec.loader is None:
        raise ContentError(f"{path}: not a Python file that can be loaded.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with settled_bytecode(path), settled_bytecode(generators / SHARED / _FOLDER_FILE):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        place = raised_at(error, path.parent) or path
        raise OperatorError(f"{place}: {_words(error, name.partition('.')[0])}") from error
    return module


def _words(error: BaseException, package: str) -> str:
    """Why a file does not load, and where a module went that this release has no longer."""
    if isinstance(error, ImportError) and error.name is not None:
        for wanted in (error.name, f"{error.name}.{getattr(error, 'name_from', '')}"):
            if wanted in _MOVED:
                return (
                    f"{wanted} moved to generators/{SHARED}/{_MOVED[wanted]}.py of the built-in content: copy it into "
                    f"your root's generators/{SHARED}/, with the files that it imports."
                )
    return f"the file does not load: {type(error).__name__}: {error}".replace(package, "generators")


_TYPES: Final = ("int32", "int64", "float", "double", "bool", "string", "enum")
_LABELS: Final = ("required", "optional", "repeated")


def first_mistake(operator: Operator, path: Path) -> str | None:
    """`file:line: what is wrong, and what to do`; None if nothing is wrong."""
    for word, place, mistake in _mistakes(operator):
        return f"{place or _place(path, word)}: {mistake}"
    return None


def _mistakes(operator: Operator) -> Iterator[tuple[str, str, str]]:
    """A word on the line, the place if it is known, and the mistake."""
    for twin in _twice(check.name for check in operator.checks):
        *_, last = (check for check in operator.checks if check.name == twin)
        yield twin, last.place, f"two checks are called {twin!r}. Give each its own name: cases refer to it."
    for twin in _twice(spec.id for spec in operator.tensors):
        yield twin, "", f"two tensors are called {twin!r}. Give each its own name."
    for name, mistake in (*_size_mistakes(operator), *_query_mistakes(operator), *_position_mistakes(operator)):
        yield name, "", mistake
    for spec in operator.outputs:
        for mistake in _output_mistakes(spec, operator):
            yield spec.id, "", f"the output {spec.id!r} {mistake}"
    for check, mistake in _check_mistakes(operator):
        yield check.name, check.place, f"the check {check.name!r} {mistake}"
    for name in _twice(field.name for field in operator.param_fields):
        yield name, "", f"two parameters are called {name!r}. Give each its own name."
    for number in _twice(str(field.number) for field in operator.param_fields):
        yield operator.param_fields[0].name, "", f"two parameters have the number {number}. Number them 1, 2, 3, …"
    for field in operator.param_fields:
        for mistake in _field_mistakes(field):
            yield field.name, "", f"the parameter {field.name!r} {mistake}"


def _check_mistakes(operator: Operator) -> Iterator[tuple[Check, str]]:
    outputs = [spec.id for spec in operator.outputs]
    for check in operator.checks:
        if check.writes and check.status is not Status.SUCCESS:
            yield check, f"writes, but answers {check.status.name}. A call that is refused writes nothing."
        for name in (one for one in check.may_clear if one not in outputs):
            yield check, f"may clear the unknown output {name!r}.{suggestion(name, outputs)}"


def _size_mistakes(operator: Operator) -> Iterator[tuple[str, str]]:
    tensors = [spec.id for spec in operator.tensors]
    for name, axis in operator.sizes.items():
        if axis.tensor not in tensors:
            yield (
                name,
                f"the size {name!r} is that of an unknown tensor {axis.tensor!r}.{suggestion(axis.tensor, tensors)}",
            )


def _position_mistakes(operator: Operator) -> Iterator[tuple[str, str]]:
    params = {field.name: field for field in operator.param_fields}
    for word, kind, known in (
        *((one.equals, "parameter", params) for one in operator.axes.values()),
        *((one.equals, "symbol of the shapes", operator.definitions) for one in params.values()),
    ):
        if word and word not in known:
            yield word, f"equals={word!r} is no {kind}.{suggestion(word, known)}"
    for one in operator.axes.values():
        if one.of in operator.optional:
            yield one.of, f"{one.symbol} is as long as in {one.of!r}, which a call may lack. Name another tensor."
    for index, spec in enumerate(operator.inputs):
        outputs = [one.id for one in operator.outputs]
        if spec.becomes and spec.becomes not in outputs:
            unknown = f"becomes the unknown output {spec.becomes!r}.{suggestion(spec.becomes, outputs)}"
            yield spec.id, f"the input {spec.id!r} {unknown}"
        if spec.optional and (spec.becomes or not all(one.optional for one in operator.inputs[index:])):
            yield spec.id, f"the input {spec.id!r} is optional, but no argument of its own, or not one of the last."
        if spec.distinct and not spec.names:
            yield spec.id, f"the values of {spec.id!r} are distinct positions of nothing. Say along what by names=."


def _query_mistakes(operator: Operator) -> Iterator[tuple[str, str]]:
    known = [check.name for check in operator.checks]
    for check in operator.checks:
        if check.asked_by not in get_args(AskedBy):
            yield check.name, f"the check {check.name!r} is asked by {check.asked_by!r}. Write both, call or query."
    for function, declared in operator.queries.items():
        for name in (one for one in declared.checks if isinstance(one, str) and one not in known):
            yield name, f"the query {function} makes an unknown check {name!r}.{suggestion(name, known)}"
        for name in (one for one in declared.silent if one not in declared.names):
            yield (
                name,
                f"the query {function} is silent on {name!r}, which is none of its checks. Add it to `checks`, too.",
            )


def _output_mistakes(spec: OutputSpec, operator: Operator) -> Iterator[str]:
    if not spec.criteria:
        yield "has no criteria. Write {DType.FLOAT: diff1_and_diff2(3e-3)} or similar."
    params = [*(field.name for field in operator.param_fields), *(one.id for one in operator.inputs)]
    for dtype, criteria in spec.criteria.items():
        by_param = criteria if isinstance(criteria, CriteriaByParam) else None
        if by_param is not None and by_param.param not in params:
            yield f"has criteria by the unknown parameter {by_param.param!r}.{suggestion(by_param.param, params)}"
        if not criteria or (by_param is not None and not (by_param.criteria and all(by_param.criteria.values()))):
            yield f"has no criteria for {dtype.value}. Add them, or remove the type."
    counting = (*operator.results, *(other.id for other in operator.outputs if other is not spec))
    if spec.rows_owned is not None and spec.rows_owned not in counting:
        known = suggestion(spec.rows_owned, counting)
        yield f"owns the rows of {spec.rows_owned!r}, which is neither a result nor another output.{known}"
    inputs = [one for one in operator.inputs if one.becomes == spec.id]
    if spec.kept is not None and spec.preset is None and not inputs:
        yield "keeps what nobody presets. Say what the caller presets, e.g. preset=0, or which input becomes= it."
    if inputs and spec.preset is not None:
        yield f"is preset, and holds {inputs[0].id!r}. Leave out preset."
    if inputs and (len(inputs) > 1 or (inputs[0].shape, set(inputs[0].dtypes)) != (spec.shape, set(spec.dtypes))):
        yield f"holds {inputs[0].id!r}: one input with the shape {spec.shape} and the same types."


def _field_mistakes(field: ParamField) -> Iterator[str]:
    for kind, value, known in (("type", field.type, _TYPES), ("label", field.label, _LABELS)):
        if value not in known:
            yield f"has the {kind} {value!r}.{suggestion(value, known)}"
    if (field.enum is None) is (field.type == "enum"):
        yield (
            "is an enum without values. Add enum=EnumSpec(…)."
            if field.enum is None
            else (f"has enum values and the type {field.type}. Write the type 'enum'.")
        )
    if field.enum is not None and field.default is not None:
        values = field.enum.values
        if field.default not in values and field.default not in values.values():
            others = suggestion(str(field.default), values)
            yield f"has the default {field.default!r}, which {field.enum.name} does not have.{others}"


def _twice(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _place(path: Path, word: str) -> str:
    """The first line of the file that names the word in quotes, else the one that begins OPERATOR."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for wanted in (f'"{word}"', f"'{word}'", "OPERATOR"):
        for number, line in enumerate(lines, 1):
            if wanted in line:
                return f"{path}:{number}"
    return str(path)
