"""`mluops-test list`: declared cases described without their values, from the lock file, else from the case itself."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from mluops_gtest.base.errors import ContentError, ExitCode
from mluops_gtest.base.text import pluralize, strip_to_line
from mluops_gtest.cli.echo import echo
from mluops_gtest.cli.options import format_option, selection_options
from mluops_gtest.core.case import Case, Expect, Query

if TYPE_CHECKING:
    from mluops_gtest.casefiles.lock import LockEntry
    from mluops_gtest.catalog.selection import Selected, Session
    from mluops_gtest.core.tensor import Criterion


class Listing:
    """Describes the cases of one selection."""

    def __init__(self, session: "Session", cases: "tuple[Selected, ...]") -> None:
        self._session = session
        self._cases = cases
        self._source = session.source(cases)
        self.broken = 0

    def records(self) -> list[dict[str, Any]]:
        """All cases for programs; of a broken one its id and the error."""
        return [self._record(selected) for selected in self._cases]

    def table(self) -> Iterator[str]:
        """All cases for people: lines with aligned columns, plain so that ten thousand cost no layout engine."""
        rows = [("id", "tags", "inputs", "expects"), *map(self._row, self._cases)]
        first, second, third, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
        for row in rows:
            yield f"{row[0]:{first}}  {row[1]:{second}}  {row[2]:{third}}  {row[3]}"

    def _row(self, selected: "Selected") -> tuple[str, str, str, str]:
        tags = ",".join(selected.tags)
        try:
            entry, expect, _ = self._look_up(selected)
        except ContentError as error:
            self.broken += 1
            return selected.id, tags, "", f"error: {error}"
        inputs = " ".join([f"{t['dtype']}{t['dims']}".replace(" ", "") for t in entry.tensors["inputs"]])
        words = expect.status.name + (f" ({expect.check})" if expect.check else "")
        return strip_to_line(selected.id), tags, inputs, strip_to_line(words)

    def _look_up(self, selected: "Selected") -> "tuple[LockEntry, Expect, Case | None]":
        """What the lock says, or would say, of the case; the case itself where it is a file of the user's."""
        from mluops_gtest.catalog.make import lock_entry, make_case

        draft = selected.draft
        if draft is None:
            case = self._source.load(selected.id)
            return lock_entry(case, ""), case.expect, case
        entry = self._source.lock.get(draft.id)
        if entry is None or entry.declared != draft.digest:
            # Declared or changed since the lock was written: only making it tells its shapes.
            entry = lock_entry(make_case(draft, self._session.catalogue.operators[draft.operator]), draft.digest)
        return entry, draft.expect, None

    def _record(self, selected: "Selected") -> dict[str, Any]:
        try:
            entry, expect, case = self._look_up(selected)
            operator = selected.operator if case is None else case.operator
            return {
                "id": selected.id,
                "operator": operator,
                "tags": list(selected.tags),
                "doc": selected.draft.doc if selected.draft else "",
                "params": dict(entry.params),
                "inputs": entry.tensors["inputs"],
                "outputs": entry.tensors["outputs"],
                "criteria": self._criteria(operator, entry, case),
                "expect": describe_expect(expect),
                "stored": case is not None or self._session.catalogue.stored_path(selected.id).exists(),
            }
        except ContentError as error:
            self.broken += 1
            return {"id": selected.id, "error": str(error)}

    def _criteria(self, operator: str, entry: "LockEntry", case: Case | None) -> list[dict[str, Any]]:
        from mluops_gtest.core.tensor import DType

        known = self._session.catalogue.operators.get(operator)
        records = []
        for position, output in enumerate(entry.tensors["outputs"]):
            criteria: tuple[Criterion, ...] | None = case.criteria[position] if case else ()
            if criteria == () and known is not None:
                criteria = known.output(output["id"]).criteria.get(DType.named(output["dtype"]), ())
            records += [
                {"output": output["id"], "criterion": c.kind.canonical.value, "threshold": c.threshold}
                for c in criteria or ()
            ]
        return records


def describe_expect(expect: Expect) -> dict[str, Any]:
    """What the case expects, without what it leaves at its default."""
    described: dict[str, Any] = {"status": expect.status.name}
    for name in Expect.__struct_fields__:
        value = getattr(expect, name)
        if name != "status" and value not in (None, False, ()):
            described[name] = list(value) if isinstance(value, tuple) else value
    return described


_EPILOG = """\b
Examples:
  mluops-test list                               the default set
  mluops-test list --all --format ids            every id, one per line
  mluops-test list --op get_indice_pairs --tag negative
  mluops-test list --tag network --format json   for programs
"""


@click.command("list", epilog=_EPILOG)
@selection_options
@format_option("table", "json", "ids")
def command(query: Query, roots: tuple[str, ...], form: str) -> int:
    """List declared cases: the default set, or those that you select."""
    from mluops_gtest.catalog.selection import Session

    session = Session(roots)
    cases = session.select(query).cases
    if form == "ids":
        echo("\n".join(strip_to_line(case.id) for case in cases))
        return int(ExitCode.OK)

    listing = Listing(session, cases)
    if form == "json":
        import json

        echo(json.dumps(listing.records(), indent=1, ensure_ascii=False))
    else:
        echo("\n".join(listing.table()))
        echo(pluralize(len(cases), "case") + (f", {listing.broken} broken" if listing.broken else ""))
    return int(ExitCode.CONTENT if listing.broken else ExitCode.OK)
