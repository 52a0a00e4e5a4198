"""What workers answer: bytes that are read by their types and held to what was ordered, as results files are."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeVar

import msgspec

from mluops_gtest.engine.lanes import PlannedCase
from mluops_gtest.errors import ContentError, shown
from mluops_gtest.files.typed import Source, json_bytes
from mluops_gtest.model.case import Case
from mluops_gtest.model.plain_text import plain_line
from mluops_gtest.model.precision import DeclaredPrecision
from mluops_gtest.model.result import CaseResult
from mluops_gtest.results.records import ResultReader, result_to_json
from mluops_gtest.value import Value

K = TypeVar("K")
# A result with all that a backend may print is far smaller.
MAX_LINE: Final = 8 << 20
_MAX_WORDS: Final = 1000
Name = Annotated[str, msgspec.Meta(max_length=200)]


@dataclass(slots=True)
class HostTally:
    """What one host did so far."""

    workers: int = 0
    done: int = 0
    running: set[str] = field(default_factory=set)


class Checked(Value):
    """A worker that may be given cases: its host, and of each batch that it runs at once the device, if any."""

    host: str
    lanes: tuple[int | None, ...]


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

    version: Name
    host: Name
    # Operator → digest of its lock.
    content: dict[str, str]
    # Digests of the parcels that the worker has.
    parcels: tuple[str, ...]


class BackendTrial(Value):
    """What the backend calls itself on a worker and its version; or why it does not load."""

    name: Name = ""
    version: Name = ""
    precision: DeclaredPrecision = "float"
    is_reference: bool = False
    error: str = ""


class CallOutputs(Value):
    """What a call left: the bytes of its outputs, and its scalars as texts, since they may be too large."""

    arrays: dict[str, bytes]
    scalars: dict[str, Annotated[str, msgspec.Meta(pattern="^-?[0-9]{1,1300}$")]]


class UnitStart(Value):
    """A worker says that it has begun with a unit."""

    unit: str
    worker: str


class BadAnswerError(Exception):
    """A worker does not answer as agreed; `unit` is the one that it names as the reason."""

    def __init__(self, what: str, unit: str = "") -> None:
        super().__init__(plain_line(what[:_MAX_WORDS]))
        self.unit = unit


class Unit(PlannedCase):
    """What a worker does at a time: run a case."""

    @property
    def order(self) -> Any:
        """What a worker is told beside the id, see worker.run_batch."""
        return None

    def read_smallest(self, data: bytes) -> Case | None:
        """The case that a search for a smaller one answers; None where nobody asked for a search."""
        if data:
            raise BadAnswerError(f"its answer to {self.id} has a smaller case, which nobody asked for")
        return None


class UnitAnswered(Value):
    """A unit is done: its verdict, of a search the smallest case, and the digest of the outputs."""

    unit: Unit
    result: CaseResult
    smallest: Case | None = None
    outputs: str = ""


def encode(answer: Any) -> bytes:
    """The answer as it travels."""
    return msgspec.msgpack.encode(answer)


def line_of(result: CaseResult) -> bytes:
    """The result as it travels."""
    return json_bytes(result_to_json(result))


def decode(data: Any, kind: type[K]) -> K:
    """The answer of that kind; BadAnswerError where there came anything else, or an exception instead."""
    if isinstance(data, Exception):
        raise BadAnswerError(f"{type(data).__name__}: {data}")
    if not isinstance(data, bytes):
        raise BadAnswerError(f"it answered with {type(data).__name__} instead of bytes")
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswerError(f"its answer cannot be read: {error}") from None


def read_results(data: Any, batch: Sequence[Unit], checked: Checked) -> list[UnitAnswered]:
    """What that worker answered to a batch, unit by unit; BadAnswerError where that cannot be."""
    answer = decode(data, BatchAnswer)
    if answer.error:
        raise BadAnswerError(answer.error, answer.unit)
    if len(answer.units) != len(batch):
        raise BadAnswerError(f"it answered {len(answer.units)} cases instead of {len(batch)}")
    return [
        UnitAnswered(unit, _read_result(one.result, unit, checked), unit.read_smallest(one.smallest), one.outputs)
        for unit, one in zip(batch, answer.units, strict=True)
    ]


def _read_result(line: bytes, unit: Unit, checked: Checked) -> CaseResult:
    if len(line) > MAX_LINE:
        raise BadAnswerError(f"its answer to {unit.id} has {len(line)} bytes")
    try:
        result = ResultReader(Source("its answer", "")).read(line)
    except ContentError as error:
        raise BadAnswerError(str(error).strip()) from None
    # Of a file only the file itself knows the operator.
    ordered = {"case": unit.id, "operator": unit.operator or result.operator, "tags": unit.tags, "host": checked.host}
    for name, value in ordered.items():
        if getattr(result, name) != value:
            raise BadAnswerError(f"its answer to {unit.id} has the {name} {shown(getattr(result, name))}")
    if result.device not in checked.lanes:
        raise BadAnswerError(f"its answer to {unit.id} has the device {result.device}")
    if not result.outcome.ends_a_call:
        raise BadAnswerError(f"its answer to {unit.id} is {result.outcome.value}, which no worker can say")
    return result
