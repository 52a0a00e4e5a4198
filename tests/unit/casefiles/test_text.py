"""The text reader and writer, with protobuf's own text_format as the judge; small texts are read by one pattern."""

import numpy as np
import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from mluops_gtest.base.errors import CaseFileError
from mluops_gtest.casefiles.files import write_text
from mluops_gtest.casefiles.schema import VALUE_FIELDS
from mluops_gtest.casefiles.text_reader import read_any_text, read_plain_text, read_text
from tests.support.examples import examples
from tests.unit.casefiles.toy import PLAIN_TEXT, SCHEMA


def tensor_of(body: bytes):
    return read_text(b'op_name: "x" input { id: "t" ' + body + b" }", SCHEMA).inputs[0]


def by_protobuf(body: bytes, field: str):
    message = SCHEMA.tensor()
    text_format.Parse(body.decode(), message)
    return list(getattr(message, field))


def whole(document):
    """The document as the one protobuf message that it stands for."""
    node = SCHEMA.node()
    node.CopyFrom(document.node)
    for target, tensors in ((node.input, document.inputs), (node.output, document.outputs)):
        for tensor in tensors:
            message = target.add()
            message.CopyFrom(tensor.message)
            for name, values in tensor.values.items():
                getattr(message, name).extend(v.decode() if name == "value_h" else v for v in values.tolist())
    return node


EVERYTHING = b"""
valid: 'True' pattern: "a" 'b'  # joined
device: GENERATOR_CPU; op_name: "x", op_type: 77
input: <
  id: "\\101\\x42\\n\\t\\"\\u00e9\\U0001F600 \xc3\xa9" shape: { dims: [] dim_stride: [1, 0x2, 03] }
  layout: 1 dtype: DTYPE_HALF
  scale: -1.5e3f position: -7 is_cpu_scalar: true value_f: inf value_f: -inf value_f: nan value_f: 1e39
  value_i: [-2147483648, 2147483647] value_l: -9223372036854775808 value_ui: 4294967295 value_ul: 18446744073709551615
  value_h: "3F80" value_h: 'ffff'
  random_data { seed: 1 distribution: GAUSSIAN convert_dtype: t }
>
input: [ { id: "b" shape {} layout: LAYOUT_NCL dtype: DTYPE_BOOL },
  { id: "c" shape {} layout: LAYOUT_NC dtype: DTYPE_INT8 } ]
output { id: "o" shape { dims: 1 } layout: LAYOUT_ARRAY dtype: DTYPE_FLOAT thresholds { evaluation_threshold: .5 } }
evaluation_criterion: DIFF1 evaluation_criterion: [DIFF2, 8] threshold_rate: [1, 2.] toy_scale_param { factor: - 3 }
[mluops_gtest.expect] { status: 3 check: "rank" null_pointer: ["a", "b"] }
"""


def test_everything_reads_as_protobuf_reads_it():
    ours = whole(read_text(EVERYTHING, SCHEMA))
    # text_format wants the minus at its number.
    theirs = text_format.Parse(EVERYTHING.replace(b"- 3", b"-3"), SCHEMA.node())
    # Neither list compares equal with a NaN in it.
    for node in (ours, theirs):
        assert np.isnan(node.input[0].value_f[2])
        node.input[0].value_f[2] = 0
    assert ours == theirs


# So many numbers of a parameter stand in one list, as in ours.
LONG = EVERYTHING.replace(b"threshold_rate: [1, 2.]", b"threshold_rate: [" + 1_100 * b"1, " + b"2.]")


@pytest.mark.parametrize("text", [EVERYTHING, PLAIN_TEXT, LONG])
def test_what_we_write_is_read_alike_by_us_and_by_protobuf(text):
    document = read_text(text, SCHEMA)
    written = b"".join(write_text(document))
    assert (b": [" in written) is (text is LONG)
    again = read_text(written, SCHEMA)
    assert b"".join(write_text(again)) == written
    theirs = text_format.Parse(written, SCHEMA.node())
    assert str(theirs) == str(whole(document)) == str(whole(again))


NUMBERS = st.one_of(
    st.floats(width=32).map(repr),
    st.floats().map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: f"{x:.20e}f"),
    st.integers(-(10**30), 10**30).map(str),
    st.sampled_from(
        ["inf", "-inf", "nan", "-nan", "Infinity", "1e400", "-0", "1e-46", "3.4028235677973366e38", ".5", "5."]
    ),
)


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(st.lists(NUMBERS, min_size=1, max_size=20), st.booleans(), st.sampled_from(["\n", " ", "\n  ", " # c\n", "; "]))
def test_floats_are_protobuf_s_floats(words, as_list, gap):
    repeated = words * (1 + 200 // len(words))  # long enough for the bulk path
    if as_list:
        body = ("value_f: [" + ", ".join(repeated) + "]").encode()
    else:
        body = gap.join(f"value_f: {word}" for word in repeated).encode() + b"\n"
    ours = tensor_of(body).values["value_f"]
    theirs = np.array([np.float64(v) for v in by_protobuf(body, "value_f")]).astype("<f4")
    assert ours.view("<u4").tolist() == theirs.view("<u4").tolist()


@pytest.mark.slow
@settings(max_examples=examples(100))
@given(
    st.sampled_from([f for f in VALUE_FIELDS if f.storage is not None and f.storage.kind != "f"]),
    st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=20),
    st.sampled_from(["{}", "{:#x}", "0{:o}", "{}{}"]),
    st.booleans(),
)
def test_integers_are_protobuf_s_integers(field, numbers, shape, as_list):
    low, high = field.limits
    numbers = [number % (high - low + 1) + low for number in numbers]
    words = [("-" if n < 0 else "") + shape.format(abs(n), "") for n in numbers * (1 + 200 // len(numbers))]
    name = field.name
    body = f"{name}: [{', '.join(words)}]" if as_list else " ".join(f"{name}: {word}" for word in words)
    ours = tensor_of(body.encode()).values[name]
    assert ours.dtype == field.storage
    assert ours.tolist() == by_protobuf(body.encode(), name)


@settings(max_examples=examples(100))
@given(
    st.lists(st.text("0123456789abcdefABCDEF", min_size=1, max_size=16), min_size=1, max_size=6),
    st.integers(0, 300),
    st.sampled_from(["\n", "\n  ", ", ", " # }\n"]),
)
def test_hexadecimal_strings_at_any_distance(odd, regular, gap):
    words = odd + ["3f800000"] * regular + odd + ["00000001"] * regular
    body = gap.join(f'value_h: "{word}"' for word in words).encode()
    assert tensor_of(body + b"\n").values["value_h"].tolist() == [word.encode() for word in words]
    as_list = b"value_h: [" + b", ".join(b"'%b'" % word.encode() for word in words) + b"]"
    assert tensor_of(as_list).values["value_h"].tolist() == [word.encode() for word in words]


@pytest.mark.slow
@settings(max_examples=examples(100))
@given(
    st.lists(st.lists(st.text("0123456789abcdefABCDEF", max_size=5), min_size=1, max_size=3), min_size=1, max_size=6),
    st.integers(0, 200),
    st.sampled_from(["\n", " ", "", ' # "0"\n']),
)
def test_adjacent_strings_are_one_value_as_in_protobuf(odd, regular, gap):
    values = [*odd, *([["3f800000"]] * regular), *odd]
    words = [gap.join(f'"{piece}"' for piece in pieces) for pieces in values]
    wanted = [("".join(pieces) or "0").encode() for pieces in values]
    for body in ("\n".join(f"value_h: {word}" for word in words), f"value_h: [{', '.join(words)}]"):
        assert tensor_of(f"{body}\n".encode()).values["value_h"].tolist() == wanted
        by_them = by_protobuf(f"{body}\n".encode(), "value_h")
        assert [value.encode() or b"0" for value in by_them] == wanted


def test_pieces_are_unescaped_one_by_one():
    assert read_text(b"op_name: '\\1' '2'", SCHEMA).node.op_name == "\x012"
    assert tensor_of(b"value_h: '\\x33' \"\\146\" '80' '0000'").values["value_h"].tolist() == [b"3f800000"]
    assert tensor_of(b"value_h: '%b3f800000'" % (b"0" * 5000)).values["value_h"].tolist() == [b"000000003f800000"]


def test_interleaved_and_mixed_forms_keep_their_order():
    body = (
        b"value_f: 1 value_i: 5 value_f: [2, 3] value_f: 4 value_i: [] value_f: [ ] value_i: 6 value_f: 5 value_f: [6]"
    )
    values = tensor_of(body).values
    assert values["value_f"].tolist() == [1, 2, 3, 4, 5, 6]
    assert values["value_i"].tolist() == [5, 6]
    many = b"value_f: 1 " * 100 + b"value_f: [2, 3] " + b"value_f: 4 " * 100
    assert tensor_of(many).values["value_f"].tolist() == [1] * 100 + [2, 3] + [4] * 100


@pytest.mark.parametrize("count", [2, 300])
@pytest.mark.parametrize(("name", "word"), [("value_f", "1.5"), ("value_i", "-7"), ("value_h", '"3f800000"')])
def test_comments_between_values_hold_no_values(name, word, count):
    gap = f" # was {word}, {name}: 2\n"
    for body in (
        gap.join(f"{name}: {word}" for _ in range(count)),
        f"{name}: [{f'{gap}, '.join([word] * count)}]",
        "\n".join([f"{name}: {word}"] * count) + f"\n{name}: # {word}\n {word}",
    ):
        wanted = by_protobuf(f"{body}\n".encode(), name)
        ours = tensor_of(f"{body}\n".encode()).values[name].tolist()
        assert ours == [value.encode() if isinstance(value, str) else value for value in wanted]


def test_unknown_fields_and_enumerators_are_skipped_and_told():
    text = b"""op_name: "abs"
op_type: DCN_FORWARD
div_param { a: 1 b { c: "}" d: [1, <e: 2>] } f: -1.5e3 g: 'x' "y" }
other: [1, 2]
input { id: "x" shape { dims: 1 new: 4 } layout: LAYOUT_NEW dtype: DTYPE_FLOAT [a.b/c.D] { x: 1 } value_f: 1 }
plain: 7
"""
    document = read_text(text, SCHEMA)
    assert [str(item) for item in document.unknown] == [
        "op_type: DCN_FORWARD (2:10)",
        "field div_param (3:1)",
        "field other (4:1)",
        "field plain (6:1)",
    ]
    assert [str(item) for item in document.inputs[0].unknown] == [
        "field new (5:33)",
        "layout: LAYOUT_NEW (5:50)",
        "field [a.b/c.D] (5:80)",
    ]
    assert document.inputs[0].values["value_f"].tolist() == [1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'op_name: "x"\n  op_name: "y"', "2:3: op_name is given twice"),
        (b'op_name "x"', "1:9: expected ':' after op_name"),
        (b"op_name: x", "1:10: op_name must be a quoted string"),
        (b'op_name: "x', "1:10: op_name must be a quoted string"),
        (b'op_name: "\\q"', "unknown escape"),
        (b'op_name: "\xff"', "1:10: op_name: .*utf-8"),
        (b"input: 3", r"1:8: expected '\{' after input"),
        (b"input {", "1:8: expected a field or '}', met the end of the file"),
        (b"input { id: 'a' >", "1:17: expected a field or '}', met '>'"),
        (b"}", "1:1: expected a field or the end of the file, met '}'"),
        (b"device: CPU %", "1:13: expected the name of a field"),
        (b"input { value_f: x }", "1:18: value_f must be a number"),
        (b"input { value_f: 1 value_f: }", "1:29: value_f must be a number"),
        (b"input { value_f: [1, 2 }", r"1:18: the list of value_f does not end in '\]'"),
        (b"input { value_i: 2147483648 }", "1:18: value_i: 2147483648 does not fit int32"),
        (b"input { value_i: 09 }", "1:18: value_i: .*invalid literal"),
        (b"input { value_ui: -1 }", "1:19: value_ui: -1 does not fit uint32"),
        (b"input { value_i: 1.5 }", "1:18: value_i must be an integer"),
        (b'input { value_h: "xyz" }', "1:18: value_h must be a quoted string of hexadecimal digits"),
        (b'input { value_h: "0" value_h: "x" }', "1:31: value_h must be a quoted string of hexadecimal digits"),
        (b'input { value_h: "0" "x" }', "1:18: value_h must be a quoted string of hexadecimal digits"),
        (b"input { value_h: 0 }", "1:18: value_h must be a quoted string of hexadecimal digits"),
        (b'input { value_h: "1%b" }' % (b"0" * 16), "1:18: value_h: 17 digits; the widest element takes 16"),
        (b'input { value_h: "\\q" }', "1:18: value_h: unknown escape"),
        (b"input { position: 3000000000 }", "1:19: position: .*out of range"),
        (b"input { position: 1x }", "1:19: position must be"),
        (b"input { is_cpu_scalar: 2 }", "1:24: is_cpu_scalar must be true or false"),
        (b"input { shape { dims: [1 2] } }", r"1:25: expected ',' or '\]' in the list of dims"),
        (b"unknown", "1:8: expected a value"),
        (b"unknown 3", "1:9: expected ':' or '{'"),
        (b"unknown { a: [ }", r"1:16: unexpected '}'"),
        (b"unknown " + b"{ a " * 101, "1:9: nested deeper than 100"),
        (b"unknown " + b"{ a " * 1_000_000, "1:9: nested deeper than 100"),
        (b"input { position: " + b"9" * 10000 + b"}", "1:19: "),
        (b"input { value_i: " + b"9" * 10000 + b"}", "1:18: "),
    ],
)
def test_errors_name_line_and_column(text, message):
    with pytest.raises(CaseFileError, match=message):
        read_text(text, SCHEMA)


def test_the_shortest_float_is_written():
    text = b"input { value_f: 0.1 value_f: 1e-45 value_f: 16777216 value_f: 1234567.8 value_f: 1e16 scale: 3e7 }"
    document = read_text(text, SCHEMA)
    written = b"".join(write_text(document))
    assert b"value_f: 0.1\n" in written
    assert b"value_f: 1e-45\n" in written
    # With an exponent from 1e16 on, whatever version of numpy there is.
    assert b"value_f: 16777216.0\nvalue_f: 1234567.8\nvalue_f: 1e+16\n" in written
    assert b"scale: 30000000.0\n" in written


def test_a_nan_that_text_cannot_keep_is_refused():
    document = read_text(b"input { value_f: 1 }", SCHEMA)
    document.inputs[0].values["value_f"] = np.array([0x7FC00001], "<u4").view("<f4")
    with pytest.raises(CaseFileError, match="0x7fc00001"):
        b"".join(write_text(document))


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
