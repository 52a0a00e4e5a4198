"""Every command resolves the same arguments to the same ids; optional parts of operators are loaded when asked for."""

import re
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from mluops_gtest.base.errors import CaseFileError, ContentError, NothingSelectedError, UnknownNameError, UsageError
from mluops_gtest.catalog.operators import load_operators
from mluops_gtest.catalog.root import Root
from mluops_gtest.catalog.selection import Catalogue, Keyword, select
from mluops_gtest.core.case import Query
from mluops_gtest.core.operator_parts import EXACT, MUTANTS, REDUCTIONS, SPACE
from tests.conftest import ROOT
from tests.support.toy_root import write_toy_root


def names(toy, **query):
    chosen = select(toy, Query(**query), lambda path: "scale")
    return [case.id.removeprefix("scale_by/") for case in chosen.cases]


DEFAULT = ["ramp_2", "ramp_3", "ramp_4", "rank_2", "empty"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, DEFAULT),
        ({"everything": True}, [*DEFAULT[:3], "big", *DEFAULT[3:]]),
        ({"operators": ("scale",)}, [*DEFAULT[:3], "big", *DEFAULT[3:]]),
        ({"tags": ("network",)}, ["big"]),
        ({"tags": ("undefined",)}, ["odd_thing"]),
        ({"tags": ("network", "undefined")}, ["big", "odd_thing"]),
        ({"select": ("scale_by",)}, [*DEFAULT[:3], "big", *DEFAULT[3:]]),
        ({"select": ("scale",), "tags": ("boundary",)}, DEFAULT[:3]),
        ({"select": ("scale_by/odd_thing", "scale_by")}, ["odd_thing", *DEFAULT[:3], "big", *DEFAULT[3:]]),
        ({"select": ("scale_by/odd_thing",)}, ["odd_thing"]),
        ({"select": ("scale/ramp_3",)}, ["ramp_3"]),
        ({"select": ("scale_by/*",)}, [*DEFAULT[:3], "big", *DEFAULT[3:]]),
        ({"select": ("*/ramp_[23]", "scale_by/ramp_2")}, ["ramp_2", "ramp_3"]),
        ({"keyword": "ramp and not 3"}, ["ramp_2", "ramp_4"]),
        ({"keyword": "(ramp or negative) and not ramp_4"}, ["ramp_2", "ramp_3", "rank_2", "empty"]),
        ({"tags": ("negative",), "keyword": "rank"}, ["rank_2"]),
    ],
)
def test_what_is_selected(toy, query, expected):
    assert names(toy, **query) == expected


@pytest.mark.parametrize("tag", ["heavy", "undefined", "subnormal"])
def test_some_tags_must_be_named(tmp_path, tag):
    root = write_toy_root(tmp_path)
    cases = root / "cases" / "scale_by.yaml"
    assert "tags: [undefined]" in cases.read_text()
    cases.write_text(cases.read_text().replace("tags: [undefined]", f"tags: [{tag}, precision]"))
    toy = Catalogue(Root(root))
    for query in ({}, {"everything": True}, {"operators": ("scale",)}, {"select": ("scale_by/*",)}):
        assert "odd_thing" not in names(toy, **query)
    with pytest.raises(NothingSelectedError):
        names(toy, tags=("precision",))
    for query in ({"tags": (tag,)}, {"tags": ("precision", tag)}, {"select": ("scale_by/odd_thing",)}):
        assert names(toy, **query) == ["odd_thing"]


def test_what_was_left_out_is_counted(toy):
    assert select(toy, Query(), lambda path: "").left_out == 2


def test_an_operator_comes_before_a_folder_of_its_name(toy, tmp_path, monkeypatch):
    (tmp_path / "scale_by").mkdir()
    (tmp_path / "scale_by" / "mine.prototxt").write_text("")
    monkeypatch.chdir(tmp_path)
    assert "ramp_2" in names(toy, select=("scale_by",))
    assert names(toy, select=("./scale_by",)) == ["mine.prototxt"]


@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        ({"select": ("scale_bye",)}, NothingSelectedError, "Did you mean 'scale_by'"),
        ({"select": ("scale_by/ramp_2", "scale_by/ramp_9")}, NothingSelectedError, "list --all"),
        ({"select": ("scale_by/ramp_2", "nothing/*")}, NothingSelectedError, "list --all"),
        ({"select": ("scale_by/ramp_2", "no/such/file.prototxt")}, NothingSelectedError, "list --all"),
        ({"tags": ("boundry",)}, UnknownNameError, "Did you mean 'boundary'"),
        ({"operators": ("scale_bye",)}, UnknownNameError, "Did you mean 'scale_by'"),
        ({"tags": ("network",), "keyword": "ramp"}, NothingSelectedError, None),
    ],
)
def test_what_matches_nothing_is_an_error(toy, query, error, words):
    with pytest.raises(error, match=words):
        names(toy, **query)


def test_a_file_that_cannot_be_read_does_not_hold_up_the_others(toy, tmp_path):
    for name in ("broken", "foreign", "good"):
        (tmp_path / f"{name}.prototxt").write_text("")

    def operator_of(path):
        if path.stem == "broken":
            raise CaseFileError("broken")
        return {"good": "scale", "foreign": "abs"}[path.stem]

    chosen = select(toy, Query(select=(str(tmp_path),), operators=("scale_by",)), operator_of)
    assert [case.path.stem for case in chosen.cases if case.path] == ["broken", "good"]


def test_files_of_the_root_are_the_declared_cases_and_others_are_themselves(toy, tmp_path):
    stored = toy.stored_path("scale_by/ramp_2")
    stored.parent.mkdir()
    stored.touch()
    other = tmp_path / "mine"
    other.mkdir()
    for name in ("b.prototxt", "a.pb", "c.txt"):
        (other / name).touch()
    chosen = select(toy, Query(select=(str(stored), str(other))), lambda path: "abs").cases
    assert [(case.id, case.draft is not None) for case in chosen] == [
        ("scale_by/ramp_2", True),
        ((other / "a.pb").as_posix(), False),
        ((other / "b.prototxt").as_posix(), False),
    ]
    with pytest.raises(NothingSelectedError):
        select(toy, Query(select=(str(other),), operators=("scale_by",)), lambda path: "abs")
    assert len(select(toy, Query(select=(str(other),), operators=("scale_by",)), lambda path: "scale").cases) == 2


DEEP = ["(" * 100_000, "not " * 100_000 + "a", "(" * 100_000 + "a" + ")" * 100_000]


@pytest.mark.parametrize("text", ["and", "a and", "not", "(a", "a)", "a b", "(" * 99 + "a", *DEEP])
def test_a_broken_keyword_expression_is_a_usage_error(text):
    with pytest.raises(UsageError, match="-k.*nested too deeply" if text in DEEP else "-k") as caught:
        Keyword(text)
    assert len(str(caught.value)) < 1000


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


def test_mutants_and_reductions_may_be_functions_of_the_operator(tmp_path):
    """The folder's own part is asked for the operator; reductions along axes are added all the same."""
    texts = {
        "mutants": "from mluops_gtest.authoring import Mutant\n\n"
        "def MUTANTS(operator):\n    return (Mutant(operator.name, 'does nothing', operator.kernel),)\n",
        "reductions": "from mluops_gtest.authoring.reductions import along\n\n"
        "def REDUCTIONS(operator):\n    return {'elements': along(operator, 'N')}\n",
    }
    operators = load_operators(write_toy_root(tmp_path, parts=texts))
    (mutant,) = operators.part("scale_by", MUTANTS)
    assert (mutant.name, mutant.run) == ("scale_by", operators["scale_by"].kernel)
    assert set(operators.part("scale_by", REDUCTIONS)) == {"elements"}


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
