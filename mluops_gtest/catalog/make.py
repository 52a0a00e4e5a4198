"""One declared or drawn case made complete."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from mluops_gtest.authoring.calls import dtype_of
from mluops_gtest.authoring.random import MAX_LANES, Draw
from mluops_gtest.base.errors import ContentError, DeclarationError, HarnessError, OperatorError, repr_short, suggestion
from mluops_gtest.core.buffers import (
    ask_about_call,
    baseline_of,
    bind_values,
    expected_results,
    is_constant_baseline,
    row_counts,
)
from mluops_gtest.core.call import OpCall, Params, ParamValue, Status
from mluops_gtest.core.case import Case, CaseDraft, Change
from mluops_gtest.core.declaration import (
    Baseline,
    Check,
    CheckVerdict,
    OutputSpec,
    RecipeOutput,
    TensorSpec,
    plain_params,
)
from mluops_gtest.core.operator import Operator, call_operator_function, raised_at, raised_by, source_of
from mluops_gtest.core.tensor import Array, Criterion, DType, Layout, Tensor, TensorDesc


def declared_criteria(
    draft: CaseDraft, operator: Operator, outputs: Iterable[Tensor], facts: Mapping[str, ParamValue | DType]
) -> tuple[tuple[Criterion, ...], ...]:
    """What each output is held to: by the declaration, else by the operator."""
    return tuple(
        draft.criteria.get(tensor.id) or operator.usual_criteria(tensor.id, tensor.desc.dtype, facts)
        for tensor in outputs
    )


def as_declared(case: Case, draft: CaseDraft, operator: Operator) -> Case:
    """A case from its file, with what the declaration says: tags, document, criteria, why the baseline is constant.

    The file in a cache may be older than the criteria.
    """
    expect, degenerate = case.expect, draft.expect.degenerate
    if expect.degenerate != degenerate:
        expect = replace(expect, degenerate=degenerate)
    criteria = declared_criteria(draft, operator, case.outputs, case.facts)
    return replace(case, tags=draft.tags, doc=draft.doc, expect=expect, criteria=criteria, declared=True)


def _refusal(draft: CaseDraft, words: str) -> DeclarationError:
    """The error about that case: `words` go on behind its id."""
    return DeclarationError(f"{draft.where}: case {draft.id}{words}")


# What recipes and references raise about values that they cannot work with, maybe deep in numpy.
_REFUSALS = (ValueError, AssertionError, LookupError, TypeError, ArithmeticError, MemoryError)


def call_recipe(draft: CaseDraft, operator: Operator, draw: Draw) -> RecipeOutput:
    """What the recipe makes from the declaration; errors name the line of the recipe."""
    recipe, where = operator.recipes[draft.recipe], f"{draft.where}: case {draft.id}: recipe {draft.recipe!r}"

    def refuse(error: Exception) -> DeclarationError | None:
        if type(error) is ContentError:
            # What a recipe asserts of its data does not know the case.
            return DeclarationError(f"{where}: {error}")
        if not is_of_author(error, recipe):
            return None
        # A recipe raises ValueError for arguments it cannot use; any other exception may be a mistake in it.
        words = str(error) if isinstance(error, ValueError) else raised_by(error, recipe)
        return DeclarationError(f"{where} refuses its arguments: {words}")

    return call_operator_function(
        recipe,
        f"the recipe {draft.recipe!r}",
        lambda: recipe(draw, dict(draft.params), DType.named(draft.dtype), **draft.args),
        refuse,
        partial(_mistake, operator),
    )


def is_of_author(error: Exception, function: object) -> bool:
    """True if the operator's own code raised it; otherwise it is our mistake or already explained."""
    if isinstance(error, HarnessError):
        return False
    return isinstance(error, _REFUSALS) or raised_at(error, Path(source_of(function)).parent) is not None


def _mistake(operator: Operator, made: object) -> str | None:
    if not isinstance(made, RecipeOutput):
        return f"returns {repr_short(made)}. Let it return RecipeOutput({{input: array}}, {{parameter: value}})."
    fields = {field.name: field for field in operator.param_fields if not field.result}
    inputs = {spec.id: spec for spec in operator.inputs}
    # A call that lacks an input lacks those behind it, too: files have them by position.
    last = max((place for place, name in enumerate(inputs) if name in made.inputs), default=-1)
    least = [name for place, (name, spec) in enumerate(inputs.items()) if place < last or not spec.optional]
    names = (
        ("input", made.inputs, inputs, least),
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


# The most elements that a recipe can draw for one tensor.
MAX_ELEMENTS = MAX_LANES


def make_case(draft: CaseDraft, operator: Operator, draw: Draw | None = None) -> Case:
    """The complete case; an error if the declaration, the checks and the baseline contradict each other.

    `draw` is the source of its random numbers, by default that of the declared seed.
    """
    return _wrap_operator_errors(
        draft, operator, lambda: _make_declared(draft, operator, Draw(draft.seed) if draw is None else draw)
    )


def make_fuzz_case(draft: CaseDraft, operator: Operator, spoil: Callable[[Case], Case]) -> Case:
    """The complete case of a drawn call, which expects what the checks say of it.

    `spoil` changes the call as the recipe made it. An error where the call is not defined, or computes without values.
    """
    return _wrap_operator_errors(draft, operator, lambda: _make_fuzz_case(draft, operator, spoil))


def make_call(draft: CaseDraft, operator: Operator) -> Case:
    """The call of the case as the recipe makes it, without a baseline."""
    return _wrap_operator_errors(draft, operator, lambda: _draw_call(draft, operator))


def _wrap_operator_errors(draft: CaseDraft, operator: Operator, make: Callable[[], Case]) -> Case:
    """What `make` gives; what the operator's own code raises is told with the case."""

    def refuse(error: Exception) -> DeclarationError | None:
        if not is_of_author(error, operator.reference):
            return None
        return _refusal(
            draft,
            f" cannot be made of these values: {raised_by(error, operator.reference)}. "
            "Correct params and data, or the operator; a call that it refuses is made from a valid one by `change`.",
        )

    return call_operator_function(operator.reference, operator.name, make, refuse)


def _make_declared(draft: CaseDraft, operator: Operator, draw: Draw) -> Case:
    made = call_recipe(draft, operator, draw)
    case = _draw(draft, operator, made)
    named = {*draft.changes, *draft.expect.null_descriptor, *draft.expect.null_pointer}
    for name in sorted(named & operator.optional - made.inputs.keys()):
        raise _refusal(draft, f" changes {name}, which its recipe does not make. Let it make one, or change another.")
    if draft.changes or draft.changed_params:
        case = changed(case, draft.changes, _rounded_params(draft.changed_params, operator))
    tensor = unchecked_layout(case, operator)
    if tensor is not None:
        _refuse_open(draft, f"no check looks at the layout of {tensor}, which is not its own", "undefined")
    answer = operator.answer(bind_values(case, operator))
    _compare_answer(draft, operator, answer)
    _compare_sizes(draft, operator, case, computes=answer.computes)
    if not answer.computes:
        return _without_baseline(case, operator, answer, bare=bool(draft.base))
    case = _with_baseline(case, draft, operator)
    _refuse_degenerate(draft, operator, case)
    theory = operator.theory(bind_values(case, operator))
    return replace(case, theory={"theory_io_size": float(theory.io_bytes), "theory_compute_ops": float(theory.ops)})


def _make_fuzz_case(draft: CaseDraft, operator: Operator, spoil: Callable[[Case], Case]) -> Case:
    case = spoil(_draw_call(draft, operator))
    answer = ask_about_call(operator, operator.reference, operator.answer, bind_values(case, operator), "a drawn call")
    # Nobody looked at what was drawn: a constant baseline is no mistake.
    expect = replace(case.expect, status=answer.status, check=answer.check, degenerate="drawn")
    case = replace(case, expect=expect)
    return _with_baseline(case, draft, operator) if answer.computes else _without_baseline(case, operator, answer)


def _draw_call(draft: CaseDraft, operator: Operator) -> Case:
    return _draw(draft, operator, call_recipe(draft, operator, Draw(draft.seed)))


def _draw(draft: CaseDraft, operator: Operator, made: RecipeOutput) -> Case:
    """The case as the recipe makes it, output dims by the recipe or else by the reference."""
    for name, array in made.inputs.items():
        _refuse_large(draft, name, array.shape)
    specs = [spec for spec in operator.inputs if spec.id in made.inputs]
    layouts = {spec.id: made.layouts.get(spec.id, spec.own_layouts[0]) for spec in specs}
    inputs = tuple(_tensor(spec, made.inputs[spec.id], layouts[spec.id]) for spec in specs)
    held = {name: made.inputs[of].shape for name, of in operator.initial_contents.items()}
    made = replace(made, outputs={**held, **made.outputs})
    case = Case(
        id=draft.id,
        operator=operator.name,
        inputs=inputs,
        outputs=(),
        params=_rounded_params(plain_params(made.params), operator),
        criteria=(),
        expect=draft.expect,
        tags=draft.tags,
        doc=draft.doc,
    )
    if set(made.outputs) == {spec.id for spec in operator.outputs}:
        outputs = tuple(_output(spec, made.outputs[spec.id], draft.dtype) for spec in operator.outputs)
    else:
        known = tuple(_output(s, made.outputs[s.id], draft.dtype) for s in operator.outputs if s.id in made.outputs)
        plain = replace(case, outputs=known, expect=type(case.expect)())
        baseline = baseline_of(operator, bind_values(plain, operator))
        outputs = tuple(_output(s, baseline.outputs[s.id].shape, draft.dtype) for s in operator.outputs)
    whole = replace(
        case, outputs=outputs, criteria=declared_criteria(draft, operator, outputs, case.facts)
    ).with_shared_buffers()
    if whole is None:
        pairs = " and ".join(f"{name} what {output} holds" for output, name in operator.initial_contents.items())
        raise _refusal(
            draft, f": {pairs} before the call, so they must have one type and one shape. Correct the recipe."
        )
    return whole


def _refuse_large(draft: CaseDraft, name: str, dims: tuple[int, ...]) -> None:
    """A tensor with values is refused before it is copied or computed."""
    if math.prod(dims) > MAX_ELEMENTS:
        raise _refusal(
            draft,
            f": {name} {list(dims)} has {math.prod(dims)} elements; a tensor with values "
            f"has at most {MAX_ELEMENTS}. Make it smaller, or give a descriptor without values by `change`.",
        )


def _tensor(spec: TensorSpec, array: Array, layout: Layout) -> Tensor:
    data = np.ascontiguousarray(array)
    desc = TensorDesc(dtype_of(data, spec.dtypes), layout, tuple(data.shape))
    return Tensor(spec.id, desc, data.reshape(-1), spec.becomes)


def _output(spec: OutputSpec, dims: tuple[int, ...], dtype: str) -> Tensor:
    wanted = DType.named(dtype)
    chosen = wanted if wanted in spec.dtypes else spec.dtypes[0]
    return Tensor(spec.id, TensorDesc(chosen, spec.own_layouts[0], tuple(dims)))


def _rounded_params(params: Params, operator: Operator) -> Params:
    """Floats as the 32 bits that case files and C functions have of them."""
    single = {field.name for field in operator.param_fields if field.type == "float"}
    return {name: _rounded(value) if name in single else value for name, value in params.items()}


def _rounded(value: Any) -> Any:
    return tuple(map(_rounded, value)) if isinstance(value, (tuple, list)) else float(np.float32(value))


def changed(case: Case, changes: Mapping[str, Change], params: Params) -> Case:
    """The case with other descriptors and parameters."""

    def apply(tensor: Tensor) -> Tensor:
        change = changes.get(tensor.becomes or tensor.id)
        return tensor if change is None else _change(tensor, change)

    return replace(
        case,
        inputs=tuple(map(apply, case.inputs)),
        outputs=tuple(map(apply, case.outputs)),
        params={**case.params, **plain_params(params)},
    )


# Strides may spread few elements over more memory than there is.
_LAID_OUT_BYTES = 1 << 28


def _change(tensor: Tensor, change: Change) -> Tensor:
    """The tensor with another descriptor; its values stay where each element stays where it is."""
    desc = TensorDesc(
        DType.named(change.dtype) if change.dtype else tensor.desc.dtype,
        Layout.named(change.layout) if change.layout else tensor.desc.layout,
        tensor.desc.dims if change.dims is None else change.dims,
        change.strides,
    )
    stays = (desc.dtype, desc.dims) == (tensor.desc.dtype, tensor.desc.dims) and tensor.data is not None
    if not stays or (desc.is_strided and desc.nbytes > _LAID_OUT_BYTES):
        return replace(tensor, desc=desc, data=None)
    is_laid_out = not (desc.is_strided or tensor.desc.is_strided)
    return replace(tensor, desc=desc) if is_laid_out else replace(tensor, desc=desc).holding(tensor.values)


def _compare_answer(draft: CaseDraft, operator: Operator, answer: CheckVerdict) -> None:
    wanted = CheckVerdict(draft.expect.status, draft.expect.check)
    if answer == wanted:
        return
    check = None if answer.check is None else operator.check(answer.check)
    why = "" if check is None else f": {check.message} ({check.place})"
    advice = "Correct the expectation or the checks." if draft.expect_declared else "Write `expect:` if that is meant."
    raise _refusal(draft, f" expects {_words(wanted)}, but the operator's checks say {_words(answer)}{why}. {advice}")


def unchecked_layout(case: Case, operator: Operator) -> str | None:
    """The tensor whose layout is none of its own and looked at by no check, or None."""
    for tensor in case.tensors:
        spec, is_seen = operator.tensor(tensor.id), tensor.id not in case.expect.null_descriptor
        if is_seen and tensor.desc.layout not in spec.own_layouts:
            own = changed(case, {spec.id: Change(layout=spec.own_layouts[0].value)}, {})
            seen, usual = (each_check(bind_values(one, operator), operator) for one in (case, own))
            if spec.layouts is None or seen == usual:
                return spec.id
    return None


def each_check(call: OpCall, operator: Operator) -> list[bool | None]:
    """Whether each check holds; None where it relies on one that does not."""
    return [check_answer(check, call) for check in operator.checks]


def check_answer(check: Check, call: OpCall) -> bool | None:
    """Whether the check holds for the call; None where it cannot look at it."""
    try:
        return check.holds(call)
    except Exception:
        return None


def _refuse_open(draft: CaseDraft, reason: str, tag: str) -> None:
    """What the document leaves open stands in cases of that tag alone."""
    if tag not in draft.tags:
        words = f": {reason}; the document leaves open what comes back. Tag the case `{tag}`, or change it."
        raise _refusal(draft, words)


def _compare_sizes(draft: CaseDraft, operator: Operator, case: Case, *, computes: bool) -> None:
    """A case has the sizes that it is declared for."""
    if draft.sizes and not computes:
        raise _refusal(draft, " computes nothing, so no size can matter. Remove `sizes`.")
    for name, wanted in draft.sizes.items():
        size = operator.sizes[name].size(bind_values(case, operator))
        if size != wanted:
            words = f" is declared for {name} {wanted}, but has {size}. Correct `sizes`, or params and data."
            raise _refusal(draft, words)


def _words(answer: CheckVerdict) -> str:
    return f"{answer.status.name} ({'it computes' if answer.check is None else f'check {answer.check}'})"


def _without_baseline(case: Case, operator: Operator, answer: CheckVerdict, *, bare: bool = False) -> Case:
    """Outputs of a call that computes nothing: without values, unless they have no elements; scalar results are 0.

    A bare one has no values at all, and nothing to hold them to.
    """
    return replace(
        case,
        criteria=((),) * len(case.outputs) if bare else case.criteria,
        inputs=tuple(
            one.without_values() if bare or one.desc.is_strided or one.data is None else one for one in case.inputs
        ),
        outputs=tuple(one.without_values() for one in case.outputs),
        params={**case.params, **(dict.fromkeys(operator.results, 0) if answer.status == Status.SUCCESS else {})},
    )


def _with_baseline(case: Case, draft: CaseDraft, operator: Operator) -> Case:
    for tensor in case.inputs:
        if tensor.data is None and not tensor.desc.is_empty:
            words = f" computes, but `change` took the values of {tensor.id!r}. Make type and shape by the recipe."
            raise _refusal(draft, words)
    inputs = tuple(one.without_values() if one.data is None else one for one in case.inputs)
    case = replace(case, inputs=inputs)
    for tensor in case.outputs:
        _refuse_large(draft, tensor.id, tensor.desc.dims)
    call = bind_values(case, operator)
    broken = operator.broken(call)
    if broken is not None:
        raise _refusal(draft, f": {broken}; the document does not define that.")
    baseline = baseline_of(operator, call)
    for tag, reason_of in operator.left_open.items():
        reason = reason_of(call, baseline)
        if reason is not None:
            _refuse_open(draft, reason, tag)
    outputs = tuple(_filled(tensor, baseline, draft, operator) for tensor in case.outputs)
    # `change` may have changed what they depend on.
    criteria = declared_criteria(draft, operator, outputs, case.facts)
    return replace(case, outputs=outputs, params={**case.params, **baseline.scalars}, criteria=criteria)


def _filled(tensor: Tensor, baseline: Baseline, draft: CaseDraft, operator: Operator) -> Tensor:
    array = baseline.outputs[tensor.id]
    desc = tensor.desc
    if tuple(array.shape) != desc.dims:
        raise OperatorError(
            f"{source_of(operator.reference)}: the reference of {operator.name} returns {tensor.id!r} with the shape "
            f"{list(array.shape)}, the case {draft.id} ({draft.where}) has {list(desc.dims)}. Correct the reference or "
            "the dims that the recipe gives in `outputs`, or add the check that refuses such a call."
        )
    if has_poison(array, desc.dtype):
        raise ContentError(f"{draft.id}: the baseline of {tensor.id!r} contains the poison pattern; change the data.")
    return tensor.holding(array)


def has_poison(array: Array, dtype: DType) -> bool:
    """An element of the baseline could not be told from one that was not written."""
    bits = np.ascontiguousarray(array, dtype.storage).reshape(-1).view(dtype.bits)
    return bool((bits == np.frombuffer(dtype.poison, dtype.bits)[0]).any())


def _refuse_degenerate(draft: CaseDraft, operator: Operator, case: Case) -> None:
    """A constant baseline proves little, unless it may stay unwritten; it must be declared so where it is so."""
    counts = row_counts(operator, case.outputs, expected_results(case, operator))
    may_stay = operator.may_stay(bind_values(case, operator))
    asked = (tensor for tensor in case.outputs if tensor.id not in may_stay)
    constant = [tensor.id for tensor in asked if is_constant_baseline(tensor, operator, counts)]
    if constant and draft.expect.degenerate is None:
        words = f": the baseline of {', '.join(constant)} is constant, which proves little. "
        raise _refusal(draft, f"{words}Change the data, or declare `degenerate: <reason>`.")
    # A derived or typed case is constant with its own seed, perhaps with no other.
    if not constant and draft.expect.degenerate is not None and not (draft.base or draft.is_typed):
        raise _refusal(draft, " is declared degenerate, but every output varies. Remove `degenerate`.")
