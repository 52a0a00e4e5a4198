"""C prototypes from the operators' declared C functions: of one operator, or a whole header to compile against.

A C file that shows a failure of a library with the C API, and the line that compiles and runs it.
"""

import math
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mluops_gtest.base.errors import UsageError
from mluops_gtest.cli.standalone import Shown, Standalone
from mluops_gtest.cli.standalone.facts import Facts, TensorFacts, c_functions, facts_of, filled, owed_by_query, template
from mluops_gtest.core.call import DEFAULT_ARCH, DEFAULT_NRAM_BYTES, Status
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.operator_parts import (
    WORKSPACE,
    ArgumentSource,
    CApi,
    CArgument,
    CArguments,
    CEnum,
    CParams,
    CSignature,
)
from mluops_gtest.core.tensor import Array, CriterionKind, DType, Layout

_WIDTH = 110
_NO_BREAK = "\N{NO-BREAK SPACE}"

# What every library offers, whatever its operators are.
_COMMON = """
typedef struct mluOpContext *mluOpHandle_t;
typedef struct mluOpTensorStruct *mluOpTensorDescriptor_t;
typedef struct cnrtQueueStruct *cnrtQueue_t;

mluOpStatus_t mluOpCreate(mluOpHandle_t *handle);
mluOpStatus_t mluOpDestroy(mluOpHandle_t handle);
mluOpStatus_t mluOpSetQueue(mluOpHandle_t handle, cnrtQueue_t queue);
mluOpStatus_t mluOpCreateTensorDescriptor(mluOpTensorDescriptor_t *desc);
mluOpStatus_t mluOpDestroyTensorDescriptor(mluOpTensorDescriptor_t desc);
mluOpStatus_t mluOpSetTensorDescriptor_v2(mluOpTensorDescriptor_t desc, mluOpTensorLayout_t layout,
    mluOpDataType_t dtype, int dimNb, const int64_t dimSize[]);
mluOpStatus_t mluOpSetTensorDescriptorEx_v2(mluOpTensorDescriptor_t desc, mluOpTensorLayout_t layout,
    mluOpDataType_t dtype, int dimNb, const int64_t dimSize[], const int64_t dimStride[]);

/* Optional: they let a library stand for another device in the cases that ask for one. */
mluOpStatus_t mluOpTestSetArch(mluOpHandle_t handle, int arch);
mluOpStatus_t mluOpTestSetNramBytes(mluOpHandle_t handle, int64_t bytes);"""

Declared = tuple[Operator, CApi]


def c_prototypes(declared: Declared) -> str:
    """The types and functions of one operator; they need the common types in front of them."""
    operator = declared[0].name
    return "\n".join(
        [
            f"/* {operator}; the types that all operators share: mluops-test ops --c */",
            *_unique(_declarations(declared)),
        ]
    )


def c_header(all_declared: Iterable[Declared]) -> str:
    """A whole header: the common types and functions, then those of every operator."""
    parts = [
        "#ifndef MLUOPS_TEST_API_H",
        "#define MLUOPS_TEST_API_H\n",
        "#include <stddef.h>",
        "#include <stdint.h>\n",
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        _enum("mluOpStatus_t", {f"MLUOP_STATUS_{status.name}": status.value for status in Status}),
        _enum("mluOpTensorLayout_t", {f"MLUOP_LAYOUT_{layout.name}": layout.c_number for layout in Layout}),
        _enum("mluOpDataType_t", {f"MLUOP_DTYPE_{d.name}": d.c_number for d in DType if d.c_number is not None}),
        _COMMON,
        *_unique(part for declared in all_declared for part in _declarations(declared)),
        "\n#ifdef __cplusplus\n}\n#endif\n\n#endif",
    ]
    return "\n".join(parts)


def _unique(parts: Iterable[str]) -> list[str]:
    """Operators share types and descriptors; C wants each of them once."""
    return list(dict.fromkeys(parts))


def _declarations(declared: Declared) -> Iterator[str]:
    operator, api = declared
    for signature in api:
        for function in signature.functions:
            for argument in function.arguments:
                if isinstance(argument.type, CEnum):
                    yield _enum(argument.type.name, argument.type.constants)
        if signature.params is not None:
            yield from _params_functions(signature.params, operator)
        for function in signature.functions:
            yield _prototype(function.name, _arguments(function.arguments, operator, signature.params))


def _params_functions(params: CParams, operator: Operator) -> Iterator[str]:
    own = f"{params.type} desc"
    yield f"\ntypedef struct {params.type.removesuffix('Descriptor_t')}Struct *{params.type};"
    yield _prototype(params.create, [f"{params.type} *desc"])
    yield _prototype(params.destroy, [own])
    yield _prototype(params.set, [own, *_arguments(params.arguments, operator, params)])
    for result, getter in params.getters.items():
        yield _prototype(getter, [own, f"int *{result}"])


def _prototype(name: str, arguments: list[str]) -> str:
    # An argument stays on one line: only the spaces between arguments may become line breaks.
    unbroken = ", ".join(argument.replace(" ", _NO_BREAK) for argument in arguments)
    text = f"mluOpStatus_t{_NO_BREAK}{name}({unbroken});"
    lines = textwrap.wrap(text, _WIDTH, subsequent_indent="    ", break_long_words=False)
    return "\n" + "\n".join(lines).replace(_NO_BREAK, " ")


def _arguments(arguments: CArguments, operator: Operator, params: CParams | None) -> list[str]:
    outputs = {spec.id for spec in operator.outputs}
    return [_argument(one, one.writable or one.name in outputs, operator, params) for one in arguments]


def _argument(argument: CArgument, writable: bool, operator: Operator, params: CParams | None) -> str:
    name = argument.name
    number = argument.type.name if isinstance(argument.type, CEnum) else argument.type.value
    match argument.source:
        case ArgumentSource.HANDLE:
            return "mluOpHandle_t handle"
        case ArgumentSource.PARAMS:
            assert params is not None, "loading refuses PARAMS without CParams"
            return f"const {params.type} {operator.params_descriptor}"
        case ArgumentSource.DESCRIPTOR:
            return f"const mluOpTensorDescriptor_t {name}_desc"
        case ArgumentSource.DATA:
            return f"{'' if writable else 'const '}void *{name}"
        case ArgumentSource.SCALAR:
            return f"{number} {name}"
        case ArgumentSource.HOST_ARRAY:
            return f"const {number} {name}[]"
        case ArgumentSource.WORKSPACE:
            return "void *workspace"
        case ArgumentSource.WORKSPACE_SIZE:
            return "size_t workspace_size"
        case ArgumentSource.ASKED_SIZE:
            return "size_t *workspace_size"


def _enum(name: str, constants: Mapping[str, int]) -> str:
    lines = ",\n".join(f"    {constant} = {number}" for constant, number in constants.items())
    return f"\ntypedef enum {{\n{lines}\n}} {name};"


_PER_LINE = 12
_SPARE = 64
_C_TYPES = {DType.FLOAT: "float", DType.HALF: "uint16_t", DType.INT32: "int32_t", DType.INT64: "int64_t"}


def c_standalone(library: str) -> Standalone:
    """For c:LIBRARY."""
    return Standalone(
        ".c", lambda shown, path: _text(shown, _command(library, path)), lambda path: _command(library, path)
    )


def _command(library: str, path: Path) -> str:
    """What compiles the file against the library and runs it."""
    program = path.with_suffix("")
    run = str(program) if program.is_absolute() or len(program.parts) > 1 else f"./{program}"
    if Path(library).is_file():
        whole = Path(library).resolve()
        link = [str(whole), f"-Wl,-rpath,{whole.parent}"]
    else:
        link = [f"-l:{library}"]
    return f"{shlex.join(['gcc', str(path), *link, '-lm', '-o', str(program)])} && {shlex.quote(run)}"


def _text(shown: Shown, command: str) -> str:
    facts = facts_of(shown)
    api = c_functions(shown)
    holes = {
        "$HEADER": c_header([(shown.operator, api)]),
        "$DATA": "\n".join(_data(facts, api[0])),
        "$CALL": "\n".join(f"    {line}" for line in _call(facts, api[0])),
        "$COMMAND": command.replace("*/", "* /"),
        "$CASE": shown.case.id.replace("*/", "* /"),
        "$WHY": facts.why.replace("*/", "* /"),
        "$OPERATOR": shown.operator.name,
    }
    return filled(template("c.c"), holes)


def _data(facts: Facts, signature: CSignature) -> Iterator[str]:
    for one in facts.tensors:
        if one.has_buffer:
            yield from _buffer(one)
    for argument in _host_arrays(signature):
        values = (facts.params or {}).get(argument.name)
        if values is not None:
            numbers = ", ".join(_number(value, argument) for value in values)
            kind = _c_type(argument)
            # Zeros behind the values, for a library that reads a little too far.
            yield f"static const {kind} {argument.name}[{len(values) + _SPARE}] = {{{numbers}}};"


def _buffer(facts: TensorFacts) -> Iterator[str]:
    name, desc = facts.name, facts.tensor.desc
    if desc.dtype not in _C_TYPES and facts.expected is not None:
        raise UsageError(f"--standalone c: {name} has the type {desc.dtype.value}; use --standalone py.")
    # A call that is refused may have any type: its bytes do.
    c_type = _C_TYPES.get(desc.dtype, "unsigned char")
    arrays: dict[str, str] = {}
    for field in ("values", "may_become"):
        array = getattr(facts, field)
        if array is not None and array.size:
            arrays[field] = f"{name}_{field}"
            yield f"static const {c_type} {arrays[field]}[] = {{{_elements(array, desc.dtype)}}};"
    if facts.is_output:
        arrays["poison"] = f"{name}_poison"
        yield f"static const unsigned char {arrays['poison']}[] = {{{', '.join(map(str, desc.dtype.poison))}}};"
    if facts.preset is not None:
        arrays["preset"] = f"{name}_preset"
        preset = _elements(np.array([facts.preset], desc.dtype.storage), desc.dtype)
        yield f"static const {c_type} {arrays['preset']}[] = {{{preset}}};"
    if facts.kept is not None:
        arrays["kept"] = f"{name}_kept"
        yield f"static const unsigned char {arrays['kept']}[] = {{{_joined([str(int(k)) for k in facts.kept])}}};"
    if facts.expected is not None:
        arrays["expected"] = f"{name}_expected"
        numbers = _joined([_double(float(value)) for value in facts.expected]) or "0"
        yield f"static const double {arrays['expected']}[] = {{{numbers}}};"
    limits = {one.kind.canonical: one.threshold for one in facts.criteria}
    place, allowed = facts.allowed or (-1, 0.0)
    fields = {
        "name": f'"{name}"',
        "dtype": f"MLUOP_DTYPE_{desc.dtype.name}",
        "bytes": str(desc.nbytes),
        "item": str(desc.dtype.itemsize),
        **arrays,
        "owned": str(0 if facts.expected is None else facts.expected.size),
        "diff1": repr(limits.get(CriterionKind.DIFF1, -1.0)),
        "diff2": repr(limits.get(CriterionKind.DIFF2, -1.0)),
        "diff3": repr(limits.get(CriterionKind.DIFF3, -1.0)),
        "allowed_at": str(place),
        "allowed": repr(allowed),
    }
    yield f"static Buffer {name}_buffer = {{{', '.join(f'.{field} = {value}' for field, value in fields.items())}}};\n"


def _call(facts: Facts, signature: CSignature) -> Iterator[str]:
    """The statements of main."""
    buffers = [one.name for one in facts.tensors if one.has_buffer]
    yield from (f"fill(&{name}_buffer);" for name in buffers)
    yield from _handle(facts)
    if signature.params is not None:
        yield from _params(facts, signature.params)
    for one in facts.tensors:
        yield from _descriptor(facts, one)
    yield from _workspace(facts, signature)
    own, wanted = signature.function, _wanted(facts)
    yield f"mluOpStatus_t status = {own.name}({', '.join(_values(own.arguments, facts))});"
    yield f'printf("{own.name} answered %d, expected %d\\n", status, {wanted});'
    yield f"if (status != {wanted}) return 1;"
    yield from (f"check(&{name}_buffer, {int(facts.computes)});" for name in buffers)
    if signature.params is not None and facts.params is not None:
        yield from _results(facts, signature.params)


def _wanted(facts: Facts) -> str:
    return f"MLUOP_STATUS_{facts.expectation.answer.status.name}"


def _must(facts: Facts, name: str, *arguments: str) -> str:
    return f'must("{name}", {name}({", ".join(arguments)}), {_wanted(facts)});'


def _handle(facts: Facts) -> Iterator[str]:
    expect = facts.shown.case.expect
    yield "mluOpHandle_t handle = NULL;"
    if expect.null_handle:
        return
    yield _must(facts, "mluOpCreate", "&handle")
    yield _must(facts, "mluOpSetQueue", "handle", "NULL")
    if expect.arch not in (None, DEFAULT_ARCH):
        yield _must(facts, "mluOpTestSetArch", "handle", str(expect.arch))
    if expect.nram_bytes not in (None, DEFAULT_NRAM_BYTES):
        yield _must(facts, "mluOpTestSetNramBytes", "handle", str(expect.nram_bytes))


def _params(facts: Facts, params: CParams) -> Iterator[str]:
    yield f"{params.type} params = NULL;"
    if facts.params is not None:
        yield _must(facts, params.create, "&params")
        yield _must(facts, params.set, "params", *_values(params.arguments, facts))


def _descriptor(facts: Facts, one: TensorFacts) -> Iterator[str]:
    desc, made = one.tensor.desc, f"{one.name}_desc"
    yield f"mluOpTensorDescriptor_t {made} = NULL;"
    if one.absent:
        return
    if desc.dtype.c_number is None:
        raise UsageError(f"--standalone c: the C API has no number for the type {desc.dtype.value} of {one.name}.")
    yield f"const int64_t {one.name}_dims[] = {{{', '.join(map(str, desc.dims)) or '0'}}};"
    yield _must(facts, "mluOpCreateTensorDescriptor", f"&{made}")
    kinds = (f"MLUOP_LAYOUT_{desc.layout.name}", f"MLUOP_DTYPE_{desc.dtype.name}")
    head = (made, *kinds, str(len(desc.dims)), f"{one.name}_dims")
    if desc.strides is None:
        yield _must(facts, "mluOpSetTensorDescriptor_v2", *head)
    else:
        yield f"const int64_t {one.name}_strides[] = {{{', '.join(map(str, desc.strides)) or '0'}}};"
        yield _must(facts, "mluOpSetTensorDescriptorEx_v2", *head, f"{one.name}_strides")


def _workspace(facts: Facts, signature: CSignature) -> Iterator[str]:
    expect, query = facts.shown.case.expect, signature.query
    if WORKSPACE not in signature.function.arguments:
        return
    yield "size_t workspace_size = 0;"
    if query is not None:
        yield "int answer;"
        for size_null, owed in owed_by_query(facts.shown, query.name).items():
            values = ", ".join(_values(query.arguments, facts))
            arguments = values.replace("&workspace_size", "NULL") if size_null else values
            yield f"answer = {query.name}({arguments});"
            yield f'printf("{query.name} answered %d{"" if owed is None else f", expected {owed:d}"}\\n", answer);'
            if owed is not None:
                yield f"wrong |= answer != {owed:d};"
    if expect.workspace_size is not None or not facts.computes:
        yield f"workspace_size = {expect.workspace_size or 0};"
    null = "workspace" in expect.null_pointer
    yield f"void *workspace = {'NULL' if null else 'workspace_size ? malloc(workspace_size) : NULL'};"


def _results(facts: Facts, params: CParams) -> Iterator[str]:
    if facts.expectation.answer.status is not Status.SUCCESS:
        return
    for result, getter in params.getters.items():
        yield f"int {result} = 0;"
        yield _must(facts, getter, "params", f"&{result}")
        value = facts.expectation.results.get(result)
        if value is not None:
            words = f'"{result} is %d, expected {value}\\n"'
            yield f"if ({result} != {value}) printf({words}, {result}), wrong = 1;"


def _values(arguments: CArguments, facts: Facts) -> list[str]:
    return [_value(argument, facts) for argument in arguments]


def _value(argument: CArgument, facts: Facts) -> str:
    tensors = {one.name: one for one in facts.tensors}
    params = facts.params or {}
    match argument.source:
        case ArgumentSource.HANDLE:
            return "handle"
        case ArgumentSource.PARAMS:
            return "params"
        case ArgumentSource.DESCRIPTOR:
            return f"{argument.name}_desc"
        case ArgumentSource.DATA:
            one = tensors[argument.name]
            if one.absent or one.null:
                return "NULL"
            # A descriptor without a buffer must not be followed.
            return f"data(&{one.name}_buffer)" if one.has_buffer else "(void *)&wrong"
        case ArgumentSource.SCALAR:
            return _number(params[argument.name], argument)
        case ArgumentSource.HOST_ARRAY:
            return "NULL" if params.get(argument.name) is None else argument.name
        case ArgumentSource.WORKSPACE:
            return "workspace"
        case ArgumentSource.WORKSPACE_SIZE:
            return "workspace_size"
        case ArgumentSource.ASKED_SIZE:
            return "&workspace_size"


def _host_arrays(signature: CSignature) -> list[CArgument]:
    arguments = [one for function in signature.functions for one in function.arguments]
    arguments += [] if signature.params is None else signature.params.arguments
    return list({one.name: one for one in arguments if one.source is ArgumentSource.HOST_ARRAY}.values())


def _c_type(argument: CArgument) -> str:
    return "int" if isinstance(argument.type, CEnum) else argument.type.value


def _number(value: Any, argument: CArgument) -> str:
    if _c_type(argument) == "float":
        return _double(float(value))
    return _integer(int(value))


def _integer(value: int) -> str:
    # The smallest int has no literal of its own in C.
    return f"(-{-value - 1} - 1)" if value in (-(2**31), -(2**63)) else str(value)


def _double(value: float) -> str:
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(value)


def _elements(array: Array, dtype: DType) -> str:
    if dtype not in _C_TYPES:
        return _joined([str(byte) for byte in np.ascontiguousarray(array).view(np.uint8)])
    if dtype is DType.HALF:
        return _joined([f"0x{bits:04x} /* {value} */" for bits, value in zip(array.view("<u2"), array, strict=True)])
    if dtype is DType.FLOAT:
        return _joined([_float(value) for value in array])
    return _joined([_integer(value) for value in array.tolist()])


def _float(value: Any) -> str:
    if not np.isfinite(value):
        return _double(float(value))
    return f"{value}f" if "." in str(value) or "e" in str(value) else f"{value}.0f"


def _joined(texts: list[str]) -> str:
    if len(texts) <= _PER_LINE:
        return ", ".join(texts)
    lines = (", ".join(texts[start : start + _PER_LINE]) for start in range(0, len(texts), _PER_LINE))
    return "\n    " + ",\n    ".join(lines) + "\n"
