"""C from the operators' declared C functions: prototypes, a whole header, and a file that shows a failure."""

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mluops_gtest.base.errors import UsageError
from mluops_gtest.cli.standalone import Failure, TensorFacts, c_type, fill_template, in_lines
from mluops_gtest.core.call import DEFAULT_ARCH, DEFAULT_NRAM_BYTES, Status
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.operator_parts import (
    C_API,
    WORKSPACE,
    ArgumentSource,
    CApi,
    CArgument,
    CArguments,
    CEnum,
    CParams,
    CSignature,
)
from mluops_gtest.core.tensor import Array, CriterionKind, DType, Layout, widened

if TYPE_CHECKING:
    from mluops_gtest.catalog.operators import Operators

_PER_LINE = 12
_SPARE = 64
_CRITERIA = (CriterionKind.DIFF1, CriterionKind.DIFF2, CriterionKind.DIFF3)
_C_TYPES = {
    DType.FLOAT: "float",
    DType.HALF: "uint16_t",
    DType.BFLOAT16: "uint16_t",
    DType.INT32: "int32_t",
    DType.INT64: "int64_t",
}
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


def find_c_functions(operators: "Operators", name: str) -> Declared:
    """The operator of that name with its C functions; UsageError where it declares none."""
    operator = operators.find(name)
    api = operators.part(operator.name, C_API)
    if api is None:
        raise UsageError(
            f"{operator.name} declares no C functions: say c_api= in its page, or write c_api.py in its folder, "
            f"generators/{operator.name}/ (mluops-test docs add-an-operator)."
        )
    return operator, api


def c_prototypes(declared: Declared) -> str:
    """The types and functions of one operator; they need the common types in front of them."""
    head = f"/* {declared[0].name}; the types that all operators share: mluops-test ops --c */"
    return "\n".join([head, *_unique(_declarations(declared))])


def c_header(all_declared: Iterable[Declared]) -> str:
    """A whole header: the common types and functions, then those of every operator."""
    parts = [
        "#ifndef MLUOPS_TEST_API_H",
        "#define MLUOPS_TEST_API_H\n",
        "#include <stdbool.h>",
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
            yield c_prototype(function.name, c_arguments(function.arguments, operator, signature.params))


def _params_functions(params: CParams, operator: Operator) -> Iterator[str]:
    own = f"{params.type} desc"
    yield f"\ntypedef struct {params.type.removesuffix('Descriptor_t')}Struct *{params.type};"
    yield c_prototype(params.create, [f"{params.type} *desc"])
    yield c_prototype(params.destroy, [own])
    yield c_prototype(params.set, [own, *c_arguments(params.arguments, operator, params)])
    for result, getter in params.getters.items():
        yield c_prototype(getter, [own, f"int *{result}"])


def c_prototype(name: str, arguments: Iterable[str]) -> str:
    """The declaration of a function, with line breaks between arguments alone."""
    # An argument stays on one line: only the spaces between arguments may become line breaks.
    unbroken = ", ".join(argument.replace(" ", _NO_BREAK) for argument in arguments)
    text = f"mluOpStatus_t{_NO_BREAK}{name}({unbroken});"
    lines = textwrap.wrap(text, _WIDTH, subsequent_indent="    ", break_long_words=False)
    return "\n" + "\n".join(lines).replace(_NO_BREAK, " ")


# Arguments that are the same in every function: how they are declared, and what a call has there.
_FIXED = {
    ArgumentSource.HANDLE: ("mluOpHandle_t handle", "handle"),
    ArgumentSource.WORKSPACE: ("void *workspace", "workspace"),
    ArgumentSource.WORKSPACE_SIZE: ("size_t workspace_size", "workspace_size"),
    ArgumentSource.ASKED_SIZE: ("size_t *workspace_size", "&workspace_size"),
}


def c_arguments(arguments: CArguments, operator: Operator, params: CParams | None) -> list[str]:
    """How each argument is declared."""
    return [_argument(one, operator, params) for one in arguments]


def _argument(argument: CArgument, operator: Operator, params: CParams | None) -> str:
    name = argument.name
    number = argument.type.name if isinstance(argument.type, CEnum) else argument.type.value
    match argument.source:
        case ArgumentSource.PARAMS:
            assert params is not None, "loading refuses PARAMS without CParams"
            return f"const {params.type} {operator.params_descriptor}"
        case ArgumentSource.DESCRIPTOR:
            return f"const mluOpTensorDescriptor_t {name}_desc"
        case ArgumentSource.DATA:
            is_written = argument.writable or name in {spec.id for spec in operator.outputs}
            return f"{'' if is_written else 'const '}void *{name}"
        case ArgumentSource.SCALAR | ArgumentSource.SIZE:
            return f"{number} {argument.called or name}"
        case ArgumentSource.HOST_ARRAY:
            return f"const {number} {name}[]"
    return _FIXED[argument.source][0]


def _enum(name: str, constants: Mapping[str, int]) -> str:
    lines = ",\n".join(f"    {constant} = {number}" for constant, number in constants.items())
    return f"\ntypedef enum {{\n{lines}\n}} {name};"


def c_text(failure: Failure, command: str) -> str:
    """The file that shows the failure; `command` compiles and runs it."""
    api = failure.required_c_api()
    holes = {
        "$HEADER": c_header([(failure.operator, api)]),
        "$DATA": "\n".join(_data(failure, api[0])),
        "$CALL": "\n".join(f"    {line}" for line in _statements(failure, api[0])),
        "$COMMAND": command.replace("*/", "* /"),
        "$CASE": failure.case.id.replace("*/", "* /"),
        "$WHY": failure.why.replace("*/", "* /"),
        "$OPERATOR": failure.operator.name,
    }
    return fill_template("standalone/c.c", holes)


def _data(failure: Failure, signature: CSignature) -> Iterator[str]:
    for one in failure.tensors:
        if one.has_buffer:
            yield from _buffer(one)
    arguments = [one for function in signature.functions for one in function.arguments]
    arguments += [] if signature.params is None else signature.params.arguments
    for name, argument in {one.name: one for one in arguments if one.source is ArgumentSource.HOST_ARRAY}.items():
        values = (failure.params or {}).get(name)
        if values is not None:
            numbers = ", ".join(_number(value, argument) for value in values)
            # Zeros behind the values, for a library that reads a little too far.
            yield f"static const {c_type(argument)} {name}[{len(values) + _SPARE}] = {{{numbers}}};"


def _buffer(facts: TensorFacts) -> Iterator[str]:
    name, desc, expected = facts.tensor.id, facts.tensor.desc, facts.arrays.get("expected")
    if desc.dtype not in _C_TYPES and expected is not None:
        raise UsageError(f"--standalone c: {name} has the type {desc.dtype.value}; use --standalone py.")
    # A call that is refused may have any type: its bytes do.
    element = _C_TYPES.get(desc.dtype, "unsigned char")
    arrays = {
        field: (element, _elements(array, desc.dtype))
        for field, array in facts.arrays.items()
        if field in ("values", "may_become") and array.size
    }
    if facts.is_output:
        arrays["poison"] = ("unsigned char", ", ".join(map(str, desc.dtype.poison)))
    if facts.preset is not None:
        arrays["preset"] = (element, _elements(np.array([facts.preset], desc.dtype.storage), desc.dtype))
    if "held" in facts.arrays:
        arrays["held"] = ("unsigned char", _join([str(byte) for byte in facts.arrays["held"].view(np.uint8)]))
    if "kept" in facts.arrays:
        arrays["kept"] = ("unsigned char", _join([str(int(kept)) for kept in facts.arrays["kept"]]))
    if facts.is_output and desc.is_strided:
        places = desc.view(np.arange(desc.extent)).reshape(-1)
        arrays["places"] = ("long", _join([str(place) for place in places]))
    if expected is not None:
        arrays["expected"] = (
            "double",
            _join([_double(float(value)) for value in widened(expected, desc.dtype)]) or "0",
        )
    for field, (kind, numbers) in arrays.items():
        yield f"static const {kind} {name}_{field}[] = {{{numbers}}};"
    limits = {one.kind.canonical: one.threshold for one in facts.criteria}
    place, allowed = facts.allowed or (-1, 0.0)
    fields = {
        "name": f'"{name}"',
        "dtype": f"MLUOP_DTYPE_{desc.dtype.name}",
        "bytes": str(desc.nbytes),
        "item": str(desc.dtype.itemsize),
        "elements": str(desc.count),
        **{field: f"{name}_{field}" for field in arrays},
        "owned": str(0 if expected is None else expected.size),
        **{kind.value: repr(limits.get(kind, -1.0)) for kind in _CRITERIA},
        "allowed_at": str(place),
        "allowed": repr(allowed),
        "may_stay": str(int(facts.may_stay)),
        "may_clear": str(int(facts.may_clear)),
    }
    yield f"static Buffer {name}_buffer = {{{', '.join(f'.{field} = {value}' for field, value in fields.items())}}};\n"


def _statements(failure: Failure, signature: CSignature) -> Iterator[str]:
    """The statements of main."""
    expect, answer, params = failure.case.expect, failure.expectation.answer, signature.params
    buffers = [one.tensor.id for one in failure.tensors if one.has_buffer]
    yield from (f"fill(&{name}_buffer);" for name in buffers)
    yield "mluOpHandle_t handle = NULL;"
    if not expect.null_handle:
        yield _must(failure, "mluOpCreate", "&handle")
        yield _must(failure, "mluOpSetQueue", "handle", "NULL")
        if expect.arch not in (None, DEFAULT_ARCH):
            yield _must(failure, "mluOpTestSetArch", "handle", str(expect.arch))
        if expect.nram_bytes not in (None, DEFAULT_NRAM_BYTES):
            yield _must(failure, "mluOpTestSetNramBytes", "handle", str(expect.nram_bytes))
    if params is not None:
        yield f"{params.type} params = NULL;"
        if failure.params is not None:
            yield _must(failure, params.create, "&params")
            yield _must(failure, params.set, "params", *_values(params.arguments, failure))
    for one in failure.tensors:
        yield from _descriptor(failure, one)
    if WORKSPACE in signature.function.arguments:
        yield from _workspace(failure, signature)
    own, status = signature.function, f"MLUOP_STATUS_{answer.status.name}"
    yield f"mluOpStatus_t status = {own.name}({', '.join(_values(own.arguments, failure))});"
    yield f'printf("{own.name} answered %d, expected %d\\n", status, {status});'
    yield f"if (status != {status}) return 1;"
    yield from (f"check(&{name}_buffer, {int(answer.computes)});" for name in buffers)
    if params is None or failure.params is None or answer.status is not Status.SUCCESS:
        return
    for result, getter in params.getters.items():
        yield f"int {result} = 0;"
        yield _must(failure, getter, "params", f"&{result}")
        value = failure.expectation.results.get(result)
        if value is not None:
            words = f'"{result} is %d, expected {value}\\n"'
            yield f"if ({result} != {value}) printf({words}, {result}), wrong = 1;"


def _must(failure: Failure, name: str, *arguments: str) -> str:
    status = failure.expectation.answer.status.name
    return f'must("{name}", {name}({", ".join(arguments)}), MLUOP_STATUS_{status});'


def _descriptor(failure: Failure, one: TensorFacts) -> Iterator[str]:
    name, desc = one.tensor.id, one.tensor.desc
    yield f"mluOpTensorDescriptor_t {name}_desc = NULL;"
    if one.absent:
        return
    if desc.dtype.c_number is None:
        raise UsageError(f"--standalone c: the C API has no number for the type {desc.dtype.value} of {name}.")
    yield f"const int64_t {name}_dims[] = {{{', '.join(map(str, desc.dims)) or '0'}}};"
    yield _must(failure, "mluOpCreateTensorDescriptor", f"&{name}_desc")
    kinds = (f"MLUOP_LAYOUT_{desc.layout.name}", f"MLUOP_DTYPE_{desc.dtype.name}")
    head = (f"{name}_desc", *kinds, str(len(desc.dims)), f"{name}_dims")
    if desc.strides is None:
        yield _must(failure, "mluOpSetTensorDescriptor_v2", *head)
    else:
        yield f"const int64_t {name}_strides[] = {{{', '.join(map(str, desc.strides)) or '0'}}};"
        yield _must(failure, "mluOpSetTensorDescriptorEx_v2", *head, f"{name}_strides")


def _workspace(failure: Failure, signature: CSignature) -> Iterator[str]:
    expect, query = failure.case.expect, signature.query
    yield "size_t workspace_size = 0;"
    if query is not None:
        yield "int answer;"
        for size_null, owed in failure.query_statuses(query.declared_name).items():
            values = ", ".join(_values(query.arguments, failure))
            arguments = values.replace("&workspace_size", "NULL") if size_null else values
            yield f"answer = {query.name}({arguments});"
            yield f'printf("{query.name} answered %d{"" if owed is None else f", expected {owed:d}"}\\n", answer);'
            if owed is not None:
                yield f"wrong |= answer != {owed:d};"
    if expect.workspace_size is not None or not failure.expectation.answer.computes:
        yield f"workspace_size = {expect.workspace_size or 0};"
    is_null = "workspace" in expect.null_pointer
    yield f"void *workspace = {'NULL' if is_null else 'workspace_size ? malloc(workspace_size) : NULL'};"


def _values(arguments: CArguments, failure: Failure) -> list[str]:
    return [_value(argument, failure) for argument in arguments]


def _value(argument: CArgument, failure: Failure) -> str:
    tensors = {one.tensor.id: one for one in failure.tensors}
    params = failure.params or {}
    match argument.source:
        case ArgumentSource.PARAMS:
            return "params"
        case ArgumentSource.DESCRIPTOR:
            return f"{argument.name}_desc"
        case ArgumentSource.DATA:
            one = tensors[argument.name]
            if one.absent or one.null:
                return "NULL"
            # A descriptor without a buffer must not be followed.
            return f"data(&{one.tensor.id}_buffer)" if one.has_buffer else "(void *)&wrong"
        case ArgumentSource.SCALAR:
            return _number(params[argument.name], argument)
        case ArgumentSource.HOST_ARRAY:
            return "NULL" if params.get(argument.name) is None else argument.name
        case ArgumentSource.SIZE:
            return _integer(failure.size(argument))
    return _FIXED[argument.source][1]


def _number(value: Any, argument: CArgument) -> str:
    return _double(float(value)) if c_type(argument) == "float" else _integer(int(value))


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
        return _join([str(byte) for byte in np.ascontiguousarray(array).view(np.uint8)])
    if dtype in (DType.HALF, DType.BFLOAT16):
        pairs = zip(array.view("<u2"), widened(array, dtype), strict=True)
        return _join([f"0x{bits:04x} /* {value} */" for bits, value in pairs])
    if dtype is DType.FLOAT:
        return _join([_float(value) for value in array])
    return _join([_integer(value) for value in array.tolist()])


def _float(value: Any) -> str:
    if not np.isfinite(value):
        return _double(float(value))
    return f"{value}f" if "." in str(value) or "e" in str(value) else f"{value}.0f"


def _join(texts: list[str]) -> str:
    lines = in_lines(texts, _PER_LINE)
    return "".join(lines) if len(lines) <= 1 else "\n    " + ",\n    ".join(lines) + "\n"
