"""Every kind of cause has words in both languages, and comes back from a file as it was."""

import inspect
import json
import re
import typing
from pathlib import Path
from string import Formatter

import msgspec
import pytest

from mluops_gtest.base.errors import ContentError
from mluops_gtest.base.typed_files import Source, decode_json, json_bytes
from mluops_gtest.core import cause as c
from mluops_gtest.core.cause import Cause, CauseBase, format_reason
from mluops_gtest.core.explanation import Law
from mluops_gtest.core.outcome import Outcome, Wording
from mluops_gtest.results.records import result_from_json, result_to_json
from tests.support.reports import GOLDEN, result

ROOT = Path(__file__).parents[3]
KINDS = typing.get_args(Cause)
# Of each kind a stored one, and what it says in both languages.
SAID = json.loads((GOLDEN / "causes.json").read_text(encoding="utf-8"))
RECORD = result_to_json(result(outcome=Outcome.FAILED, causes=(c.Exited(3),)))


def read(record):
    return result_from_json(decode_json(json_bytes(record), SOURCE), SOURCE)


SOURCE = Source("results.jsonl", "Run again.")


def test_every_kind_is_here():
    assert {stored["kind"] for stored, _, _ in SAID} == {kind.__struct_config__.tag for kind in KINDS}
    assert {kind for kind in kinds_of(CauseBase) if kind not in (c.Prelude, c.External)} == set(KINDS)


def kinds_of(base):
    return {kind for one in base.__subclasses__() for kind in (one, *kinds_of(one))}


@pytest.mark.parametrize("kind", [*KINDS, *typing.get_args(Law)], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("lang", Wording._fields)
def test_every_kind_of_cause_and_law_has_words_of_its_own_attributes(kind, lang):
    words = getattr(kind, lang)
    if isinstance(words, str):
        places = [place for _, place, _, _ in Formatter().parse(words) if place is not None]
        attributes = {
            *kind.__struct_fields__,
            *(name for name in dir(kind) if isinstance(getattr(kind, name), property)),
        }
        assert {re.split(r"[.\[]", place)[0] for place in places} <= attributes
    else:
        assert list(inspect.signature(words).parameters) == ["self"]
    assert lang not in kind.__struct_fields__


@pytest.mark.parametrize(("stored", "english", "chinese"), SAID, ids=[stored["kind"] for stored, _, _ in SAID])
def test_what_it_says_and_how_it_is_stored(stored, english, chinese):
    back = read({**RECORD, "causes": [stored, {"kind": "told", "text": "more"}]})
    assert (format_reason(back.causes[:1]), format_reason(back.causes[:1], "zh")) == (english, chinese)
    again = decode_json(json_bytes(result_to_json(back)), SOURCE)
    assert again["causes"][0] == stored
    assert again["reason"] == back.reason


def test_several_are_one_line():
    causes = (c.PassedAtTry(3, Outcome.MEMORY), c.InputChanged("x", 0), c.Overrun("y", "behind", 1))
    assert format_reason(causes) == (
        "passed at try 3 after memory: changed the input x (element 0); "
        "wrote past the end of y, first at byte 1 behind it"
    )
    chinese = "首次运行内存错误，第 3 次运行通过：改写了输入 x（第 0 个元素）；越界写入 y"
    assert format_reason(causes, "zh").startswith(chinese)
    assert format_reason(()) == ""


class TestFiles:
    def test_they_hold_kind_figures_and_words(self):
        assert RECORD["causes"] == [{"kind": "exited", "code": 3}]
        assert RECORD["reason"] == "the process exited with code 3"

    @pytest.mark.parametrize("causes", [None, [{"kind": "from_tomorrow", "more": 1}]])
    def test_words_stand_in_for_causes_that_nobody_wrote_or_knows(self, causes):
        record = {**RECORD, "causes": causes, "reason": "as it was said then"}
        if causes is None:
            del record["causes"]
        assert read(record).causes == (c.LegacyReason("as it was said then"),)

    def test_attempts_of_earlier_versions_have_words(self):
        record = {**RECORD, "attempts": [{"outcome": "failed", "reason": "off"}, {"outcome": "passed", "reason": ""}]}
        assert [attempt.causes for attempt in read(record).attempts] == [(c.LegacyReason("off"),), ()]

    @pytest.mark.parametrize(
        ("causes", "words"),
        [
            ([{"kind": "exited", "code": "three"}], r"causes\[0\].code: expected an integer, got 'three'"),
            ([{"kind": "exited"}], "the key 'code' is missing"),
            ([{"kind": "overrun", "buffer": "y", "side": "above", "distance": 1}], r"causes\[0\].side"),
            ("exited", r"causes: expected a list, got 'exited'"),
            ([7], r"causes\[0\]"),
        ],
    )
    def test_spoiled_ones_are_refused_with_their_place(self, causes, words):
        with pytest.raises(ContentError, match=words):
            read({**RECORD, "causes": causes})

    def test_words_must_be_words(self):
        with pytest.raises(ContentError, match="text"):
            read({**RECORD, "causes": [], "reason": 7})


def test_equal_causes_are_one_key():
    assert len({c.Exited(3), c.Exited(3), c.Exited(4)}) == 2
    assert msgspec.to_builtins(c.NothingCompared()) == {"kind": "nothing_compared"}


def test_the_documentation_lists_every_kind_with_its_fields():
    text = (ROOT / "docs" / "reference" / "reports.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| (.*?) \| ", text[text.index("## Causes") :], re.MULTILINE))
    known = {kind.__struct_config__.tag: ", ".join(f"`{name}`" for name in kind.__struct_fields__) for kind in KINDS}
    assert listed == known
