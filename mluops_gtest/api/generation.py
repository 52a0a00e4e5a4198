"""Cases made and written, or compared with what is stored: what `generate` does, for commands and for programs."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from mluops_gtest.api.session import Session
from mluops_gtest.content.catalogue import Catalogue
from mluops_gtest.content.root import BUILTIN
from mluops_gtest.engine.float_state import own_floats
from mluops_gtest.errors import UnwritableError, UsageError
from mluops_gtest.generate.produce import Produced, Target, lock_differences, produce, update_lock
from mluops_gtest.model.query import Query
from mluops_gtest.value import Value


class Generation(Value):
    """Which cases are made, and where each goes."""

    catalogue: Catalogue
    # By case.
    targets: Mapping[str, Target]
    # Of every root.
    stores: tuple[Target, ...]
    # The operators that it is about; None: all.
    operators: frozenset[str] | None
    check: bool

    def produce(self, jobs: int = 1) -> Iterator[Produced]:
        """Make every case and write or compare it, as they finish."""
        return produce(self.catalogue, self.targets, check=self.check, jobs=jobs)

    def differences(self) -> list[str]:
        """What is stored or locked although nobody declares it."""
        return [line for store in self.stores for line in lock_differences(self.catalogue, store, self.operators)]

    def lock(self, produced: list[Produced]) -> Iterator[tuple[Target, list[Produced], list[str]]]:
        """Write the lock of each folder: what went there, and the ids that are no longer declared and were removed."""
        for target in dict.fromkeys(self.targets.values()):
            mine = [item for item in produced if self.targets[item.id] == target]
            yield target, mine, update_lock(self.catalogue, target, mine, self.operators)


def plan_generation(session: Session, query: Query, out: Path | None, form: str, *, check: bool) -> Generation:
    """The cases of the query with their targets; UsageError where one cannot be made or written there."""
    catalogue, selection = session.catalogue, session.select(query)
    foreign = [case.id for case in selection.cases if case.draft is None]
    if foreign:
        raise UsageError(f"generate makes declared cases; {foreign[0]} is a file without a declaration.")
    if out is None and form != "prototxt":
        raise UsageError("The content root stores text files; to write --format pb, add --out DIR.")
    stores = {root: Target(out or root.stored, f".{form}", committed_only=out is None) for root in catalogue.roots}
    targets = {}
    for case in selection.cases:
        root = catalogue.root_of(case.operator)
        if out is None and root.bundled and not check:
            raise UsageError(
                f"{case.id}: generate does not write into the installed package; say where to write: --out DIR."
            )
        targets[case.id] = stores[root]
    return Generation(catalogue, targets, tuple(dict.fromkeys(stores.values())), selection.operators, check)


@own_floats()
def generate_cases(
    *select: str,
    out: str | Path | None = None,
    form: Literal["prototxt", "pb"] = "prototxt",
    check: bool = False,
    jobs: int = 1,
    operators: Sequence[str] = (),
    tags: Sequence[str] = (),
    keyword: str = "",
    everything: bool = False,
    roots: Sequence[str] = (BUILTIN,),
) -> list[str]:
    """Make cases as `mluops-test generate` does; what is wrong or differs, a line each, and nothing where all is well.

    With `out` every case is written there, large ones too; with `check` nothing is written.
    """
    query = Query(select, tuple(operators), tuple(tags), keyword, everything)
    work = plan_generation(Session(tuple(roots)), query, None if out is None else Path(out), form, check=check)
    produced = list(work.produce(jobs))
    problems = sorted(item.problem for item in produced if item.problem)
    if check:
        return problems + work.differences()
    for _ in work.lock(produced):
        pass
    for item in produced:
        if item.unwritable:
            raise UnwritableError(item.unwritable)
    return problems
