import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mluops_gtest.base.errors import CaseFileError
from mluops_gtest.casefiles.elements import decode, encode
from mluops_gtest.core.tensor import DType
from tests.support.examples import examples


def strings(*words: str):
    return np.array([word.encode() for word in words], "S")


@settings(max_examples=examples(60))
@given(st.sampled_from(list(DType)), st.binary(min_size=0, max_size=160))
def test_every_bit_of_every_type_survives(dtype, raw):
    data = np.frombuffer(raw[: len(raw) // dtype.itemsize * dtype.itemsize], dtype.storage)
    if not len(data):
        return
    field, values = encode(data, dtype)
    again = decode(field, values, dtype)
    assert again.dtype == dtype.storage
    assert again.tobytes() == data.tobytes()


def test_floats_are_written_in_lower_case_with_the_first_digit_first():
    field, values = encode(np.array([1.0, -0.0, np.nan], "<f4"), DType.FLOAT)
    assert field == "value_h"
    assert values.tolist() == [b"3f800000", b"80000000", b"7fc00000"]
    assert encode(np.array([1.5], "<f2"), DType.HALF)[1].tolist() == [b"3e00"]
    assert encode(np.array([1 + 2j], "<c8"), DType.COMPLEX_FLOAT)[1].tolist() == [b"3f800000", b"40000000"]


@pytest.mark.parametrize(
    ("field", "types"),
    [
        ("value_i", (DType.INT32, DType.INT8, DType.UINT8, DType.BOOL)),
        ("value_l", (DType.INT64,)),
        ("value_ui", (DType.UINT32,)),
        ("value_ul", (DType.UINT64,)),
        ("value_h", (DType.BFLOAT16, DType.DOUBLE)),
    ],
)
def test_each_type_has_its_field(field, types):
    assert {encode(np.ones(1, dtype.storage), dtype)[0] for dtype in types} == {field}


@pytest.mark.slow
@settings(max_examples=examples(100))
@given(st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=40), st.data())
def test_digits_of_any_length_are_padded_on_the_left(numbers, data):
    for dtype, storage in ((DType.HALF, "<u2"), (DType.FLOAT, "<u4"), (DType.DOUBLE, "<u8")):
        words = [f"{number:x}".rjust(data.draw(st.integers(1, 16)), "0") for number in numbers]
        assert decode("value_h", strings(*words), dtype).view(storage).tolist() == numbers


@pytest.mark.parametrize(
    ("dtype", "field", "values", "bits"),
    [
        (DType.FLOAT, "value_i", np.array([0x3F800000, -1], "<i4"), [0x3F800000, 0xFFFFFFFF]),
        (DType.HALF, "value_i", np.array([0x3C00, -1, 0x12343C00], "<i4"), [0x3C00, 0xFFFF, 0x3C00]),
        (DType.BFLOAT16, "value_ui", np.array([0x3F80], "<u4"), [0x3F80]),
        (DType.BFLOAT16, "value_f", np.array([1.0, 1.00390625, 1.01171875], "<f4"), [0x3F80, 0x3F80, 0x3F82]),
        (DType.DOUBLE, "value_l", np.array([0x3FF0000000000000, -1], "<i8"), [0x3FF0000000000000, 2**64 - 1]),
        (DType.DOUBLE, "value_f", np.array([0.5], "<f4"), [0x3FE0000000000000]),
        (DType.HALF, "value_f", np.array([1.0, 65520.0, 2.0**-25], "<f4"), [0x3C00, 0x7C00, 0]),
        (DType.COMPLEX_FLOAT, "value_i", np.array([0x3F800000, 2], "<i4"), [0x0000_0002_3F80_0000]),
        (DType.COMPLEX_HALF, "value_i", np.array([0x3C00, 0x4000], "<i4"), [0x4000_3C00]),
        (DType.COMPLEX_HALF, "value_h", strings("3c00", "4000"), [0x4000_3C00]),
        (DType.UINT32, "value_i", np.array([-1], "<i4"), [2**32 - 1]),
        (DType.INT64, "value_i", np.array([-1], "<i4"), [2**64 - 1]),
        (DType.UINT8, "value_i", np.array([255], "<i4"), [255]),
        (DType.INT16, "value_f", np.array([-3.0], "<f4"), [0xFFFD]),
        (DType.INT32, "value_h", strings("fffffffe"), [0xFFFFFFFE]),
        (DType.FLOAT8_E5M2, "value_i", np.array([200], "<i4"), [200]),
        (DType.FLOAT, "value_h", strings("3F8fAbCd"), [0x3F8FABCD]),
        # A NaN stays one.
        (DType.BFLOAT16, "value_f", np.array([0x7F800001], "<u4").view("<f4"), [0x7FC0]),
    ],
)
def test_what_entries_mean(dtype, field, values, bits):
    assert decode(field, values, dtype).view(f"<u{dtype.itemsize}").tolist() == bits


@pytest.mark.parametrize(
    ("dtype", "field", "values", "message"),
    [
        (DType.FLOAT, "value_h", strings("13c000000"), "entry of 9 digits; float takes 8"),
        (DType.HALF, "value_h", strings("3c00", "3f800000"), "entry of 8 digits; half takes 4"),
        (DType.HALF, "value_h", strings("3x00"), "not hexadecimal"),
        (DType.HALF, "value_h", strings("3x0"), "not hexadecimal"),
        (DType.FLOAT, "value_l", np.array([1], "<i8"), "value_l does not hold float; .* value_h or value_i"),
        (DType.DOUBLE, "value_i", np.array([1], "<i4"), "value_i does not hold double; .* value_h or value_l"),
        (DType.HALF, "value_ui", np.array([1], "<u4"), "value_ui does not hold half"),
        (DType.INT8, "value_i", np.array([0, 128], "<i4"), "128, which does not fit int8"),
        (DType.INT32, "value_l", np.array([2**31], "<i8"), "2147483648, which does not fit int32"),
        (DType.UINT64, "value_i", np.array([-1], "<i4"), "-1, which does not fit uint64"),
        (DType.INT32, "value_f", np.array([1.5], "<f4"), "1.5 is not a value of int32"),
        (DType.INT32, "value_f", np.array([2.0**31], "<f4"), "is not a value of int32"),
        (DType.INT8, "value_f", np.array([np.nan], "<f4"), "nan is not a value of int8"),
        (DType.FLOAT8_E4M3FN, "value_f", np.array([1.0], "<f4"), "cannot be given as numbers"),
        (DType.COMPLEX64, "value_f", np.ones(3, "<f4"), "3 entries; complex64 takes two per element"),
    ],
)
def test_what_entries_cannot_mean(dtype, field, values, message):
    with pytest.raises(CaseFileError, match=message):
        decode(field, values, dtype)
