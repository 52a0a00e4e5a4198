"""Every way of misbehaving that we know, by name, with the outcomes that it may have."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

Act = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """One way of misbehaving in the middle of a call; `outcomes` are those that its case may get."""

    name: str
    family: str
    act: Act
    outcomes: tuple[str, ...]
    # Takes the controller down: has a run of its own that is resumed afterwards.
    alone: bool = False
    # Changes the worker's own code, which only a new process undoes: with --fresh-workers, in a run of its own.
    fresh: bool = False
    # Aims at the workers beside it, and nobody can tell by whom they were killed: alone, without any beside it.
    lonely: bool = False
    # Nobody is left to remove a folder whose name starts so.
    may_leave: str = ""
    # Takes processor time before it ends: where many others want it, it may be `timed_out`; alone it has a minute.
    slow: bool = False
    # Leaves something that nobody can see: a later case that meets it must name this one, or be `flaky`.
    unseen: bool = False


ALL: Final[dict[str, Fault]] = {}


def fault(family: str, *outcomes: str, name: str = "", **more: Any) -> Callable[[Act], Act]:
    """The function below misbehaves; what it returns is the answer of the call, None is SUCCESS."""

    def register(act: Act) -> Act:
        word = name or act.__name__
        assert word not in ALL, word
        ALL[word] = Fault(word, family, act, outcomes, **more)
        return act

    return register


def faults(family: str, *outcomes: str, **acts: Act) -> None:
    """Each of these misbehaves in one expression, whose value is not the answer."""

    def without_answer(act: Act) -> Act:
        def run(call: Any) -> None:
            act(call)

        return run

    for name, act in acts.items():
        fault(family, *outcomes, name=name)(without_answer(act))


def everything() -> dict[str, Fault]:
    """All faults, by name."""
    from tests.campaign.faults import answers, ends, memory, processes, protocol, state, text, unfinished  # noqa: F401

    return dict(sorted(ALL.items()))
