"""The tables of docs/reference/authoring.md as the code has them; `python -m tests.support.authoring_page` writes."""

import dataclasses
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

from mluops_gtest import authoring
from mluops_gtest.authoring import (
    c_api,
    checks,
    copy_of,
    exact_numbers,
    left_open,
    mistakes,
    narrowing,
    reductions,
    roundings,
    rows,
    single_checks,
    space,
    sum_of_terms,
    sums,
    suspects,
    wrong_sums,
)

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "authoring.md"
# What has no docstring.
WORDS = {
    "Array": "A numpy array of any type.",
    "Recipe": "A function `recipe(draw, params, dtype, **args)` that returns a `RecipeOutput`.",
    "Params": "Parameter names with their values: numbers, words, tuples of numbers; None where a host array is null.",
    "HANDLE": "The handle.",
    "PARAMS": "The descriptor that carries the parameters; `CSignature.params` says what it is.",
    "WORKSPACE": "The workspace.",
    "WORKSPACE_SIZE": "Its size in bytes.",
    "ASKED_SIZE": "Where a query writes the size. It starts at 0: a query may succeed and leave it unwritten.",
    "SIZE_NULL": "The check `size_null`: the pointer to the size, which a workspace query gets, is not null.",
    "ExactValue": "An integer or a fraction; a float for what is none of these: NaN, infinities.",
    "ExactElement": "`element(*index)`, one element; without arguments for a result that is no tensor.",
    "ExactElements": "`elements(call)`, an `ExactElement` for every output and every result that is no tensor.",
    "ContentError": "Raised by a recipe about data of its own that break what it promises of them.",
    "CApi": "`C_API`: one `CSignature` per name of the operator; the first that a library exports whole is taken.",
}


def _own(module: ModuleType) -> tuple[str, ...]:
    """The public classes and functions that a module defines, in its order."""
    return tuple(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
        and (inspect.isfunction(value) or inspect.isclass(value))
    )  # fmt: skip


def _words(parts: ModuleType, module: ModuleType) -> tuple[str, ...]:
    """What a module takes from another as words of its own, in the order of that one."""
    return tuple(name for name in _own(parts) if name in module.__all__)


# Heading → the module, and the names of its table.
SECTIONS: dict[str, tuple[ModuleType, tuple[str, ...]]] = {
    "The operator": (
        authoring,
        (
            *("Operator", "TensorSpec", "OutputSpec", "axis", "ParamMessage", "ParamField", "EnumSpec"),
            *("Check", "CheckVerdict", "QueryChecks", "SIZE_NULL", "UndefinedDataError", "Theory", "Mutant"),
            "Definition",
        ),
    ),
    "What functions return": (authoring, ("Baseline", "Recipe", "RecipeOutput", "ContentError")),
    "Sizes": (authoring, ("SizedAxis",)),
    "Bounds": (authoring, ("Bound",)),
    "What documents leave open: `mluops_gtest.authoring.left_open`": (left_open, _own(left_open)),
    "Fuzzing: `mluops_gtest.authoring.space`": (space, tuple(space.__all__)),
    "Reductions: `mluops_gtest.authoring.reductions`": (reductions, tuple(reductions.__all__)),
    "Exact elements: `mluops_gtest.authoring.exact_numbers`": (exact_numbers, tuple(exact_numbers.__all__)),
    "Calls": (
        authoring,
        tuple("OpCall TensorArg TensorDesc Handle Params Array DType Layout Status".split()),  # noqa: SIM905
    ),
    "Calls from arrays": (authoring, ("call_of", "argument", "dtype_of", "narrowed", "widened")),
    "Criteria": (authoring, ("exact", "diff1_and_diff2", "Criterion", "CriteriaByParam", "CriterionKind")),
    "Random numbers": (authoring, ("Draw", "Stream")),
    "Definitions: `mluops_gtest.authoring.sum_of_terms`": (sum_of_terms, tuple(sum_of_terms.__all__)),
    "Mutants of sums: `mluops_gtest.authoring.wrong_sums`": (wrong_sums, tuple(wrong_sums.__all__)),
    "Checks: `mluops_gtest.authoring.checks`": (checks, (*_words(single_checks, checks), *_own(checks))),
    "C functions: `mluops_gtest.authoring.c_api`": (c_api, tuple(c_api.__all__)),
    "Rows that lie anywhere: `mluops_gtest.authoring.rows`": (rows, tuple(rows.__all__)),
    "Sums: `mluops_gtest.authoring.sums`": (sums, _own(sums)),
    "Copies: `mluops_gtest.authoring.copy_of`": (copy_of, _own(copy_of)),
    "Calls that are misread: `mluops_gtest.authoring.suspects`": (suspects, _own(suspects)),
    "Wrong roundings: `mluops_gtest.authoring.roundings`": (roundings, _own(roundings)),
    "Mistakes of any operator: `mluops_gtest.authoring.mistakes`": (mistakes, _own(mistakes)),
    "Narrow integers: `mluops_gtest.authoring.narrowing`": (narrowing, _own(narrowing)),
}


def table(heading: str) -> list[str]:
    """The lines of the section's table."""
    module, names = SECTIONS[heading]
    lines = [row for name in names for row in _rows(name, getattr(module, name))]
    return ["| name | what it is |", "|---|---|", *lines]


def _rows(name: str, value: Any) -> Iterator[str]:
    if name in WORDS or not (inspect.isclass(value) or inspect.isfunction(value)):
        yield _row(name, WORDS[name])
        return
    is_bare = inspect.isclass(value) and issubclass(value, (Enum, Exception))
    yield _row(name if is_bare else f"{name}{_signature(value)}", _promise(value))
    if inspect.isclass(value) and not is_bare:
        for member, inner in vars(value).items():
            if not member.startswith("_") and isinstance(inner, property):
                yield _row(f"{name}.{member}", _promise(inner))
            elif not member.startswith("_") and isinstance(inner, staticmethod):
                yield _row(f"{name}.{member}{_signature(inner.__func__)}", _promise(inner))
            elif not member.startswith("_") and inspect.isfunction(inner):
                yield _row(f"{name}.{member}{_signature(inner, method=True)}", _promise(inner))


def _row(code: str, words: str) -> str:
    return f"| `{code}` | {words} |".replace("||", "\\|\\|")


def _promise(value: Any) -> str:
    """The first paragraph of the docstring, in one line."""
    return " ".join(inspect.cleandoc(value.__doc__ or "").partition("\n\n")[0].split()).replace("|", "\\|")


def _signature(function: Any, *, method: bool = False) -> str:
    parts, star = [], False
    for parameter in list(inspect.signature(function).parameters.values())[int(method) :]:
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f"={_default(parameter)}"
        parts.append(f"{mark}{parameter.name}{default}")
    return f"({', '.join(parts)})"


def _default(parameter: inspect.Parameter) -> str:
    value = parameter.default
    if callable(value) or repr(value) == "<factory>":
        return "…"
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}()"
    if isinstance(value, tuple):
        return f"({', '.join(map(_word, value))}{',' * (len(value) == 1)})"
    return _word(value)


def _word(value: object) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


def tables_on_the_page(text: str) -> dict[str, list[str]]:
    """Heading → the lines of the first table below it."""
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    found = {}
    for section in sections:
        lines = section.splitlines()
        rows = [line for line in lines if line.startswith("|")]
        found[lines[0]] = rows
    return found


def written(text: str) -> str:
    """The page with the tables of the code."""
    for heading in SECTIONS:
        head, mark, rest = text.partition(f"## {heading}\n")
        before, _, after = rest.partition("| name | what it is |\n")
        lines = after.splitlines(keepends=True)
        end = next((number for number, line in enumerate(lines) if not line.startswith("|")), len(lines))
        text = head + mark + before + "".join(f"{line}\n" for line in table(heading)) + "".join(lines[end:])
    return text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
