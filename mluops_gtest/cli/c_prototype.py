"""One C prototype, and what it says of an operator's declaration: tensors, parameters, arguments in their order."""

import difflib
import re
from collections.abc import Iterable
from itertools import groupby
from textwrap import wrap
from typing import Final, NamedTuple

from mluops_gtest.base.errors import UsageError

_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/|^[ \t]*#(?:\\\n|[^\n])*", re.DOTALL | re.MULTILINE)
# A type, or the end of one, stands in front of the name.
_FUNCTION: Final = re.compile(r"(?:\w\s+|\*\s*)([A-Za-z_]\w*)\s*\(")
_ARGUMENT: Final = re.compile(r"((?:\w+ )*\w+)((?: ?\* ?(?:(?:const|_*restrict_*)\b)?)*) ?\b(\w+)((?: ?\[ ?\w* ?\])*)")
# Prototypes are broken between arguments alone.
_NO_BREAK: Final = "\N{NO-BREAK SPACE}"
_NOT_OF_THE_TYPE: Final = frozenset({"const", "volatile", "struct", "enum"})
# A number's type in C → the type of the parameter, and what its argument says where that is not int.
_NUMBERS: Final = {
    **dict.fromkeys(("int", "int32_t", "unsigned", "unsigned int", "uint32_t"), ("int32", "")),
    **dict.fromkeys(("int64_t", "long", "long long", "size_t", "uint64_t"), ("int64", ", type=CType.INT64")),
    "bool": ("bool", ", type=CType.BOOL"),
    "float": ("float", ", type=CType.FLOAT"),
}
_NO_NAMES: Final = frozenset({*_NUMBERS, "void", "char", "short", "double", "signed"})


class Argument(NamedTuple):
    """An argument as C declares it; an array is a pointer."""

    text: str
    type: str
    name: str
    pointers: int
    is_const: bool

    @property
    def is_descriptor(self) -> bool:
        """It describes a tensor."""
        return self.type == "mluOpTensorDescriptor_t" and self.pointers == 0


class Prototype(NamedTuple):
    """A C function and its arguments."""

    name: str
    arguments: tuple[Argument, ...]


class Declared(NamedTuple):
    """What an argument becomes: a word of `authoring.c_api`, a tensor or a parameter, what else the word takes."""

    word: str
    name: str = ""
    more: str = ""
    # What the field of a parameter says beyond name and number.
    field: str = ""


def read_prototype(text: str, where: str, function: str = "") -> Prototype:
    """The prototype of that function, or the first one of a text; what cannot be read is refused in a sentence."""
    code = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n") or " ", text)
    starts = {match[1]: match for match in reversed(list(_FUNCTION.finditer(code)))}
    if not starts or function not in ("", *starts):
        close = ", ".join(difflib.get_close_matches(function, starts, cutoff=0.3)) or "nothing like it"
        found = f"declares no function {function!r}, but {close}" if starts else "has no prototype"
        raise UsageError(f"{where} {found}. A prototype is e.g. 'mluOpStatus_t mluOpRowSum(mluOpHandle_t handle, …);'.")
    start = starts[function] if function else list(starts.values())[-1]
    place = f"{where}, line {code.count(chr(10), 0, start.start(1)) + 1}: {start[1]}"
    bracket = re.compile("[()]").search(code, start.end())
    if bracket is None or bracket[0] == "(":
        found = "has no ')' behind its arguments" if bracket is None else "has a '(' among its arguments"
        raise UsageError(f"{place} {found}. Give the whole prototype; function pointers cannot be read.")
    parts = [" ".join(part.split()) for part in code[start.end() : bracket.start()].split(",")]
    return Prototype(start[1], tuple(_argument(part, place) for part in parts if parts not in ([""], ["void"])))


def _argument(text: str, place: str) -> Argument:
    match = _ARGUMENT.fullmatch(text)
    words = [word for word in match[1].split() if word not in _NOT_OF_THE_TYPE] if match else []
    if match is None or not words or match[3] in _NO_NAMES:
        raise UsageError(
            f"{place}: the argument {text!r} cannot be read. An argument is a type, any number of *, a name and [], "
            "e.g. 'const void *x' or 'const int pad[]'. Give it that form, or leave it out and declare it by hand."
        )
    pointers = match[2].count("*") + match[4].count("[")
    return Argument(text, " ".join(words), match[3], pointers, "const" in match[1].split())


def read_operator(text: str, where: str, function: str = "") -> dict[str, str]:
    """What fills the template of a declaration, by hole: it follows from a C function and its workspace query."""
    prototype = read_prototype(text, where, function)
    declared = _declare_all(prototype)
    is_input = {one.name: argument.is_const for argument, one in declared if one and one.word == "data"}
    if all(is_input.values()):
        raise UsageError(f"{where}: {prototype.name} has no output, 'void *y' behind 'mluOpTensorDescriptor_t y_desc'.")
    fields = [one for _, one in declared if one and one.field]
    params = [f'ParamField("{one.name}", {number}, {one.field}),' for number, one in enumerate(fields, 1)]
    words = {one.word for _, one in declared if one}
    arguments = ", ".join(argument.text.replace(" ", _NO_BREAK) for argument in prototype.arguments)
    return {
        "$PROTOTYPE": "\n".join(wrap(f"{prototype.name}({arguments})", 116, subsequent_indent="    ")).replace(
            _NO_BREAK, " "
        ),
        "$INPUTS": _lines(f'TensorSpec("{name}", "[FILL_IN]", (DType.FLOAT,)),' for name in is_input if is_input[name]),
        "$OUTPUTS": _lines(f'OutputSpec("{name}", "[FILL_IN]", CRITERIA),' for name in is_input if not is_input[name]),
        "$FIELDS": _lines(params),
        "$PARAMS": "PARAMS" if params else "None",
        "$ARRAYS": _lines(['checks.arrays(doc="?"),'] * ("host_array" in words)),
        "$WORKSPACE": _lines(['checks.workspace("?"),'] * ("WORKSPACE" in words)),
        "$C_API": _c_api(prototype.name, declared, text, where),
    }


def _lines(lines: Iterable[str]) -> str:
    """The lines, indented as they stand in the template."""
    return "".join(f"        {line}\n" for line in lines)


def _declare_all(prototype: Prototype) -> list[tuple[Argument, Declared | None]]:
    """The arguments with what they become; None where a declaration has no place for one."""
    tensors = {one.name: one.name.removesuffix("_desc") for one in prototype.arguments if one.is_descriptor}
    # The data of a tensor have its name, or stand behind its descriptor.
    behind = ["", *(tensors.get(before.name, "") for before in prototype.arguments)]
    return [
        (one, _declare(one, one.name if one.name in tensors.values() else before if one.type == "void" else ""))
        for before, one in zip(behind, prototype.arguments, strict=False)
    ]


def _declare(one: Argument, tensor: str) -> Declared | None:
    kind, more = _NUMBERS.get(one.type, ("", ""))
    match one.pointers:
        case 0 if one.type == "mluOpHandle_t":
            return Declared("HANDLE")
        case 0 if one.is_descriptor:
            return Declared("descriptor", one.name.removesuffix("_desc"))
        case 0 if one.type == "size_t" and "workspace" in one.name:
            return Declared("WORKSPACE_SIZE")
        case 0 if kind:
            return Declared("scalar", one.name, more, f'"{kind}"')
        case 0 if one.type.endswith("_t") and not one.type.endswith("Descriptor_t"):
            constant = f'{{"{one.name.upper()}_FILL_IN": 0}}'
            field = f'"enum", enum=EnumSpec("{one.type.removesuffix("_t")}", {constant})'
            return Declared("scalar", one.name, f', type=CEnum("{one.type}", {constant})', field)
        case 1 if one.type == "void" and "workspace" in one.name:
            return Declared("WORKSPACE")
        case 1 if one.type == "size_t" and "workspace" in one.name:
            return Declared("ASKED_SIZE")
        case 1 if tensor:
            return Declared("data", tensor)
        case 1 if one.is_const and kind:
            return Declared("host_array", one.name, more, f'"{kind}", "repeated"')
    return None


def _c_api(name: str, declared: Iterable[tuple[Argument, Declared | None]], text: str, where: str) -> str:
    """`c_api=` of the declaration; a comment where an argument has no place in it."""
    missing = [one.text for one, place in declared if place is None]
    lines = ["c_api=c_function(", f'    "{name}",', f"    arguments=({_c_arguments(declared)}),"]
    query = f"mluOpGet{name.removeprefix('mluOp')}WorkspaceSize"
    if query in text:
        asked = _declare_all(read_prototype(text, where, query))
        lines += [f'    query="{query}",', f"    query_arguments=({_c_arguments(asked)}),"]
    lines.append("),")
    if missing:
        lines = [f"FILL IN what becomes of '{one}': a declaration has no place for it." for one in missing] + lines
    mark = "    # " if missing else "    "
    return "".join(f"{mark}{one}\n" for line in lines for one in wrap(line, 108, subsequent_indent="        "))


def _c_arguments(declared: Iterable[tuple[Argument, Declared | None]]) -> str:
    """The arguments in the words of `authoring.c_api`, neighbours of one kind in one word."""
    merged: list[Declared] = []
    for _, one in declared:
        if one is not None and one.word == "data" and merged and merged[-1][:2] == ("descriptor", one.name):
            merged[-1] = Declared("tensor", one.name)
        elif one is not None:
            merged.append(one)
    words = []
    for (word, more), group in groupby(merged, key=lambda one: (one.word, one.more)):
        names = ", ".join(f'"{one.name}"' for one in group)
        words.append(word if word.isupper() else f"*{word}({names}{more})")
    return ", ".join(words) + "," * (len(words) == 1)
