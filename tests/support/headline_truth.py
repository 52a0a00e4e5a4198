"""Headlines of wrong implementations held to the outputs that they speak of.

`python -m tests.support.headline_truth` writes the table of docs/reference/finding-bugs.md anew.
"""

import re
import zlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mluops_gtest.core import explanation as x
from mluops_gtest.core.buffers import bind_values
from mluops_gtest.core.call import Status
from mluops_gtest.core.operator_parts import MUTANTS
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.readings import format_headline, format_support
from mluops_gtest.core.result import CaseResult
from mluops_gtest.judging import explaining
from mluops_gtest.judging.groups import cause_groups
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun
from mluops_gtest.search.audit_declarations import Implementation
from tests.support.planted_run import PlantedRuns
from tests.support.predicted_by_law import breaches

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "finding-bugs.md"
HEADER = "| operator | wrong implementations | headlines | with a law | with a place alone | with neither |"
_TABLE = re.compile(rf"^{re.escape(HEADER)}\n(?:\|.*\n)+", re.MULTILINE)
# Of each operator; all of them would take ten minutes.
CASES = 20
# So many that fail show what is told of an implementation.
FAILING = 3


def chosen(ids):
    """A few of the cases, the same ones whatever is added to them."""
    return sorted(ids, key=lambda case: zlib.crc32(case.encode()))[:CASES]


@dataclass
class Tried:
    """The results of one implementation, and of its wrong outputs the values."""

    results: list[CaseResult]
    # Case and output → what was looked at.
    outputs: dict


class Truth:
    """Runs wrong implementations and looks for words that are not true."""

    def __init__(self, catalogue):
        self.catalogue, self._runs, self._calls = catalogue, PlantedRuns(catalogue), {}

    def _cases(self, name):
        return self._runs.cases(name, choose=chosen)

    def tried(self, name, backend):
        """The implementation on some cases of the operator."""
        operator, seen, results, outputs = self._runs.operator(name), {}, [], {}
        find = explaining.explained

        def recorded(out, output, *others):
            # Buffers are used again by the next call.
            seen[output] = replace(out, evaluated=out.evaluated.copy())
            return find(out, output, *others)

        executor = CaseRun(InlineCaller(backend), self._runs.options)
        explaining.explained = recorded
        try:
            with np.errstate(all="ignore"):
                for case in self._cases(name).values():
                    if sum(one.outcome.blocks for one in results) == FAILING:
                        break
                    results.append(executor.run_case(case, operator))
                    outputs |= {(case.id, output): out for output, out in seen.items()}
                    seen.clear()
        finally:
            explaining.explained = find
        return Tried(results, outputs)

    def groups(self, name, tried):
        """The causes as a run tells them."""
        shapes = {name: {spec.id: spec.shape for spec in self._runs.operator(name).tensors}}
        return cause_groups([one for one in tried.results if one.outcome.blocks], tried.results, shapes), shapes[name]

    def of_mutants(self, name):
        """What is not true of the operator's wrong implementations, and how many headlines say how much."""
        falsehoods, counts = [], Counter()
        for mutant in self.catalogue.operators.part(name, MUTANTS):
            counts["implementations"] += 1
            heads = self.hold(name, Implementation(mutant.name, mutant.fresh()), falsehoods)
            counts["headlines"] += len(heads)
            counts.update(map(kind_of, heads))
        return falsehoods, counts

    def hold(self, name, backend, falsehoods):
        """The headlines of an implementation; what is not true of them goes to `falsehoods`."""
        tried = self.tried(name, backend)
        groups, shapes = self.groups(name, tried)
        groups = [group for group in groups if group.headline is not None]
        for group in groups:
            said = f"{backend.name}: {format_headline(group.headline)}"
            for why in (*self._wrong_values(group, tried), *wrong_rules(group, tried.results, shapes)):
                falsehoods.append(f"{said}: {why}")
        return [group.headline for group in groups]

    def _wrong_values(self, group, tried):
        head = group.headline
        for result in group.members:
            case = next((one for one in result.explained if one.output == head.output), None)
            if case is None or self._is_right(result, case, tried):
                yield f"{result.case}: the output is right"
            elif self._breaks(head.law, result, case, tried):
                yield f"{result.case}: a wrong element is not what the law says"
            elif not self._is_at(head, result, tried):
                yield f"{result.case}: a wrong element is not at the place"
        if group.example not in group.members:
            yield f"{group.example.case} does not show it"

    def _is_right(self, result, case, tried):
        """Some element that is told wrong is the right one."""
        out = tried.outputs.get((result.case, case.output))
        return out is not None and out.held_to != "written" and bool((out.evaluated == out.baseline)[out.wrong].any())

    def _breaks(self, law, result, case, tried):
        """Some wrong element is not what the law says."""
        if law is None:
            return False
        if not case.dims:
            (sample,) = case.samples
            return not _is_number(law, float(sample.evaluated), float(sample.baseline))
        out, operator = tried.outputs[result.case, case.output], self._runs.operator(result.operator)
        recompute = {}
        if isinstance(law, x.AsIf | x.RoundedInputs):
            recompute = {"output": case.output, "operator": operator, "call": self._call(result, operator)}
        found = breaches(
            law, out.evaluated, out.baseline, out.wrong, epsilon=out.epsilon, allowed=out.allowed, **recompute
        )
        return len(found) > 0

    def _call(self, result, operator):
        if result.case not in self._calls:
            self._calls[result.case] = bind_values(self._cases(result.operator)[result.case], operator)
        return self._calls[result.case]

    def _is_at(self, head, result, tried):
        out = tried.outputs.get((result.case, head.output))
        if out is None:
            return True
        if head.lines is not None:
            return has_lines(out.wrong, head.lines)
        if head.where is None:
            return True
        inside = mask_of(head.where, out)
        if inside is None or (out.wrong & ~inside).any():
            return False
        # Without a law nothing in the set is right by accident.
        return head.law is not None or not head.fills or bool((out.wrong == inside).all())


def kind_of(head):
    """How much a headline says; a result that is one number is a place by itself."""
    if head.law is not None:
        return "law"
    return "place" if head.where is not None or head.lines is not None or head.size == 1 else "neither"


def _is_number(law, got, expected):
    match law:
        case x.OffBy(amount=amount):
            return got - expected == amount
        case x.TurnedZero():
            return got == 0
        case x.TurnedConstant(value=value):
            return got == float(value)
        case x.OneSided(side=side):
            return got < expected if side == "smaller" else got > expected
    return False


def has_lines(wrong, lines):
    """Line by line."""
    rows = np.moveaxis(wrong, lines.axis, -1).reshape(-1, wrong.shape[lines.axis])
    if lines.kind == "whole":
        return all(row.all() or not row.any() for row in rows)
    if lines.kind == "most":
        return rows[rows.any(axis=1)].mean() >= 0.9
    return all(row[row.argmax() :].all() or not row.any() for row in rows)


def mask_of(where, out):
    """The elements that a place means, by its own words; None where the output has other axes."""
    shape = out.wrong.shape
    if where.value:
        with np.errstate(invalid="ignore"):
            return _VALUES[where.value](out.baseline)
    if where.is_all:
        return np.ones(shape, bool)
    spans = where.spans or (1,) * len(where.axes)
    if sum(spans) != len(shape):
        return None
    mask, first = np.ones((), bool), 0
    for axis, span in zip(where.axes, spans, strict=True):
        length = int(np.prod(shape[first : first + span]))
        mask, first = mask[..., None] & _is_in(axis, length), first + span
    mask = mask.reshape(shape)
    return ~mask if where.outside else mask


def _is_in(axis, length):
    """Which indices along an axis are meant."""
    index, numbers = np.arange(length), axis.numbers
    match axis.kind, *numbers:
        case ["all"]:
            return index >= 0
        case ["from", first]:
            return index >= first
        case ["last", count]:
            return index >= length - count
        case ["below", stop]:
            return index < stop
        case ["but last", count]:
            return index < length - count
        case ["between", first, stop]:
            return (index >= first) & (index < stop)
        case ["behind", multiple]:
            return index >= length - length % multiple
        case ["every" | "blocks", step, start, *more]:
            width, stop = (*more, *(1, length)[len(more) :])
            return (index >= start) & (index < stop) & ((index - start) % step < width)
    return np.isin(index, numbers)


_VALUES = {
    "nan": np.isnan,
    "infinite": np.isinf,
    "subnormal": lambda b: (b != 0) & (np.abs(b) < np.finfo(b.dtype).tiny),
    "negative": lambda b: b < 0,
    "zero": lambda b: b == 0,
}


def _keeps(condition, value):
    return {
        "=": lambda: value == condition.value,
        "≥": lambda: value >= condition.value,
        "≤": lambda: value <= condition.value,
        "multiple": lambda: value % condition.value == 0,
        "no multiple": lambda: value % condition.value != 0,
    }[condition.sign]()


def value_of(feature, info, shapes):
    """What a case declares."""
    tensors, name = (*info.inputs, *info.outputs), feature.name
    match feature.kind:
        case "param":
            function, listed, index = re.fullmatch(r"(?:(max|min)\()?(\w+)\)?(?:\[(\d+)\])?", name).groups()
            value = info.params[listed]
            return {"max": max, "min": min}[function](value) if function else value[int(index)] if index else value
        case "dim" if feature.axis is None:
            words = ((one, re.sub(r"[\[\] ]", "", shapes[one.id]).split(",")) for one in tensors)
            return next(one.dims[symbols.index(name)] for one, symbols in words if name in symbols)
    (tensor,) = (one for one in tensors if one.id == name)
    if feature.kind == "dim":
        return tensor.dims[feature.axis]
    return int(np.prod(tensor.dims)) if feature.kind == "elements" else getattr(tensor, feature.kind)


def wrong_rules(group, results, shapes):
    """What a "when" line says of cases that do otherwise."""
    results = [one for one in results if one.outcome.was_called and one.expected_status is Status.SUCCESS]
    members = {one.case for one in group.members}
    for rule, words in zip(group.headline.rules, format_support(group.headline), strict=True):
        kept = [
            all(_keeps(one, value_of(one.feature, case.info, shapes)) for one in rule.conditions) for case in results
        ]
        failing = [one.outcome is not Outcome.PASSED for one in results]
        if not all(inside for inside, one in zip(kept, results, strict=True) if one.case in members):
            yield f"{words}: a case of the group does not keep it"
        figure = f"({sum(map(min, kept, failing))} of "
        if figure not in words:
            yield f"{words}: it should say {figure}…"
        claimed = [not inside for inside in kept]
        if rule.passing is not None:
            claimed = [_keeps(rule.passing, value_of(rule.passing.feature, case.info, shapes)) for case in results]
        if "in other ways" not in words and any(map(min, claimed, failing)):
            yield f"{words}: a case fails there"


def rows(figures):
    """The table: operator → counts."""
    yield HEADER
    yield "|---|---:|---:|---:|---:|---:|"
    for name, counts in figures.items():
        numbers = (counts[key] for key in ("implementations", "headlines", "law", "place", "neither"))
        yield f"| {name} | {' | '.join(map(str, numbers))} |"


def recorded():
    """Operator → the counts on the page."""
    lines = _TABLE.search(PAGE.read_text(encoding="utf-8"))[0].splitlines()[2:]
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    names = ("implementations", "headlines", "law", "place", "neither")
    return {name: dict(zip(names, map(int, numbers), strict=True)) for name, *numbers in cells}


def main():
    """Measure, and write what was found."""
    from mluops_gtest.catalog.root import Root
    from mluops_gtest.catalog.selection import Catalogue

    catalogue, figures = Catalogue(Root(ROOT)), {}
    for name in catalogue.operators:
        falsehoods, figures[name] = Truth(catalogue).of_mutants(name)
        print(name, dict(figures[name]), *falsehoods, sep="\n  ", flush=True)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_TABLE.sub("\n".join(rows(figures)) + "\n", page), encoding="utf-8")


if __name__ == "__main__":
    main()
