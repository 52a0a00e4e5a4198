"""What arithmetic allows: how far each element of a right output may be from the exact answer, in any order.

What is known about one operator: its tensors, parameters, ordered checks, reference, recipes, criteria.
"""

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from mluops_gtest.base.errors import HarnessError, OperatorError
from mluops_gtest.base.frozen import Value
from mluops_gtest.core.call import OpCall, Params, ParamValue, SizedAxis, Status
from mluops_gtest.core.tensor import Array, Criterion, DType, Layout

# Beside the operators of a root: the folder with what they share.
SHARED: Final = "_shared"


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


def source_of(function: object) -> str:
    """`file:line` of a function, method, partial or callable object; its repr where Python does not know."""
    while isinstance(function, functools.partial):
        function = function.func
    plain = inspect.unwrap(function) if callable(function) else function
    # A method passes on what its function is asked for; an object is called by its class.
    for one in (plain, vars(type(plain)).get("__call__")):
        code = getattr(one, "__code__", None)
        if code is not None:
            return f"{code.co_filename}:{code.co_firstlineno}"
    return repr(function)


def raised_at(error: BaseException, folder: Path) -> str | None:
    """`file:line` of the innermost call in a file of that folder, or of what operators there share; None if none is."""
    own = (folder, folder / SHARED, folder.parent / SHARED)
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename is not None:
        frames.append((error.filename, error.lineno or 1))
    return next((f"{file}:{line}" for file, line in reversed(frames) if Path(file).parent in own), None)


def raised_by(error: BaseException, function: object) -> str:
    """What a function of an operator raised, with the place in the operator's files."""
    own = source_of(function)
    place = raised_at(error, Path(own).parent) or own
    return "; ".join([f"{type(error).__name__}: {error} ({place})", *getattr(error, "__notes__", ())])


T = TypeVar("T")


def call_operator_function(
    function: object,
    what: str,
    ask: Callable[[], T],
    refuse: Callable[[Exception], HarnessError | None] = lambda _: None,
    mistake_in: Callable[[object], str | None] = lambda _: None,
) -> T:
    """What `ask` gets from a function of an operator; `what` names it in words.

    An exception becomes what `refuse` makes of it, and stays as it is where that is None. An answer with a mistake, in
    words, becomes an error with the function's file and line.
    """
    try:
        answer = ask()
    except Exception as error:
        refusal = refuse(error)
        if refusal is None:
            raise
        raise refusal from error
    mistake = mistake_in(answer)
    if mistake is not None:
        raise OperatorError(f"{source_of(function)}: {what} {mistake}")
    return answer


def refuse_by_operator(
    function: object, fails: str, advice: str, unless: tuple[type[Exception], ...] = ()
) -> Callable[[Exception], OperatorError | None]:
    """Makes of an exception the error that says what fails, with file and line; None of one of the types `unless`."""

    def refuse(error: Exception) -> OperatorError | None:
        if isinstance(error, unless):
            return None
        return OperatorError(f"{source_of(function)}: {fails}: {raised_by(error, function)}. {advice}")

    return refuse


class TensorSpec(Value):
    """An input: id, allowed types and layouts, shape in symbols (for people; the checks decide)."""

    id: str
    shape: str
    dtypes: tuple[DType, ...]
    layouts: tuple[Layout, ...] = (Layout.ARRAY,)
    # What the operator may leave in the buffer, whole, instead of what it held; None: it must not write there.
    may_become: Callable[[OpCall], Array] | None = None


class OutputSpec(Value):
    """An output: like an input, with its criteria per dtype and what the caller owes it before the call."""

    id: str
    shape: str
    criteria: Mapping[DType, tuple[Criterion, ...]]
    layouts: tuple[Layout, ...] = (Layout.ARRAY,)
    # The value that the document asks the caller to preset; None: the buffer is poisoned.
    preset: int | None = None
    # True where a call that computes leaves what the caller preset, for the leading axes: there alone is preset, the
    # rest is poison and must be written. None: all is preset, and the operator writes what it likes.
    kept: Callable[[OpCall], Array] | None = None
    # The scalar result, or the output of one element, that says how many leading rows the operator owns; None: all.
    rows_owned: str | None = None

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


class ParamMessage(Value):
    """The operator's parameter message: its field in Node and its own fields."""

    field: str
    number: int
    message: str
    fields: tuple[ParamField, ...]
    # The name of the descriptor that carries the parameters in the C API, where one does.
    descriptor: str | None = None


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


SIZE_NULL: Final = Check(
    "size_null", Status.BAD_PARAM, lambda call: not call.size_null, "the pointer to the size must not be null", "C API"
)


class QueryChecks(Value):
    """What a workspace query of the C API checks, in its own order; SUCCESS where the call breaks none of it."""

    # Names of the operator's checks, SIZE_NULL in its place, and checks that only the query makes.
    checks: tuple[str | Check, ...]
    # Names of those that no specification asks of the query, nor forbids: where one comes first, nothing is judged.
    silent: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The checks by name, in order."""
        return tuple(one if isinstance(one, str) else one.name for one in self.checks)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Everything about one operator; a generators/<name>.py file offers it as OPERATOR."""

    name: str
    # op_name in files that we write; both names are accepted wherever a user types one.
    released_name: str
    op_type: tuple[str, int]
    summary: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[OutputSpec, ...]
    # None: the case schema has no parameter message for the operator.
    params: ParamMessage | None = None
    checks: tuple[Check, ...]
    # The oracle. Called with valid inputs; `call.outputs` holds what is known of output dims, maybe nothing.
    reference: Callable[[OpCall], Baseline]
    # An independent float32 implementation with its own checks; the numpy backend runs it.
    kernel: Callable[[OpCall], Status]
    recipes: Mapping[str, Recipe]
    theory: Callable[[OpCall], Theory]
    # What arithmetic allows, by the inputs alone: a Bound per output of floats. None: elements are not looked at.
    bound: Callable[[OpCall], Mapping[str, Bound]] | None = None
    # Mistakes in words that end "as if …", e.g. "the last point of a cell wins": what comes out by each, per output.
    suspects: Mapping[str, Callable[[OpCall], Mapping[str, Array]]] = field(default_factory=dict)
    # What the document takes for granted about the data of a valid call; why it does not hold, or None.
    precondition: Callable[[OpCall], str | None] | None = None
    # Tag of OPEN_TAGS → what the document leaves open: why a call with this answer is so, or None. Other cases hold
    # nothing of it, and fuzzing draws none.
    left_open: Mapping[str, Callable[[OpCall, Baseline], str | None]] = field(default_factory=dict)
    # Bytes of workspace the kernel wants; 0 where it needs none.
    workspace_size: Callable[[OpCall], int] | None = None
    # Check → why no case tells it apart: whatever it refuses, a later one refuses with the same status.
    answered_anyway: Mapping[str, str] = field(default_factory=dict)
    # Check → later checks of another status that no declared case breaks together with it; their order is not tested.
    not_together: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Name → what cases may be declared for under `sizes`; the audit proves that its first and last index count.
    sizes: Mapping[str, SizedAxis] = field(default_factory=dict)
    # `output: fault`, as `audit outputs` names it → why no case need tell it.
    accepted_faults: Mapping[str, str] = field(default_factory=dict)
    # Workspace query, as the C API names it → what it checks; others are not judged where the call is refused.
    queries: Mapping[str, QueryChecks] = field(default_factory=dict)
    # Atomic adds: the document allows any order, so repeated runs may differ in the last bits.
    order_free: bool = False
    # The parameter fields that are results of the call, and the outputs that say how many rows of others it owns.
    results: tuple[str, ...] = field(init=False, repr=False, compare=False)
    counts: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """What every case asks for is found once."""
        results = tuple(one.name for one in self.param_fields if one.result)
        rows = frozenset(spec.rows_owned for spec in self.outputs if spec.rows_owned)
        object.__setattr__(self, "results", results)
        object.__setattr__(self, "counts", rows - set(results))

    def answer(self, call: OpCall) -> CheckVerdict:
        """The status of the call by the ordered checks, and the check that gave it."""
        return _first_broken(self.checks, call)

    def query_answer(self, function: str, call: OpCall) -> CheckVerdict | None:
        """The status that the workspace query owes to the call; None where no specification says."""
        declared = self.queries.get(function)
        if declared is None:
            return None
        answer = _first_broken((self.check(one) if isinstance(one, str) else one for one in declared.checks), call)
        return None if answer.check in declared.silent else answer

    def early_answer(self, call: OpCall) -> Status | None:
        """The status of a call that computes nothing, with scalar results of 0 after a success; None if it computes."""
        answer = self.answer(call)
        if answer.computes:
            return None
        if answer.status is Status.SUCCESS:
            call.scalars.update(dict.fromkeys(self.results, 0))
        return answer.status

    def computes(self, status: Status, check: str | None) -> bool:
        """A call that must answer this status by this check must write its outputs."""
        return status is Status.SUCCESS and (check is None or any(c.writes for c in self.checks if c.name == check))

    def broken(self, call: OpCall) -> str | None:
        """What the data of a call that computes lack of what the document takes for granted, or None."""
        return None if self.precondition is None else self.precondition(call)

    def check(self, name: str) -> Check:
        """The check of that name."""
        return _first((check for check in self.checks if check.name == name), name)

    def output(self, name: str) -> OutputSpec:
        """The output of that id."""
        return _first((spec for spec in self.outputs if spec.id == name), name)

    def input(self, name: str) -> TensorSpec:
        """The input of that id."""
        return _first((spec for spec in self.inputs if spec.id == name), name)

    @property
    def tensors(self) -> tuple[TensorSpec | OutputSpec, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def pointers(self) -> tuple[str, ...]:
        """What a case may pass as a null pointer: data, the workspace, host arrays, `size` of a workspace query."""
        arrays = (one.name for one in self.param_fields if one.label == "repeated")
        return (*(spec.id for spec in self.tensors), "workspace", *arrays, *(("size",) if self.queries else ()))

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that a user may type."""
        return (self.name,) if self.name == self.released_name else (self.name, self.released_name)

    @property
    def param_fields(self) -> tuple[ParamField, ...]:
        """The fields of the parameter message; none for an operator without parameters."""
        return () if self.params is None else self.params.fields

    @property
    def params_descriptor(self) -> str | None:
        """The name of the descriptor that carries the parameters in the C API, where one does."""
        return None if self.params is None else self.params.descriptor


def _first(matching: Iterator[T], name: str) -> T:
    for one in matching:
        return one
    raise KeyError(name)


def _first_broken(checks: Iterable[Check], call: OpCall) -> CheckVerdict:
    for check in checks:
        try:
            holds = check.holds(call)
        except Exception as error:
            error.add_note(f"raised by the check {check.name} ({check.place})")
            raise
        if not holds:
            return CheckVerdict(check.status, check.name, check.writes, check.message)
    return CheckVerdict(Status.SUCCESS)


def plain_params(values: Mapping[str, Any]) -> dict[str, ParamValue]:
    """Parameters with tuples for sequences, so that they can live in frozen values."""
    return {k: tuple(v) if isinstance(v, (list, tuple)) else v for k, v in values.items()}


class Reduction(Value):
    """A quantity of a call that can be made smaller."""

    # How many there are in a call.
    size: Callable[[OpCall], int]
    # The call without those from `start` up to `stop`; None where it would not be one that the document defines.
    without: Callable[[OpCall, int, int], RecipeOutput | None]
