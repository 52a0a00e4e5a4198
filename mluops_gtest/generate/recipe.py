"""Runs a recipe for the inputs of a case and checks them against the operator's declaration."""

from pathlib import Path

import numpy as np

from mluops_gtest.authoring.random import Draw
from mluops_gtest.errors import ContentError, DeclarationError, HarnessError, OperatorError, shown, suggestion
from mluops_gtest.model.case import CaseDraft
from mluops_gtest.model.dtypes import DType
from mluops_gtest.model.operator import Operator, RecipeOutput, raised_at, raised_by, source_of

# What recipes and references raise about values that they cannot work with, maybe deep in numpy.
_REFUSALS = (ValueError, AssertionError, LookupError, TypeError, ArithmeticError, MemoryError)


def made_by(draft: CaseDraft, operator: Operator, draw: Draw) -> RecipeOutput:
    """What the recipe makes from the declaration; errors name the line of the recipe."""
    recipe = operator.recipes[draft.recipe]
    try:
        made = recipe(draw, dict(draft.params), DType.named(draft.dtype), **draft.args)
    except Exception as error:
        if type(error) is ContentError:
            # What a recipe asserts of its data does not know the case.
            raise DeclarationError(f"{draft.where}: case {draft.id}: recipe {draft.recipe!r}: {error}") from error
        if not is_of_author(error, recipe):
            raise
        # A recipe raises ValueError for arguments it cannot use; any other exception may be a mistake in it.
        words = str(error) if isinstance(error, ValueError) else raised_by(error, recipe)
        raise DeclarationError(
            f"{draft.where}: case {draft.id}: recipe {draft.recipe!r} refuses its arguments: {words}"
        ) from error
    mistake = _mistake(operator, made)
    if mistake is not None:
        raise OperatorError(f"{source_of(recipe)}: the recipe {draft.recipe!r} {mistake}")
    return made


def is_of_author(error: Exception, function: object) -> bool:
    """True if the operator's own code raised it; otherwise it is our mistake or already explained."""
    if isinstance(error, HarnessError):
        return False
    return isinstance(error, _REFUSALS) or raised_at(error, Path(source_of(function)).parent) is not None


def _mistake(operator: Operator, made: object) -> str | None:
    if not isinstance(made, RecipeOutput):
        return f"returns {shown(made)}. Let it return RecipeOutput({{input: array}}, {{parameter: value}})."
    fields = {field.name: field for field in operator.param_fields if not field.result}
    inputs = {spec.id: spec for spec in operator.inputs}
    names = (
        ("input", made.inputs, inputs, inputs),
        ("parameter", made.params, fields, [name for name, field in fields.items() if field.label == "required"]),
        ("output", made.outputs, [spec.id for spec in operator.outputs], ()),
        ("tensor", made.layouts, [spec.id for spec in operator.tensors], ()),
    )
    for kind, given, known, needed in names:
        for name in given:
            if name not in known:
                return f"makes the {kind} {name!r}, which {operator.name} does not have.{suggestion(name, known)}"
        for name in needed:
            if name not in given:
                return f"does not make the {kind} {name!r}. Add it to what it returns."
    for name, array in made.inputs.items():
        allowed = inputs[name].dtypes
        if not isinstance(array, np.ndarray) or array.dtype not in [dtype.storage for dtype in allowed]:
            made_as = str(array.dtype) if isinstance(array, np.ndarray) else type(array).__name__
            words = " or ".join(dtype.value for dtype in allowed)
            return f"makes {name!r} as {made_as}; it must be {words}. Write .astype(dtype.storage) or .astype('<i4')."
    return None
