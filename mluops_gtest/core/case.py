"""What a user asks for: the words and filters that select cases, as run.json and report.json record them.

How much of what was selected a run must have compared.

A case: inputs, parameters, expected answer. A draft is the same before its values exist.

The backend contract: every member that a backend must or may have, declared once.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Protocol, runtime_checkable

from msgspec import Meta, field
from msgspec.structs import asdict, replace

from mluops_gtest.base.errors import UsageError, repr_short
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import MAX_LETTERS
from mluops_gtest.core.call import OpCall, Params, ParamValue, Status
from mluops_gtest.core.tensor import (
    PRECISION_WORDS,
    PRECISIONS,
    Criterion,
    DeclaredPrecision,
    DType,
    Precision,
    Tensor,
    is_precision,
)


class Query(Value):
    """What the user typed; without anything it means the default set."""

    # Ids, operators, globs over ids, files and folders.
    select: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    keyword: str = ""
    everything: bool = False

    @property
    def is_default(self) -> bool:
        """No argument and no filter: the default set."""
        return self == Query()

    def to_json(self) -> dict[str, Any]:
        """Plain values, as files keep them."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @staticmethod
    def from_report(selection: Mapping[str, Any]) -> "Query | None":
        """What a report, whose types are checked, records; None where it does not record all of it."""
        if not Query().to_json().keys() <= selection.keys():
            return None
        select, operators, tags = (tuple(selection[name]) for name in ("select", "operators", "tags"))
        return Query(select, operators, tags, selection["keyword"], selection["everything"])


_PERCENTAGE: Final = r"^(?:100|[0-9]{1,2}(?:\.[0-9]{1,4})?)%\Z"
# As files keep it.
Percentage = Annotated[str, Meta(pattern=_PERCENTAGE)]


def required_millionths(text: str) -> int:
    """`95%` → 950000; whole numbers, since 0.95 · 20 must be 19."""
    if not re.search(_PERCENTAGE, text):
        raise UsageError(f"--require-coverage {repr_short(text)}: write a percentage, e.g. --require-coverage 95%.")
    return round(float(text[:-1]) * 10_000)


# A seed that a person can type and every report format holds.
LARGEST_RESEED = 2**32 - 1


class Reseed(Value):
    """The values of `run --reseed number`; where they do not meet a case's conditions, those of the next attempt."""

    number: int
    attempt: int = 0

    def seed(self, declared: int) -> int:
        """The seed in the place of a declared one: the first 8 bytes of a SHA-256, little-endian."""
        text = f"mluops-test/reseed/1/{self.number}/{self.attempt}/{declared}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


class Reseeded(Value):
    """What `--reseed number` made of a case."""

    number: int
    # Attempts before this one whose values did not meet the case's conditions.
    redraws: int = 0
    # Inputs and parameters are those that the case has without --reseed.
    fixed: bool = False


# What the documents leave open: the answer, or whether subnormal numbers count for 0.
OPEN_TAGS = ("undefined", "subnormal")
# Selected by their tag or their id alone; heavy takes gigabytes or minutes.
NAMED_TAGS = ("heavy", *OPEN_TAGS)
TAGS = ("network", "boundary", "negative", "random", "precision", "nonfinite", "smoke", "race", *NAMED_TAGS)

# In a case that expects a status, a tensor without values gets a buffer only up to this size: the large
# ones are descriptors alone, so no giant buffer is ever allocated.
BUFFER_LIMIT = 1 << 20


class Expect(Value):
    """The expected status, the check that must give it, and the special caller that the case needs."""

    status: Status = Status.SUCCESS
    check: str | None = None
    arch: int | None = None
    nram_bytes: int | None = None
    null_descriptor: tuple[str, ...] = ()
    null_pointer: tuple[str, ...] = ()
    null_handle: bool = False
    workspace_size: int | None = None
    # Why the baseline is constant by design: the declaration and the lock say so; a committed file does not.
    degenerate: str | None = None

    @property
    def is_plain(self) -> bool:
        """Nothing special: the file needs no extension field."""
        return replace(self, degenerate=None) == Expect()


class Case(Value):
    """One stored case, complete: what to call with and what must come back."""

    id: str
    operator: str  # canonical name; for an operator that nobody knows, the file's op_name
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    params: Params
    # Per output, in order; None: not compared (threshold_use: 0). Empty tuple: the operator's own criteria.
    criteria: tuple[tuple[Criterion, ...] | None, ...]
    expect: Expect = Expect()
    # False: the file asks to recompute the baseline with the reference (device CPU).
    baseline_stored: bool = True
    tags: tuple[str, ...] = ()
    doc: str = ""
    path: Path | None = None
    # What the reader noticed and accepted (missing enums, padded inputs, unknown fields).
    notes: tuple[str, ...] = ()
    # Figures for performance reports that the file carries (theory_io_size, theory_compute_ops, …).
    theory: Mapping[str, float] = field(default_factory=dict)
    # Under --reseed: what that made of the case.
    reseeded: Reseeded | None = None
    # Declared in a content root, so that its reference answers for the baseline; else a file of the user's.
    declared: bool = False

    @property
    def is_open(self) -> bool:
        """The document leaves open what comes back."""
        return any(tag in self.tags for tag in OPEN_TAGS)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What the call has: inputs, then outputs."""
        return (*(tensor for tensor in self.inputs if not tensor.becomes), *self.outputs)

    def initial_content(self, output: str) -> Tensor | None:
        """The input whose values the buffer of that output holds when the call begins, or None."""
        return next((tensor for tensor in self.inputs if tensor.becomes == output), None)

    def with_shared_buffers(self) -> "Case | None":
        """The case whose inputs that become outputs have their descriptors; None where type or dims differ."""
        inputs = []
        for tensor in self.inputs:
            desc = self.tensor(tensor.becomes or tensor.id).desc
            if (desc.dtype, desc.dims) != (tensor.desc.dtype, tensor.desc.dims):
                return None
            alike = replace(tensor, desc=desc)
            is_laid_out = desc == tensor.desc or tensor.data is None
            inputs.append(alike if is_laid_out else alike.holding(tensor.values))
        return replace(self, inputs=tuple(inputs))

    @property
    def facts(self) -> dict[str, ParamValue | DType]:
        """What criteria may depend on: the parameters, and the types of inputs."""
        return {**self.params, **{tensor.id: tensor.desc.dtype for tensor in self.inputs}}

    def has(self, name: str) -> bool:
        """The call has that tensor: it may lack an optional one."""
        return any(tensor.id == name for tensor in self.tensors)

    def tensor(self, name: str) -> Tensor:
        """The input or output of that id."""
        return next(tensor for tensor in (*self.inputs, *self.outputs) if tensor.id == name)

    @property
    def elements(self) -> int:
        """All elements of all tensors, also of those without values."""
        return sum(tensor.desc.count for tensor in self.tensors)

    @property
    def nbytes(self) -> int:
        """The bytes of all values."""
        return sum(tensor.data.nbytes for tensor in (*self.inputs, *self.outputs) if tensor.data is not None)


class Change(Value):
    """How a negative case's descriptor differs from the recipe's."""

    dims: tuple[int, ...] | None = None
    dtype: str | None = None
    layout: str | None = None
    strides: tuple[int, ...] | None = None


class CaseDraft(Value):
    """One declared case after expansion, before any value is drawn."""

    id: str
    operator: str
    tags: tuple[str, ...]
    doc: str
    recipe: str
    args: Mapping[str, Any]
    params: Mapping[str, Any]
    dtype: str
    seed: int
    expect: Expect
    changes: Mapping[str, Change]
    changed_params: Mapping[str, Any]
    # Of the outputs that are held to something else than the operator says.
    criteria: Mapping[str, tuple[Criterion, ...]]
    # True where the declaration itself writes the expected status: generate compares it with the checks.
    expect_declared: bool
    note: str
    where: str  # file:line, for messages
    digest: str  # of everything above that shapes the case; the lock and the cache are keyed by it
    # Quantity → the size that the case is there for; the data decide it, so the digest does not know it.
    sizes: Mapping[str, int] = field(default_factory=dict)
    # Id of the case that it is derived from. Where a check answers it no value counts, so descriptors alone are stored.
    base: str = ""

    @property
    def is_typed(self) -> bool:
        """Its id says all of it (catalog/prompt.py): nothing is declared or stored."""
        return "=" in self.id


class CaseSource(Protocol):
    """Where the engine gets a planned case from; generate implements it, cli hands it over."""

    def load(self, case_id: str) -> Case:
        """The complete case, made on first use when it is not stored."""


# In the environment of a worker or a program: the number of the device that it shall use.
DEVICE_VARIABLE: Final = "MLUOPS_TEST_DEVICE"


@runtime_checkable
class Backend(Protocol):
    """What the harness tests: the required members. MEMBERS lists the optional ones."""

    name: str

    def run(self, call: OpCall) -> Status:
        """Execute the call, write the outputs in place, answer the status."""


class Member(Value):
    """One member of the contract, as it is written, and what it is for."""

    signature: str
    meaning: str
    required: bool = False

    @property
    def name(self) -> str:
        return self.signature.partition("(")[0].partition(":")[0]

    @property
    def is_method(self) -> bool:
        """It is called, not read."""
        return "(" in self.signature

    def accepts(self, value: object) -> bool:
        """The value can be this member."""
        if self.is_method:
            return callable(value)
        if self.name == "precision":
            return is_precision(value)
        return isinstance(value, bool if self.signature.endswith("bool") else str)


MEMBERS: Final = (
    Member("name: str", "is shown in reports", required=True),
    Member(
        "run(call: OpCall) -> Status",
        "runs the call, writes the outputs in place, returns the status",
        required=True,
    ),
    Member("supports(operator: str) -> bool", "False skips every case of that operator"),
    Member("workspace_size(call: OpCall) -> int", "bytes of workspace that `run` wants to find in `call.workspace`"),
    Member("healthy() -> bool", "asked after a crash, in the new worker, before the next case"),
    Member("device_seconds() -> float | None", "the device's own time of the last call"),
    Member(
        "run_empty(call: OpCall) -> None",
        "does all that a call does except its kernel, if that takes long; times are compared with it",
    ),
    Member("close() -> None", "called once when the run is over; a worker that had to be killed does not get there"),
    Member("version: str", "every report of the run shows it as the label `backend.version`"),
    Member(
        "deterministic: bool",
        "False if repeated calls may differ in the last bits; the doctor then does not ask for equal bits",
    ),
    Member(
        "precision: str | dict[str, str | dict[str, str]]",
        f"what it computes in ({', '.join(PRECISIONS)}), for all operators, by operator, or by operator and data type; "
        "elements are held to it",
    ),
    Member("host_memory: bool", "False if the kernel works on its own memory, which `--guard-pages` cannot guard"),
    Member("is_reference: bool", "True for the oracle itself: a baseline that it made is not compared with it"),
)


_PRECISION: Final = next(member for member in MEMBERS if member.name == "precision")


def invalid_members(backend: object, members: Iterable[Member] = MEMBERS) -> Iterator[str]:
    """What is wrong with the members of a backend, in words."""
    for member in members:
        if not hasattr(backend, member.name):
            if member.required:
                yield f"It has no `{member.name}`; it needs `{member.signature}`."
        elif not member.accepts(getattr(backend, member.name)):
            allowed = f" {PRECISION_WORDS}" if member is _PRECISION else ""
            yield f"Its `{member.name}` does not fit; it must be `{member.signature}`.{allowed}"


class BackendAdapter:
    """A backend through its contract: members that it does not offer have their defaults."""

    def __init__(self, backend: Backend) -> None:
        self._backend: Any = backend

    @property
    def name(self) -> str:
        return str(self._backend.name)

    @property
    def version(self) -> str:
        """What it says of its version; empty where that is no text, or cannot be asked."""
        try:
            version = getattr(self._backend, "version", "")
        except Exception:
            return ""
        return version[:MAX_LETTERS] if isinstance(version, str) else ""

    @property
    def deterministic(self) -> bool:
        """Repeated calls give the same bits, unless it says otherwise."""
        return bool(getattr(self._backend, "deterministic", True))

    @property
    def host_memory(self) -> bool:
        """It works on the harness's own buffers, unless it says otherwise."""
        return bool(getattr(self._backend, "host_memory", True))

    @property
    def is_reference(self) -> bool:
        """It is the oracle itself."""
        return bool(getattr(self._backend, "is_reference", False))

    @property
    def precision(self) -> DeclaredPrecision:
        """What it computes in; float where it says nothing that is a precision."""
        declared: DeclaredPrecision = getattr(self._backend, "precision", Precision.FLOAT.value)
        return declared if _PRECISION.accepts(declared) else Precision.FLOAT.value

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(member.name for member in MEMBERS if hasattr(self._backend, member.name))

    def run(self, call: OpCall) -> Any:
        """Its answer, which may be anything."""
        return self._backend.run(call)

    def run_empty(self, call: OpCall) -> Status:
        """Everything that a call costs but the kernel."""
        self._ask("run_empty", None, call)
        return Status.SUCCESS

    def supports(self, operator: str) -> bool:
        """It offers that operator, unless it says otherwise."""
        return bool(self._ask("supports", True, operator))

    def workspace_size(self, call: OpCall) -> Any:
        """What it asks for, which may be anything; 0 where it asks for nothing."""
        return self._ask("workspace_size", 0, call)

    def healthy(self) -> bool:
        """It can go on, unless it says otherwise."""
        return bool(self._ask("healthy", True))

    def device_seconds(self) -> Any:
        """The device's own time of the last call, which may be anything; None where it tells none."""
        return self._ask("device_seconds", None)

    def close(self) -> None:
        self._ask("close", None)

    def _ask(self, method: str, default: Any, *arguments: Any) -> Any:
        ask = getattr(self._backend, method, None)
        return default if ask is None else ask(*arguments)
