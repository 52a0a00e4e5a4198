"""The id of a cause: a hash of operator, output, law and place, and what it says of a single result."""

import hashlib
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from mluops_gtest.explain.common_places import readings_of
from mluops_gtest.model.explanation import Law
from mluops_gtest.model.readings import WhereReading
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.value import Value

VERSION: Final = "v3"
_LENGTH: Final = 12


class PlacedLaw(Value):
    """A law of wrong values at a place of an output, in words that fit outputs of any size."""

    operator: str
    output: str
    law: Law
    where: WhereReading

    def holds_of(self, result: CaseResult) -> bool:
        """All wrong elements of the output obey the law, and the result itself calls their place so."""
        if result.outcome is not Outcome.FAILED or result.operator != self.operator:
            return False
        found = ((one, one.holding(self.law)) for one in result.explained if one.output == self.output)
        return any(fit is not None and self.where in readings_of(one, fit) for one, fit in found)


def mark(operator: str, output: str, law: Law | None, where: WhereReading | None) -> str:
    """A short name of a cause: the same in every run, whatever the values and the sizes."""
    words = msgspec.json.encode([operator, output, law, where])
    return f"{VERSION}:{hashlib.sha256(words).hexdigest()[:_LENGTH]}"


def read_marks(marks: Collection[str], results: Iterable[CaseResult]) -> dict[str, PlacedLaw]:
    """What these ids stand for; those that no result names in its own words are left out.

    A hash cannot be undone: every law of a result at every reading of its own places is hashed and looked up.
    """
    named = {
        PlacedLaw(result.operator, one.output, fitted.law, where): None
        for result in results
        for one in result.explained
        for fitted in one.fitted
        if fitted.law is not None and fitted.lawful == one.wrong
        for where in readings_of(one, fitted)
    }
    ids = ((mark(one.operator, one.output, one.law, one.where), one) for one in named)
    return {name: one for name, one in ids if name in marks}
