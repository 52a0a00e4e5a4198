"""Text from outside shows what it is and steers nothing; labels of several parts of one run, in words."""

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.base.text import commit_words, cut_text, label_words, merged_labels, strip_controls, strip_to_line

ANYTHING = st.text(st.characters(codec=None, categories=("C", "L", "N", "P", "S", "Z", "M")), max_size=60)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("as it is: é 中 −1 ≤ 2\ttab\nline", "as it is: é 中 −1 ≤ 2\ttab\nline"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "\\x1b]8;;http://evil\\x1b\\link\\x1b]8;;\\x1b\\"),
        ("\x1b[2J\x1b[H", r"\x1b[2J\x1b[H"),
        ("\x9b2J\x85\x7f", r"\u009b2J\u0085\u007f"),
        ("user\u202egnp.exe\u2066x\u2069\u200f", r"user\u202egnp.exe\u2066x\u2069\u200f"),
        ("a\u2028b\u2029c\u200bd\ufeff", r"a\u2028b\u2029c\u200bd\ufeff"),
        ("100%\rdone\r\nnext", "100%\\x0ddone\nnext"),
        ("\ud800 and \udcff", r"\ud800 and \udcff"),
        ("\U000e0041", r"\udb40\udc41"),
        ("\x00\x08", r"\x00\x08"),
    ],
)
def test_what_would_not_show_as_itself_is_written_out(text, shown):
    assert strip_controls(text) == shown


def test_one_line_is_one_line():
    assert strip_to_line("failed\n::error::owned\u2028x\x0bx\x85x") == r"failed ::error::owned\u2028x\x0bx\u0085x"


@given(ANYTHING)
def test_nothing_that_steers_is_left(text):
    shown = strip_controls(text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)
    assert {unicodedata.bidirectional(c) for c in shown}.isdisjoint(
        {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    )
    assert strip_controls(shown) == shown
    assert len(strip_to_line(text).splitlines()) <= 1
    shown.encode()


@given(st.recursive(ANYTHING.map(lambda s: s.encode("utf-8", "ignore").decode()), st.lists, max_leaves=4))
def test_json_stays_json(value):
    assert json.loads(strip_controls(json.dumps(value, ensure_ascii=False))) == value


def test_a_text_is_cut_in_the_middle():
    assert cut_text("abc", 3) == "abc"
    text = cut_text("head" + "x" * 1000 + "tail", 100)
    assert len(text) <= 101
    assert text.startswith("head")
    assert text.endswith("tail")
    assert "[… 908 characters cut …]" in text


COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "f" * 40


def test_labels_on_which_parts_agree_stay_and_what_differs_is_told_once_each():
    assert merged_labels([{"a": "1", "b": "x"}, {"a": "1", "b": "x"}]) == {"a": "1", "b": "x"}
    merged = merged_labels([{"a": "1", "b": "x"}, {"a": "2"}, {"a": "1"}])
    assert merged == {"a": "differs: 1 | 2", "b": "differs: x | –"}
    # Merging again does not nest.
    assert merged_labels([merged, {"a": "3"}, merged])["a"] == "differs: 1 | 2 | 3"


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({}, ""),
        ({"git.commit": COMMIT, "git.state": "clean"}, "0123456789"),
        ({"git.commit": COMMIT}, "0123456789"),
        ({"git.commit": COMMIT, "git.state": "changed"}, "0123456789+"),
        ({"git.commit": f"differs: {COMMIT} | {OTHER}", "git.state": "clean"}, "differs: 0123456789 | ffffffffff"),
        ({"git.state": "changed"}, ""),
    ],
)
def test_the_commit_in_short(labels, words):
    assert commit_words(labels) == words


def test_the_other_labels_in_one_line():
    labels = {"git.commit": COMMIT, "git.state": "clean", "git.branch": "main", "device": "x"}
    assert label_words(labels) == "git.branch=main, device=x"
