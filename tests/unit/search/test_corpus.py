"""What a fuzz run keeps, and which failures are one."""

import dataclasses
import json
from pathlib import Path

import pytest

from mluops_gtest.base.errors import ContentError
from mluops_gtest.catalog.operators import load_operators
from mluops_gtest.core import cause
from mluops_gtest.core.cause import Places
from mluops_gtest.core.operator_parts import SPACE
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.tensor import digest_tensors
from mluops_gtest.search.corpus import INDEX, STATE, Corpus, CorpusEntry, KnownCauses, Progress, cause_key
from mluops_gtest.search.draws import Draws

NAME = "masked_col2im_forward"
OPERATORS = load_operators(Path(__file__).parents[3])
KEY = (NAME, "failed", "values", "im", "")


@pytest.fixture
def corpus(tmp_path):
    return Corpus(tmp_path, OPERATORS)


def draw_case():
    return Draws(OPERATORS[NAME], OPERATORS.part(NAME, SPACE), 0).draw(0).case


def keep(corpus, case=None, headline="im is zero"):
    path = corpus.name_for(NAME, KEY)
    entry = CorpusEntry(path.relative_to(corpus.folder).as_posix(), NAME, headline, KEY, "b.py", 0, 5)
    corpus.keep(case or draw_case(), OPERATORS[NAME], path, entry)
    return path, entry


def headlines(corpus):
    """What the index says of each case file."""
    return [entry["headline"] for entry in json.loads((corpus.folder / INDEX).read_text())["cases"]]


def test_a_case_that_is_kept_is_read_back(corpus):
    case = draw_case()
    path, _ = keep(corpus, case)
    again = Corpus(corpus.folder, OPERATORS)
    assert again.files(NAME) == (path,)
    assert headlines(corpus) == ["im is zero"]
    read = again.load(path)
    assert digest_tensors(read.inputs) == digest_tensors(case.inputs)
    assert digest_tensors(read.outputs) == digest_tensors(case.outputs)
    assert read.expect.degenerate, "a constant baseline of a drawn call is no doubt"


def test_a_second_failure_of_one_cause_gets_another_file_and_what_is_forgotten_leaves_nothing(corpus):
    first, entry = keep(corpus)
    second, _ = keep(corpus)
    assert first != second
    assert len(corpus.files(NAME)) == 2
    corpus.forget(first, entry.file)
    assert corpus.files(NAME) == (second,)
    assert headlines(corpus) == ["im is zero"]


def test_files_that_somebody_put_there_are_part_of_it(corpus):
    path, _ = keep(corpus)
    mine = path.with_name("mine.prototxt")
    mine.write_bytes(path.read_bytes())
    (corpus.folder / INDEX).unlink()
    again = Corpus(corpus.folder, OPERATORS)
    assert set(again.files(NAME)) == {path, mine}


def test_the_progress_of_a_fuzz_run_is_found_again_for_its_seed_and_space(corpus):
    new = Progress(NAME, "b.py", 7, "abc")
    assert corpus.progress(new) == new
    done = dataclasses.replace(new, draws=40, seen="ff")
    corpus.remember((done,))
    again = Corpus(corpus.folder, OPERATORS)
    assert again.progress(new) == done
    assert again.last_seed(NAME, "b.py") == 7
    for other in ({"seed": 8}, {"space": "changed"}, {"backend": "c.py"}):
        wanted = dataclasses.replace(new, **other)
        assert again.progress(wanted) == wanted


def test_progress_that_an_earlier_version_wrote_is_read_and_written_with_the_new_key(corpus):
    done = Progress(NAME, "b.py", 7, "abc", draws=40, seen="ff")
    record = {"format": 1, "hunts": [dataclasses.asdict(done)]}
    (corpus.folder / STATE).write_text(json.dumps(record))
    old = Corpus(corpus.folder, OPERATORS)
    assert old.last_seed(NAME, "b.py") == 7
    assert old.progress(Progress(NAME, "b.py", 7, "abc")) == done
    old.remember(())
    assert json.loads((corpus.folder / STATE).read_text()) == {"format": 1, "fuzz_runs": record["hunts"]}


@pytest.mark.parametrize("name", [INDEX, STATE])
def test_a_damaged_file_is_told(corpus, name):
    (corpus.folder / name).write_text('{"format": 1, "cases": 3, "fuzz_runs": 3}')
    with pytest.raises(ContentError, match=rf"{name}: .*Repair or remove it"):
        Corpus(corpus.folder, OPERATORS)


def failed(*causes, outcome=Outcome.FAILED, operator="op"):
    return CaseResult("op/x", operator, (), outcome, causes=causes)


def places(count):
    return Places(count, 100, 0, count)


@pytest.mark.parametrize(
    "other", [cause.BeyondBound("y", places(70), "float"), cause.NonFinite("y", 1, 0, (), places(1))]
)
def test_figures_and_places_do_not_matter_and_not_finite_values_are_wrong_ones(other):
    assert cause_key(failed(cause.BeyondBound("y", places(3), "float"))) == cause_key(failed(other))


def test_outputs_outcomes_checks_and_operators_tell_causes_apart():
    beyond = cause.BeyondBound("y", places(1), "float")
    status = cause.WrongStatus("SUCCESS", "BAD_PARAM", check="x_rank")
    keys = {
        cause_key(failed(beyond)),
        cause_key(failed(beyond, operator="other")),
        cause_key(failed(cause.BeyondBound("z", places(1), "float"))),
        cause_key(failed(status, outcome=Outcome.WRONG_STATUS)),
        cause_key(failed(cause.WrongStatus("SUCCESS", "BAD_PARAM", check="y_rank"), outcome=Outcome.WRONG_STATUS)),
        cause_key(failed(outcome=Outcome.TIMED_OUT)),
    }
    assert len(keys) == 6


def test_a_cause_is_new_once_and_of_failures_that_differ_in_the_law_alone_few_are_kept():
    known = KnownCauses()
    laws = [known.is_new(("op", "failed", "values", "y", f"law {number}")) for number in (0, 0, 1, 2, 3, 4)]
    assert laws == [True, False, True, True, False, False]
