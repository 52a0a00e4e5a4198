"""One operator with all that is known about it, and how its own functions are asked."""

import functools
import inspect
import itertools
import math
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from mluops_gtest.base.errors import HarnessError, OperatorError
from mluops_gtest.core.call import OpCall, Params, ParamValue, SizedAxis, Status
from mluops_gtest.core.declaration import (
    AxisSpec,
    Baseline,
    Bound,
    Check,
    CheckGroup,
    CheckVerdict,
    CriteriaByParam,
    Definition,
    OutputSpec,
    ParamField,
    ParamMessage,
    QueryChecks,
    Recipe,
    TensorSpec,
    Theory,
    count_bytes,
)
from mluops_gtest.core.shape import PRODUCT, Axis, ShapeError, parse_shape, readable_shape
from mluops_gtest.core.tensor import Array, Criterion, DType

# Beside the operators of a root: the folder with what they share.
SHARED: Final = "_shared"


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


def _compute_nothing(_: OpCall) -> Baseline:
    """Stands for a reference that follows from the definition."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Everything about one operator; a generators/<name>.py file offers it as OPERATOR."""

    name: str
    # op_name in files that we write, by default the name; both are accepted wherever a user types one.
    released_name: str = ""
    op_type: tuple[str, int]
    summary: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[OutputSpec, ...]
    # None: the case schema has no parameter message for the operator.
    params: ParamMessage | None = None
    # Groups become the checks that follow from the declaration; those that queries alone make go to `queries`.
    checks: tuple[Check, ...]
    # Name → the symbol of the shapes that it stands for: sizes, reductions and the lengths of `dims()` follow.
    axes: Mapping[str, AxisSpec] = field(default_factory=dict)
    # Check → why no input can reach it first.
    subsumed: Mapping[str, str] = field(default_factory=dict)
    # What outputs are: `reference`, `bound`, `suspects` and `theory` follow where the operator does not say them.
    definition: Definition | None = None
    # The oracle. Called with valid inputs; `call.outputs` holds what is known of output dims, maybe nothing.
    reference: Callable[[OpCall], Baseline] = _compute_nothing
    # An independent float32 implementation with its own checks; the numpy backend runs it.
    kernel: Callable[[OpCall], Status]
    # Those of recipes.py beside the operator's __init__.py where none are given.
    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    # By default all tensors once, and no operation.
    theory: Callable[[OpCall], Theory] = count_bytes
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
    # Accepted from earlier releases, and not read: derived.lock says what no call shows.
    answered_anyway: Mapping[str, str] = field(default_factory=dict)
    not_together: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Name → what cases may be declared for under `sizes`; the audit proves that its first and last index count.
    sizes: Mapping[str, SizedAxis] = field(default_factory=dict)
    # `output: fault`, as `audit outputs` names it → why no case need tell it.
    accepted_faults: Mapping[str, str] = field(default_factory=dict)
    # Workspace query, as the C API names it → what it checks; others are not judged where the call is refused.
    queries: Mapping[str, QueryChecks] = field(default_factory=dict)
    # Atomic adds: the document allows any order, so repeated runs may differ in the last bits.
    order_free: bool = False
    # What a folder may keep in files of these names instead (core/operator_parts.py says what each is).
    c_api: Any = None
    exact: Any = None
    mutants: Any = None
    reductions: Any = None
    space: Any = None
    torch_kernel: Any = None
    variants: Any = None
    # The parameter fields that are results of the call, and the outputs that say how many rows of others it owns.
    results: tuple[str, ...] = field(init=False, repr=False, compare=False)
    counts: frozenset[str] = field(init=False, repr=False, compare=False)
    # These, and outputs beside others that have one element in every call: no such number can vary.
    numbers: frozenset[str] = field(init=False, repr=False, compare=False)
    # Symbol of the shapes → the tensor and the axis that say how long it is.
    definitions: Mapping[str, tuple[str, int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """What follows from the declaration, and what every case asks for, is found once."""
        self._follow_definition()
        object.__setattr__(self, "released_name", self.released_name or self.name)
        object.__setattr__(self, "definitions", dict(self._define_symbols()))
        expanded = (one.expand(self) if isinstance(one, CheckGroup) else (one,) for one in self.checks)
        asked = tuple(
            replace(check, subsumed=self.subsumed[check.name]) if check.name in self.subsumed else check
            for check in itertools.chain.from_iterable(expanded)
        )
        object.__setattr__(self, "checks", tuple(check for check in asked if check.asked_by != "query"))
        queries = {name: query.complete(asked) for name, query in self.queries.items()}
        object.__setattr__(self, "queries", queries)
        sizes = {name: self._size_along(one) for name, one in self.axes.items()}
        object.__setattr__(self, "sizes", {**sizes, **self.sizes})
        results = tuple(one.name for one in self.param_fields if one.result)
        rows = frozenset(spec.rows_owned for spec in self.outputs if spec.rows_owned)
        object.__setattr__(self, "results", results)
        object.__setattr__(self, "counts", rows - set(results))
        single = {spec.id for spec in self.outputs if readable_shape(spec.shape).is_single and len(self.outputs) > 1}
        object.__setattr__(self, "numbers", self.counts | single)

    def _follow_definition(self) -> None:
        """Take from the definition what the operator does not say itself."""
        definition = self.definition
        if definition is None:
            if self.reference is _compute_nothing:
                raise OperatorError(f"{self.name}: Operator(…) has no reference; give definition=… or reference=…")
            return
        if self.reference is _compute_nothing:
            object.__setattr__(self, "reference", definition.reference)
        if self.bound is None:
            object.__setattr__(self, "bound", definition.bound)
        if self.theory is count_bytes:
            object.__setattr__(self, "theory", definition.theory)
        object.__setattr__(self, "suspects", {**definition.suspects, **self.suspects})

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
        for name, output in call.outputs.items():
            if output is not None and output.desc.overlaps:
                return f"with strides {list(output.strides or ())} elements of {name} share a place"
        for spec in self.arguments:
            is_given = not spec.optional or call.inputs[spec.id] is not None
            words = self._misplaced(call, spec) if spec.positions and is_given else None
            if words is not None:
                return words
        return None if self.precondition is None else self.precondition(call)

    def _misplaced(self, call: OpCall, spec: TensorSpec) -> str | None:
        """Why a value is no position that the tensor may hold, or None."""
        array = call.tensor(spec.id).array
        if array is None or not array.size:
            return None
        sizes = {column: self.size_of(call, symbol) for column, symbol in spec.positions.items()}
        for column, size in sizes.items() if spec.outside != "skipped" else ():
            values = array if column is None else array[..., column]
            last, least = size - 1, -1 if spec.outside == "-1" else 0
            if values.min() < least or values.max() > last:
                where = spec.id if column is None else f"column {column} of {spec.id}"
                return f"{where} leaves {least} … {last}"
        return _repeated(spec.id, array, sizes) if spec.distinct else None

    def may_clear(self, answer: CheckVerdict) -> tuple[str, ...]:
        """The outputs that a call with this answer may have cleared."""
        return () if answer.check is None else self.check(answer.check).may_clear

    def may_stay(self, call: OpCall) -> frozenset[str]:
        """The outputs that this call, which computes, may leave as they were."""
        return frozenset(spec.id for spec in self.outputs if spec.may_stay is not None and spec.may_stay(call))

    def check(self, name: str) -> Check:
        """The check of that name."""
        return _first((check for check in self.checks if check.name == name), name)

    def output(self, name: str) -> OutputSpec:
        """The output of that id."""
        return _first((spec for spec in self.outputs if spec.id == name), name)

    def usual_criteria(
        self, output: str, dtype: DType, facts: Mapping[str, ParamValue | DType]
    ) -> tuple[Criterion, ...]:
        """What a call with these parameters and types of inputs is held to where its case names nothing.

        Empty for other types.
        """
        found = self.output(output).criteria.get(dtype, ())
        return found.of(facts) if isinstance(found, CriteriaByParam) else found

    def input(self, name: str) -> TensorSpec:
        """The input of that id."""
        return _first((spec for spec in self.inputs if spec.id == name), name)

    def tensor(self, name: str) -> TensorSpec | OutputSpec:
        """The input or output of that id."""
        return _first((spec for spec in self.tensors if spec.id == name), name)

    def _size_along(self, axis: AxisSpec) -> SizedAxis:
        """What cases are declared for: the axis of the first output that has it, where nothing says what is lost."""
        of = axis.of
        others: list[TensorSpec | OutputSpec] = [] if axis.lost is not None else list(self.outputs)
        if others and len(parse_shape(self.tensor(of).shape).forms) > 1:
            # An axis by layout or by parameter has no number; that of another tensor may have one.
            others += self.inputs
        for spec in others:
            first, *more = parse_shape(spec.shape).forms
            if not more and any(one.symbol == axis.symbol for one in first.axes):
                of = spec.id
                break
        return SizedAxis(of, self.axis_number(of, axis.symbol), without=axis.lost)

    def axis_number(self, tensor: str, symbol: str) -> int:
        """Which axis of the tensor is the symbol, from the end where leading axes may be missing."""
        for form in parse_shape(self.tensor(tensor).shape).forms:
            for number, one in enumerate(form.axes):
                if one.symbol == symbol:
                    return number - len(form.axes) if form.optional else number
        raise OperatorError(f"{self.name}: {tensor} {self.tensor(tensor).shape} has no axis {symbol!r}.")

    def defining_axis(self, symbol: str) -> tuple[str, int] | None:
        """The tensor and the axis that say how long a symbol is; None for a parameter, and for one never alone."""
        return self.definitions.get(symbol)

    def equals(self, symbol: str | None) -> str | None:
        """The factor of shapes that a symbol must equal by `axes`: a parameter, or the product of an array."""
        name = next((one.equals for one in self.axes.values() if one.symbol == symbol), "")
        is_array = any(one.name == name and one.label == "repeated" for one in self.param_fields)
        return f"{PRODUCT}{name}" if is_array else name or None

    def params_along(self, symbol: str, size: int, params: Params) -> Params:
        """The parameters that a symbol is or equals, for another size of it; an array has it as its first entry."""
        names = {one.name for one in self.param_fields if symbol.removeprefix(PRODUCT) in (one.name, one.equals)}
        names.add((self.equals(symbol) or "").removeprefix(PRODUCT))
        known = {name: value for name, value in params.items() if name in names}
        return {
            name: (size, *(1 for _ in value[1:])) if isinstance(value, tuple) else size for name, value in known.items()
        }

    def _define_symbols(self) -> Iterator[tuple[str, tuple[str, int]]]:
        """Each symbol with its tensor and axis: where `axes` says, else where it stands first alone."""
        params = {one.name for one in self.param_fields}
        of = {one.symbol: one.of for one in self.axes.values()}
        # What comes later replaces what came before: a tensor that a call may lack defines what no other does.
        always = [spec for spec in self.tensors if spec.id not in self.optional]
        for spec in (*(one for one in self.inputs if one.optional), *reversed(always)):
            forms = reversed(readable_shape(spec.shape).forms)
            for number, one in (pair for form in forms for pair in enumerate(form.axes)):
                if (
                    one.symbol
                    and not one.at_least
                    and one.symbol not in params
                    and of.get(one.symbol, spec.id) == spec.id
                ):
                    yield one.symbol, (spec.id, number)

    def size_of(self, call: OpCall, symbol: str) -> int:
        """How long a symbol is in a call whose descriptors are there; 1 where its axis is missing."""
        if symbol.startswith(PRODUCT):
            return math.prod(call.param(symbol.removeprefix(PRODUCT)))
        place = self.defining_axis(symbol)
        if place is None:
            name, _, number = symbol.partition(".")
            value: int = call.param(name)[int(number)] if number else call.param(name)
            return value
        tensor, shape = call.tensor(place[0]), parse_shape(self.tensor(place[0]).shape)
        first, *others = shape.forms
        if not others:
            at = place[1] - (len(first.axes) - len(tensor.dims) if first.optional else 0)
            return tensor.dims[at] if at >= 0 else 1
        axes = shape.axes(len(tensor.dims), tensor.layout.value, call.params)
        if axes is None:
            raise ShapeError(f"{place[0]} {list(tensor.dims)} as {tensor.layout.value} has none of its shapes")
        return next((length for one, length in zip(axes, tensor.dims, strict=True) if one.text == symbol), 1)

    def length_of(self, call: OpCall, axis: Axis) -> int:
        """How long the shape says that an axis is in a call."""

        def size(factor: str) -> int:
            return int(factor) if factor.isdecimal() else self.size_of(call, factor)

        first, *others = (math.prod(map(size, term)) for term in axis.terms)
        return sum(others, start=first) if others else first

    @property
    def arguments(self) -> tuple[TensorSpec, ...]:
        """The inputs that a call has; `inputs` are those that its files have."""
        return tuple(spec for spec in self.inputs if not spec.becomes)

    @property
    def initial_contents(self) -> Mapping[str, str]:
        """Output → the input whose values its buffer holds when the call begins."""
        return {spec.becomes: spec.id for spec in self.inputs if spec.becomes}

    @property
    def tensors(self) -> tuple[TensorSpec | OutputSpec, ...]:
        """What a call has: inputs, then outputs."""
        return (*self.arguments, *self.outputs)

    @property
    def optional(self) -> frozenset[str]:
        """The inputs that a call may lack."""
        return frozenset(spec.id for spec in self.inputs if spec.optional)

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


def _repeated(name: str, array: Array, sizes: Mapping[int | None, int]) -> str | None:
    """Where a position stands twice in a row that has each once, or None; what lies outside may be there often."""
    import numpy as np

    rows = array[..., None] if None in sizes else np.take(array, [one for one in sizes if one is not None], axis=-1)
    values = rows.reshape(-1, rows.shape[-1])
    inside = np.flatnonzero(((values >= 0) & (values < list(sizes.values()))).all(axis=1))
    keys = np.vstack([inside // rows.shape[-2], values[inside].T])
    order = np.lexsort(keys)
    same = np.flatnonzero((keys[:, order[1:]] == keys[:, order[:-1]]).all(axis=0))
    if not same.size:
        return None
    first, second = np.transpose(np.unravel_index(inside[order[same[0] :][:2]], rows.shape[:-1])).tolist()
    return f"{name} has one position twice, at {first} and {second}"


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
