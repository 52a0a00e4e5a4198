"""What became of wrong implementations, as people, pages and programs read it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from mluops_gtest.audit.mutants import Kind, Score, Trial
from mluops_gtest.model.counted import counted
from mluops_gtest.value import Value

_COLUMNS = ("operator", "wrong", "caught", "by one case alone", "wrong statuses", "caught", "by one case alone")


class MutantsPage(Value):
    """All trials of a command, and what its time did not allow to try."""

    operators: Sequence[str]
    trials: Sequence[Trial]
    # (operator, name).
    untried: Sequence[tuple[str, str]]
    # Trials ended at the first case that caught the mistake: nobody knows whether it was the only one.
    first_kill: bool

    @property
    def survivors(self) -> list[Trial]:
        """What no case caught."""
        return [trial for trial in self.trials if not trial.caught_by and not trial.idle]

    def score(self, kind: Kind, operator: str | None = None) -> Score:
        """Of one operator, or of all."""
        return Score.of(t for t in self.trials if t.kind == kind and operator in (None, t.operator))

    def text(self, *, every: bool) -> Iterator[str]:
        """A row per operator, what was caught by none or by one case alone, and the sum; or `every` single one."""
        rows = [_COLUMNS, *self._rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
        for row in rows:
            cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
            yield "  ".join((row[0].ljust(widths[0]), *cells))
        shown = [trial for trial in self.trials if every or not trial.caught_by or self._by_one_alone(trial)]
        for trial in sorted(shown, key=lambda one: (one.operator, one.kind, one.name)):
            if not trial.idle:
                yield f"{trial.operator}: {trial.name} ({trial.message}) {self._told(trial)}"
                if not trial.caught_by:
                    yield f"  {trial.place}"
        yield from self._sum()

    def markdown(self) -> Iterator[str]:
        """The table alone, for pages; it has the columns that `--first-kill` fills."""
        known = [0, 1, 2, 4, 5]
        header, *rows = ([row[column] for column in known] for row in (_COLUMNS, *self._rows()))
        for row in (header, ["---", *["---:"] * 4], *rows):
            yield f"| {' | '.join(row)} |"

    def json(self) -> str:
        kinds: tuple[Kind, ...] = ("implementation", "status")
        scores: dict[str, Any] = {name: {kind: self._record(kind, name) for kind in kinds} for name in self.operators}
        record = {
            "first_kill": self.first_kill,
            "score": {kind: self._record(kind) for kind in kinds},
            "operators": scores,
            "not_tried": [list(one) for one in self.untried],
            "trials": [asdict(trial) for trial in self.trials],
        }
        return json.dumps(record, indent=1, ensure_ascii=False)

    def _record(self, kind: Kind, operator: str | None = None) -> dict[str, int | None]:
        score = asdict(self.score(kind, operator))
        return {**score, "by_one_alone": None} if self.first_kill else score

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for name in self.operators:
            scores = (self.score("implementation", name), self.score("status", name))
            yield (name, *(cell for score in scores for cell in self._cells(score)))

    def _cells(self, score: Score) -> tuple[str, str, str]:
        return str(score.tried), str(score.caught), "-" if self.first_kill else str(score.by_one_alone)

    def _by_one_alone(self, trial: Trial) -> bool:
        return trial.kind == "implementation" and len(trial.caught_by) == 1 and not self.first_kill

    def _told(self, trial: Trial) -> str:
        if not trial.caught_by:
            return f"is not caught, and raises: {trial.raised}" if trial.raised else "is not caught"
        return f"is caught by {', '.join(trial.caught_by)}{' alone' if self._by_one_alone(trial) else ''}"

    def _sum(self) -> Iterator[str]:
        wrong, statuses = self.score("implementation"), self.score("status")
        yield (
            f"{counted(len(self.operators), 'operator')}: the cases catch {wrong.caught} of {wrong.tried} wrong "
            f"implementations and {statuses.caught} of {statuses.tried} wrong statuses"
        )
        if self.untried:
            yield f"not passed: the time is up, and {len(self.untried)} were not tried"
