"""The causes of a run's failures as files keep them; composed here, since results may not import explain."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from mluops_gtest.files.typed import json_bytes
from mluops_gtest.files.writing import replace_file
from mluops_gtest.model.plain_text import plain_line
from mluops_gtest.model.report import RunReport
from mluops_gtest.results.files import CAUSES
from mluops_gtest.value import Value

if TYPE_CHECKING:
    from mluops_gtest.explain.groups import CauseGroup

_MAX_BYTES: Final = 1 << 16
_MAX_CAUSES: Final = 100
_MAX_NAMED: Final = 20
_MAX_SAMPLES: Final = 3
# Characters of a text. Each takes at most 4 bytes, so that one cause always fits.
_LONGEST: Final = 400


class CauseSample(Value):
    """A wrong element of the example; values as text, so that NaN survives JSON."""

    index: tuple[int, ...]
    got: str
    expected: str


class CauseSummary(Value):
    """Cases that fail alike, in English; where they have no place, law or condition in common it is empty."""

    # `v3:…`; of a failure that is not explained (a crash, a wrong status) its fingerprint.
    id: str
    # Empty: several fail in the same way.
    operator: str
    outcome: str
    headline: str
    # Empty: the failure is not explained.
    output: str
    place: str
    law: str
    condition: str
    samples: tuple[CauseSample, ...]
    # Number of cases, and the ids of the smallest.
    cases: int
    smallest: tuple[str, ...]
    repro: str
    # A waiver may name the id.
    waivable: bool


def causes_of(report: RunReport) -> tuple[CauseSummary, ...]:
    """Every cause, those of most cases first."""
    failing = report.failing
    if not failing:
        return ()
    # Late: a run that passes has nothing to explain.
    from mluops_gtest.explain.groups import cause_groups

    return tuple(map(_summary, cause_groups(failing, report.results, report.shapes)))


def write_causes(folder: Path, report: RunReport) -> None:
    """Write causes.json: as many causes as fit, the rest counted."""
    causes = causes_of(report)
    for number in range(min(len(causes), _MAX_CAUSES), -1, -1):
        rest = causes[number:]
        more = {"more_causes": len(rest), "more_cases": sum(one.cases for one in rest)}
        data = json_bytes({"format": 1, "causes": causes[:number], **more}, indent=1) + b"\n"
        if len(data) <= _MAX_BYTES:
            break
    replace_file(folder / CAUSES, [data], make_folder=False)


def _summary(group: "CauseGroup") -> CauseSummary:
    from mluops_gtest.model.reasons.explained import headline_parts, headline_words

    head, example = group.headline, group.example
    operator, outcome = group.operator or "several operators", example.outcome.value
    words = f"{operator}: {outcome}: {example.reason}" if head is None else headline_words(head)
    place, law_words, condition = ("", "", "") if head is None else headline_parts(head)
    samples = [s for one in example.explained if head is not None and one.output == head.output for s in one.samples]
    return CauseSummary(
        id=_cut(group.mark),
        operator=_cut(group.operator),
        outcome=outcome,
        headline=_cut(words),
        output="" if head is None else _cut(head.output),
        place=_cut(place),
        law=_cut(law_words),
        condition=_cut(condition),
        samples=tuple(CauseSample(s.index, _cut(s.evaluated), _cut(s.baseline)) for s in samples[:_MAX_SAMPLES]),
        cases=len(group.members),
        smallest=tuple(_cut(result.case) for result in group.members[:_MAX_NAMED]),
        repro=_cut(example.repro),
        waivable=group.placed_law is not None,
    )


def _cut(text: str) -> str:
    line = plain_line(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
