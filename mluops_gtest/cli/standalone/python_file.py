"""A Python file that shows a failure with numpy and the backend alone: an object of Python, or a library by ctypes."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from mluops_gtest.backends.registry import python_target
from mluops_gtest.base.errors import UsageError
from mluops_gtest.cli.standalone import Shown, Standalone
from mluops_gtest.cli.standalone.facts import Facts, TensorFacts, c_functions, facts_of, filled, owed_by_query, template
from mluops_gtest.core.call import DEFAULT_ARCH, DEFAULT_NRAM_BYTES, Status
from mluops_gtest.core.operator_parts import CArguments, CEnum
from mluops_gtest.core.tensor import Array, DType, Layout

_PER_LINE = 16


def python_standalone(backend: str) -> Standalone:
    """For path/file.py[:attribute], module:attribute and entry points."""
    target = python_target(backend)
    if target is None:
        raise UsageError(f"--standalone py: {backend!r} names no Python object.")
    if target.endswith(".py"):
        attribute = backend.removeprefix(target).removeprefix(":") or "backend"
        where = (str(Path(target).resolve()), attribute)
    else:
        where = (target, backend.rpartition(":")[2])
    return Standalone(".py", lambda shown, _: _python_text(shown, where), _command)


def ctypes_standalone(library: str) -> Standalone:
    """For c:LIBRARY."""
    place = str(Path(library).resolve()) if Path(library).is_file() else library
    return Standalone(".py", lambda shown, _: _ctypes_text(shown, place), _command)


def _command(path: Path) -> str:
    return shlex.join([Path(sys.executable).name, str(path)])


def _python_text(shown: Shown, where: tuple[str, str]) -> str:
    facts = facts_of(shown)
    enums = [
        f"TYPES = { ({d.name: (d.value, d.storage.str) for d in DType})!r}",
        f"LAYOUTS = {[layout.name for layout in Layout]!r}",
    ]
    return _filled("python.py", facts, [f"BACKEND = {where!r}", *_data(facts)], enums)


def _ctypes_text(shown: Shown, library: str) -> str:
    facts = facts_of(shown)
    api = c_functions(shown)
    lines = ["# The first name that the library exports is called.", "SIGNATURES = ["]
    for signature in api:
        params = signature.params
        described = None
        if params is not None:
            described = (params.create, params.destroy, params.set, _arguments(params.arguments), dict(params.getters))
        query = None
        if signature.query is not None:
            statuses = owed_by_query(shown, signature.query.name)
            owed = {size_null: None if one is None else one.name for size_null, one in statuses.items()}
            query = (signature.query.name, _arguments(signature.query.arguments), owed)
        function = (signature.function.name, _arguments(signature.function.arguments))
        lines.append(f"    ({function!r},\n     {query!r},\n     {described!r}),")
    lines.append("]")
    enums = [
        f"TYPES = { ({d.value: (d.c_number, d.storage.str) for d in DType if d.c_number is not None})!r}",
        f"LAYOUTS = { ({layout.value: layout.c_number for layout in Layout})!r}",
    ]
    return _filled("ctypes.py", facts, [f"LIBRARY = {library!r}", *_data(facts), *lines], enums)


def _arguments(arguments: CArguments) -> list[tuple[str, str, str]]:
    """Source, name and C type of each."""
    return [(one.source.name, one.name, "int" if isinstance(one.type, CEnum) else one.type.value) for one in arguments]


def _filled(name: str, facts: Facts, data: list[str], enums: list[str]) -> str:
    numbers = f"STATUS_NUMBERS = { ({status.name: status.value for status in Status})!r}"
    holes = {
        "# $SHARED\n": template("shared.py"),
        "# $DATA": "\n".join(data),
        "# $ENUMS": "\n".join([numbers, *enums]),
        "$CASE": facts.shown.case.id,
        "$WHY": facts.why.replace("\\", "/").replace('"""', "'''"),
        "$OPERATOR": facts.shown.operator.name,
    }
    return filled(template(name), holes)


def _data(facts: Facts) -> Iterator[str]:
    expect = facts.shown.case.expect
    arch = DEFAULT_ARCH if expect.arch is None else expect.arch
    nram = DEFAULT_NRAM_BYTES if expect.nram_bytes is None else expect.nram_bytes
    yield f"HANDLE = {None if expect.null_handle else (arch, nram)!r}  # architecture, bytes of NRAM"
    yield f"PARAMS = {facts.params!r}"
    yield f"WORKSPACE_SIZE = {expect.workspace_size!r}  # None: what the backend asks for"
    yield f"WORKSPACE_IS_NULL = {'workspace' in expect.null_pointer!r}"
    yield "INPUTS = {"
    yield from (_tensor(one) for one in facts.tensors if not one.is_output)
    yield "}"
    yield "OUTPUTS = {"
    yield from (_tensor(one) for one in facts.tensors if one.is_output)
    yield "}"
    yield f"EXPECTED_STATUS = {facts.expectation.answer.status.name!r}"
    yield f"EXPECTED_SCALARS = {dict(facts.expectation.results)!r}"
    yield f"COMPUTES = {facts.computes!r}"


def _tensor(facts: TensorFacts) -> str:
    desc = facts.tensor.desc
    words = [repr(desc.dtype.value), repr(desc.layout.value), repr(desc.dims)]
    given: dict[str, str] = {}
    if desc.strides is not None:
        given["strides"] = repr(desc.strides)
    for name in ("absent", "null"):
        if getattr(facts, name):
            given[name] = "True"
    if not facts.has_buffer:
        given["has_buffer"] = "False"
    for name in ("values", "may_become", "expected", "kept"):
        array = getattr(facts, name)
        if array is not None:
            given[name] = _literal(array)
    if facts.preset is not None:
        given["preset"] = repr(facts.preset)
    if facts.is_output:
        given["poison"] = repr(desc.dtype.poison)
    if facts.expected is not None:
        given["criteria"] = repr({one.kind.canonical.value: one.threshold for one in facts.criteria})
    if facts.allowed is not None:
        given["allowed"] = repr(facts.allowed)
    arguments = ", ".join([*words, *(f"{name}={value}" for name, value in given.items())])
    return f"    {facts.name!r}: Tensor({arguments}),"


def _literal(array: Array) -> str:
    """The values as a reader writes them; the shortest text that gives the same float again."""
    if array.dtype.kind == "b":
        texts = [str(bool(value)) for value in array]
    elif array.dtype.kind == "f":
        texts = [str(value) for value in array]
    else:
        texts = [repr(value) for value in array.tolist()]
    if len(texts) <= _PER_LINE:
        return f"[{', '.join(texts)}]"
    lines = (", ".join(texts[start : start + _PER_LINE]) for start in range(0, len(texts), _PER_LINE))
    return "[\n" + "".join(f"        {line},\n" for line in lines) + "    ]"
