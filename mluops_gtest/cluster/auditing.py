"""Verdicts of workers judged again here, on outputs that they have committed themselves to before they are asked."""

import hashlib
import random
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.cluster.answers import BackendTrial, BadAnswerError, CallOutputs, UnitAnswered, decode, encode
from mluops_gtest.engine.caller import InlineCaller
from mluops_gtest.engine.execute import Executor, Options
from mluops_gtest.engine.outputs import CaseOutputs
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.case import Case
from mluops_gtest.model.cause import NotReproducible, UnderStress
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.outcome import Outcome
from mluops_gtest.model.status import Status

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
        here = Executor(InlineCaller(replay), self._options).execute(case, operator)
        if here.outcome is not result.outcome:
            raise BadAnswerError(
                f"it calls {result.case} {result.outcome.value}, and its outputs are {here.outcome.value} here"
            )
        return True
