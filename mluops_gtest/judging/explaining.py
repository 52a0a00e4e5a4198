"""One output with wrong elements explained: the law of its wrong values, and the simplest set that they fill.

Where and how the outputs of a case are wrong, found while the values are there; a verdict never depends on it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.base.errors import OperatorError, repr_short, suggestion
from mluops_gtest.core.buffers import bind_values, short
from mluops_gtest.core.call import OpCall, TensorArg
from mluops_gtest.core.case import Case
from mluops_gtest.core.explanation import (
    MAX_SAMPLES,
    AsIf,
    Explanation,
    Fitted,
    Law,
    NeverWritten,
    OffBy,
    OneSided,
    RoundedInputs,
    TurnedConstant,
    TurnedZero,
    Where,
    WrongMap,
    WrongSample,
)
from mluops_gtest.core.operator import Operator, call_operator_function, refuse_by_operator
from mluops_gtest.core.tensor import Array, DType, Tensor, widened
from mluops_gtest.judging.blocks import Picture, folded_width, index_of, value_text
from mluops_gtest.judging.criteria import beyond_tolerance
from mluops_gtest.judging.elementwise import ElementwiseCheck
from mluops_gtest.judging.rearrangements import rearrangements
from mluops_gtest.judging.value_laws import (
    EITHER,
    MAX_COMPUTED,
    MAX_SEARCHED,
    NARROW,
    Fit,
    HeldTo,
    WrongOutput,
    last_resorts,
    narrowed,
    rounding,
    value_laws,
)
from mluops_gtest.judging.where import hull_of, lines_of, where_wrong

_SIGNS: Final = np.array(list(".123456789#"))


def map_of(wrong: Array) -> WrongMap:
    """Which share of each cell is wrong."""
    picture = Picture.over(wrong.shape)
    counts = np.bincount(picture.cell_of(np.flatnonzero(wrong)), minlength=picture.rows * picture.columns)
    shares = counts / picture.sizes
    # From a single one on it is some, and all only where it is all.
    classes = np.where(shares >= 1, 10, np.clip(np.ceil(shares * 9), counts > 0, 9)).astype(int)
    cells = "".join(_SIGNS[classes].tolist())
    return WrongMap(picture.rows, picture.columns, cells, folded_width(wrong.shape))


# A law that does not hold of all wrong elements must hold of this share of them to be told.
_SHARE: Final = 0.75
_MAX_LAWS: Final = 8


# NaN, infinities and overflow are looked at as what they are.
@np.errstate(all="ignore")
def explained(
    out: WrongOutput,
    output: str,
    text: Callable[[tuple[int, ...]], tuple[str, str]],
    suspects: Callable[[], Iterable[Fit]] = tuple,
    recomputed: Callable[[], Iterable[Fit]] = tuple,
) -> Explanation:
    """Where the output is wrong, and how; `text` gives both values at an index.

    `suspects` are what the operator names, `recomputed` what is asked where nothing simpler holds.
    """
    fits = _fits(out, suspects, recomputed)
    classes = _classes(out)
    bare = where_wrong(out.wrong, out.wrong, classes)
    fitted = [_fitted(out, fit, classes, bare) for fit in fits]
    # Of laws that are as sure the one whose elements have a simple set is told.
    exact = [one.sure and one.lawful == out.count and one.inside == out.count + one.agreeing for one in fitted]
    if any(exact):
        fitted.insert(0, fitted.pop(exact.index(True)))
    return Explanation(
        output=output,
        dims=out.wrong.shape,
        wrong=out.count,
        held_to=out.held_to,
        fitted=(*fitted, replace(bare, lawful=out.count)),
        hull=hull_of(out.wrong),
        lines=lines_of(out.wrong),
        first=index_of(int(out.wrong.argmax()), out.wrong.shape),
        last=index_of(out.wrong.size - 1 - int(out.wrong.reshape(-1)[::-1].argmax()), out.wrong.shape),
        map=map_of(out.wrong),
        samples=_samples(out, text),
    )


def _fitted(out: WrongOutput, fit: Fit, classes: dict[str, Array], bare: Fitted) -> Fitted:
    """The law with the set of elements that it fills; `bare` is that of the wrong elements alone."""
    allowed = np.ones_like(out.wrong) if fit.whole else out.wrong
    if isinstance(fit.law, NeverWritten) and out.kept is not None:
        allowed = allowed | out.kept
    share = float(np.mean(fit.holds))
    lawful = out.count if share == 1 else int(share * out.count)
    if not fit.whole and fit.predicted is not None and out.wrong.size <= MAX_COMPUTED:
        predicted = fit.predicted()
        allowed = out.wrong | out.agreeing(predicted)
        if lawful == out.count > len(out.places):
            lawful = out.lawful(predicted)
    found = bare if allowed is out.wrong else where_wrong(out.wrong, allowed, classes)
    return replace(found, law=fit.law, lawful=lawful, sure=fit.sure)


def _fits(
    out: WrongOutput, suspects: Callable[[], Iterable[Fit]], recomputed: Callable[[], Iterable[Fit]]
) -> list[Fit]:
    """The laws that hold of all wrong elements, those that chance does not explain first; else the one of the most.

    Where all is within rounding, nothing else is tried: other laws are as near to it.
    """
    if within := rounding(out):
        return within
    tried: list[Fit] = [*suspects(), *value_laws(out)]
    # In a small output several laws hold, of which cases may share the last one.
    if out.held_to != "written":
        tried += rearrangements(out)
        if not any(fit.sure and fit.holds.all() for fit in tried):
            tried += recomputed()
        # What they say of some elements is not counted on all.
        if len(out.places) == out.count:
            tried += last_resorts(out)
    whole = [fit for fit in tried if fit.holds.all()]
    # What explains the right elements, too, explains most.
    whole.sort(key=lambda fit: (not fit.sure, not fit.whole))
    once = {fit.law: fit for fit in reversed(whole)}
    whole = [fit for fit in whole if once[fit.law] is fit]
    # The last one, which says least, may be all that cases share.
    whole = [*whole[: _MAX_LAWS - 1], *whole[_MAX_LAWS - 1 :][-1:]]
    if whole and whole[0].sure:
        return whole
    partly = [fit for fit in tried if fit.sure and np.mean(fit.holds) >= _SHARE]
    return [*whole, *sorted(partly, key=lambda fit: -np.mean(fit.holds))[:1]]


def _classes(out: WrongOutput) -> dict[str, Array]:
    """Sets of elements by their right value."""
    b = out.baseline
    if b.size > MAX_COMPUTED or b.dtype.kind not in "fiu":
        return {}
    classes = {"zero": b == 0}
    if b.dtype.kind != "u":
        classes["negative"] = b < 0
    if b.dtype.kind == "f":
        tiny = np.finfo(b.dtype).tiny
        classes |= {"nan": np.isnan(b), "infinite": np.isinf(b), "subnormal": (b != 0) & (np.abs(b) < tiny)}
    return classes


def _samples(out: WrongOutput, text: Callable[[tuple[int, ...]], tuple[str, str]]) -> tuple[WrongSample, ...]:
    chosen = out.places[:: -(-len(out.places) // MAX_SAMPLES)].tolist()
    indices = (index_of(place, out.wrong.shape) for place in chosen)
    return tuple(WrongSample(index, *text(index)) for index in indices)


def suspected(operator: Operator, name: str, call: OpCall) -> Mapping[str, Array]:
    """The outputs of a call that computes by the suspect of that name: some of the operator's, in their shapes."""
    suspect, what = operator.suspects[name], f"the suspect {name!r} of {operator.name}"
    refuse = refuse_by_operator(
        suspect, f"{what} fails", "It must give outputs wherever the reference gives a baseline."
    )
    return call_operator_function(suspect, what, lambda: suspect(call), refuse, partial(_mistake, operator, call))


def _mistake(operator: Operator, call: OpCall, outputs: object) -> str | None:
    if not isinstance(outputs, Mapping):
        return f"returns {type(outputs).__name__}. Let it return {{output: array}}."
    known = tuple(spec.id for spec in operator.outputs)
    for name, array in outputs.items():
        if name not in known:
            return f"names the output {name!r}, which the operator does not declare.{suggestion(name, known)}"
        if not isinstance(array, np.ndarray):
            return f"returns {repr_short(array)} as {name!r}. Return a numpy array."
        dims = call.tensor(name).dims
        if array.shape != dims:
            return f"returns {name!r} with the shape {list(array.shape)}, the call has {list(dims)}."
    return None


# Elements of all tensors of a case; larger ones are not computed again.
_MAX_ELEMENTS: Final = 1 << 18
# Fewer wrong elements may be near to a computed mistake by chance.
_CONFIRMED: Final = 3

_Outputs = Mapping[str, Array]


class Suspects:
    """What comes out of one case by each mistake, computed when first asked for and kept for its other outputs."""

    def __init__(self, case: Case, operator: Operator) -> None:
        self._case, self._operator = case, operator
        self._made: dict[Law, _Outputs] = {}
        self.slips: list[str] = []
        """What is wrong with suspects themselves, with file and line; such a suspect is not tried."""

    def fit_suspects(self, tensor: Tensor, out: WrongOutput) -> Iterator[Fit]:
        """The mistakes that the operator names, tried on an output."""
        for name in self._operator.suspects:
            yield from self._fit(AsIf(name), partial(self._suspected, name), tensor, out)

    def _suspected(self, name: str) -> _Outputs:
        try:
            return suspected(self._operator, name, self._call)
        except OperatorError as error:
            self.slips.append(str(error))
            return {}

    def fit_rounded_inputs(self, tensor: Tensor, out: WrongOutput) -> Iterator[Fit]:
        """Inputs that are rounded to narrower types, tried on an output."""
        if out.held_to == "equality":
            return
        for truncated in (False, True):
            calls = {precision: _with_rounded_inputs(self._call, precision, truncated) for precision in NARROW}
            # half and TF32 have the same bits; where no exponent tells them apart, both are named.
            if _are_same(calls["half"], calls["tf32"]):
                calls = {EITHER: calls["half"], "bfloat16": calls["bfloat16"]}
            for precision, call in calls.items():
                if call is not None:
                    law = RoundedInputs(precision, truncated)
                    yield from self._fit(law, partial(self._recomputed, call), tensor, out)

    def _recomputed(self, call: OpCall) -> _Outputs:
        # Rounding may move data out of what the document defines; of these the reference promises nothing.
        return {} if self._operator.broken(call) else self._operator.reference(call).outputs

    @cached_property
    def _call(self) -> OpCall:
        return bind_values(self._case, self._operator)

    def _fit(self, law: Law, make: Callable[[], _Outputs], tensor: Tensor, out: WrongOutput) -> Iterator[Fit]:
        if law not in self._made:
            self._made[law] = make()
        made = self._made[law].get(tensor.id)
        if made is None:
            return
        predicted = widened(np.asarray(made[: len(out.wrong)]), tensor.desc.dtype)
        holds = out.near(predicted.reshape(-1)[out.places].astype(out.b.dtype))
        whole = bool(holds.all()) and bool((out.wrong | out.agreeing(predicted)).all())
        # Of a mistake that is computed all follows: right elements that would be wrong by it speak against it.
        yield Fit(law, holds if whole else np.zeros_like(holds), lambda: predicted, len(holds) >= _CONFIRMED, whole)


def _are_same(first: OpCall | None, second: OpCall | None) -> bool:
    if first is None or second is None:
        return False
    return all(
        one is None or one.array is None or np.array_equal(one.array, second.array(name), equal_nan=one.dtype.is_float)
        for name, one in first.inputs.items()
    )


def _with_rounded_inputs(call: OpCall, precision: str, truncated: bool) -> OpCall | None:
    """The call with its float inputs rounded, half ones to what has fewer bits; None where that changes nothing."""
    wider = (DType.FLOAT, DType.HALF) if precision == "bfloat16" else (DType.FLOAT,)
    inputs: dict[str, TensorArg | None] = {}
    changed = False
    for name, argument in call.inputs.items():
        if argument is not None and argument.array is not None and argument.dtype in wider:
            rounded = narrowed(argument.array, precision, truncated=truncated).astype(argument.array.dtype)
            changed = changed or not np.array_equal(rounded, argument.array, equal_nan=True)
            inputs[name] = replace(argument, array=rounded)
        else:
            inputs[name] = argument
    return replace(call, inputs=inputs) if changed else None


# Integers that float64 holds.
MAX_EXACT: Final = 1 << 53
# The unit in the last place of 1.
_EPSILON: Final = {DType.HALF: 2.0**-10, DType.BFLOAT16: 2.0**-7, DType.FLOAT: 2.0**-23, DType.DOUBLE: 2.0**-52}


class Explainer:
    """Explains the outputs of one case that fail."""

    def __init__(self, case: Case, operator: Operator, look: ElementwiseCheck | None) -> None:
        self._operator, self._look = operator, look
        self.suspects, self._is_large = Suspects(case, operator), case.elements > _MAX_ELEMENTS

    def unwritten(
        self, tensor: Tensor, evaluated: Array, baseline: Array, places: Array, kept: Array | None
    ) -> Explanation:
        """An output of which elements were never written; `kept` are those, by the leading axes, that may be."""
        if kept is not None:
            kept = kept.reshape(kept.shape + (1,) * (evaluated.ndim - kept.ndim))
            kept = np.broadcast_to(kept[: len(evaluated)], evaluated.shape)
        return self._explained(tensor, evaluated, baseline, _mask(places, evaluated.shape), "written", None, kept)

    def differing(self, tensor: Tensor, evaluated: Array, baseline: Array, threshold: float) -> Explanation | None:
        """An output that differs; `threshold` is what one element is held to where no bound is declared."""
        if self._look is not None and (beyond := self._look.beyond(tensor, evaluated, baseline)[0]).size:
            small = evaluated.size <= MAX_SEARCHED
            allowed = self._look.allowed(tensor, evaluated, baseline) if small else None
            return self._explained(tensor, evaluated, baseline, _mask(beyond, evaluated.shape), "bound", allowed)
        tolerances: tuple[tuple[HeldTo, float], ...] = (("tolerance", threshold), ("equality", 0.0))
        for held_to, tolerance in tolerances[threshold <= 0 :]:
            wrong = beyond_tolerance(evaluated, baseline, tensor.desc.dtype, tolerance)
            if wrong.any():
                return self._explained(tensor, evaluated, baseline, wrong, held_to, None)
        return None

    def _explained(
        self,
        tensor: Tensor,
        evaluated: Array,
        baseline: Array,
        wrong: Array,
        held_to: HeldTo,
        allowed: Array | None,
        kept: Array | None = None,
    ) -> Explanation:
        dtype, spec = tensor.desc.dtype, self._operator.output(tensor.id)
        out = WrongOutput(
            widened(evaluated, dtype),
            widened(baseline, dtype),
            wrong,
            held_to,
            allowed,
            _EPSILON.get(dtype, 0.0),
            spec.filling,
            kept,
        )

        def text(index: tuple[int, ...]) -> tuple[str, str]:
            return value_text(evaluated[index], dtype), value_text(baseline[index], dtype)

        if held_to == "written" or self._is_large:
            return explained(out, tensor.id, text)
        suspects, rounded = self.suspects.fit_suspects, self.suspects.fit_rounded_inputs
        return explained(out, tensor.id, text, partial(suspects, tensor, out), partial(rounded, tensor, out))


def _mask(places: Array, shape: tuple[int, ...]) -> Array:
    mask = np.zeros(shape, bool)
    mask.reshape(-1)[places] = True
    return mask


def scalar_explained(name: str, got: int, expected: int) -> Explanation:
    """A result that is no tensor: by how much it is off, as far as numbers in files go."""
    far = abs(got - expected) > MAX_EXACT
    laws: list[Law] = [] if far else [OffBy(float(got - expected)), TurnedConstant(str(got))]
    laws = [TurnedZero(), *laws] if got == 0 else laws
    side = OneSided("larger" if got > expected else "smaller")
    fitted = [Fitted(law, Where(), lawful=1) for law in (*laws, side, None)]
    sample = WrongSample((), short(got), short(expected))
    return Explanation(name, (), 1, "equality", tuple(fitted), samples=(sample,))
