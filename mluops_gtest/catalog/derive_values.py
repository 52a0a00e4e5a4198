"""Cases derived from a base by other values: lengths along its axes, types, kinds of values that its recipe draws."""

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, get_args, get_origin

from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, DeclarationError, repr_short, suggestion
from mluops_gtest.catalog.declarations import draft_of
from mluops_gtest.catalog.derived_lock import DTYPES, NONFINITE, PRECISION, SIZES, DerivedCase, Standard, Unseen
from mluops_gtest.catalog.make import make_case
from mluops_gtest.catalog.templates import fill, fits, recipe_arguments, signature_of
from mluops_gtest.core.case import CaseDraft
from mluops_gtest.core.operator import Operator

# One below, at and above each of these, beside the document's tiles.
_AROUND: Final = [2, 32, 64, 128, 256]
# Of the tensors of all cases of one entry.
_BUDGET: Final = "300 KB"
# The recipe's argument that says which kind of values it draws.
_BY: Final = {PRECISION: "values", NONFINITE: "kind"}
_CONSTANT: Final = "derived from a base: its values are not chosen"


def derive_values(
    operator: Operator, drafts: Mapping[str, CaseDraft], standard: Standard
) -> tuple[list[DerivedCase], list[Unseen]]:
    """The cases of one entry, in the order of lengths or kinds, and those that are left out with the reason."""
    derive = _along_axes if standard.name == SIZES else _of_kinds
    cases: dict[str, DerivedCase] = {}
    nbytes: dict[str, int] = {}
    unseen: list[Unseen] = []
    for name in standard.bases:
        base = drafts[name]
        for case in derive(operator, base, standard):
            _refuse_arguments(operator, base, case, standard)
            if case.name in cases:
                raise _refusal(standard, f"two bases give a case the name {case.name!r}; name one of them alone")
            made = _make(operator, base, case)
            if isinstance(made, str):
                unseen.append(Unseen(case.name, "", "left out", made))
            else:
                cases[case.name], nbytes[case.name] = made
    if not cases and not unseen:
        raise _refusal(standard, f"nothing differs from {', '.join(standard.bases)}; remove the entry")
    if standard.name == SIZES:
        budget = str(standard.options.get("budget", _BUDGET))
        for name in _beyond_budget(nbytes, budget, standard):
            del cases[name]
            unseen.append(Unseen(name, "", "left out", f"beyond the budget of {budget}"))
    return list(cases.values()), unseen


def _refusal(standard: Standard, message: str) -> DeclarationError:
    return DeclarationError(f"{standard.where}: standard {standard.name!r}: {message}.")


def _refuse_arguments(operator: Operator, base: CaseDraft, case: DerivedCase, standard: Standard) -> None:
    """Refuse what the recipe does not take; says what to write instead."""
    try:
        recipe_arguments(base.recipe, operator.recipes[base.recipe], {**base.args, **case.data})
    except ValueError as error:
        own = next(iter(case.sizes), "")
        advice = (
            f". Let it take `{own}: int` and grow what depends on it, list in axes what it takes, "
            f'or write what grows instead: data: {{NAME: "{{n}}"}}'
        )
        raise _refusal(standard, f"{error}{advice if own else ''}") from error


def _make(operator: Operator, base: CaseDraft, case: DerivedCase) -> tuple[DerivedCase, int] | str:
    """The case, which says why its baseline is constant if it is, and the bytes of its tensors; or why it is none."""
    causes: list[BaseException | None] = []
    for reason in dict.fromkeys((base.expect.degenerate, _CONSTANT)):
        one = replace(case, expect=replace(base.expect, degenerate=reason))
        try:
            made = make_case(draft_of(base, one, base.where), operator)
        except ContentError as error:
            causes.append(error.__cause__)
        else:
            return one, sum(tensor.desc.nbytes for tensor in made.tensors)
    # Other words name places in files, which the lock must not.
    return f"the recipe refuses it: {causes[0]}" if isinstance(causes[0], ValueError) else "it is no valid call"


def _beyond_budget(nbytes: Mapping[str, int], budget: str, standard: Standard) -> Iterator[str]:
    """The names of cases that are too much, the largest first to go."""
    words = re.fullmatch(r"(\d+) KB", budget)
    if words is None:
        raise _refusal(standard, f"budget must be like {_BUDGET}, not {repr_short(budget)}")
    room = int(words[1]) << 10
    for name in sorted(nbytes, key=nbytes.__getitem__):
        room -= nbytes[name]
        if room < 0:
            yield name


def _along_axes(operator: Operator, base: CaseDraft, standard: Standard) -> Iterator[DerivedCase]:
    """A case for every length along every axis, but the base's own.

    A symbol that is a parameter grows there, any other in the recipe's argument of the axis' name.
    """
    params = {field.name for field in operator.param_fields}
    data = standard.options.get("data")
    stem, suffix = _split(base)
    for axis, length in _lengths(operator, standard):
        symbol = operator.axes[axis].symbol if axis in operator.axes else ""
        is_param = data is None and symbol in params
        try:
            args = fill({axis: length} if data is None else data, {"n": length})
        except ValueError as error:
            raise _refusal(standard, f"data: {error}") from error
        case = DerivedCase(
            name=f"{axis}_{length}{suffix}",
            standard=SIZES,
            base=f"{stem}{suffix}",
            tags=("boundary",),
            doc=f"{base.doc}; {axis} {length}",
            expect=base.expect,
            data={} if is_param else {key: tuple(v) if isinstance(v, list) else v for key, v in args.items()},
            params={symbol: length} if is_param else {},
            dtype=base.dtype,
            sizes={axis: length},
        )
        if not (case.data.items() <= base.args.items() and case.params.items() <= base.params.items()):
            yield case


def _split(base: CaseDraft) -> tuple[str, str]:
    """The base's name without the type at its end, and that; empty where the name does not say it."""
    name, suffix = base.id.partition("/")[2], f"_{base.dtype}"
    return (name.removesuffix(suffix), suffix) if name.endswith(suffix) else (name, "")


def _lengths(operator: Operator, standard: Standard) -> Iterator[tuple[str, int]]:
    """Every axis of the entry with every length."""
    options = standard.options
    axes, tiles = options.get("axes", list(operator.axes)), options.get("tiles", {})
    around = options.get("around", _AROUND)
    if not isinstance(axes, list) or not axes:
        raise _refusal(standard, "axes must be a list such as [rows], of axes that the operator declares")
    if not isinstance(tiles, dict) or not all(map(_are_lengths, (around, *tiles.values()))):
        raise _refusal(standard, "lengths are integers ≥ 2, around: [64] for all axes, tiles: {rows: [4096]} for one")
    if "data" in options and (len(axes) > 1 or not isinstance(options["data"], dict)):
        raise _refusal(standard, 'data must be a mapping such as {rows: "{n}"}, in an entry with one axis in axes')
    for name in (*axes, *tiles):
        if name not in operator.sizes:
            raise _refusal(standard, f"unknown axis {repr_short(name)}.{suggestion(str(name), operator.sizes)[:-1]}")
    for axis in axes:
        for length in sorted({one + step for one in (*around, *tiles.get(axis, ())) for step in (-1, 0, 1)}):
            yield axis, length


def _are_lengths(values: Any) -> bool:
    return isinstance(values, list) and all(fits(one, int) and one >= 2 for one in values)


def _of_kinds(operator: Operator, base: CaseDraft, standard: Standard) -> Iterator[DerivedCase]:
    """A case for every type, and for every kind of values where the entry is about them, but the base's own."""
    stem, _ = _split(base)
    own: dict[str, Any] = {}
    kinds: list[dict[str, Any]] = [{}]
    if standard.name != DTYPES:
        by, recipe = standard.options.get("by", _BY[standard.name]), operator.recipes[base.recipe]
        hint = signature_of(recipe)[1].get(by)
        if get_origin(hint) is not Literal:
            message = f'the recipe {base.recipe!r} lists no kinds; let it take `{by}: Literal["…", …]`, with those that'
            raise _refusal(standard, f"{message} the document defines, or name the argument that lists them in by")
        own = {by: base.args.get(by, inspect.signature(recipe).parameters[by].default)}
        kinds = [{by: kind} for kind in get_args(hint)]
    dtypes = [dtype for spec in operator.tensors if len(spec.dtypes) > 1 for dtype in spec.dtypes]
    names = [dtype.value for dtype in dict.fromkeys(dtypes) if standard.name == DTYPES or dtype.is_real]
    for dtype in names or [base.dtype]:
        for data in kinds:
            if (dtype, data) != (base.dtype, own):
                words = [stem, *(re.sub(r"\W+", "_", str(kind).lower()) for kind in data.values()), dtype]
                yield DerivedCase(
                    name="_".join(words),
                    standard=standard.name,
                    base=base.id.partition("/")[2],
                    tags=base.tags if standard.name == DTYPES else (standard.name,),
                    doc=f"{base.doc}; {', '.join(words[1:])}",
                    expect=base.expect,
                    data=data,
                    dtype=dtype,
                )
