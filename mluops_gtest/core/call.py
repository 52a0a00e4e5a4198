"""The status an operator answers, with the numbers of the C API.

What a backend sees: one call of an operator with buffers that the harness owns, and its notes, which are limited.

What cases are declared for in size: how many there are in a call, and what a kernel sees that loses one.

The calls that fuzzing draws: what varies from one to the next, and how the values chosen make a call.

The literal definition of one output element, for disputes between a backend and a baseline.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from enum import IntEnum
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, SupportsIndex

from msgspec import field

from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import cut_text
from mluops_gtest.core.tensor import Array, DType, Layout, TensorDesc

if TYPE_CHECKING:
    from mluops_gtest.core.cause import Cause


class Status(IntEnum):
    """mluOpStatus_t."""

    SUCCESS = 0
    NOT_INITIALIZED = 1
    ALLOC_FAILED = 2
    BAD_PARAM = 3
    INTERNAL_ERROR = 4
    ARCH_MISMATCH = 5
    EXECUTION_FAILED = 6
    NOT_SUPPORTED = 7
    NUMERICAL_OVERFLOW = 8


DEFAULT_ARCH = 590
DEFAULT_NRAM_BYTES = 655360
# The oldest architecture that the operators run on; anything older is a mismatch.
OLDEST_ARCH = 370

ParamValue = int | float | bool | str | tuple[int, ...] | tuple[float, ...] | None
Params = Mapping[str, ParamValue]


class UndefinedDataError(ValueError):
    """Raised by a reference that finds out what no precondition can tell beforehand: the document leaves it open."""


class Declined(Exception):  # noqa: N818 - the name is the public word for "I do not do this", not a fault
    """Raised by a backend that does not offer what the call asks; the case is skipped with this reason."""


class Violated(Exception):  # noqa: N818 - a finding about the kernel, not a fault of the adapter that tells it
    """Raised by a backend that keeps memory of its own and found it overrun; the case's outcome is memory."""

    def __init__(self, *findings: "Cause | str") -> None:
        super().__init__("; ".join(map(_said, findings)))
        self.findings = findings


class Crashed(Exception):  # noqa: N818 - tells how the kernel ended, not a fault of the adapter that tells it
    """Raised by a backend whose own child process died by a signal; the case's outcome is crashed."""

    def __init__(self, how: "Cause | str") -> None:
        super().__init__(_said(how))
        self.how = how


def _said(found: "Cause | str") -> str:
    from mluops_gtest.core.cause import format_reason  # late: whoever imports OpCall does not pay for it

    return found if isinstance(found, str) else format_reason((found,))


class Handle(Value):
    """The device context of a call."""

    arch: int = DEFAULT_ARCH
    nram_bytes: int = DEFAULT_NRAM_BYTES


class TensorArg(Value):
    """A descriptor with its data pointer: `array` is None where the pointer is null or no buffer exists."""

    desc: TensorDesc
    array: Array | None
    # True where the caller passes a null pointer; a descriptor-only tensor has neither array nor null pointer.
    null: bool = False

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.desc.dtype

    @property
    def layout(self) -> Layout:
        """Layout of the axes."""
        return self.desc.layout

    @property
    def dims(self) -> tuple[int, ...]:
        """Length of every axis."""
        return self.desc.dims

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Distance between neighbours on every axis in elements; None means contiguous."""
        return self.desc.strides


class QueryAnswer(Value):
    """What a workspace query of the C API answered; `size_null` where it got a null pointer for the size."""

    function: str
    status: Status
    size: int = 0
    size_null: bool = False
    # The name that the operator declares, where the function is its deprecated twin.
    twin_of: str = ""

    @property
    def declared_name(self) -> str:
        """The name under which the operator says what the query checks."""
        return self.twin_of or self.function


# Of one case: together with its refusals and a trace at most 1 MiB.
NOTES_LIMIT: Final = (1 << 20) - (128 << 10)
REFUSALS_LIMIT: Final = 64 << 10
# What a note costs besides its letters, so that a million empty ones do not come free.
_EACH: Final = 64


class Notes(list[str]):
    """A list of remarks that stays within `most` characters, however much is added to it."""

    _size = _cut = _head = 0

    def __init__(self, notes: Iterable[object] = (), most: int = NOTES_LIMIT) -> None:
        self._most = most
        self.extend(notes)

    def append(self, note: object) -> None:
        """One more remark; a very long one is cut itself."""
        text = cut_text(str(note), self._most // 4)
        super().append(text)
        self._size += len(text) + _EACH
        # Only now and then, so that many remarks cost no more than a few.
        if self._size > 2 * self._most:
            self._shorten()

    def extend(self, notes: Iterable[object]) -> None:
        for note in notes:
            self.append(note)

    def __iadd__(self, notes: Iterable[object]) -> "Notes":  # type: ignore[override, misc]
        self.extend(notes)
        return self

    def insert(self, place: SupportsIndex, note: Any) -> None:  # noqa: ARG002
        """Remarks stand in the order in which they are made."""
        self.append(note)

    def within_limit(self) -> tuple[str, ...]:
        """The remarks within the limit, and between head and tail the number of those that were cut."""
        if not self:
            return ()
        self._shorten()
        if not self._cut:
            return tuple(self)
        return (*self[: self._head], f"[… {self._cut} notes cut …]", *self[self._head :])

    def _shorten(self) -> None:
        """Keep a head and a tail of half the limit each."""
        sizes = [len(note) + _EACH for note in self]
        self._size = sum(sizes)
        if self._size <= self._most:
            return
        half = self._most // 2
        head, behind = (bisect_right(list(accumulate(ordered)), half) for ordered in (sizes, sizes[::-1]))
        tail = max(head, len(sizes) - behind)
        if not self._cut:
            self._head = head
        self._cut += tail - head
        del self[head:tail]
        self._size -= sum(sizes[head:tail])


def notes_within_limit(notes: list[str], most: int = NOTES_LIMIT) -> tuple[str, ...]:
    """What a result keeps of a backend's remarks, whatever list they are in."""
    return (notes if isinstance(notes, Notes) else Notes(notes, most)).within_limit()


class OpCall(Value):
    """One call: descriptors, buffers, parameters, workspace. Never the expected answer."""

    operator: str
    params: Params | None
    inputs: Mapping[str, TensorArg | None]
    outputs: Mapping[str, TensorArg | None]
    handle: Handle | None = Handle()
    workspace: Array | None = None
    workspace_size: int = 0
    # The workspace query is also made with a null pointer for the size.
    size_null: bool = False
    # Results that are not tensors, e.g. num_act_out; the backend writes, the harness compares exactly.
    scalars: MutableMapping[str, int] = field(default_factory=dict)
    # Remarks of the backend on this call, e.g. the function whose status it passes on; they appear in the
    # result, at most 1 MiB of them.
    notes: list[str] = field(default_factory=Notes)
    # Functions around the operator that refused, in words: the operator's own status is still the answer, but a call
    # that should succeed must have none of these.
    refusals: list[str] = field(default_factory=lambda: Notes(most=REFUSALS_LIMIT))
    # The workspace queries that were made; the harness holds each to its own checks.
    queries: list[QueryAnswer] = field(default_factory=list)
    # The device the call is meant for, where the run names devices.
    device: int | None = None

    def tensor(self, name: str) -> TensorArg:
        """The input or output of that name; only for calls whose descriptors are known to be present."""
        arg = self.inputs[name] if name in self.inputs else self.outputs[name]
        if arg is None:
            raise ValueError(f"{self.operator}: the descriptor of {name!r} is null")
        return arg

    def array(self, name: str) -> Array:
        """The buffer of that tensor; only for calls whose pointers are known to be present."""
        array = self.tensor(name).array
        if array is None:
            raise ValueError(f"{self.operator}: the data pointer of {name!r} is null")
        return array

    def arrays(self, *names: str) -> tuple[Array, ...]:
        """The buffers of these tensors."""
        return tuple(map(self.array, names))

    def param(self, name: str) -> Any:
        """The parameter of that name; only for calls whose parameters are known to be present."""
        if self.params is None:
            raise ValueError(f"{self.operator}: the parameter descriptor is null")
        return self.params[name]


class SizedAxis(Value):
    """A quantity that cases are declared for under `sizes`: an axis of a tensor, or what `count` says."""

    tensor: str
    axis: int = 0
    # How many there are in a call, where that is not the length of the axis.
    count: Callable[[OpCall], int] | None = None
    # The inputs as a kernel sees them that loses one of them; the plain meaning of `lost` where it is None.
    without: Callable[[OpCall, int], Mapping[str, Array]] | None = None

    def size(self, call: OpCall) -> int:
        """How many there are in that call."""
        if self.count is not None:
            return self.count(call)
        dims = call.tensor(self.tensor).dims
        if not -len(dims) <= self.axis < len(dims):
            raise ValueError(f"{call.operator}: {self.tensor} {list(dims)} has no axis {self.axis}")
        return dims[self.axis]

    def lost(self, call: OpCall, index: int) -> Mapping[str, Array]:
        """The inputs that a kernel sees which loses that index: 0 there in a float tensor, −1 in one of indices."""
        if self.without is not None:
            return self.without(call, index)
        if self.tensor not in call.inputs:
            return {}
        array = call.array(self.tensor).copy()
        self.cut(array, index)[...] = -1 if array.dtype.kind in "iu" else 0
        return {self.tensor: array}

    def cut(self, array: Array, index: int) -> Array:
        """A view of that index along the axis."""
        place = (slice(None),) * (self.axis % array.ndim)
        view: Array = array[(*place, slice(index, index + 1))]
        return view


class Sizes(Value):
    """A length or count that varies from `low` to `high`: the ends, small ones, and around powers of two."""

    low: int
    high: int


class Choice(Value):
    """One of the listed values; each is a class of its own."""

    values: tuple[Any, ...]


class Drawn(Value):
    """A call in the words of a declared case: a recipe with its arguments, parameters, and the element type."""

    recipe: str
    params: Params = field(default_factory=dict)
    args: Mapping[str, Any] = field(default_factory=dict)
    # None: the operator's first.
    dtype: str | None = None


class InStep(Value):
    """What follows from a new size beyond the shapes that name it: dims by tensor, and parameters."""

    dims: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    params: Params = field(default_factory=dict)


class Space(Value):
    """What fuzzing may draw for one operator.

    `draw` makes a call of one value per name in `axes`; None where these values do not go together, or would make a
    call that the document does not define. Faults (wrong dims, types, parameters, null pointers) are not part of it:
    they follow from the operator's tensors, parameters and checks.
    """

    axes: Mapping[str, Sizes | Choice]
    draw: Callable[[Mapping[str, Any]], Drawn | None]
    # About how many elements the tensors of the call have; large ones are drawn rarely.
    elements: Callable[[Mapping[str, Any]], int]
    # Accepted from earlier releases, and not read: where checks draw their lines is searched for.
    limits: tuple[int, ...] = ()
    # Size in the symbols of the shapes → what else a call must change where it becomes another one everywhere.
    in_step: Mapping[str, Callable[[OpCall, int], InStep]] = field(default_factory=dict)
    # False for a faulty call that is no call at all, because a library reads beyond an array, e.g. of counts.
    defined: Callable[[OpCall], bool] | None = None

    def mistake(self) -> str | None:
        """What no value could be drawn from, in words; None if there is nothing."""
        for name, axis in self.axes.items():
            if isinstance(axis, Sizes) and not 0 <= axis.low <= axis.high:
                return f"the axis {name!r} reaches from {axis.low} to {axis.high}; give 0 ≤ low ≤ high"
            if isinstance(axis, Choice) and len(set(axis.values)) < max(1, len(axis.values)):
                return f"the axis {name!r} must list different values, at least one"
        return None


# A float stands for what no fraction can be: nan, inf, -inf.
ExactValue = Fraction | int | float
# element(*index): the exact value of that element by the document's formula, on the call's own inputs, in integers or
# fractions.
ExactElement = Callable[..., ExactValue]
# elements(call): such a function for every output, and one without arguments for every result that is no tensor.
ExactElements = Callable[[OpCall], Mapping[str, ExactElement]]
# Operator → its function; None where it does not say what its elements are.
ElementsSource = Callable[[str], ExactElements | None]
