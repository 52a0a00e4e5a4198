"""For the tests of both interpolations: sums in exact arithmetic, and calls that are wrong in any number of ways."""

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Handle, Layout, OpCall, Operator, Status, TensorArg
from mluops_gtest.catalog.make import make_case
from mluops_gtest.core.case import CaseDraft, Reseed
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.tensor import contiguous
from mluops_gtest.search.audit_declarations import judged

# Significant bits, and the exponent of the smallest normal number.
FORMATS = {"<f4": (24, -126), "<f2": (11, -14)}
# Cases with one of these tags do not run of their own accord.
ON_REQUEST = {"network", "race", "heavy", "undefined", "subnormal"}
# What the axes of each tensor are called.
AXES = {
    "features": "BCM",
    "output": "BCN",
    "grad_output": "BCN",
    "grad_features": "BCM",
    "indices": "BN3",
    "weights": "BN3",
}


def rounded(value: Fraction, storage: str) -> float:
    """To the nearest number of that type, ties to even; infinite beyond the largest."""
    bits, smallest = FORMATS[storage]
    if value == 0:
        return 0.0
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    exponent -= abs(value) < Fraction(2) ** exponent
    quantum = Fraction(2) ** (max(exponent, smallest) - bits + 1)
    # round() of a Fraction goes to even.
    result = round(value / quantum) * quantum
    largest = Fraction(float(np.finfo(storage).max))
    return float(result) if abs(result) <= largest else math.copysign(math.inf, result)


def rounded_sum(pairs: Iterable[tuple[float, float]], storage: str) -> float:
    """Σ a·b, exact and rounded once; by IEEE where a factor is not finite."""
    listed = list(pairs)
    if all(math.isfinite(a) and math.isfinite(b) for a, b in listed):
        return rounded(sum((Fraction(a) * Fraction(b) for a, b in listed), Fraction(0)), storage)
    # Finite terms, however large, cannot change what an infinity or a NaN decides.
    return sum((a * b for a, b in listed if not (math.isfinite(a) and math.isfinite(b))), 0.0)


def random_operands(
    seed: int, *, fed_by_cells: bool, special: bool
) -> tuple[tuple[int, int, int, int], Array, Array, Array]:
    """(B, C, M, N), then values [B, C, M] or [B, C, N], indices and weights; float or half, of many magnitudes."""
    rng = np.random.default_rng(seed)
    batches, channels, cells, points = shape = tuple(int(size) for size in rng.integers(1, (4, 4, 8, 7)))
    storage = ("<f4", "<f2")[seed % 2]
    bits, _ = FORMATS[storage]
    spread = int(rng.choice([0, 3, 12 if storage == "<f4" else 4]))

    def draw_values(dims: tuple[int, ...]) -> Array:
        units = rng.integers(-(2**bits) + 1, 2**bits, dims)
        values = (units * 2.0 ** (rng.integers(-spread, spread + 1, dims) - bits)).astype(storage)
        if special:
            chosen = rng.random(dims) < 0.1
            values[chosen] = rng.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], storage), int(chosen.sum()))
        return values

    fed = draw_values((batches, channels, cells if fed_by_cells else points))
    indices = rng.integers(0, cells, (batches, points, 3)).astype("<i4")
    return shape, fed, indices, draw_values((batches, points, 3))


def tensor_of(call: OpCall, name: str) -> TensorArg | None:
    return (call.inputs if name in call.inputs else call.outputs)[name]


def put(call: OpCall, name: str, arg: TensorArg | None) -> OpCall:
    side = "inputs" if name in call.inputs else "outputs"
    return replace(call, **{side: {**getattr(call, side), name: arg}})


def with_desc(call: OpCall, name: str, **changes: object) -> OpCall:
    """The call with another descriptor for one tensor, if it has one; a changed descriptor has no buffer."""
    arg = tensor_of(call, name)
    if arg is None:
        return call
    desc = replace(arg.desc, **changes)
    return put(call, name, replace(arg, desc=desc, array=arg.array if desc == arg.desc else None))


def sized(call: OpCall, **sizes: int) -> OpCall:
    """The call with these lengths of B, C, M and N in all tensors that have them; "3" is the third axis of triples."""
    for name in (*call.inputs, *call.outputs):
        arg = tensor_of(call, name)
        if arg is not None and len(arg.dims) == len(AXES[name]):
            dims = tuple(sizes.get(axis, length) for axis, length in zip(AXES[name], arg.dims, strict=True))
            call = with_desc(call, name, dims=dims, strides=None)
    return call


def spoil_call(call: OpCall, rng: random.Random) -> OpCall:
    """The call with one more thing that may be wrong with it."""
    names = (*call.inputs, *call.outputs)
    name = rng.choice(names)
    match rng.choice(("handle", "arch", "desc", "ptr", "dtype", "dtypes", "layout", "rank", "dim", "sizes", "stride")):
        case "handle":
            return replace(call, handle=None)
        case "arch":
            return replace(call, handle=call.handle and Handle(arch=270))
        case "desc":
            return put(call, name, None)
        case "dtypes":
            dtype = rng.choice((DType.HALF, DType.INT32, DType.DOUBLE))
            for other in names:
                call = call if other == "indices" else with_desc(call, other, dtype=dtype)
            return call
        case "sizes":
            axes = rng.sample("BCMN3", rng.randint(1, 2))
            return sized(call, **{axis: rng.choice((0, 0, 1, 3, 2**16, 715827883)) for axis in axes})
        case "ptr":
            arg = tensor_of(call, name)
            return call if arg is None else put(call, name, replace(arg, array=None, null=True))
        case kind:
            arg = tensor_of(call, name)
            return call if arg is None else with_desc(call, name, **_change(kind, arg, rng))


def spoil_calls(base: OpCall, seeds: Iterable[int]) -> Iterator[OpCall]:
    """For each seed the call with one to three things changed."""
    for seed in seeds:
        rng = random.Random(seed)
        call = base
        for _ in range(rng.randint(1, 3)):
            call = spoil_call(call, rng)
        yield call


def _change(kind: str, arg: TensorArg, rng: random.Random) -> dict[str, object]:
    strides = contiguous(arg.dims)
    axis = rng.randrange(len(arg.dims)) if arg.dims else 0
    return {
        "dtype": {"dtype": rng.choice((DType.HALF, DType.FLOAT, DType.INT32, DType.INT64))},
        "layout": {"layout": rng.choice((Layout.NCHW, Layout.NTC, Layout.ARRAY))},
        "rank": {"dims": rng.choice((arg.dims[1:], (*arg.dims, 1), (1, *arg.dims))), "strides": None},
        "dim": {"dims": (*arg.dims[:axis], rng.choice((0, 1, 2, 4)), *arg.dims[axis + 1 :]), "strides": None},
        "stride": {"strides": rng.choice((strides, tuple(2 * stride for stride in strides)))},
    }[kind]


def assert_subsumed(operator: Operator, base: OpCall) -> None:
    """Behind the checks before it no descriptor is large or empty for the subsumed ones alone."""
    names = [check.name for check in operator.checks]
    subsumed = [check for check in operator.checks if check.subsumed is not None]
    assert [check.name for check in subsumed] == ["weights_large", "indices_empty", "weights_empty"]
    seen = dict.fromkeys(subsumed, 0)
    lengths = (0, 1, 3, 2**16, 715827882, 715827883)
    for sizes in itertools.product((0, 1, 2), (0, 1, 2**15), (0, 1, 2**16), lengths):
        call = sized(base, **dict(zip("BCMN", sizes, strict=True)))
        odd = with_desc(call, "weights", dims=(sizes[0], 0, 3))
        for candidate, check in itertools.product((call, odd), subsumed):
            if not check.holds(candidate):
                seen[check] += 1
                assert not all(other.holds(candidate) for other in operator.checks[: names.index(check.name)])
    assert min(seen.values()) > 20


def assert_all_half_cases_pass(
    operator: Operator, drafts: Iterable[CaseDraft], seed: int | None, kernels: Iterable[Callable[[OpCall], Status]]
) -> None:
    """Every half case that computes and runs of its own accord passes with each of the kernels."""
    chosen = [one for one in drafts if one.dtype == "half" and ON_REQUEST.isdisjoint(one.tags) and not one.expect.check]
    assert len(chosen) > 60
    runs = tuple(kernels)
    for draft in chosen:
        case = make_case(draft, operator, Draw(draft.seed, None if seed is None else Reseed(seed)))
        for run in runs:
            assert judged("half", run, case, operator).outcome is Outcome.PASSED, draft.id


def diff2(evaluated: Array, baseline: Array) -> float:
    """The criterion of that name."""
    return float(np.sqrt(np.square(evaluated - baseline).sum() / np.square(baseline).sum()))
