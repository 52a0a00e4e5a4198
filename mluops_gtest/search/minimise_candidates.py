"""Smaller calls made into complete cases, if the document defines them and the checks answer them as before.

Those that compute get plainer values: 0, 1, small integers, default parameters. Those that compute nothing have no
values to keep, only dims, types, parameters and null pointers.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Self, TypeVar

import numpy as np
from msgspec import field
from msgspec.structs import replace

from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.make import has_poison
from mluops_gtest.core.buffers import ask_about_call, baseline_of, bind_values, is_constant_baseline, row_counts
from mluops_gtest.core.call import OpCall, Params
from mluops_gtest.core.case import Case, Expect
from mluops_gtest.core.declaration import Baseline, CheckVerdict, OutputSpec, RecipeOutput, TensorSpec, plain_params
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.tensor import Array, Criterion, Tensor, TensorDesc, digest_tensors, narrowed, widened

# How often a search may call the backend.
LIMIT = 300
T = TypeVar("T")
# What tells two candidates apart.
Identity = tuple[object, ...]
# The few elements of a small case are often equal; a right backend shall pass it all the same.
SMALL: Final = "minimised: nothing is left of the case but what shows the failure"


class Candidates(Value):
    """Makes smaller cases that ask the same of a backend: to compute, or to refuse by the same check."""

    operator: Operator
    answer: CheckVerdict
    # Those that were made before are not made again.
    tried: set[Identity] = field(default_factory=set)

    @classmethod
    def like(cls, case: Case, operator: Operator) -> Self:
        """Those that the ordered checks answer as they answer this case."""
        return cls(operator, operator.answer(bind_values(case, operator)))

    def with_call(self, case: Case, made: RecipeOutput) -> Case | None:
        """The case with these inputs, parameters and output dims and a baseline by the reference.

        None where the checks answer otherwise, where the document does not define the call, or where it was tried.
        """
        operator = self.operator
        params = {name: value for name, value in plain_params(made.params).items() if name not in operator.results}
        smaller = replace(
            case,
            inputs=tuple(
                _input(one, made) for one in case.inputs if one.id in made.inputs or one.id not in operator.optional
            ),
            outputs=tuple(_resized(tensor, made.outputs) for tensor in case.outputs if tensor.id in made.outputs),
            params=params,
            criteria=tuple(_criteria_of(case, operator, params)),
            expect=replace(case.expect, degenerate=None),
            baseline_stored=True,
            path=None,
            notes=(),
            theory={},
        )
        baseline = None
        if len(smaller.outputs) < len(case.outputs):
            try:
                baseline = baseline_of(operator, bind_values(smaller, operator))
            except Exception:
                # The dims that the checks need are the reference's to tell: nobody knows yet whether it must answer.
                return None
            shapes = {name: array.shape for name, array in baseline.outputs.items()}
            smaller = replace(smaller, outputs=tuple(_resized(tensor, shapes) for tensor in case.outputs))
        whole = smaller.with_shared_buffers()
        if whole is None or self._is_repeated(smaller := whole):
            return None
        call = bind_values(smaller, operator)
        if (
            self._answer(call) != self.answer
            or self._call_operator(operator.precondition, operator.broken, call) is not None
        ):
            return None
        known = baseline or self._call_operator(operator.reference, self._baseline, call)
        return None if known is None else _with_baseline(smaller, operator, known)

    def _baseline(self, call: OpCall) -> Baseline | None:
        """None where the reference refuses, as a recipe does, what only it can tell: fewer rows than answers, say."""
        try:
            return baseline_of(self.operator, call)
        except ValueError:
            return None

    def rebased(self, case: Case) -> Case | None:
        """The same call with a baseline by the reference."""
        return self.with_call(case, recipe_output_of(case))

    def refused(self, candidate: Case) -> Case | None:
        """The candidate; None where the checks answer it otherwise, or where it was tried."""
        if self._is_repeated(candidate):
            return None
        answer = self._answer(bind_values(candidate, self.operator))
        return candidate if answer == self.answer else None

    def _answer(self, call: OpCall) -> CheckVerdict:
        return self._call_operator(self.operator.reference, self.operator.answer, call)

    def _call_operator(self, function: object, ask: Callable[[OpCall], T], call: OpCall) -> T:
        return ask_about_call(self.operator, function, ask, call, "a smaller call")

    def _is_repeated(self, candidate: Case) -> bool:
        identity = _identity(candidate, self.operator)
        if identity in self.tried:
            return True
        self.tried.add(identity)
        return False


def recipe_output_of(case: Case) -> RecipeOutput:
    """The case in the words of a recipe."""
    return RecipeOutput(
        {tensor.id: tensor.values for tensor in case.inputs},
        case.params,
        outputs={tensor.id: tensor.desc.dims for tensor in case.outputs},
    )


def _identity(case: Case, operator: Operator) -> Identity:
    descs = tuple(tensor.desc for tensor in case.tensors)
    params = tuple((name, value) for name, value in case.params.items() if name not in operator.results)
    return digest_tensors(case.inputs), descs, params, replace(case.expect, degenerate=None)


def _input(tensor: Tensor, made: RecipeOutput) -> Tensor:
    values = made.inputs.get(tensor.id)
    if values is None:
        # Of what an output holds a smaller one holds the beginning.
        values = tensor.values[tuple(map(slice, made.outputs.get(tensor.becomes, tensor.desc.dims)))]
    array = np.ascontiguousarray(values, tensor.desc.dtype.storage)
    desc = replace(tensor.desc.resized(array.shape), layout=made.layouts.get(tensor.id, tensor.desc.layout))
    return replace(tensor, desc=desc).holding(array)


def _criteria_of(case: Case, operator: Operator, params: Params) -> Iterator[tuple[Criterion, ...] | None]:
    """Those of the case with other parameters: the operator's own follow these."""
    for tensor, criteria in zip(case.outputs, case.criteria, strict=True):
        usual = partial(operator.usual_criteria, tensor.id, tensor.desc.dtype)
        yield usual({**case.facts, **params}) if criteria == usual(case.facts) else criteria


def _resized(tensor: Tensor, dims: Mapping[str, tuple[int, ...]]) -> Tensor:
    return Tensor(tensor.id, tensor.desc.resized(tuple(map(int, dims[tensor.id]))))


def _with_baseline(case: Case, operator: Operator, baseline: Baseline) -> Case | None:
    outputs = []
    for tensor in case.outputs:
        array = baseline.outputs[tensor.id]
        if array.shape != tensor.desc.dims or has_poison(array, tensor.desc.dtype):
            return None
        outputs.append(tensor.holding(array))
    filled = replace(case, outputs=tuple(outputs), params={**case.params, **baseline.scalars})
    counts = row_counts(operator, filled.outputs, baseline.scalars)
    if any(is_constant_baseline(tensor, operator, counts) for tensor in filled.outputs):
        filled = replace(filled, expect=replace(filled.expect, degenerate=SMALL))
    return filled


# Tensors of at most so many elements are made plainer element by element.
MAX_SINGLE: Final = 32
_SMALL: Final = 9


def plainness(values: Array) -> int:
    """What a reader has to take in: nothing for 0, less for 1 and small integers than for digits behind a point."""
    with np.errstate(invalid="ignore"):
        wide = values.astype(np.float64)
        whole = np.isfinite(wide) & (wide == np.rint(wide))
        ranks = np.select(
            [wide == 0, wide == 1, whole & (np.abs(wide) <= _SMALL), whole & (np.abs(wide) < 1000), whole],
            [0, 1, 2, 3, 4],
            np.where(np.isfinite(wide), 5 + _digits(wide), 5),
        )
    return int(ranks.sum())


def _digits(values: Array) -> Array:
    """Binary digits behind the point, roughly: how long a fraction is to write."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.select([(values * 2**k) == np.rint(values * 2**k) for k in (1, 2, 3, 6, 12)], [1, 2, 3, 4, 6], 8)


def _ranks(values: Array) -> Array:
    """Small integers in the same order, ties included; what is not finite stays."""
    finite = np.isfinite(values)
    ranked = values.copy()
    ranked[finite] = np.unique(values[finite], return_inverse=True)[1].reshape(-1)
    return ranked


def _whole(values: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.rint(values)


def _powers(values: Array) -> Array:
    """The next power of two towards 0, with its sign."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return np.where(
            np.isfinite(values) & (values != 0), np.copysign(2.0 ** np.frexp(values)[1] / 2, values), values
        )


_TRANSFORMS: Final[tuple[Callable[[Array], Array], ...]] = (
    np.zeros_like,
    np.ones_like,
    _ranks,
    np.sign,
    _whole,
    _powers,
)


def plainer_tensors(case: Case, operator: Operator) -> Iterator[RecipeOutput]:
    """The call without its last input, where it may lack that, or with one tensor made plainer, the plainest first."""
    made = recipe_output_of(case)
    if any(one.id in operator.optional for one in case.inputs[-1:]):
        yield replace(made, inputs=dict(list(made.inputs.items())[:-1]))
    for tensor in case.inputs:
        values = _numbers(made, tensor)
        for transform in _TRANSFORMS:
            yield from _plainer(made, tensor, transform(values).astype(values.dtype))


def plainer_elements(case: Case) -> Iterator[RecipeOutput]:
    """The call with one element of a small tensor made 0 or 1, or one column of a tensor made 0."""
    made = recipe_output_of(case)
    for tensor in case.inputs:
        values = _numbers(made, tensor)
        if values.ndim > 1 and 1 < values.shape[-1] <= MAX_SINGLE:
            for column in range(values.shape[-1]):
                changed = values.copy()
                changed[..., column] = 0
                yield from _plainer(made, tensor, changed)
        if values.size > MAX_SINGLE:
            continue
        for place in range(values.size):
            for number in (0, 1):
                changed = values.copy()
                changed.reshape(-1)[place] = number
                yield from _plainer(made, tensor, changed)


def _numbers(made: RecipeOutput, tensor: Tensor) -> Array:
    """The values of an input as real numbers; both parts of a complex one, side by side on the last axis."""
    values = np.ascontiguousarray(widened(made.inputs[tensor.id], tensor.desc.dtype))
    return values.view(f"<f{values.itemsize // 2}") if values.dtype.kind == "c" else values


def _plainer(made: RecipeOutput, tensor: Tensor, changed: Array) -> Iterator[RecipeOutput]:
    if plainness(changed) < plainness(_numbers(made, tensor)):
        dtype = tensor.desc.dtype
        stored = changed.view(dtype.storage) if dtype.storage.kind == "c" else narrowed(changed, dtype)
        yield replace(made, inputs={**made.inputs, tensor.id: stored})


def plainer_params(case: Case, operator: Operator) -> Iterator[RecipeOutput]:
    """The call with one number among its parameters at its default, or at 0 or 1, where that is plainer.

    Lists describe spaces and kernels; what becomes smaller there is the operator's to say.
    """
    made = recipe_output_of(case)
    for param in operator.param_fields:
        value = case.params.get(param.name)
        if param.result or param.enum is not None or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        defaults = () if param.default is None else (param.default,)
        for plain in dict.fromkeys((*defaults, type(value)(0), type(value)(1))):
            if plainness(np.array(plain)) < plainness(np.array(value)):
                yield replace(made, params={**made.params, param.name: plain})


def plainer_strides(case: Case) -> Iterator[Case]:
    """The descriptors without strides: of all tensors, then of each; the values are those of the case."""
    strided = [tensor.id for tensor in case.tensors if tensor.desc.is_strided]
    for names in [strided, *([name] for name in strided if len(strided) > 1)] if strided else ():
        yield _with_tensors(case, {name: replace(case.tensor(name).desc, strides=None) for name in names})


_NULLS: Final = ("null_descriptor", "null_pointer")


def plainer_caller(case: Case) -> Iterator[Expect]:
    """The case without one of the special wishes at its caller: an old device, a null pointer, a small workspace."""
    expect, usual = case.expect, Expect()
    for wish in (
        *({wish: getattr(usual, wish)} for wish in ("arch", "nram_bytes", "workspace_size", "null_handle")),
        *({nulls: _without(expect, nulls, one)} for nulls in _NULLS for one in getattr(expect, nulls)),
    ):
        simpler = replace(expect, **wish)
        if simpler != expect:
            yield simpler


def _without(expect: Expect, nulls: str, one: str) -> tuple[str, ...]:
    return tuple(name for name in getattr(expect, nulls) if name != one)


def with_usual_criteria(case: Case, operator: Operator) -> Case:
    """The case with criteria for every output, whatever its type: nobody uses them, but a file has one list for all."""

    def usual(tensor: Tensor) -> tuple[Criterion, ...]:
        of = partial(operator.usual_criteria, tensor.id, facts=case.facts)
        return of(tensor.desc.dtype) or of(operator.output(tensor.id).dtypes[0])

    return replace(case, criteria=tuple(map(usual, case.outputs)))


def without_values(case: Case) -> Case:
    """The call without input values: nobody reads them."""
    return _with_tensors(case, {tensor.id: tensor.desc for tensor in case.tensors})


def simpler(case: Case, operator: Operator) -> Iterator[Case]:
    """The call without one of the things that are odd about it, so that a second mistake goes first."""
    for expect in plainer_caller(case):
        yield replace(case, expect=expect)
    if any(one.id in operator.optional.difference(case.expect.null_pointer) for one in case.inputs[-1:]):
        yield replace(case, inputs=case.inputs[:-1])
    for tensor in case.tensors:
        for desc in _usual(tensor.desc, operator.tensor(tensor.id)):
            yield _with_tensors(case, {tensor.id: desc})
    for made in plainer_params(replace(case, inputs=(), outputs=()), operator):
        yield replace(case, params=dict(made.params))


def _usual(desc: TensorDesc, spec: TensorSpec | OutputSpec) -> Iterator[TensorDesc]:
    """The descriptor with its usual strides, layout or type."""
    if desc.strides is not None:
        yield replace(desc, strides=None)
    if desc.layout not in spec.own_layouts:
        yield replace(desc, layout=spec.own_layouts[0])
    for dtype in spec.dtypes:
        if desc.dtype not in spec.dtypes:
            yield replace(desc, dtype=dtype)


def smaller(case: Case, operator: Operator) -> Iterator[Case]:
    """The call with a length made smaller: everywhere where the number stands, then on one axis of one tensor.

    A number that stands on several axes and in parameters is one length of the operator; where it is not, the checks
    do not answer as before.
    """
    lengths = sorted({length for tensor in case.tensors for length in tensor.desc.dims if length > 1}, reverse=True)
    for length in lengths:
        for shorter in _shorter(length):
            yield _with_length(case, operator, length, shorter)
    for tensor in case.tensors:
        for axis, length in enumerate(tensor.desc.dims):
            for shorter in _shorter(length):
                dims = (*tensor.desc.dims[:axis], shorter, *tensor.desc.dims[axis + 1 :])
                yield _with_tensors(case, {tensor.id: replace(tensor.desc, dims=dims)})


def _shorter(length: int) -> Iterator[int]:
    """1, then what is between: half, a quarter less, one less."""
    yield from dict.fromkeys(n for n in (1, 2, length // 2, length - length // 4, length - 1) if 0 < n < length)


def _with_length(case: Case, operator: Operator, length: int, shorter: int) -> Case:
    def swapped(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(swapped, value))
        return shorter if type(value) is int and value == length else value

    resized = {tensor.id: replace(tensor.desc, dims=swapped(tensor.desc.dims)) for tensor in case.tensors}
    params = {name: value if name in operator.results else swapped(value) for name, value in case.params.items()}
    return replace(_with_tensors(case, resized), params=params)


def _with_tensors(case: Case, descs: Mapping[str, TensorDesc]) -> Case:
    def bare(tensor: Tensor) -> Tensor:
        desc = descs.get(tensor.becomes or tensor.id)
        return tensor if desc is None else replace(tensor, desc=desc).without_values()

    return replace(
        case,
        inputs=tuple(map(bare, case.inputs)),
        outputs=tuple(map(bare, case.outputs)),
        path=None,
        notes=(),
        theory={},
    )
