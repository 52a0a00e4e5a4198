"""The declared cases as a whole: does the suite see every check, every ruling, every planted mistake?"""

import dataclasses
import functools
import itertools
import math
from collections import Counter

import numpy as np
import pytest

from mluops_gtest.codec.lock import digest_tensors
from mluops_gtest.content.selection import Selected
from mluops_gtest.engine.caller import InlineCaller
from mluops_gtest.engine.execute import Executor, Options
from mluops_gtest.generate.produce import COMMITTED_LIMIT
from mluops_gtest.generate.reseeding import make_reseeded
from mluops_gtest.generate.source import StoredCases
from mluops_gtest.model.binding import bind_values
from mluops_gtest.model.operator import Answer
from mluops_gtest.model.parts import MUTANTS
from mluops_gtest.model.result import Outcome
from mluops_gtest.model.status import Status
from mluops_gtest.model.tensor import contiguous
from tests.conftest import ROOT

NAMES = (
    "get_indice_pairs",
    "indice_convolution_backward_data",
    "dynamic_scatter_backward",
    "voxel_pooling_forward",
    "masked_im2col_forward",
)
SEEDS = (1, 2, 3)
pytestmark = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module")
def stored(catalogue):
    """Every committed case of an operator, complete, by operator."""
    selected = [
        Selected(draft.id, draft.operator, draft.tags, draft=draft)
        for draft in catalogue.drafts.values()
        if catalogue.stored_path(draft.id).exists()
    ]
    source = StoredCases(catalogue, tuple(selected))
    cases = {name: [] for name in NAMES}
    for one in selected:
        cases[one.operator].append(source.load(one.id))
    return cases


def drafts_of(catalogue, name, tag=None):
    return [d for d in catalogue.drafts.values() if d.operator == name and (tag is None or tag in d.tags)]


def test_every_family_is_there(catalogue, name):
    counts = Counter(tag for draft in drafts_of(catalogue, name) for tag in draft.tags)
    assert counts["network"] >= 1
    assert counts["smoke"] >= counts["network"] / 2
    assert counts["boundary"] >= 20
    assert counts["negative"] >= 20
    if any(len(spec.dtypes) > 1 or spec.dtypes[0].is_float for spec in catalogue.operators[name].outputs):
        assert counts["precision"] >= 3


def test_every_case_names_its_section(catalogue, name):
    assert [d.id for d in drafts_of(catalogue, name) if "§" not in d.doc] == []


def test_a_space_that_passes_2_31_is_noted(catalogue, stored, name):
    silent = []
    for case in stored[name]:
        spaces = [value for key, value in case.params.items() if key.endswith("_space") and min(value, default=0) > 0]
        cells = [math.prod(space) * case.params["batch"] for space in spaces]
        cells += [tensor.desc.count for tensor in (*case.inputs, *case.outputs)]
        if max(cells) >= 2**31 and "2^31" not in catalogue.drafts[case.id].note:
            silent.append(case.id)
    assert silent == []


def test_every_reachable_check_is_asked_for(catalogue, name):
    operator = catalogue.operators[name]
    asked = {draft.expect.check for draft in drafts_of(catalogue, name, "negative")}
    missing = [check.name for check in operator.checks if check.subsumed is None and check.name not in asked]
    assert missing == []
    assert [check.name for check in operator.checks if check.subsumed is not None and check.name in asked] == []


def test_swapping_two_neighbouring_checks_is_noticed(stored, operators, name):
    """The order is part of the contract: two violations at once must tell neighbours apart."""
    operator = operators[name]
    calls = [
        (Answer(c.expect.status, c.expect.check), bind_values(c, operator)) for c in stored[name] if c.expect.check
    ]
    unnoticed = []
    reachable = [check for check in operator.checks if check.subsumed is None]
    for i, (first, second) in enumerate(itertools.pairwise(reachable)):
        if first.status == second.status:
            continue
        checks = list(reachable)
        checks[i], checks[i + 1] = second, first
        swapped = dataclasses.replace(operator, checks=tuple(checks))
        if not any(answer_or_crash(swapped, call) != wanted for wanted, call in calls):
            unnoticed.append((first.name, second.name))
    assert unnoticed == []


# Checks behind which another one with the same status always answers: tensors of equal shape, names for one thing.
ANSWERED_ANYWAY = {
    "dynamic_scatter_backward": {"grad_voxel_feats_large", "feats_large"},
    "get_indice_pairs": {"indices_empty"},
    "indice_convolution_backward_data": {
        *("output_grad_dtype", "filters_dtype", "input_grad_dtype"),  # two wrong ones are unequal, three see each other
        *("filters_layout", "input_grad_empty", "filters_empty"),
    },
    "masked_im2col_forward": {"kernel_h", "mask_h_idx_large"},
    "voxel_pooling_forward": {"geom_xyz_large"},
}


def test_a_forgotten_check_is_noticed(stored, operators, name):
    """A backend shows its status alone: of the cases of a check one must be refused by no other check."""
    operator = operators[name]
    calls = [(c.expect.status, bind_values(c, operator)) for c in stored[name] if c.expect.check]
    unnoticed = set()
    for forgotten in operator.checks:
        rest = dataclasses.replace(operator, checks=tuple(c for c in operator.checks if c is not forgotten))
        answers = ((wanted, answer_or_crash(rest, call)) for wanted, call in calls)
        # A call that computes writes outputs, which a call that returns early must not do.
        if forgotten.subsumed is None and all(isinstance(a, Answer) and a.check and a.status == s for s, a in answers):
            unnoticed.add(forgotten.name)
    assert unnoticed == ANSWERED_ANYWAY[name]


def answer_or_crash(operator, call):
    try:
        return operator.answer(call)
    except Exception as error:
        return error


def test_strides_of_axes_of_length_1_do_not_matter(stored, operators, name):
    """Of every tensor: in some case that computes they are odd, so that whoever compares all strides is noticed."""
    tensors = [t for c in stored[name] if c.expect.check is None for t in (*c.inputs, *c.outputs)]
    odd = {t.id for t in tensors if t.desc.strides not in (None, contiguous(t.desc.dims))}
    assert odd == {spec.id for spec in operators[name].tensors}


def test_every_mutant_is_caught(catalogue, stored, operators, name):
    """With the committed values, and with those of three other seeds."""
    operator, mutants = operators[name], operators.part(name, MUTANTS)
    assert len(mutants) >= 4
    cases = {c.id: c for c in stored[name] if c.expect.check is None and "undefined" not in c.tags}
    catchers = {mutant.name: caught_by(mutant, operator, cases, cases.get) for mutant in mutants}
    assert [name for name, case in catchers.items() if case is None] == []
    for seed in SEEDS:

        @functools.cache
        def reseeded(case_id, seed=seed):
            return make_reseeded(catalogue.drafts[case_id], operator, seed)

        # What caught the mistake before comes first, so that few cases are made.
        survivors = [
            mutant.name
            for mutant in mutants
            if caught_by(mutant, operator, [catchers[mutant.name], *cases], reseeded) is None
        ]
        assert survivors == [], f"--reseed {seed}"


def caught_by(mutant, operator, ids, case_of):
    """The first case that the mutant fails; None where it passes all."""
    return next((case_id for case_id in ids if fails(mutant, case_of(case_id), operator)), None)


def fails(mutant, case, operator):
    backend = type("MutantBackend", (), {"name": mutant.name, "run": staticmethod(mutant.run)})()
    return Executor(InlineCaller(backend), Options()).execute(case, operator).outcome not in (
        Outcome.PASSED,
        Outcome.SKIPPED,
    )


def test_one_wrong_element_in_a_twin_is_seen(stored, operators, name):
    """Norms are blind at network scale; the twins are small enough that one wrong element shows."""
    operator = operators[name]
    twins = [case for case in stored[name] if "smoke" in case.tags and case.expect.check is None]
    assert twins
    for case in twins:
        for tensor in case.outputs:
            if tensor.desc.dtype.is_float:
                assert tensor.desc.count <= 10_000, case.id
            outcome = (
                Executor(InlineCaller(Planted(tensor.id, case, operator)), Options()).execute(case, operator).outcome
            )
            assert outcome is Outcome.FAILED, (case.id, tensor.id)


class Planted:
    """The stored baseline with one element wrong, by as much as the typical element is large."""

    name = "planted"

    def __init__(self, tensor, case, operator):
        self.tensor, self.case, self.operator = tensor, case, operator

    def run(self, call):
        for tensor in self.case.outputs:
            array = call.array(tensor.id)
            array[...] = tensor.values
            if tensor.id == self.tensor:
                size = max(float(np.abs(tensor.values.astype(np.float64)).mean()), 1e-3)
                array.reshape(-1)[0] += array.dtype.type(max(size, 1) if array.dtype.kind == "i" else size)
        for result in self.operator.results:
            call.scalars[result] = self.case.params[result]
        return Status.SUCCESS


def test_committed_files_stay_small(catalogue, name):
    files = list((ROOT / "prototxt" / name).glob("*.prototxt"))
    assert files
    assert max(file.stat().st_size for file in files) <= COMMITTED_LIMIT
    everything = sum(f.stat().st_size for f in (ROOT / "prototxt").rglob("*.prototxt"))
    assert everything <= 8_000_000


def test_the_released_runner_reads_every_file_that_computes(catalogue, name):
    """Its text reader refuses our extension; only cases that expect a status or need a special caller carry it."""
    for path in (ROOT / "prototxt" / name).glob("*.prototxt"):
        special = not catalogue.drafts[f"{name}/{path.stem}"].expect.is_plain
        text = path.read_text()
        assert ("[mluops_gtest.expect]" in text) == special, path
        assert "degenerate" not in text


def test_other_values_keep_what_a_case_promises(catalogue, stored, operators, name):
    """Tensors of the same kind, the same expectation, and other values where something is drawn."""
    operator = operators[name]
    smoke = [case for case in stored[name] if "smoke" in case.tags or "negative" in case.tags]
    drawn = 0
    for case in smoke[::3]:
        other = make_reseeded(catalogue.drafts[case.id], operator, 1)
        assert other.expect == case.expect, case.id
        assert other.reseeded.redraws < 8, f"{case.id}: its conditions are met too rarely"
        kinds = [[(t.id, t.desc.dtype, t.desc.layout, len(t.desc.dims)) for t in c.inputs] for c in (case, other)]
        assert kinds[0] == kinds[1], case.id
        drawn += digest_tensors(other.inputs) != digest_tensors(case.inputs)
    assert drawn > 0
