"""The cases that a query means, for Python programs."""

from collections.abc import Sequence

from mluops_gtest.api.case_handle import CaseHandle
from mluops_gtest.api.session import Session
from mluops_gtest.content.root import BUILTIN
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.query import Query


def cases(
    *select: str,
    operators: Sequence[str] = (),
    tags: Sequence[str] = (),
    keyword: str = "",
    everything: bool = False,
    roots: Sequence[str] = (BUILTIN,),
) -> list[CaseHandle]:
    """The cases that these words select, as `mluops-test run` would: ids, operators, globs, files, folders."""
    session = Session(tuple(roots))
    query = Query(select, tuple(operators), tuple(tags), keyword, everything)
    return handles(session, query)


def handles(session: Session, query: Query) -> list[CaseHandle]:
    """The cases of that query; nothing of their data is read yet."""
    chosen = session.select(query).cases
    source = session.source(chosen)

    def operator_of(name: str) -> Operator:
        return session.catalogue.operators.find(name)

    return [CaseHandle(one, lambda case_id=one.id: source.load(case_id), operator_of) for one in chosen]  # type: ignore[misc]
