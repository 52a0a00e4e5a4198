"""C prototypes from the operators' declared C functions: of one operator, or a whole header to compile against."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping

from mluops_gtest.model.c_api import ArgumentSource, CApi, CArgument, CArguments, CEnum, CParams
from mluops_gtest.model.dtypes import DType, Layout
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.status import Status

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
