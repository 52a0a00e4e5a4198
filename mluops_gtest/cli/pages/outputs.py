"""Which wrong outputs the cases tell, as people, pages and programs read it."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from mluops_gtest.audit.outputs import FaultRow, MeasuredFaults
from mluops_gtest.model.case import TAGS
from mluops_gtest.model.counted import counted
from mluops_gtest.value import Value


class OutputsPage(Value):
    """What was measured of each operator."""

    measured: Sequence[MeasuredFaults]
    # Faults were left at the first case that tells them: nobody knows who else does.
    first_catch: bool

    def text(self, *, every: bool) -> Iterator[str]:
        """Faults by families of cases; with `every` also what each case lets through. Problems come last."""
        for one in self.measured:
            yield from _aligned([_head(one), *_table(one)])
            if every:
                for case, missed in one.let_through.items():
                    yield f"{case} lets through: {', '.join(missed)}" if missed else f"{case} catches all"
            if not self.first_catch:
                alone = len(one.let_through) - len(one.replaceable)
                yield f"{one.operator}: {alone} of {counted(len(one.let_through), 'case')} catch what no other catches"
            yield ""
        for one in self.measured:
            yield from _problems(one)
        uncaught, stale = (sum(len(getattr(one, name)) for one in self.measured) for name in ("uncaught", "stale"))
        cases = sum(len(one.let_through) for one in self.measured)
        faults = sum(len(one.rows) for one in self.measured)
        yield (
            f"{counted(len(self.measured), 'operator')}, {counted(cases, 'case')}, {counted(faults, 'fault')}: "
            f"{uncaught} not caught, {sum(len(one.accepted) for one in self.measured)} accepted, "
            f"{stale} of these wrongly"
        )

    def markdown(self) -> Iterator[str]:
        """One table over all operators: per fault, how many of the cases that it changes tell it, by whom."""
        names = dict.fromkeys(name.partition(": ")[2] for one in self.measured for name in one.rows)
        yield "| fault | cases | by the criteria | by the element-wise check | by either | operators with a miss |"
        yield "|---|---:|---:|---:|---:|---|"
        for fault in names:
            rows = [(one.operator, row) for one in self.measured for row in _rows_of(one, fault)]
            total = [sum(getattr(row, name) for _, row in rows) for name in ("cases", "by_criteria", "by_elementwise")]
            told = sum(row.told for _, row in rows)
            blind = sorted({operator for operator, row in rows if row.told < row.cases})
            yield f"| {fault} | {' | '.join(map(str, total))} | {told} | {', '.join(blind) or '–'} |"

    def json(self) -> str:
        record: dict[str, Any] = {"first_catch": self.first_catch, "operators": {}}
        for one in self.measured:
            record["operators"][one.operator] = {
                "faults": {name: _record(row) for name, row in one.rows.items()},
                "accepted": dict(one.accepted),
                "not_told": one.uncaught,
                "wrongly_accepted": one.stale,
                "let_through": one.let_through,
                "told_by_one_case_alone": {} if self.first_catch else one.alone,
            }
        return json.dumps(record, indent=1, ensure_ascii=False)


def _record(row: FaultRow) -> dict[str, Any]:
    counts = {name: getattr(row, name) for name in ("cases", "by_criteria", "by_elementwise", "told")}
    return {**counts, "families": dict(row.families), "told_in": dict(row.told_in)}


def _rows_of(one: MeasuredFaults, fault: str) -> list[FaultRow]:
    return [row for name, row in one.rows.items() if name.partition(": ")[2] == fault]


def _families(one: MeasuredFaults) -> list[str]:
    return [tag for tag in TAGS if any(row.families[tag] for row in one.rows.values())]


def _head(one: MeasuredFaults) -> list[str]:
    return [one.operator, "cases", "criteria", "element-wise", "either", *_families(one)]


def _table(one: MeasuredFaults) -> Iterator[list[str]]:
    for name, row in one.rows.items():
        shares = [f"{row.told_in[tag]}/{row.families[tag]}" if row.families[tag] else "" for tag in _families(one)]
        counts = (row.cases, row.by_criteria, row.by_elementwise, row.told)
        accepted = ["accepted"] if name in one.accepted else []
        yield [name, *map(str, counts), *shares, *accepted]


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    width = max(map(len, rows))
    cells = [[*row, *[""] * (width - len(row))] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(width)]
    for row in cells:
        numbers = (cell.rjust(size) for cell, size in zip(row[1:], widths[1:], strict=True))
        yield "  ".join((row[0].ljust(widths[0]), *numbers)).rstrip()


def _problems(one: MeasuredFaults) -> Iterator[str]:
    for name in one.uncaught:
        why = "no case catches it" if one.rows[name].cases else "it changes nothing in any of the cases"
        yield (
            f"{one.operator}: {name}: {why}\n  Declare a case that does, or say in the operator's accepted_faults why "
            "none need."
        )
    for name in one.stale:
        known = "a case catches it" if name in one.rows else "no output can have it"
        yield f"{one.operator}: {name}: {known}, so accepted_faults need not name it"
