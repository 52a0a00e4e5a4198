"""focal_loss_sigmoid, the loss and its derivative: all that both operators share.

N rows, C classes, pt the probability of the right answer, q = 1 − pt; § is a section of the operator's own document.
"""

import math
from collections.abc import Callable, Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np

import mluops_gtest.authoring as mg
from mluops_gtest.authoring import Array, DType, OpCall, Status, TensorArg, exact_numbers, left_open, narrowed
from mluops_gtest.authoring.c_api import HANDLE, c_function, scalar, tensor
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .elementwise import PREFERENCE
from .refusals import Refusals, first_status, tensors_of

FLOATS: Final = (DType.FLOAT, DType.HALF)
FAST: Final = 0
_REDUCTION: Final = mg.EnumSpec(
    "LossReduction", {"LOSS_REDUCTION_NONE": 0, "LOSS_REDUCTION_SUM": 1, "LOSS_REDUCTION_MEAN": 2}
)

# Input, target and output; by these and the weight, if there is one, what refuses a call, in its order.
Tensors = tuple[TensorArg, TensorArg, TensorArg]
Refuse = Callable[[OpCall, Tensors, list[TensorArg]], Refusals]
# x [N, C], the places of targets, alpha and gamma of a call.
Compute = Callable[[Array, tuple[Array, Array], np.float32, np.float32], Array]


def has_weight(call: OpCall) -> bool:
    """A weight without elements is none."""
    weight = call.inputs["weight"]
    return weight is not None and not weight.desc.is_empty


class Reading(NamedTuple):
    """A call as the formula sees it, in float64; mistakes read another one."""

    x: Array  # [N, C]
    is_target: Array  # bool [N, C]
    factor: Array  # broadcasts to [N, C]
    alpha: float  # of the target's column
    others: float  # of every other column
    gamma: float
    target: Array | None = None  # int64 [N]
    weight: Array | None = None  # [C], where there is one


def read(call: OpCall, rows: slice = slice(None)) -> Reading:
    """Some rows; alpha and gamma are floats."""
    x, target = call.array("input")[rows].astype(np.float64), call.array("target")[rows].astype(np.int64)
    alpha, gamma = (float(np.float32(call.param(name))) for name in ("alpha", "gamma"))
    weight = call.array("weight").astype(np.float64) if has_weight(call) else None
    # §1.2: the factor of a row is that of its target, for all columns.
    factor = np.ones((1, 1)) if weight is None else weight[target][:, None]
    is_target = target[:, None] == np.arange(x.shape[1])
    return Reading(x, is_target, factor, alpha, 1 - alpha, gamma, target, weight)


def logs(r: Reading) -> tuple[Array, Array, Array]:
    """ln pt, ln q, without cancellation wherever x lies, and αt; pt = 1/(1 + e^−z) with z = x or, elsewhere, −x."""
    z = np.where(r.is_target, r.x, -r.x)
    both = np.log1p(np.exp(-np.abs(z)))
    return -(np.maximum(-z, 0) + both), -(np.maximum(z, 0) + both), np.where(r.is_target, r.alpha, r.others)


def loss_term(q: Any, pt: Any, ln_pt: Any, gamma: float) -> Any:  # noqa: ARG001 - both are called alike
    """What the loss has beside αt · q^γ and the weight."""
    return -ln_pt


def gradient_term(q: Any, pt: Any, ln_pt: Any, gamma: float) -> Any:
    """What its derivative has: both terms have one sign, so nothing cancels."""
    return q - gamma * pt * ln_pt


def losses(r: Reading, term: Callable[..., Any] = loss_term) -> Array:
    """αt · q^γ · term · factor; with γ = 0 the power is 1, also of 0."""
    right, wrong, alpha = logs(r)
    loss: Array = alpha * np.exp(r.gamma * wrong) * term(np.exp(wrong), np.exp(right), right, r.gamma) * r.factor
    return loss


def gradients(r: Reading, term: Callable[..., Any] = gradient_term) -> Array:
    """The derivative of the loss by x; + 0 makes +0 of −0."""
    size = losses(r, term)
    gradient: Array = np.where(r.is_target, -size, size) + 0.0
    return gradient


def loss_element(p: Decimal, is_target: bool, alpha: Decimal, gamma: Decimal) -> Decimal:
    """§1.2 of forward word by word."""
    if is_target:
        return -alpha * (1 - p) ** gamma * p.ln()
    return -(1 - alpha) * p**gamma * (1 - p).ln()


def gradient_element(p: Decimal, is_target: bool, alpha: Decimal, gamma: Decimal) -> Decimal:
    """§1.2.1 of backward word by word."""
    if is_target:
        return -alpha * (1 - p) ** gamma * (1 - p - gamma * p * p.ln())
    return -(1 - alpha) * p**gamma * (gamma * (1 - p) * (1 - p).ln() - p)


# The errors of right implementations, in steps of 2^-24: no bound per element is stated. Measured, §1.5.1 allows them:
# every float32 log, exp, power and quotient may err by 4 ulp, and q carries the rounding of 1 + e^-|x|, or of 1 − p.
_STEP: Final = 2.0**-24
_ERROR: Final = 16 * _STEP
_BLOCK: Final = 1 << 20
# The error of float64 formulas: with γ up to 1000 they agree with 40 digits to 3e-14.
_DOUBT: Final = 1e-12
# Digits that 1 − p keeps for |x| ≤ 20, and what rounds to 0 in any type.
_DIGITS, _NOTHING = 60, Decimal("1e-60")


class Focal(NamedTuple):
    """What the two operators differ in."""

    way: str
    output: str
    values: Callable[[Reading], Array]
    # The last factor of the formula, and one element of the document's.
    term: Callable[..., Any]
    element: Callable[[Decimal, bool, Decimal, Decimal], Decimal]
    # Of the op_type and of the message of parameters, and those of its fields prefer, reduction, alpha, gamma.
    number: int
    fields: tuple[int, int, int, int]
    # What else is preferred is refused, as is any reduction.
    preferences: tuple[int, ...]
    # As released: operations per element and per row.
    ops: tuple[int, int]

    def operator(self, target: mg.TensorSpec, refuse: Refuse, compute: Compute, **own: Any) -> mg.Operator:
        """The operator; `refuse` and `compute` are what its kernel checks and computes."""
        name, function = f"focal_loss_sigmoid_{self.way}", f"FocalLossSigmoid{self.way.capitalize()}"
        order = (*scalar("prefer", "reduction"), *tensor("input", "target", "weight"), *scalar("alpha", "gamma"))
        prefer, reduction, alpha, gamma = self.fields
        params = (
            mg.ParamField("prefer", prefer, "enum", default=1, enum=PREFERENCE, allowed=self.preferences),
            mg.ParamField("reduction", reduction, "enum", "required", default=0, enum=_REDUCTION, allowed=(0,)),
            mg.ParamField("alpha", alpha, "float", "required", 0.25),
            mg.ParamField("gamma", gamma, "float", "required", 2.0),
        )
        weight = mg.TensorSpec("weight", "[C]", FLOATS, None, optional=True)
        return mg.Operator(
            name=name,
            op_type=(name.upper(), self.number),
            # Nobody looks at layouts. §1.4: C, where there is no weight, stands for no class.
            inputs=(mg.TensorSpec("input", "[N, C]", FLOATS, None), target, weight),
            # §1.5.1: 0.3 %, in both types; its second rule needs the error of a GPU, which no file holds.
            outputs=(mg.OutputSpec(self.output, "[N, C]", dict.fromkeys(FLOATS, mg.diff1_and_diff2(3e-3)), None),),
            params=mg.ParamMessage(f"{name}_param", self.number, f"{function}Param", params),
            axes={"rows": mg.axis("N", of="input"), "columns": mg.axis("C", of="input")},
            reference=self.reference,
            bound=self.bound,
            accepted_faults={f"{self.output}: one ulp": "exponentials, logarithms and powers err by more"},
            precondition=precondition,
            left_open={"undefined": find_undefined, "subnormal": left_open.find_subnormal},
            theory=self.theory,
            # weight_desc and weight are null where there is no weight.
            c_api=c_function(f"mluOp{function}", arguments=(HANDLE, *order, *tensor(self.output))),
            kernel=partial(_run, self.output, refuse, compute),
            exact=self.elements,
            torch_kernel=self.torch_kernel,
            recipes={"logits": self.logits},
            space=_space(self.preferences),
            **own,
        )

    def theory(self, call: OpCall) -> mg.Theory:
        """All tensors once, the operations, and a product more where there is a weight."""
        (rows, columns), (per_element, per_row) = call.tensor("input").dims, self.ops
        ops = (per_element + has_weight(call)) * rows * columns + per_row * rows
        return mg.Theory(sum(arg.desc.nbytes for arg in tensors_of(call)), ops)

    def reference(self, call: OpCall) -> mg.Baseline:
        """The formula in real arithmetic whatever prefer says, rounded once, so that every machine has its bits."""
        dtype, element = call.tensor(self.output).dtype, self.elements(call)[self.output]

        def compute(rows: slice) -> Array:
            wide = self.values(read(call, rows))
            low, high = (narrowed(wide * (1 + doubt), dtype) for doubt in (-_DOUBT, _DOUBT))
            # Where float64 cannot tell which of two neighbours is nearer, 60 digits do.
            for row, column in np.argwhere((low != high) & ~np.isnan(low)):
                near = low[row, column], high[row, column]
                # Two neighbours have few bits: float64 holds their sum.
                exact = Fraction(element(rows.start + row, column))
                is_beyond = abs(exact) > abs(float(near[0]) + float(near[1])) / 2
                low[row, column] = near[is_beyond]
            # Which NaN an operation gives differs between releases of numpy.
            np.copyto(low, np.nan, where=np.isnan(low))
            return low

        return mg.Baseline({self.output: _fill(np.empty(call.tensor(self.output).dims, dtype.storage), compute)})

    def elements(self, call: OpCall) -> Mapping[str, exact_numbers.ExactElement]:
        """The document's formula with 60 digits."""
        x, target = call.arrays("input", "target")
        alpha, gamma = (Decimal(float(np.float32(call.param(name)))) for name in ("alpha", "gamma"))

        def one(row: int, column: int) -> Fraction | float:
            factor = exact_numbers.fraction(call.array("weight")[target[row]]) if has_weight(call) else Fraction(1)
            if not (np.isfinite(x[row, column]) and isinstance(factor, Fraction)):
                return math.nan
            with localcontext() as context:
                context.prec = _DIGITS
                p = 1 / (1 + (-Decimal(float(x[row, column]))).exp())
                value = self.element(p, bool(target[row] == column), alpha, gamma)
                return Fraction(value) * factor if abs(value) > _NOTHING else Fraction(0)

        return {self.output: one}

    def bound(self, call: OpCall) -> Mapping[str, mg.Bound]:
        """How far the formula moves where p, its logarithms and the power err; FAST takes ln of a rounded pt."""
        is_fast = call.param("prefer") == FAST
        is_rounded_twice = has_weight(call) and call.tensor(self.output).dtype is DType.HALF

        def compute(rows: slice) -> Array:
            r = read(call, rows)
            right, wrong, alpha = logs(r)
            pt, q = np.exp(right), np.exp(wrong)
            last, skew = self.term(q, pt, right, r.gamma), 1 - r.gamma * wrong
            slack = 1 + r.gamma * (2 - right) if self.term is gradient_term else 1 - right + is_fast / pt

            def moved(by: float) -> Array:
                power = np.maximum(q + by, 0) ** r.gamma * np.maximum(1 + by * skew, 0)
                result: Array = power * np.maximum(last + by * slack, 0)
                return result

            value = np.exp(r.gamma * wrong) * last
            error = np.maximum(moved(_ERROR) - value, value - moved(-_ERROR)) + _ERROR * value
            # Half may be rounded before the weight, too.
            error += is_rounded_twice * (2.0**-11 * value + 2.0**-25 / np.maximum(np.abs(alpha), 2.0**-25))
            # What a device without subnormal numbers loses.
            steps: Array = (np.abs(alpha * r.factor) * error + 2.0**-125) / _STEP
            return steps

        size = _fill(np.empty(call.tensor(self.output).dims, np.float32), compute)
        # Next to a NaN nothing is compared.
        return {self.output: mg.Bound(np.nan_to_num(size), 1)}

    def torch_kernel(self, call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Write the output in float, by log-sigmoids."""
        import torch
        from torch.nn.functional import logsigmoid

        x, target, alpha = inputs["input"].float(), inputs["target"].long(), call.param("alpha")
        is_target = target[:, None] == torch.arange(x.shape[1], device=x.device)
        z, gamma = torch.where(is_target, x, -x), call.param("gamma")
        right, wrong = logsigmoid(z), logsigmoid(-z)
        sign = -1 if self.term is gradient_term else 1
        power = torch.where(is_target, sign * alpha, 1 - alpha) * (gamma * wrong).exp()
        values = power * self.term(wrong.exp(), right.exp(), right, gamma)
        if has_weight(call):
            values = values * inputs["weight"].float()[target][:, None]
        outputs[self.output].copy_(values)

    def logits(
        self,
        draw: mg.Draw,
        params: mg.Params,
        dtype: DType,
        *,
        rows: int = 9,
        columns: int = 5,
        values: "Values" = "trained",
        targets: "Targets" = "mixed",
        labels: tuple[int, ...] = (),
        weight: "Weights" = "none",
    ) -> mg.RecipeOutput:
        """x of that kind, targets of that kind or as they are listed, and a weight or none."""
        p: dict[str, Any] = {"prefer": 1, "reduction": 0, "alpha": 0.25, "gamma": 2.0, **params}
        drawn = _targets(draw, targets, rows, columns, is_weighted=weight != "none")
        target = np.resize(np.array(labels), rows) if labels else drawn
        is_target = target[:, None] == np.arange(columns)
        x = _logits(draw, dtype, values, is_target, p["gamma"], reach(dtype, p["prefer"]))
        if (np.abs(x) > reach(dtype, p["prefer"])).any():
            raise ValueError("x leaves the range in which results are compared")
        inputs = {"input": narrowed(x, dtype), "target": target.astype("<i4")}
        if weight != "none":
            inputs["weight"] = _weights(draw, dtype, weight, columns)
        return mg.RecipeOutput(inputs, p, outputs={self.output: x.shape})


LOSS: Final = Focal("forward", "output", losses, loss_term, loss_element, 15000, (999, 1, 2, 3), (0, 1), ops=(10, 9))
GRADIENT: Final = Focal(
    "backward", "grad_input", gradients, gradient_term, gradient_element, 12322, (1, 2, 3, 4), (1,), ops=(23, 6)
)


def _run(output: str, refuse: Refuse, compute: Compute, call: OpCall) -> Status:
    """Check the call, then compute in float."""
    x, target, weight, out = (*call.inputs.values(), call.outputs[output])
    if call.handle is None or x is None or target is None or out is None:
        return Status.BAD_PARAM
    weights = [weight] if weight is not None and weight.desc.count else []
    if (refused := first_status(refuse(call, (x, target, out), weights))) is not None:
        return refused
    alpha, gamma = (np.float32(call.param(name)) for name in ("alpha", "gamma"))

    def of_rows(rows: slice) -> Array:
        values, labels = call.array("input")[rows].astype(np.float32), call.array("target")[rows]
        found = np.flatnonzero(labels < values.shape[1])
        values = compute(values, (found, labels[found]), alpha, gamma)
        return values * call.array("weight")[labels].astype(np.float32)[:, None] if weights else values

    _fill(call.array(output), of_rows)
    return Status.SUCCESS


def _space(preferences: tuple[int, ...]) -> Space:
    """What fuzzing draws."""

    def draw(at: Mapping[str, Any]) -> Drawn | None:
        if at["values"] == "steep" and (at["dtype"] != "float" or at["gamma"] < 8 or at["prefer"] == FAST):
            return None
        data = {one: at[one] for one in ("rows", "columns", "values", "targets", "weight")}
        return Drawn("logits", {one: at[one] for one in ("prefer", "alpha", "gamma")}, data, at["dtype"])

    axes: dict[str, Sizes | Choice] = {
        "dtype": Choice(tuple(dtype.value for dtype in FLOATS)),
        "rows": Sizes(1, 1025),
        "columns": Sizes(1, 257),
        "values": Choice(("trained", "uniform", "narrow", "steep", "equal")),
        "targets": Choice(get_args(Targets)),
        "weight": Choice(("none", "drawn", "signed", "some_zero")),
        "prefer": Choice(preferences),
        "alpha": Choice((0.25, 0.5, -1.0, 3.0)),
        "gamma": Choice((0.0, 0.5, 1.0, 2.0, 3.7, 8.0, 16.0)),
    }
    return Space(
        axes,
        draw,
        lambda at: at["rows"] * at["columns"],
        # Nobody says what a gamma is that is no number.
        defined=lambda call: not math.isnan(call.param("gamma")) and not has_idle_pointer(call),
    )


def _fill(result: Array, compute: Callable[[slice], Array]) -> Array:
    """Some rows at a time: memory has no room for more."""
    step = max(1, _BLOCK // max(result.shape[1], 1))
    with np.errstate(all="ignore"):
        for start in range(0, len(result), step):
            result[start : start + step] = compute(slice(start, start + step))
    return result


def reach(dtype: DType, prefer: int) -> float:
    """|x| up to which results are compared: the header's range, and 12 for FAST, which forms 1 − p (§2.2)."""
    most = 5.0 if dtype is DType.HALF else 20.0
    return min(most, 12.0) if prefer == FAST else most


def has_idle_pointer(call: OpCall) -> bool:
    """A weight without elements has data."""
    weight = call.inputs["weight"]
    return weight is not None and weight.desc.is_empty and not weight.null


def precondition(call: OpCall) -> str | None:
    """§1.4: a target is a class, or without weight C; what has no elements has no data."""
    target, most = call.array("target"), call.tensor("input").dims[1] - has_weight(call)
    reasons = {
        f"a target leaves 0 … {most}": ((target < 0) | (target > most)).any(),
        "weight has no elements, but a pointer": has_idle_pointer(call),
        "alpha or gamma is no number": not all(math.isfinite(call.param(name)) for name in ("alpha", "gamma")),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def find_undefined(call: OpCall, baseline: mg.Baseline) -> str | None:  # noqa: ARG001 - all are called alike
    """§1.2: of what is not finite the document says what becomes of NaN with γ ≠ 0; ranges are the header's."""
    x, most = call.array("input").astype(np.float32), reach(call.tensor("input").dtype, call.param("prefer"))
    reasons = {
        "weight has NaN or an infinity": has_weight(call) and not np.isfinite(call.array("weight")).all(),
        "input has NaN, and gamma is 0": np.isnan(x).any() and call.param("gamma") == 0,
        "input leaves the range in which results are compared": (np.abs(x) > most).any(),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


# trained: of a network that knows its classes, few are likely; uniform: wherever results are compared and are no
# subnormal numbers; narrow: |x| ≤ 3; steep: where q^γ falls from 1 to 0; edges: where e^-x meets 2^-24, and the ends.
Values = Literal["trained", "uniform", "narrow", "steep", "edges", "equal", "zeros", "nan"]
# mixed: 0, C − 1, C and any, in turn; background: most C; with weight none is C.
Targets = Literal["mixed", "background", "any", "first", "last", "none"]
# drawn: none is negative; signed: some are; some_zero: every third is 0.
Weights = Literal["none", "drawn", "signed", "some_zero", "equal", "zero"]
_TRAINED: Final = {DType.FLOAT: (-4.6, 2.9), DType.HALF: (-3.0, 1.9)}
_EDGES: Final = {
    DType.FLOAT: (20, -20, 16.6, -16.6, 16.7, -16.7, 5, -5, 0, -0.0, 1, -1, 3),
    DType.HALF: (5, -5, 0, -0.0, 1, -1, 3, -4.99609375, 2.5),
}
# e^-80 leaves α and weight room above the smallest normal number.
_SMALLEST: Final = 80.0


def _targets(draw: mg.Draw, kind: str, rows: int, columns: int, *, is_weighted: bool) -> Array:
    """int64 [N]; in the first row and the last there is a target wherever some have one."""
    drawn, n = draw.stream("target").integers(0, columns, rows), np.arange(rows)
    if kind == "none" and is_weighted:
        raise ValueError("with weight every row has a target")
    if kind == "any":
        return drawn
    # Every eighth row has a class.
    is_positive = (n % 8 == 0) | (n == rows - 1) | is_weighted
    first, last, none = (np.full_like(n, one) for one in (0, columns - 1, columns))
    mixed = np.choose(n % (3 if is_weighted else 4), [first, last, drawn, none])
    background = np.where(is_positive, drawn, none)
    return {"mixed": mixed, "background": background, "first": first, "last": last, "none": none}[kind]


def _logits(draw: mg.Draw, dtype: DType, kind: str, is_target: Array, gamma: float, most: float) -> Array:
    """float64 [N, C], no |x| above `most`."""
    shape = is_target.shape
    unit, more = (draw.stream(name).integers(0, 1 << 24, shape) * 2.0**-23 - 1 for name in ("input", "more"))
    match kind:
        case "trained":
            mean, width = _TRAINED[dtype]
            return mean + width / 2 * (unit + more)
        case "uniform":
            return unit * min(most, _SMALLEST / (gamma + 1))
        case "narrow":
            return unit * 3
        case "nan":
            return np.where(np.arange(unit.size).reshape(shape) % 3, unit * 3, np.nan)
        case "steep":
            # ln γ + [−1, 2]: where pt is 1/γ.
            return np.where(is_target, -1, 1) * (math.log(gamma) + 0.5 + 1.5 * unit)
        case "edges":
            return np.resize(np.array([one for one in _EDGES[dtype] if abs(one) <= most]), shape)
        case _:
            return np.full(shape, -1.375 if kind == "equal" else 0.0)


def _weights(draw: mg.Draw, dtype: DType, kind: str, columns: int) -> Array:
    values = draw.stream("weight").mantissas(columns, (-2, 1), dtype.storage.str)
    return {
        "drawn": np.abs(values),
        "signed": values,
        "some_zero": np.where(np.arange(columns) % 3 == 1, np.zeros_like(values), np.abs(values)),
        "equal": np.full_like(values, 1.5),
        "zero": np.zeros_like(values),
    }[kind]


def shapes_fit(tensors: Tensors, weights: list[TensorArg]) -> bool:
    """Ranks, lengths and types are those that a kernel takes."""
    x, target, out = tensors
    is_shaped = len(x.dims) == 2 and target.dims == x.dims[:1] and out.dims == x.dims
    is_typed = x.dtype in (DType.HALF, DType.FLOAT) and target.dtype is DType.INT32 and out.dtype is x.dtype
    return is_shaped and is_typed and all(arg.dtype is x.dtype and arg.dims == x.dims[1:] for arg in weights)
