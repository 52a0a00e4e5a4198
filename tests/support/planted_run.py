"""Runs of one operator with a planted bug: the cases are read once, the right kernel computes, the bug spoils."""

import zlib
from dataclasses import replace
from functools import cache

import numpy as np

from mluops_gtest import OpCall, Status
from mluops_gtest.backends.numpy_backend import NumpyBackend
from mluops_gtest.catalog.selection import Selected
from mluops_gtest.catalog.source import StoredCases
from mluops_gtest.core.buffers import computed_bounds
from mluops_gtest.judging.elementwise import expectation_of
from mluops_gtest.judging.groups import cause_groups
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options, PlannedCase
from mluops_gtest.running.run import RunContext, run

NOT_DEFAULT = {"network", "race", "heavy", "undefined", "subnormal"}


class Spoiled:
    """The kernels of the operators, and one mistake behind them."""

    name = "spoiled"

    def __init__(self, operators, spoil):
        self._operators, self._spoil = operators, spoil
        self._kernels = NumpyBackend(operators)

    def workspace_size(self, call: OpCall) -> int:
        return self._kernels.workspace_size(call)

    def run(self, call: OpCall) -> Status:
        outputs = {name: one.array for name, one in call.outputs.items() if one is not None and one.array is not None}
        before = {name: array.copy() for name, array in outputs.items()}
        status = self._kernels.run(call)
        if self._operators[call.operator].answer(call).computes:
            with np.errstate(all="ignore"):
                self._spoil(call, outputs, before)
        return status


def _compute_once(function):
    """The same answers, each computed once for a case."""
    answers = {}

    def look_up(case, operator):
        if case.id not in answers:
            answers[case.id] = function(case, operator)
        return answers[case.id]

    return look_up


def _with_kept_suspects(operator):
    """The operator, whose suspects compute once what comes out of a call by their mistake."""

    def compute_once(suspect):
        outputs = {}

        def look_up(call):
            arrays = [(one.dtype, one.dims, one.array.tobytes()) for one in call.inputs.values()]
            key = repr(call.params), *arrays
            if key not in outputs:
                outputs[key] = suspect(call)
            return outputs[key]

        return look_up

    return replace(operator, suspects={name: compute_once(suspect) for name, suspect in operator.suspects.items()})


def default_cases(catalogue, operator):
    """The ids of the default cases that compute, and what loads one of them."""
    spec = catalogue.operators[operator]
    drafts = [
        draft
        for draft in catalogue.drafts_of(operator).values()
        if spec.computes(draft.expect.status, draft.expect.check) and not NOT_DEFAULT & set(draft.tags)
    ]
    source = StoredCases(catalogue, tuple(Selected(d.id, d.operator, d.tags, draft=d) for d in drafts))
    return [draft.id for draft in drafts], source.load


class PlantedRuns:
    """Runs the default cases that compute, as often as asked, and loads them once.

    What is too large for a file is asked for by few: it would take most of the time.
    """

    def __init__(self, catalogue):
        self._catalogue = catalogue
        # What is right in a case is the same whatever the bug.
        self.options = Options(expect=_compute_once(expectation_of), bounds=_compute_once(computed_bounds))

    @cache  # noqa: B019
    def cases(self, operator, large=False, choose=tuple):
        """The cases by their ids, those alone that `choose` takes of the ids."""
        ids, load = default_cases(self._catalogue, operator)
        chosen = choose(case for case in ids if large or self._catalogue.stored_path(case).is_file())
        return {case: load(case) for case in chosen}

    @cache  # noqa: B019
    def operator(self, name):
        return _with_kept_suspects(self._catalogue.operators[name])

    @cache  # noqa: B019
    def right_report(self, operator, choose=tuple):
        """What a run says of the kernel without a bug."""
        return self.report(lambda *_: None, operator, choose=choose)

    def report(self, spoil, operator, large=False, choose=tuple):
        """What a run says of the operator."""
        cases = self.cases(operator, large, choose)

        class Source:
            def load(self, case_id):
                return cases[case_id]

        operators = {operator: self.operator(operator)}
        context = RunContext("1", {"name": "spoiled"}, {}, {})
        plan = [PlannedCase(case.id, case.operator, case.tags) for case in cases.values()]
        slot = CaseRun(InlineCaller(Spoiled(operators, spoil)), self.options, None, Source(), operators)
        return run(plan, "spoiled", [slot], operators, context, self.options, [])


def half_of(ids):
    """Every second case, in an order that has nothing to do with what the cases are."""
    ids = sorted(ids, key=lambda case: zlib.crc32(case.encode()))
    return ids[: len(ids) // 2]


def groups_of(report):
    """The failures of a run by their causes."""
    return cause_groups([r for r in report.results if r.outcome.blocks], report.results, report.shapes)
