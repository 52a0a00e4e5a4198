"""The frame of a library with the C API: what all operators share, and a file per operator with its checks in order.

A check that follows from the declaration is written out; of the others a comment says what must hold.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mluops_gtest.cli.standalone import c_type, fill_template
from mluops_gtest.cli.standalone_c import Declared, c_arguments, c_header, c_prototype
from mluops_gtest.core.call import DEFAULT_ARCH, DEFAULT_NRAM_BYTES
from mluops_gtest.core.declaration import SIZE_NULL, Check
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.operator_parts import ArgumentSource, CFunction, CParams

_SUCCESS = "MLUOP_STATUS_SUCCESS"
# No check answers it, so it tells a kernel that is not there from one that refuses.
_NOT_WRITTEN = "MLUOP_STATUS_INTERNAL_ERROR"


def library_files(all_declared: Sequence[Declared], library: str) -> dict[str, str]:
    """The texts of the files by name, of which `make` builds that library."""
    params = {api[0].params.type: (api[0].params, operator) for operator, api in all_declared if api[0].params}
    sources = {
        "$ARCH": str(DEFAULT_ARCH),
        "$NRAM": str(DEFAULT_NRAM_BYTES),
        "$PARAMS": "".join(_params_functions(*one) for one in params.values()),
    }
    return {
        "Makefile": fill_template("c_library/Makefile", {"$LIBRARY": library}),
        "api.h": c_header(all_declared) + "\n",
        "library.h": fill_template(
            "c_library/library.h", {"$PARAMS": "".join(_params_struct(*one) for one in params.values())}
        ),
        "library.c": fill_template("c_library/library.c", sources),
        **{f"{declared[0].name}.c": _operator_file(declared) for declared in all_declared},
    }


def _params_struct(params: CParams, operator: Operator) -> str:
    """What the descriptor of parameters holds."""
    lengths = {one.name: one.length for one in operator.param_fields}
    members = [
        f"{c_type(one)} {one.name}" + f"[{lengths[one.name] or 'MAX_RANK'}]" * (one.source is ArgumentSource.HOST_ARRAY)
        for one in params.arguments
    ]
    lines = "".join(f"    {one};\n" for one in (*members, *(f"int {result}" for result in params.getters)))
    return f"\nstruct {params.type.removesuffix('Descriptor_t')}Struct {{\n{lines}}};\n"


def _params_functions(params: CParams, operator: Operator) -> str:
    """How the descriptor of parameters is made, filled, read and destroyed."""
    own = f"{params.type} desc"
    arrays = [one.name for one in params.arguments if one.source is ArgumentSource.HOST_ARRAY]
    copies = (
        f"memcpy(desc->{one.name}, {one.name}, sizeof desc->{one.name});"
        if one.name in arrays
        else f"desc->{one.name} = {one.name};"
        for one in params.arguments
    )
    refuse = "/* FILL IN: refuse what the document refuses. */"
    setter = [own, *c_arguments(params.arguments, operator, params)]
    functions = [
        _function(params.create, [f"{params.type} *desc"], [_require("desc"), "*desc = calloc(1, sizeof **desc);"]),
        _function(params.destroy, [own], [_require("desc"), "free(desc);"]),
        _function(params.set, setter, [_require("desc", *arrays), refuse, *copies]),
        *(
            _function(getter, [own, f"int *{result}"], [_require("desc", result), f"*{result} = desc->{result};"])
            for result, getter in params.getters.items()
        ),
    ]
    return "".join(functions)


def _require(*pointers: str) -> str:
    condition = " && ".join(f"{name} != NULL" for name in pointers)
    return f"REQUIRE({condition}, MLUOP_STATUS_BAD_PARAM);"


def _function(name: str, arguments: Iterable[str], statements: Iterable[str], answer: str = _SUCCESS) -> str:
    head = c_prototype(name, arguments).removesuffix(";")
    lines = "".join(f"    {one}\n" for one in (*statements, f"return {answer};"))
    return f"{head} {{\n{lines}}}\n"


def _operator_file(declared: Declared) -> str:
    """The workspace query, if any, and the operator's function."""
    operator, (signature, *_) = declared
    params, functions = signature.params, list[str]()

    def add(function: CFunction, checks: Iterable[Check], rest: Sequence[str], answer: str) -> None:
        arguments = c_arguments(function.arguments, operator, params)
        lines = _check_lines(checks, _names(operator, function, params))
        functions.append(_function(function.name, arguments, [*lines, *rest], answer))

    if signature.query is not None:
        size = f"/* FILL IN: the bytes that {signature.function.name} needs. */"
        checks = _query_checks(operator, signature.query)
        add(signature.query, checks, [size, "*workspace_size = 0;"], _SUCCESS)
    outputs = ", ".join(spec.id for spec in operator.outputs)
    compute = f"/* FILL IN: compute {outputs}, and answer {_SUCCESS}. */"
    add(signature.function, operator.checks, [compute], _NOT_WRITTEN)
    return f'/* {operator.name}: {operator.summary} */\n#include "library.h"\n{"".join(functions)}'


def _query_checks(operator: Operator, query: CFunction) -> Iterator[Check]:
    """What the workspace query checks, in its own order."""
    known = {check.name: check for check in (*operator.checks, SIZE_NULL)}
    asked = operator.queries.get(query.declared_name)
    for one in (SIZE_NULL.name,) if asked is None else asked.checks:
        yield known[one] if isinstance(one, str) else one


# A name that stands by itself, not behind an arrow.
_NAME = re.compile(r"(?<![>\w])[A-Za-z_]\w*")
_COMMON = {"NULL", "INT64_C", "is_empty", "is_large", "is_strided"}


def _check_lines(checks: Iterable[Check], names: Mapping[str, str]) -> Iterator[str]:
    """A line per check; one that looks into what may be null is written out behind the check for that alone."""
    may_be_null = {name for name in names if name.endswith("_desc") or name == "handle"}
    for check in checks:
        used = {name for name in _NAME.findall(check.in_c) if name not in _COMMON and not name.startswith("MLUOP_")}
        asks = {name for name in used if f"{name} == NULL" in check.in_c or f"{name} != NULL" in check.in_c}
        if not used or check.writes or not used <= names.keys() or used & may_be_null - asks:
            yield f"/* FILL IN: {check.message}, else {check.status.name} ({check.doc}). */"
            continue
        may_be_null -= {name for name in used if check.in_c == f"{name} != NULL"}
        condition = _NAME.sub(lambda match: names.get(match[0], match[0]), check.in_c)
        yield f"REQUIRE({condition}, MLUOP_STATUS_{check.status.name}); /* {check.doc} */"


def _names(operator: Operator, function: CFunction, params: CParams | None) -> dict[str, str]:
    """What conditions call the arguments of the function, and what they are called in C."""
    names = dict[str, str]()
    for one in function.arguments:
        match one.source:
            case ArgumentSource.DESCRIPTOR:
                names[f"{one.name}_desc"] = f"{one.name}_desc"
            case ArgumentSource.PARAMS if params is not None:
                descriptor = operator.params_descriptor or ""
                # The function that sets the arrays refuses null.
                scalars = [field.name for field in params.arguments if field.source is ArgumentSource.SCALAR]
                names |= {name: f"{descriptor}->{name}" for name in scalars}
                names[descriptor] = descriptor
            case ArgumentSource.WORKSPACE_SIZE | ArgumentSource.ASKED_SIZE:
                names["workspace_size"] = "workspace_size"
            case ArgumentSource.HANDLE | ArgumentSource.WORKSPACE:
                names[one.source.name.lower()] = one.source.name.lower()
            case _:
                names[one.name] = one.called or one.name
    return names
