"""Small text cases are read by one regular expression, and never otherwise than the general reader reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.casefiles.text_reader import read_any_text, read_plain_text
from tests.unit.casefiles.toy import SCHEMA

ORDINARY = b"""device: GENERATOR_CPU
op_name: "toy_scale"
input {
  id: "x"
  shape {
    dims: 2
    dims: 1
  }
  layout: LAYOUT_ARRAY
  dtype: DTYPE_FLOAT
value_h: "3f800000"
value_h: "bf800000"
}
output {
  id: "y"
  shape {
    dims: 2
  }
  layout: LAYOUT_ARRAY
  dtype: DTYPE_INT32
value_i: -1
value_i: 2147483647
value_f: -1.5e3
}
evaluation_criterion: DIFF1
evaluation_threshold: 0.003
toy_scale_param {
  factor: -3
}
[mluops_gtest.expect] {
  status: 3
  check: "rank"
}
"""


def plain(document):
    """All that a document holds, as comparable values."""
    tensors = [
        (t.message.SerializeToString(), {name: (v.dtype, v.tobytes()) for name, v in t.values.items()})
        for t in document.tensors
    ]
    return document.node.SerializeToString(), len(document.inputs), tensors, document.all_unknown()


def test_an_ordinary_text_is_plain():
    found = read_plain_text(ORDINARY, SCHEMA)
    assert found is not None
    assert plain(found) == plain(read_any_text(ORDINARY, SCHEMA))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"dims: 2\n", b"dims: 010\n"),
        (b"dims: 2\n", b"dims: [2]\n"),
        (b"dims: 2\n", b"dims: 0x2\n"),
        (b"dims: 2\n", b"dims: 2 # two\n"),
        (b'value_h: "3f800000"', b"value_h: 3f800000"),
        (b'value_h: "3f800000"', b'value_h: "3f80" "0000"'),
        (b'value_h: "3f800000"', b'value_h: "3g800000"'),
        (b'value_h: "3f800000"', b'value_h: "3f80 0000"'),
        (b'value_h: "3f800000"\nvalue_h: "bf800000"', b'value_h: "3f80 0000"\nvalue_h: ""'),
        (b'value_h: "3f800000"\nvalue_h: "bf800000"', b'value_h: ""\nvalue_h: "3f80 0000"'),
        (b'value_h: "3f800000"', b'value_h: "3f800000"\nvalue_i: 1'),
        (b"value_i: -1", b"value_i: 2147483648"),
        (b"value_i: -1", b"value_i: 1_000"),
        (b"value_f: -1.5e3", b"value_f: 1_0.5"),
        (b"value_f: -1.5e3", b"value_f: 1f"),
        (b"factor: -3", b"factor: 99999999999"),
        (b"factor: -3", b"factor: -3 factor: 4"),
        (b"layout: LAYOUT_ARRAY", b"layout: LAYOUT_OF_TOMORROW"),
        (b'id: "x"', b'id: "\\x41"'),
        (b'id: "x"', b'id: "\xff"'),
        (b'op_name: "toy_scale"', b"op_name: toy_scale"),
        (b"evaluation_threshold: 0.003", b"evaluation_threshold: many"),
        (b"toy_scale_param {", b"toy_scale_param: {"),
        (b"toy_scale_param {", b"unheard_of {"),
        (b"toy_scale_param {\n  factor: -3\n}", b"toy_scale_param {\n  factor: -3\n"),
        (b"toy_scale_param {\n  factor: -3\n}", b"toy_scale_param {\n  factor: -3\n}\n}"),
        (b"shape {\n    dims: 2\n  }", b'shape: "2"'),
        (b"device: GENERATOR_CPU", b"value_i: 3"),
    ],
)
def test_anything_else_is_left_to_the_general_reader(old, new):
    assert old in ORDINARY
    assert read_plain_text(ORDINARY.replace(old, new), SCHEMA) is None


def test_a_text_that_is_not_small_is_left_to_the_general_reader():
    assert read_plain_text(ORDINARY.replace(b"value_i: -1\n", b"value_i: -1\n" * 2000), SCHEMA) is None


@given(st.data())
def test_a_changed_text_is_never_read_otherwise(data):
    lines = ORDINARY.splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(lines) - 1))
        start = data.draw(st.integers(0, len(lines[place])))
        new = data.draw(st.sampled_from([b"", *(bytes([char]) for char in b" \n}{\"-0._e:\\'")]))
        lines[place] = lines[place][:start] + new + lines[place][start + data.draw(st.integers(0, 2)) :]
        other = data.draw(st.integers(0, len(lines) - 1))
        lines[place], lines[other] = lines[other], lines[place]
    text = b"".join(lines)
    found = read_plain_text(text, SCHEMA)
    if found is not None:
        assert plain(found) == plain(read_any_text(text, SCHEMA))
