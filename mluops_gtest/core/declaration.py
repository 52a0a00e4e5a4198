"""What an operator declares, as values: tensors, parameters, checks in order, bounds, baselines, recipes, mutants."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec.structs import replace

from mluops_gtest.base.frozen import Value
from mluops_gtest.core.call import OpCall, Params, ParamValue, Status
from mluops_gtest.core.tensor import Array, Criterion, DType, Layout

if TYPE_CHECKING:
    from mluops_gtest.core.operator import Operator


class Bound(Value):
    """How far an output may be off before its last rounding; arrays broadcast to the output's shape.

    A sum of terms of which each meets at most `roundings` roundings is off by at most γ(roundings) · Σ|terms|. Where
    every term is a multiple of `unit` and Σ|terms| has no more units than the mantissa holds, no partial sum rounds;
    units below the smallest number that is not 0 do round.
    """

    # Σ|terms| of each element, or a little more; 0 where a right answer is a copy or a maximum of inputs.
    magnitude: Array | float
    # How many roundings one term can meet: the number of terms, with its product and the additions behind it.
    roundings: Array | int = 0
    # 0: the terms have no common unit.
    unit: Array | float = 0.0
    # Roundings behind the sum that no lattice avoids: a division by a count, or its reciprocal and a product.
    afterwards: int = 0
    # Terms are products of two inputs, which a narrower unit may round first.
    products: bool = False

    @staticmethod
    def copied(*outputs: str) -> "Callable[[object], dict[str, Bound]]":
        """What arithmetic allows an operator that copies inputs to these outputs, or chooses among them: nothing."""
        return lambda _: dict.fromkeys(outputs, Bound(0.0))

    def part(self, index: Any, dims: tuple[int, ...]) -> "Bound":
        """The bound of output[index], where the output has these dims."""
        import numpy as np

        def of(values: Any) -> Any:
            array = np.asarray(values)
            if not array.ndim:
                return values
            # To broadcast takes ten times as long as to look whether there is a need.
            return (array if array.shape == dims else np.broadcast_to(array, dims))[index]

        return replace(self, magnitude=of(self.magnitude), roundings=of(self.roundings), unit=of(self.unit))


class TensorSpec(Value):
    """An input: id, shape in symbols, allowed types and layouts; None where nobody looks at those: they are ARRAY."""

    id: str
    shape: str
    dtypes: tuple[DType, ...]
    layouts: tuple[Layout, ...] | None = (Layout.ARRAY,)
    # What the operator may leave in the buffer, whole, instead of what it held; None: it must not write there.
    may_become: Callable[[OpCall], Array] | None = None
    # The symbol along which the values are positions, or by column of the last axis; `input_space.0` is one entry of a
    # parameter.
    names: str | Mapping[int | None, str] | None = None
    # What becomes of values that are no position: "skipped" by the document, "-1" alone is; "" : they are not defined.
    outside: str = ""
    # No position stands twice in one row of the last axis; by column no row twice in its tensor, or in its batch.
    distinct: bool = False
    # No argument of the call: the output whose buffer holds these values when the call begins.
    becomes: str = ""
    # A call may lack it: its file has fewer inputs, so such inputs stand last; its descriptor and its data are null.
    optional: bool = False

    @property
    def own_layouts(self) -> tuple[Layout, ...]:
        """The layouts that calls have."""
        return self.layouts or (Layout.ARRAY,)

    @property
    def positions(self) -> Mapping[int | None, str]:
        """By column the symbol along which the values are positions; None stands for all columns."""
        return {None: self.names} if isinstance(self.names, str) else self.names or {}


class CriteriaByParam(Value):
    """Criteria by the value of a parameter, or by the type of the input of that name; any other has the first."""

    param: str
    criteria: Mapping[ParamValue | DType, tuple[Criterion, ...]]

    def of(self, facts: Mapping[str, ParamValue | DType]) -> tuple[Criterion, ...]:
        """Those of a call with these parameters and types."""
        return self.criteria.get(facts.get(self.param, 0), next(iter(self.criteria.values()), ()))


class OutputSpec(Value):
    """An output: like an input, with its criteria per dtype and what the caller owes it before the call."""

    id: str
    shape: str
    criteria: Mapping[DType, tuple[Criterion, ...] | CriteriaByParam]
    layouts: tuple[Layout, ...] | None = (Layout.ARRAY,)
    # The value that the document asks the caller to preset; None: the buffer is poisoned.
    preset: int | None = None
    # True where a call that computes leaves what the caller preset, or what the input holds that becomes this output,
    # for the leading axes: there alone it stands, the rest is poison and must be written. None: it stands everywhere,
    # and the operator writes what it likes.
    kept: Callable[[OpCall], Array] | None = None
    # The scalar result, or the output of one element, that says how many leading rows the operator owns; None: all.
    rows_owned: str | None = None
    # True where a call that computes may leave the whole output as it was; else it is what the baseline holds.
    may_stay: Callable[[OpCall], bool] | None = None

    @property
    def own_layouts(self) -> tuple[Layout, ...]:
        """The layouts that calls have."""
        return self.layouts or (Layout.ARRAY,)

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """The types the output may have."""
        return tuple(self.criteria)

    @property
    def filling(self) -> int | None:
        """What a buffer holds before the call where nothing is kept: the preset value, or None for poison."""
        return self.preset if self.kept is None else None


class EnumSpec(Value):
    """An enum type of the schema."""

    name: str
    values: Mapping[str, int]


class ParamField(Value):
    """One field of the parameter message, exactly as in the case schema."""

    name: str
    number: int
    type: str = "int32"  # int32 | int64 | float | double | bool | string | enum
    label: str = "optional"  # required | optional | repeated
    default: ParamValue = None
    enum: EnumSpec | None = None
    # A result of the call (num_act_out): stored in the case, withheld from the backend, compared exactly.
    result: bool = False
    # What `params()` checks: how many values an array has, and the limits of each; beyond them the call is refused.
    length: int | None = None
    least: int | float | None = None
    most: int | float | None = None
    allowed: tuple[int, ...] = ()
    # The symbol of the shapes that the parameter must equal.
    equals: str = ""

    @property
    def has_limits(self) -> bool:
        """The document allows some values alone."""
        return bool({self.length, self.least, self.most} - {None} or self.allowed or self.equals)

    @property
    def limits_in_words(self) -> str:
        """`at least 1 and at most 4096`, `0 or 1`, `3 values, each at least 1`, `C`."""
        names = {} if self.enum is None else {number: name for name, number in self.enum.values.items()}
        ends = (("at least", self.least), ("at most", self.most))
        words = " and ".join(
            [*(f"{word} {value}" for word, value in ends if value is not None), *filter(None, [self.equals])]
        )
        if self.allowed:
            words = " or ".join(names.get(value, str(value)) for value in self.allowed)
        return (
            words
            if self.length is None
            else f"{self.length} values, each {words}"
            if words
            else f"{self.length} values"
        )

    def is_allowed(self, value: Any) -> bool:
        """A parameter of that value keeps to the limits; NaN does not."""
        values = value if self.label == "repeated" else (value,)
        return self.length in (None, len(values)) and all(map(self._is_within, values))

    def _is_within(self, value: Any) -> bool:
        if self.allowed:
            return value in self.allowed
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


class ParamMessage(Value):
    """The operator's parameter message: its field in Node and its own fields."""

    field: str
    number: int
    message: str
    fields: tuple[ParamField, ...]
    # The name of the descriptor that carries the parameters in the C API, where one does.
    descriptor: str | None = None


class AxisSpec(Value):
    """A symbol of the shapes under the name by which cases and reports call it."""

    symbol: str
    # The tensor whose axis defines it: others are checked against that.
    of: str
    # The inputs as a kernel sees them that loses one index; by default it does not write that index of an output, or
    # sees 0 in a tensor of floats and −1 in one of positions.
    lost: Callable[[OpCall, int], Mapping[str, Array]] | None = None
    # The parameter that it must equal, of an array the product.
    equals: str = ""


def axis(
    symbol: str, *, of: str, lost: Callable[[OpCall, int], Mapping[str, Array]] | None = None, equals: str = ""
) -> AxisSpec:
    """The symbol, as long as it is in that tensor; `equals` names a parameter that it must equal, of an array the
    product."""
    return AxisSpec(symbol, of, lost, equals)


# Who makes a check: the call, the workspace queries of the C API, or both.
AskedBy = Literal["both", "call", "query"]


class Check(Value):
    """A named condition; the first in order that does not hold decides the status.

    Status SUCCESS marks an early return: nothing is computed and nothing may be written, unless the check `writes`.
    """

    name: str
    status: Status
    holds: Callable[[OpCall], bool]
    message: str
    doc: str
    # Why no input can reach this check first; such a check needs no case.
    subsumed: str | None = None
    # `file:line` where the operator lists it.
    place: str = ""
    # An early return with SUCCESS that owes its outputs all the same: what the reference says of the call.
    writes: bool = False
    asked_by: AskedBy = "both"
    # Outputs that a call refused by this check may have cleared: each is as it was, or +0 throughout.
    may_clear: tuple[str, ...] = ()
    # The condition in C, in the names of descriptors (`x_desc`), data and parameters; empty: only `message` says it.
    in_c: str = ""


SIZE_NULL: Final = Check(
    "size_null",
    Status.BAD_PARAM,
    lambda call: not call.size_null,
    "the pointer to the size must not be null",
    "C API",
    asked_by="query",
    in_c="workspace_size != NULL",
)


class CheckGroup(Check):
    """Stands in an operator's tuple of checks for those that follow from its declaration, and is replaced by them."""

    expand: Callable[["Operator"], Iterable[Check]] = lambda _operator: ()

    @staticmethod
    def of(expand: Callable[["Operator"], Iterable[Check]], **fields: Any) -> "CheckGroup":
        """The group of the checks that `expand` gives, all with these fields."""

        def never(_call: OpCall) -> bool:
            raise AssertionError("an operator has replaced its groups")

        def placed(operator: "Operator") -> Iterator[Check]:
            return (replace(check, **fields) for check in expand(operator))

        return CheckGroup("", Status.BAD_PARAM, never, "", "", expand=placed)


# In the checks of a query: all of the operator's checks in front of the one that follows.
_UP_TO: Final = "… "


class QueryChecks(Value):
    """What a workspace query of the C API checks, in its own order; SUCCESS where the call breaks none of it."""

    # By default those of the operator's tuple that queries make (`asked_by`), in its order. Else names of the
    # operator's checks, SIZE_NULL in its place, and checks that only the query makes. `… NAME` stands for all in front
    # of NAME that are not listed by themselves.
    checks: tuple[str | Check, ...] = ()
    # Names of those that no specification asks of the query, nor forbids: where one comes first, nothing is judged.
    silent: tuple[str, ...] = ()
    # How the names begin that `…` leaves out.
    without: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The checks by name, in order."""
        return tuple(one if isinstance(one, str) else one.name for one in self.checks)

    def complete(self, known: Iterable[Check]) -> "QueryChecks":
        """The same with its own checks, or the names that `…` stands for, among those in the operator's tuple."""
        if not self.checks:
            return replace(self, checks=tuple(check for check in known if check.asked_by != "call"))
        listed, names = set(self.names), [check.name for check in known if check.asked_by != "query"]

        def expand(one: str) -> list[str]:
            if not one.startswith(_UP_TO):
                return [one]
            before = itertools.takewhile(lambda name: name != one.removeprefix(_UP_TO), names)
            return [name for name in before if name not in listed and not name.startswith(self.without)]

        checks = tuple(n for one in self.checks for n in (expand(one) if isinstance(one, str) else [one]))
        return replace(self, checks=checks, silent=tuple(name for one in self.silent for name in expand(one)))


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """What the ordered checks say of a call; `check` is the one that answered, None if all hold."""

    status: Status
    check: str | None = None
    # These follow from the check.
    writes: bool = field(default=False, compare=False)
    message: str = field(default="", compare=False)

    @property
    def computes(self) -> bool:
        """The outputs must be written: no check answered, or one that owes them."""
        return self.check is None or self.writes


class Baseline(Value):
    """The right answer: one array of the output's shape and dtype per output, and the scalar results."""

    outputs: Mapping[str, Array]
    scalars: Mapping[str, int] = msgspec.field(default_factory=dict)


class Theory(Value):
    """Bytes that must be touched and operations that must be done, for efficiency figures."""

    io_bytes: int
    ops: int


def count_bytes(call: OpCall) -> Theory:
    """All tensors once."""
    return Theory(sum(one.desc.nbytes for one in (*call.inputs.values(), *call.outputs.values()) if one is not None), 0)


class Definition(Value):
    """What outputs are, said once: an operator takes from here what it does not say itself."""

    reference: Callable[[OpCall], Baseline]
    bound: Callable[[OpCall], Mapping[str, Bound]]
    # The operator's own ones come behind these.
    suspects: Mapping[str, Callable[[OpCall], Mapping[str, Array]]] = msgspec.field(default_factory=dict)
    theory: Callable[[OpCall], Theory] = count_bytes


class RecipeOutput(Value):
    """What a recipe makes: input values, complete parameters, and where they differ from the usual
    the layouts of inputs and the dims of outputs (the reference derives all dims that are not given)."""

    inputs: Mapping[str, Array]
    params: Params
    layouts: Mapping[str, Layout] = msgspec.field(default_factory=dict)
    outputs: Mapping[str, tuple[int, ...]] = msgspec.field(default_factory=dict)


# A recipe is called as recipe(draw, params, dtype, **args): draw is the case's own source of randomness
# (authoring.random.Draw), params what the declaration gives, dtype the case's element type, args its `data`.
Recipe = Callable[..., RecipeOutput]


class Mutant(Value):
    """An implementation with one plausible mistake, which the committed cases must catch."""

    name: str
    message: str
    run: Callable[[OpCall], Status]
    # Gives an implementation that remembers nothing yet, where the mistake is to remember; None: `run` never does.
    anew: Callable[[], Callable[[OpCall], Status]] | None = None

    def fresh(self) -> Callable[[OpCall], Status]:
        """The implementation as it is before its first call; calls in a row must go to one and the same."""
        return self.run if self.anew is None else self.anew()


def plain_params(values: Mapping[str, Any]) -> dict[str, ParamValue]:
    """Parameters with tuples for sequences, so that they can live in frozen values."""
    return {k: tuple(v) if isinstance(v, (list, tuple)) else v for k, v in values.items()}


class Reduction(Value):
    """A quantity of a call that can be made smaller."""

    # How many there are in a call.
    size: Callable[[OpCall], int]
    # The call without those from `start` up to `stop`; None where it would not be one that the document defines.
    without: Callable[[OpCall, int, int], RecipeOutput | None]
