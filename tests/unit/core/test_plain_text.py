"""Text from outside shows what it is and steers nothing."""

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.base.text import strip_controls, strip_to_line

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
