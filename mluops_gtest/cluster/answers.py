"""What workers answer: bytes that are read by their types and held to what was ordered, as results files are.

Verdicts of workers judged again here, on outputs that they have committed themselves to before they are asked.
"""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, repr_short
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import strip_to_line
from mluops_gtest.base.typed_files import Source, json_bytes
from mluops_gtest.core.call import OpCall, Status
from mluops_gtest.core.case import Case
from mluops_gtest.core.cause import NotReproducible, UnderStress
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.tensor import DeclaredPrecision
from mluops_gtest.results.records import read_result, result_to_json
from mluops_gtest.results.saved_outputs import CaseOutputs
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options, PlannedCase

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
    slots: tuple[int | None, ...]


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
        super().__init__(strip_to_line(what[:_MAX_WORDS]))
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
        result = read_result(line, Source("its answer", ""))
    except ContentError as error:
        raise BadAnswerError(str(error).strip()) from None
    # Of a file only the file itself knows the operator.
    ordered = {"case": unit.id, "operator": unit.operator or result.operator, "tags": unit.tags, "host": checked.host}
    for name, value in ordered.items():
        if getattr(result, name) != value:
            raise BadAnswerError(f"its answer to {unit.id} has the {name} {repr_short(getattr(result, name))}")
    if result.device not in checked.slots:
        raise BadAnswerError(f"its answer to {unit.id} has the device {result.device}")
    if not result.outcome.ends_a_call:
        raise BadAnswerError(f"its answer to {unit.id} is {result.outcome.value}, which no worker can say")
    return result


# What a worker keeps of a batch: each of its cases may have an equal share of these bytes.
MAX_BATCH: Final = 128 << 20
_SHARE: Final = 0.02
_MAX_BYTES: Final = 1 << 30
# Nobody shall know before what is drawn.
_RANDOM: Final = random.SystemRandom()


def outputs_bytes(outputs: CaseOutputs, cases: int) -> bytes:
    """The outputs of a call as they travel; empty where they are more than the share of one of so many cases."""
    if sum(tensor.desc.nbytes for tensor in outputs.case.outputs) > MAX_BATCH // cases:
        return b""
    arrays = {name: array.tobytes() for name, array in outputs.arrays.items() if array.size}
    return encode(CallOutputs(arrays, {name: str(value) for name, value in outputs.scalars.items()}))


def digest_of(data: bytes) -> str:
    """By which the outputs are known before anybody sees them."""
    return hashlib.sha256(data).hexdigest()


class _Replay:
    """A backend that answers what a worker says that its own answered."""

    def __init__(self, status: Status | None, outputs: CallOutputs | None, trial: BackendTrial) -> None:
        self.name, self.precision, self.is_reference = trial.name, trial.precision, trial.is_reference
        self._status, self._outputs = status, outputs

    def run(self, call: OpCall) -> Status:
        assert self._status is not None, "a verdict on values has a status"
        if self._outputs is not None:
            for name, data in self._outputs.arrays.items():
                array = call.array(name)
                array[...] = np.frombuffer(data, array.dtype).reshape(array.shape)
            call.scalars.update((name, int(value)) for name, value in self._outputs.scalars.items())
        return self._status


class OutputAudit:
    """Draws which outputs to ask for, and judges them with the functions of a run on this machine."""

    def __init__(
        self,
        load: Callable[[UnitAnswered], Case],
        operators: Mapping[str, Operator],
        options: Options,
        trial: BackendTrial,
        *,
        everything: bool = False,
        draw: Callable[[], float] = _RANDOM.random,
    ) -> None:
        """`trial` is what the backend says of itself; `everything`: all are asked for, however many bytes they are."""
        self._load, self._operators, self._trial = load, operators, trial
        self._everything, self._draw = everything, draw
        once = {"repeat": 1, "reruns": 0, "stress": None, "sampling": None, "sides": (None,), "timeout": None}
        self._options = replace(options, explain=False, **once)
        self._room = _MAX_BYTES
        self._seen: set[tuple[str, str, bool]] = set()

    def draws(self, address: str, one: UnitAnswered) -> bool:
        """This worker is asked for the outputs of the case; always for the first of every operator with and without."""
        result = one.result
        varying = any(isinstance(cause, NotReproducible | UnderStress) for cause in result.causes)
        # Of other verdicts there are no outputs that would show them, and of a search there are those of many calls.
        if not result.outcome.is_of_values or varying or one.smallest is not None:
            return False
        kind = (address, result.operator, bool(one.outputs))
        # A verdict on values without values; they may be too large.
        is_odd = bool(result.readings) and not one.outputs
        is_drawn = kind not in self._seen or is_odd or self._draw() < _SHARE
        self._seen.add(kind)
        return self._everything or (self._room > 0 and is_drawn)

    def agrees(self, one: UnitAnswered, data: bytes, cases: int) -> bool:
        """The verdict on a case of a batch of so many is the same here; BadAnswerError where it is another one.

        False where it cannot be judged here.
        """
        result, digest = one.result, one.outputs
        self._room -= len(data)
        if digest and digest != digest_of(data):
            raise BadAnswerError(f"the outputs of {result.case} are not those that it named before")
        try:
            case = self._load(one)
        except Exception:
            # As it does on the worker, or this machine lacks something; the run itself goes on.
            return False
        operator = self._operators.get(case.operator)
        computes = operator is not None and operator.computes(case.expect.status, case.expect.check)
        size = sum(tensor.desc.nbytes for tensor in case.outputs)
        if not digest and computes and size > MAX_BATCH // cases:
            self._room -= size
            return False
        # Of any other call that computes there are outputs; poison stands for those that are missing, and fails it.
        outputs = decode(data, CallOutputs) if digest else None
        if operator is not None and operator.results and not computes and result.status is Status.SUCCESS:
            if result.outcome is not Outcome.PASSED:
                return False
            # Nobody sends the scalar results of a call that computes nothing: to pass they are 0.
            outputs = CallOutputs({}, dict.fromkeys(operator.results, "0"))
        replay = _Replay(result.status, outputs, self._trial)
        here = CaseRun(InlineCaller(replay), self._options).run_case(case, operator)
        if here.outcome is not result.outcome:
            raise BadAnswerError(
                f"it calls {result.case} {result.outcome.value}, and its outputs are {here.outcome.value} here"
            )
        return True
