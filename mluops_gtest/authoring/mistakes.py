"""Mistakes that any operator can make, put around its right implementation; for mutants."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.core.call import OpCall, Status
from mluops_gtest.core.declaration import Mutant
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.tensor import Array

Run = Callable[[OpCall], Status]
# Elements that kernels take at a time.
TILES: Final = (16, 32, 64, 128, 1024)
# A loop of fewer turns is not worth several threads.
_WORTH_THREADS: Final = 16


def spoilt(name: str, message: str, right: Run, spoil: Callable[[OpCall], None]) -> Mutant:
    """The right answer, and then something goes wrong with the buffers of the call."""

    def run(call: OpCall) -> Status:
        status = right(call)
        spoil(call)
        return status

    return Mutant(name, message, run)


def suspected(operator: Operator, names: Mapping[str, str] | None = None) -> Iterator[Mutant]:
    """Implementations that make what the operator suspects, by name and words; without names all, named by words."""

    def make(words: str) -> Run:
        def run(call: OpCall) -> Status:
            right = operator.reference(call)
            # What computes without data has nothing that could be read in a wrong way.
            has_data = all(arg is None or arg.array is not None or arg.desc.is_empty for arg in call.inputs.values())
            computes = has_data and operator.answer(call).check is None
            wrong = operator.suspects[words](call) if computes else {}
            for output, values in {**right.outputs, **wrong}.items():
                call.array(output)[...] = values
            call.scalars.update(right.scalars)
            return Status.SUCCESS

        return run

    slugs = ((re.sub(r"\W+", "_", words.lower()).strip("_"), words) for words in operator.suspects)
    pairs = slugs if names is None else names.items()
    return (Mutant(name, f"as if {words}", make(words)) for name, words in pairs)


def left(name: str, message: str, right: Run, output: str, where: Callable[[OpCall], Any]) -> Mutant:
    """The elements of the output that `where` names, by an index or a mask, keep what the buffer held before."""

    def run(call: OpCall) -> Status:
        before = call.array(output).copy()
        status = right(call)
        places = where(call)
        call.array(output)[places] = before[places]
        return status

    return Mutant(name, message, run)


def tails_left(
    right: Run, output: str, axis: int, what: str, tiles: Iterable[int] = TILES, name: str = ""
) -> tuple[Mutant, ...]:
    """Per tile: what stands behind the last whole one on that axis is not written; one short of a tile is."""

    def behind(tile: int) -> Callable[[OpCall], Any]:
        def where(call: OpCall) -> Any:
            length = call.tensor(output).dims[axis]
            return _along(call, output, axis, slice(length // tile * tile if length > tile else length, None))

        return where

    return tuple(
        left(
            f"{name or what}_tail_{tile}",
            f"does not write {what} of {output} behind a multiple of {tile}",
            right,
            output,
            behind(tile),
        )
        for tile in tiles
    )


def part_left(right: Run, output: str, axis: int, what: str, threads: int = 4, name: str = "") -> Mutant:
    """The last thread's part of that axis is read before it is written."""

    def where(call: OpCall) -> Any:
        length = call.tensor(output).dims[axis]
        first = (threads - 1) * -(-length // threads) if length >= _WORTH_THREADS else length
        return _along(call, output, axis, slice(first, None))

    message = f"does not wait for the last of {threads} threads, which has a part of the {what}"
    return left(f"{name or what}_of_last_thread", message, right, output, where)


def _along(call: OpCall, output: str, axis: int, places: slice) -> Any:
    index: list[Any] = [slice(None)] * len(call.tensor(output).dims)
    index[axis] = places
    return tuple(index)


def remembering(name: str, message: str, make: Callable[[], Run]) -> Mutant:
    """A mistake that shows from the second call on; `make` gives an implementation that remembers nothing yet."""
    return Mutant(name, message, make(), make)


def cached_by_shape(right: Run) -> Mutant:
    """What the first call of these shapes and parameters gave is given again."""

    def make() -> Run:
        known: dict[Any, tuple[dict[str, Array], dict[str, int]]] = {}

        def run(call: OpCall) -> Status:
            key = _kind(call)
            if key not in known:
                status = right(call)
                written = {id_: call.array(id_).copy() for id_ in call.outputs}
                known[key] = written, dict(call.scalars)
                return status
            outputs, scalars = known[key]
            for id_, values in outputs.items():
                call.array(id_)[...] = values
            call.scalars.update(scalars)
            return Status.SUCCESS

        return run

    message = "answers a call of known shapes and parameters from a cache, whatever its values"
    return remembering("cached_by_shape", message, make)


def sum_goes_on(right: Run, output: str) -> Mutant:
    """The accumulator is not cleared between two calls of these shapes."""

    def make() -> Run:
        kept: dict[Any, Array] = {}

        def run(call: OpCall) -> Status:
            status, result = right(call), call.array(output)
            key = (result.shape, result.dtype.str)
            with np.errstate(all="ignore"):
                result[...] = result + kept.get(key, result.dtype.type(0))
            kept[key] = result.copy()
            return status

        return run

    return remembering("sum_goes_on", f"goes on with what the last call of this size left in {output}", make)


def first_length_kept(right: Run, output: str, axis: int, what: str) -> Mutant:
    """No call handles more along that axis of the output than the first one had."""

    def make() -> Run:
        first: list[int] = []

        def run(call: OpCall) -> Status:
            first.append(call.tensor(output).dims[axis])
            before = call.array(output).copy()
            status = right(call)
            behind = _along(call, output, axis, slice(first[0], None))
            call.array(output)[behind] = before[behind]
            return status

        return run

    return remembering(f"{what}_of_first_call", f"handles no more {what} than the first call had", make)


def first_param_kept(right: Run, param: str) -> Mutant:
    """A parameter is read in the first call alone."""

    def make() -> Run:
        first: list[Any] = []

        def run(call: OpCall) -> Status:
            first.append(call.param(param))
            return right(replace(call, params={**(call.params or {}), param: first[0]}))

        return run

    return remembering(f"{param}_of_first_call", f"keeps {param} of the first call", make)


def _kind(call: OpCall) -> Any:
    tensors = (*call.inputs.items(), *call.outputs.items())
    shapes = tuple((name, arg.dims, arg.dtype, arg.layout) for name, arg in tensors if arg is not None)
    return shapes, tuple(sorted((call.params or {}).items(), key=lambda item: item[0]))


def input_cleared(right: Run, name: str) -> Mutant:
    """An input is used as scratch, and is all zeros afterwards."""

    def spoil(call: OpCall) -> None:
        tensor = call.inputs[name]
        if tensor is not None and tensor.array is not None:
            tensor.array[...] = 0

    return spoilt(f"{name}_cleared", f"uses {name} as scratch and leaves zeros there", right, spoil)
