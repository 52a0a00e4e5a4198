"""One file without the harness that shows how a case fails: in C, or in Python with numpy and the backend alone.

`describe_failure` says once what such a file has to know: tensors, what must come back, why it fails. This module
writes it in Python, for an object of Python or for a library by ctypes; `standalone_c` writes it in C.
"""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import field
from msgspec.structs import replace

from mluops_gtest.backends.registry import BUILT_IN, python_target
from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.frozen import Value
from mluops_gtest.core.buffers import bind_values, has_buffer, owned_rows, pattern_of
from mluops_gtest.core.call import DEFAULT_ARCH, DEFAULT_NRAM_BYTES, Status
from mluops_gtest.core.case import Case
from mluops_gtest.core.cause import BeyondBound
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.operator_parts import C_API, CApi, CArgument, CArguments, CEnum, KnownOperators
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.tensor import Array, Criterion, DType, Layout, Tensor, TensorDesc
from mluops_gtest.judging.elementwise import Expectation, expectation_of

_PER_LINE = 16


class TensorFacts(Value):
    """One tensor of the call."""

    tensor: Tensor
    is_output: bool
    # The descriptor, or the data pointer, is null; a large descriptor has no buffer.
    absent: bool
    null: bool
    has_buffer: bool
    # Flat; of an input `values` and what they `may_become`, of an output what its first elements are `expected` to be
    # (without it the output must stay as it was), which elements must be `kept`, and where an input says what stands
    # in the buffer before the call, the bits of that.
    arrays: Mapping[str, Array]
    preset: int | None = None
    criteria: tuple[Criterion, ...] = ()
    # An element and what it may be off by.
    allowed: tuple[int, float] | None = None
    # It may be as it was before the call, or all bits 0 although the call is refused.
    may_stay: bool = False
    may_clear: bool = False


class Failure(Value):
    """A case, how it failed, and everything about the call and its answer."""

    case: Case
    operator: Operator
    # How it failed, in a line.
    why: str
    expectation: Expectation
    # As the backend gets them: without results, None where the descriptor is null.
    params: dict[str, Any] | None
    c_api: CApi
    tensors: tuple[TensorFacts, ...] = field(default=())

    def required_c_api(self) -> CApi:
        """How a library offers the operator; an error where nobody says it."""
        if not self.c_api:
            raise UsageError(f"{self.operator.name} declares no C functions (`c_api`), so that no file can call them.")
        return self.c_api

    def size(self, argument: CArgument) -> int:
        """What the call passes where the argument is a size of its tensors."""
        return argument.size({one.tensor.id: None if one.absent else one.tensor.desc.dims for one in self.tensors})

    def query_statuses(self, function: str) -> dict[bool, Status | None]:
        """What the workspace query owes to the call; under True to one without a pointer to the size, if it is made."""
        call = bind_values(self.case, self.operator)
        answers = {
            size_null: self.operator.query_answer(function, replace(call, size_null=size_null))
            for size_null in (False, call.size_null)
        }
        return {size_null: None if answer is None else answer.status for size_null, answer in answers.items()}


def describe_failure(case: Case, result: CaseResult, operator: Operator, operators: KnownOperators) -> Failure:
    """Returns what is known of the case, gathered."""
    params = bind_values(case, operator).params
    failure = Failure(
        case,
        operator,
        " ".join(f"{result.outcome.words['en']}: {result.reason}".split()),
        expectation_of(case, operator),
        None if params is None else dict(params),
        operators.part(operator.name, C_API) or (),
    )
    return replace(failure, tensors=tuple(_describe_tensors(failure, result)))


def _describe_tensors(failure: Failure, result: CaseResult) -> Iterator[TensorFacts]:
    case, expectation = failure.case, failure.expectation

    def describe(tensor: Tensor, is_output: bool, arrays: Mapping[str, Array | None], **more: Any) -> TensorFacts:
        flat = {name: np.ascontiguousarray(one).reshape(-1) for name, one in arrays.items() if one is not None}
        absent = tensor.id in case.expect.null_descriptor
        null = tensor.id in case.expect.null_pointer or (absent and tensor.id in failure.operator.optional)
        return TensorFacts(tensor, is_output, absent, null, has_buffer(case, tensor), flat, **more)

    for argument in failure.operator.arguments:
        if not case.has(argument.id):
            nothing = Tensor(argument.id, TensorDesc(argument.dtypes[0], argument.own_layouts[0], (0,)))
            yield TensorFacts(nothing, is_output=False, absent=True, null=True, has_buffer=False, arrays={})
            continue
        tensor = case.tensor(argument.id)
        arrays = {"values": tensor.data, "may_become": expectation.allowed_input_changes.get(tensor.id)}
        yield describe(tensor, False, arrays)
    for number, tensor in enumerate(case.outputs):
        spec, dims = failure.operator.output(tensor.id), tensor.desc.dims
        criteria = case.criteria[number] if number < len(case.criteria) else ()
        expected = kept = allowed = None
        if expectation.answer.computes:
            if criteria is not None and not tensor.desc.is_empty:
                expected = expectation.outputs[number].values[: owned_rows(spec, expectation.counts)]
            if tensor.id in expectation.preserved_rows:
                kept = expectation.preserved_elements(tensor)
        if any(isinstance(cause, BeyondBound) and cause.output == tensor.id for cause in result.causes):
            reading = next(one for one in result.elements if one.output == tensor.id)
            allowed = int(np.ravel_multi_index(reading.index, dims)), reading.allowed
        yield describe(
            tensor,
            True,
            {"expected": expected, "kept": kept, "held": _initial_content(case, tensor, kept)},
            preset=spec.preset,
            criteria=criteria or failure.operator.usual_criteria(tensor.id, tensor.desc.dtype, case.facts),
            allowed=allowed,
            may_stay=tensor.id in expectation.may_stay,
            may_clear=tensor.id in failure.operator.may_clear(expectation.answer),
        )


def _initial_content(case: Case, tensor: Tensor, kept: Array | None) -> Array | None:
    """The bits of what the buffer of the output holds before the call, where an input says it; poison between them."""
    held = case.initial_content(tensor.id)
    if held is None or held.data is None:
        return None
    bits = np.broadcast_to(pattern_of(tensor.desc.dtype, None), tensor.desc.extent).copy()
    np.copyto(tensor.desc.view(bits), held.values.view(tensor.desc.dtype.bits), where=True if kept is None else kept)
    return bits


class Standalone(Value):
    """The file that is to be written: its suffix, and what it calls."""

    suffix: str
    # Of c:LIBRARY.
    library: str | None = None
    # File or module of a Python backend, and the attribute.
    target: tuple[str, str] = ("", "")

    def text(self, failure: Failure, path: Path) -> str:
        """The text of the file."""
        if self.suffix == ".c":
            from mluops_gtest.cli.standalone_c import c_text

            return c_text(failure, self.command(path))
        return _python_text(failure, self.target) if self.library is None else _ctypes_text(failure, self.library)

    def command(self, path: Path) -> str:
        """What runs the file; C is compiled against the library first."""
        if self.suffix == ".py":
            return shlex.join([Path(sys.executable).name, str(path)])
        assert self.library is not None
        program = path.with_suffix("")
        run = str(program) if program.is_absolute() or len(program.parts) > 1 else f"./{program}"
        if Path(self.library).is_file():
            whole = Path(self.library).resolve()
            link = [str(whole), f"-Wl,-rpath,{whole.parent}"]
        else:
            link = [f"-l:{self.library}"]
        return f"{shlex.join(['gcc', str(path), *link, '-lm', '-o', str(program)])} && {shlex.quote(run)}"


def standalone_of(form: str, backend: str, runtime: str | None) -> Standalone:
    """Returns the kind of file for this backend; an error that says what to do where it makes no sense."""
    word, _, library = backend.partition(":")
    asked = f"--standalone {form} --backend {backend}"
    if word == "mlu" or runtime is not None:
        raise UsageError(f"{asked}: the file calls the library on host memory; leave out --runtime, or --standalone.")
    if backend in BUILT_IN or word == "torch":
        raise UsageError(f"{asked}: this backend is a part of mluops-test, so that no file can call it without.")
    if word == "exec":
        raise UsageError(
            f"{asked}: a program reads folders that mluops-test writes. The case file and the repro line show "
            "the failure; leave out --standalone."
        )
    if word == "c":
        return Standalone(f".{form}", library)
    if form == "c":
        raise UsageError(
            f"{asked}: only a library with the C API (c:LIBRARY) can be called from C; use --standalone py."
        )
    target = python_target(backend)
    if target is None:
        raise UsageError(f"--standalone py: {backend!r} names no Python object.")
    if target.endswith(".py"):
        attribute = backend.removeprefix(target).removeprefix(":") or "backend"
        return Standalone(".py", target=(str(Path(target).resolve()), attribute))
    return Standalone(".py", target=(target, backend.rpartition(":")[2]))


def fill_template(name: str, holes: Mapping[str, str]) -> str:
    """The fixed part of a file with a value for each hole, one after the other."""
    text = template(name)
    for hole, value in holes.items():
        text = text.replace(hole, value)
    return text


def template(name: str) -> str:
    """The text of a template; they end in .txt, so that no tool takes them for modules of this package."""
    return files("mluops_gtest.cli").joinpath("templates", f"{name}.txt").read_text(encoding="utf-8")


def _python_text(failure: Failure, target: tuple[str, str]) -> str:
    enums = [
        f"TYPES = { ({d.name: (d.value, d.storage.str) for d in DType})!r}",
        f"LAYOUTS = {[layout.name for layout in Layout]!r}",
    ]
    return _fill_python("standalone/python.py", failure, [f"BACKEND = {target!r}", *_data(failure)], enums)


def _ctypes_text(failure: Failure, library: str) -> str:
    place = str(Path(library).resolve()) if Path(library).is_file() else library
    lines = ["# The first name that the library exports is called.", "SIGNATURES = ["]
    for signature in failure.required_c_api():
        params = query = None
        if (c := signature.params) is not None:
            params = (c.create, c.destroy, c.set, _arguments(c.arguments, failure), dict(c.getters))
        if signature.query is not None:
            statuses = failure.query_statuses(signature.query.declared_name)
            owed = {size_null: None if one is None else one.name for size_null, one in statuses.items()}
            query = (signature.query.name, _arguments(signature.query.arguments, failure), owed)
        function = (signature.function.name, _arguments(signature.function.arguments, failure))
        lines.append(f"    ({function!r},\n     {query!r},\n     {params!r}),")
    enums = [
        f"TYPES = { ({d.value: (d.c_number, d.storage.str) for d in DType if d.c_number is not None})!r}",
        f"LAYOUTS = { ({layout.value: layout.c_number for layout in Layout})!r}",
    ]
    return _fill_python("standalone/ctypes.py", failure, [f"LIBRARY = {place!r}", *_data(failure), *lines, "]"], enums)


def _arguments(arguments: CArguments, failure: Failure) -> list[tuple[str, str | int, str]]:
    """Source, name and C type of each; of a size its value."""
    return [(one.source.name, failure.size(one) if one.places else one.name, c_type(one)) for one in arguments]


def c_type(argument: CArgument) -> str:
    """Its type where it holds a number; an enum of C is one."""
    return "int" if isinstance(argument.type, CEnum) else argument.type.value


def _fill_python(name: str, failure: Failure, data: list[str], enums: list[str]) -> str:
    numbers = f"STATUS_NUMBERS = { ({status.name: status.value for status in Status})!r}"
    holes = {
        "# $SHARED\n": template("standalone/shared.py"),
        "# $DATA": "\n".join(data),
        "# $ENUMS": "\n".join([numbers, *enums]),
        "$CASE": failure.case.id,
        "$WHY": failure.why.replace("\\", "/").replace('"""', "'''"),
        "$OPERATOR": failure.operator.name,
    }
    return fill_template(name, holes)


def _data(failure: Failure) -> Iterator[str]:
    expect, expectation = failure.case.expect, failure.expectation
    arch = DEFAULT_ARCH if expect.arch is None else expect.arch
    nram = DEFAULT_NRAM_BYTES if expect.nram_bytes is None else expect.nram_bytes
    yield f"HANDLE = {None if expect.null_handle else (arch, nram)!r}  # architecture, bytes of NRAM"
    yield f"PARAMS = {failure.params!r}"
    yield f"WORKSPACE_SIZE = {expect.workspace_size!r}  # None: what the backend asks for"
    yield f"WORKSPACE_IS_NULL = {'workspace' in expect.null_pointer!r}"
    for name, is_output in (("INPUTS", False), ("OUTPUTS", True)):
        yield f"{name} = {{"
        yield from (_tensor(one) for one in failure.tensors if one.is_output is is_output)
        yield "}"
    yield f"EXPECTED_STATUS = {expectation.answer.status.name!r}"
    yield f"EXPECTED_SCALARS = {dict(expectation.results)!r}"
    yield f"COMPUTES = {expectation.answer.computes!r}"


def _tensor(facts: TensorFacts) -> str:
    desc = facts.tensor.desc
    # Each with whether it is said.
    fields = {
        "strides": (desc.strides is not None, repr(desc.strides)),
        "absent": (facts.absent, "True"),
        "null": (facts.null, "True"),
        "has_buffer": (not facts.has_buffer, "False"),
        **{name: (True, _literal(array)) for name, array in facts.arrays.items()},
        "preset": (facts.preset is not None, repr(facts.preset)),
        "poison": (facts.is_output, repr(desc.dtype.poison)),
        "criteria": (
            "expected" in facts.arrays,
            repr({one.kind.canonical.value: one.threshold for one in facts.criteria}),
        ),
        "allowed": (facts.allowed is not None, repr(facts.allowed)),
        "may_stay": (facts.may_stay, "True"),
        "may_clear": (facts.may_clear, "True"),
    }
    words = [repr(desc.dtype.value), repr(desc.layout.value), repr(desc.dims)]
    words += [f"{name}={value}" for name, (is_said, value) in fields.items() if is_said]
    return f"    {facts.tensor.id!r}: Tensor({', '.join(words)}),"


def _literal(array: Array) -> str:
    """The values as a reader writes them; the shortest text that gives the same float again."""
    if array.dtype.kind == "c":
        texts = [f"complex({value.real}, {value.imag})" for value in array]
    else:
        texts = [str(value) for value in array] if array.dtype.kind == "f" else list(map(repr, array.tolist()))
    lines = in_lines(texts, _PER_LINE)
    if len(lines) <= 1:
        return f"[{''.join(lines)}]"
    return "[\n" + "".join(f"        {line},\n" for line in lines) + "    ]"


def in_lines(texts: Sequence[str], number: int) -> list[str]:
    """The texts with commas between them, so many on a line."""
    return [", ".join(texts[start : start + number]) for start in range(0, len(texts), number)]
