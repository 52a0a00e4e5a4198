"""Every command resolves the same arguments to the same ids."""

import pytest

from mluops_gtest.base.errors import CaseFileError, NothingSelectedError, UnknownNameError, UsageError
from mluops_gtest.catalog.root import Root
from mluops_gtest.catalog.selection import Catalogue, Keyword, select
from mluops_gtest.core.case import Query
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
