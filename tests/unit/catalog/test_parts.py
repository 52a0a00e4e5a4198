"""The optional parts of an operator's folder: loaded by name, when asked for, and never for a single file."""

import re
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from mluops_gtest.base.errors import ContentError
from mluops_gtest.catalog.operators import load_operators
from mluops_gtest.core.operator_parts import EXACT, MUTANTS, REDUCTIONS, SPACE
from tests.conftest import ROOT
from tests.support.toy_root import write_toy_root

ONE_MUTANT = """\
from mluops_gtest.authoring import Mutant, Status

from .scaling import FACTOR

MUTANTS = (Mutant(f"times_{FACTOR}", "a fixed factor", lambda call: Status.SUCCESS),)
"""


def parts(factor=3, mutants=ONE_MUTANT):
    return {"mutants": mutants, "scaling": f"FACTOR = {factor}\n"}


def test_a_part_may_import_its_folder_and_is_loaded_when_asked_for_and_once(tmp_path):
    before = set(sys.modules)
    operators = load_operators(write_toy_root(tmp_path, parts=parts()))
    assert not [name for name in set(sys.modules) - before if name.endswith(".mutants")]
    loaded = operators.part("scale_by", MUTANTS)
    assert [mutant.name for mutant in loaded] == ["times_3"]
    assert operators.part("scale_by", MUTANTS) is loaded


def test_no_operator_of_ours_loads_its_mutants_with_itself(operators):
    assert operators.part("masked_im2col_forward", MUTANTS)  # there is something to load
    before = set(sys.modules)
    assert len(load_operators(operators.files["masked_im2col_forward"].parents[2]).values()) == len(operators)
    assert not [name for name in set(sys.modules) - before if name.rpartition(".")[2] in ("mutants", "torch")]


@pytest.mark.parametrize("present", [None, {}], ids=["a single file", "a folder without the file"])
def test_where_there_is_no_such_file_there_is_no_part(tmp_path, present):
    assert load_operators(write_toy_root(tmp_path, parts=present)).part("scale_by", MUTANTS) is None


def test_two_roots_have_parts_of_their_own(tmp_path):
    """Also where the operators are called the same, and the parts of the first are asked for last."""
    roots = [load_operators(write_toy_root(tmp_path / str(n), parts=parts(n))) for n in (3, 4)]
    assert [root.part("scale_by", MUTANTS)[0].name for root in roots] == ["times_3", "times_4"]


def test_a_changed_file_is_read_again(tmp_path):
    load_operators(write_toy_root(tmp_path, parts=parts(3))).part("scale_by", MUTANTS)
    again = load_operators(write_toy_root(tmp_path, parts=parts(55)))
    assert again.part("scale_by", MUTANTS)[0].name == "times_55"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nowhere_at_all\n", "1: the file does not load: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("MUTANT = ()\n", " the file must define MUTANTS, a tuple of mluops_gtest.authoring.Mutant."),
        ("MUTANTS = ('times_3',)\n", " the file must define MUTANTS, a tuple of mluops_gtest.authoring.Mutant."),
    ],
)
def test_a_broken_part_names_its_file(tmp_path, text, message):
    operators = load_operators(write_toy_root(tmp_path, parts=parts(mutants=text)))
    with pytest.raises(ContentError) as raised:
        operators.part("scale_by", MUTANTS)
    assert str(raised.value) == f"{tmp_path / 'generators' / 'scale_by' / 'mutants.py'}:{message}"


SPACE_TEXT = """\
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

SPACE = Space({"rows": AXIS}, lambda drawn: Drawn("uniform", {"rows": drawn["rows"]}), lambda drawn: drawn["rows"])
"""


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        (SPACE, "SPACE = {}\n", "the file must define SPACE, a mluops_gtest.authoring.space.Space."),
        (SPACE, SPACE_TEXT.replace("AXIS", "Sizes(3, 2)"), "the axis 'rows' reaches from 3 to 2; give 0 ≤ low ≤ high."),
        (SPACE, SPACE_TEXT.replace("AXIS", "Choice(())"), "the axis 'rows' must list different values, at least one."),
        (SPACE, SPACE_TEXT.replace("AXIS", "Choice((1, 1))"), "the axis 'rows' must list different values"),
        (REDUCTIONS, "REDUCTIONS = {'rows': 1}\n", "must define REDUCTIONS, a mapping of names to "),
        (EXACT, "elements = {}\n", "the file must define elements, a function elements(call) that gives "),
    ],
)
def test_a_part_that_does_not_fit_is_refused(tmp_path, part, text, message):
    operators = load_operators(write_toy_root(tmp_path, parts={part.file: text}))
    with pytest.raises(ContentError, match=re.escape(message)) as raised:
        operators.part("scale_by", part)
    assert str(raised.value).startswith(f"{tmp_path / 'generators' / 'scale_by' / part.file}.py: ")


def test_a_part_that_fits_is_handed_out(tmp_path):
    text = SPACE_TEXT.replace("AXIS", "Sizes(1, 9)")
    operators = load_operators(write_toy_root(tmp_path, parts={"space": text}))
    assert operators.part("scale_by", SPACE).draw({"rows": 4}).params == {"rows": 4}


def test_the_same_operator_can_be_loaded_by_two_threads(tmp_path):
    """The second begins while the first is in the middle of one of its files."""
    folder = tmp_path / "generators" / "ball_query"
    for name in ("ball_query", "_shared"):
        shutil.copytree(ROOT / "generators" / name, folder.parent / name)
    with open(folder / "checks.py", "a") as file:
        file.write("\nimport time\n\ntime.sleep(0.3)\n")

    def load(seconds):
        time.sleep(seconds)
        return load_operators(tmp_path)["ball_query"].name

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(load, (0, 0.15))) == ["ball_query"] * 2
