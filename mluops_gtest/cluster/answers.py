"""What workers answer: bytes that are read by their types and held to what was ordered, as results files are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Protocol, TypeVar

import msgspec

from mluops_gtest.errors import ContentError, shown
from mluops_gtest.files.typed import Source, json_bytes
from mluops_gtest.model.case import Case
from mluops_gtest.model.plain_text import plain_line
from mluops_gtest.model.precision import DeclaredPrecision
from mluops_gtest.model.result import CaseResult
from mluops_gtest.results.records import ResultReader, result_to_json
from mluops_gtest.value import Value


class Unit(Protocol):
    """What a worker does at a time: run a case."""

    @property
    def id(self) -> str:
        """Its own, of all units of the run."""

    @property
    def case_id(self) -> str:
        """The id of the case, which its result has."""

    @property
    def operator(self) -> str:
        """The operator of the case; empty where only its file knows it."""

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the case."""


U = TypeVar("U", bound=Unit)
K = TypeVar("K", bound=Value)


class UnitBegun(Value):
    """A worker has begun with a unit."""

    unit: str


class UnitsRetracted(Value, Generic[U]):
    """The worker that answered these units was caught with a wrong verdict; they run again elsewhere."""

    units: tuple[U, ...]


@dataclass(slots=True)
class HostTally:
    """What one host did so far."""

    workers: int = 0
    done: int = 0
    running: set[str] = field(default_factory=set)


class Checked(Value):
    """A worker that may be given cases."""

    host: str
    # How many batches it runs at once.
    lanes: int
    devices: tuple[int, ...]


class UnitAnswer(Value):
    """A unit as it travels: its result as a line of results.jsonl, of a search the smallest case as a binary file."""

    result: bytes
    smallest: bytes = b""
    # Digest of the outputs; empty where the call left none, or too many bytes to keep.
    outputs: str = ""


class BatchAnswer(Value):
    """What comes of a batch: every unit in order, or what went wrong and with which of them."""

    units: tuple[UnitAnswer, ...] = ()
    error: str = ""
    unit: str = ""


class WorkerDescription(Value):
    """What the controller compares with its own before it sends cases."""

    version: str
    host: str
    # Operator → digest of its lock.
    content: dict[str, str]
    # Digests of the parcels that the worker has.
    parcels: tuple[str, ...]


class BackendTrial(Value):
    """What the backend calls itself on a worker and its version; or why it does not load."""

    name: str = ""
    version: str = ""
    error: str = ""
    precision: DeclaredPrecision = "float"
    is_reference: bool = False


class CallOutputs(Value):
    """What a call left: the bytes of its outputs, and its scalars as texts, since they may be too large."""

    arrays: dict[str, bytes]
    scalars: dict[str, Annotated[str, msgspec.Meta(pattern="^-?[0-9]{1,1300}$")]]


class HandedOutputs(Value):
    """Outputs that were asked for, each as its digest counts them; empty where the worker has none."""

    outputs: tuple[bytes, ...]


class UnitStart(Value):
    """A worker says that it has begun with a unit."""

    unit: str
    worker: str


class UnitAnswered(Value, Generic[U]):
    """A unit is done: its verdict, of a search the smallest case, and the digest of the outputs."""

    unit: U
    result: CaseResult
    smallest: Case | None = None
    outputs: str = ""


class BadAnswerError(Exception):
    """A worker does not answer as agreed; `unit` is the one that it names as the reason."""

    def __init__(self, what: str, unit: str = "") -> None:
        super().__init__(plain_line(what))
        self.unit = unit


def encode(answer: Value) -> bytes:
    """The answer as it travels."""
    return msgspec.msgpack.encode(answer)


def line_of(result: CaseResult) -> bytes:
    """The result as it travels."""
    return json_bytes(result_to_json(result))


def decode(data: Any, kind: type[K]) -> K:
    """The answer of that kind; BadAnswerError where the worker sent anything else."""
    if not isinstance(data, bytes):
        raise BadAnswerError(f"it answered with {type(data).__name__} instead of bytes")
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswerError(f"its answer cannot be read: {error}") from None


def read_results(
    data: Any, batch: Sequence[U], host: str, devices: Sequence[int], read_smallest: Callable[[U, bytes], Case | None]
) -> list[UnitAnswered[U]]:
    """What the worker on that host answered to a batch, unit by unit; BadAnswerError where that cannot be."""
    answer = decode(data, BatchAnswer)
    if answer.error:
        raise BadAnswerError(answer.error, answer.unit)
    if len(answer.units) != len(batch):
        raise BadAnswerError(f"it answered {len(answer.units)} cases instead of {len(batch)}")
    return [
        UnitAnswered(
            unit, _read_result(one.result, unit, host, devices), read_smallest(unit, one.smallest), one.outputs
        )
        for unit, one in zip(batch, answer.units, strict=True)
    ]


def _read_result(line: bytes, unit: Unit, host: str, devices: Sequence[int]) -> CaseResult:
    try:
        result = ResultReader(Source("its answer", "")).read(line)
    except ContentError as error:
        raise BadAnswerError(str(error).strip()) from None
    ordered = {"case": unit.case_id, "operator": unit.operator or result.operator, "tags": unit.tags, "host": host}
    for name, value in ordered.items():
        if getattr(result, name) != value:
            raise BadAnswerError(f"its answer to {unit.id} has the {name} {shown(getattr(result, name))}")
    if result.device not in (devices or (None,)):
        raise BadAnswerError(f"its answer to {unit.id} has the device {result.device}")
    if not result.outcome.ends_a_call:
        raise BadAnswerError(f"its answer to {unit.id} is {result.outcome.value}, which no worker can say")
    return result
