"""The declared cases as a whole: the rules for operators hold for ours, and beyond them our own minimums."""

import math
from collections import Counter

import pytest

from mluops_gtest.casefiles.lock import lock_path, read_lock
from mluops_gtest.catalog.produce import COMMITTED_LIMIT
from mluops_gtest.catalog.replaced import read_replaced
from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.buffers import bind_values
from mluops_gtest.core.operator_parts import MUTANTS
from mluops_gtest.search.audit_values import audit_operator
from mluops_gtest.search.mutants import Score, status_trials, subject_of
from tests.conftest import ROOT
from tests.support.check_order import shows_order
from tests.support.mutants_table import counts, published_table

NAMES = sorted(path.stem for path in ROOT.glob("cases/*.yaml"))
# Those of the first release: some cases of theirs have been replaced, and their files may take more space.
FIRST = sorted(path.parent.name for path in ROOT.glob("prototxt/*/replaced.json"))
# What the others may have each.
MOST_STORED_CASES, MOST_STORED_BYTES = 150, 700_000
MOST_CASES_OF_ORDER = 200
BATCHES = (127, 128, 129, 255, 256, 257, 1025)
pytestmark = pytest.mark.parametrize("name", NAMES)


def drafts_of(catalogue, name):
    return [draft for draft in catalogue.drafts.values() if draft.operator == name]


@pytest.mark.slow(seconds=5)
def test_the_operator_keeps_the_rules_and_its_cases_tell_statuses_and_the_order_of_checks(name):
    """All in one test: to read the cases takes long. With one other seed; the audit takes 20 of its own accord."""
    subject = subject_of(Session((str(ROOT),)), name, seeds=1)
    assert [problem for _, problem in audit_operator(subject) if not problem.is_note] == []
    # That they catch every wrong implementation is a rule. `python -m tests.support.mutants_table` writes the page.
    score = Score.of(status_trials(subject, first_kill=True))
    assert score.caught == score.tried
    wrong = len(subject.mutants)
    assert counts(published_table())[name] == (wrong, wrong, score.tried, score.caught)
    assert 0 < cases_of_order(subject) <= MOST_CASES_OF_ORDER


def cases_of_order(subject):
    """How many break checks of different statuses at once, whatever they are called.

    One that is too large to be stored counts without a look.
    """
    refused = [case for case in subject.cases if case.expect.check]
    shown = sum(
        shows_order(subject.operator, case.expect.check, bind_values(case, subject.operator)) for case in refused
    )
    return shown + sum(bool(draft.expect.check) for draft in subject.drafts) - len(refused)


def test_every_family_has_many_cases(catalogue, operators, name):
    counts = Counter(tag for draft in drafts_of(catalogue, name) for tag in draft.tags)
    assert counts["boundary"] >= 20
    assert counts["negative"] >= 20
    if any(dtype.is_float for spec in operators[name].outputs for dtype in spec.dtypes):
        assert counts["precision"] >= 3
    assert len(operators.part(name, MUTANTS)) >= 40


def test_batches_have_the_sizes_around_tiles_in_every_type(catalogue, operators, name):
    if "batches" not in operators[name].sizes:
        pytest.skip("no axis of batches")
    drafts = [draft for draft in drafts_of(catalogue, name) if not draft.expect.check]
    declared = {(draft.dtype, draft.sizes["batches"]) for draft in drafts if "batches" in draft.sizes}
    assert {(dtype, size) for dtype in {draft.dtype for draft in drafts} for size in BATCHES} <= declared


def test_a_space_that_passes_2_31_is_noted(catalogue, name):
    silent = []
    for case_id, entry in read_lock(lock_path(catalogue.roots[0].stored, name)).items():
        spaces = [value for key, value in entry.params.items() if key.endswith("_space") and min(value, default=0) > 0]
        cells = [math.prod(space) * entry.params["batch"] for space in spaces]
        draft = catalogue.drafts[case_id]
        if max(cells, default=0) >= 2**31 and not draft.base and "2^31" not in draft.note:
            silent.append(case_id)
    assert silent == []


@pytest.fixture(scope="module")
def sizes():
    """What the committed files of each operator take, in bytes."""
    sizes = Counter()
    for file in (ROOT / "prototxt").rglob("*.*"):
        sizes[file.parent.name] += file.stat().st_size
    return sizes


def test_committed_files_stay_small(catalogue, sizes, name):
    files = list((ROOT / "prototxt" / name).glob("*.prototxt"))
    assert files
    assert max(file.stat().st_size for file in files) <= COMMITTED_LIMIT
    assert sum(sizes[first] for first in FIRST) <= 26_000_000
    assert sizes.total() <= 40_000_000
    if name not in FIRST:
        stored = {f"{name}/{file.stem}" for file in files}
        computing = [draft for draft in drafts_of(catalogue, name) if draft.id in stored and not draft.expect.check]
        assert len(computing) <= MOST_STORED_CASES
        # Of the cases; locks, which have a line for each that is not stored, too, count in the sum above.
        assert sum(file.stat().st_size for file in files) <= MOST_STORED_BYTES


def test_every_case_that_is_replaced_has_successors(catalogue, name):
    if name not in FIRST:
        pytest.skip("nothing was replaced")
    declared = catalogue.drafts_of(name)
    replaced = read_replaced(ROOT / "prototxt" / name, declared)
    assert replaced
    assert all(successors and set(successors) <= set(declared) for successors in replaced.values())


def test_the_released_runner_reads_every_file_that_computes(catalogue, name):
    """Its text reader refuses our extension; only cases that expect a status or need a special caller carry it."""
    for path in (ROOT / "prototxt" / name).glob("*.prototxt"):
        special = not catalogue.drafts[f"{name}/{path.stem}"].expect.is_plain
        text = path.read_text()
        assert ("[mluops_gtest.expect]" in text) == special, path
        assert "degenerate" not in text
