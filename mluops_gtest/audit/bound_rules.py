"""Rules on what arithmetic allows: it is said of every output of floats, and right implementations keep it."""

from collections.abc import Callable
from typing import Final

from mluops_gtest.audit.finding import Problem, Problems
from mluops_gtest.audit.subject import Subject, judged, kept_bounds
from mluops_gtest.backends.reference_backend import ReferenceBackend
from mluops_gtest.criteria.elementwise import can_be_bounded
from mluops_gtest.errors import OperatorError
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.case import Case
from mluops_gtest.model.source_place import source_of
from mluops_gtest.model.status import Status

_REMEDY: Final = (
    "Let `bound` say how far any order of operations may be off; Bound.copied(…) where nothing is computed."
)


def bounds_declared(subject: Subject) -> Problems:
    """Every output of real floats has a bound, and the kernel and the reference keep it in every stored case."""
    operator = subject.operator
    floats = [spec.id for spec in operator.outputs if any(map(can_be_bounded, spec.dtypes))]
    if operator.bound is None:
        if floats:
            yield Problem(str(subject.generator), f"nothing says how far {', '.join(floats)} may be off", _REMEDY)
        return
    runs: dict[str, Callable[[OpCall], Status]] = {
        "kernel": operator.kernel,
        "reference": ReferenceBackend({operator.name: operator}).run,
    }
    for case in subject.computing:
        problem = _unbounded(subject, case)
        if problem is not None:
            yield problem
            return
        # Of each implementation the first case is told.
        beyond = {name: _beyond(subject, name, run, case) for name, run in runs.items()}
        yield from filter(None, beyond.values())
        runs = {name: run for name, run in runs.items() if beyond[name] is None}


def _unbounded(subject: Subject, case: Case) -> Problem | None:
    """What the bounds of that case lack."""
    place = source_of(subject.operator.bound)
    try:
        bounds = kept_bounds(case, subject.operator)
    except OperatorError as error:
        return Problem(place, f"{case.id}: {str(error).partition(': ')[2]}", "Correct it.")
    for tensor in case.outputs:
        if can_be_bounded(tensor.desc.dtype) and tensor.id not in bounds:
            return Problem(place, f"{case.id}: nothing says how far {tensor.id} may be off", _REMEDY)
    return None


def _beyond(subject: Subject, name: str, run: Callable[[OpCall], Status], case: Case) -> Problem | None:
    """Elements of that implementation that are beyond the bound in that case."""
    for reading in judged(name, run, case, subject.operator, each_element=True).elements:
        if reading.beyond:
            return Problem(
                subject.place(case.id),
                f"{case.id}: the {name} is off by {reading.ratio:.3g} times what its bound allows in "
                f"{reading.output}{list(reading.index)}",
                "Count every rounding that a right implementation may make, or correct the implementation.",
            )
    return None
