"""Where values come from: entries of every field, files beside the case, random numbers as C++ draws them."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from mluops_gtest.base.errors import CaseFileError
from mluops_gtest.casefiles import elements as libstdcxx
from mluops_gtest.casefiles.elements import (
    DESCRIBED_BYTES,
    Engine,
    Rules,
    decode,
    encode,
    gaussian,
    load_values,
    uniform,
)
from mluops_gtest.casefiles.text_reader import read_text
from mluops_gtest.core.tensor import DType, Layout, TensorDesc
from tests.support.examples import examples
from tests.unit.casefiles.toy import SCHEMA


def load(body: str, folder, dims=(4,), dtype=DType.FLOAT, *, output=False, strides=None, **rules):
    tensor = read_text(b"input {" + body.encode() + b"}", SCHEMA).inputs[0]
    return load_values(tensor, TensorDesc(dtype, Layout.ARRAY, dims, strides), Rules(folder, **rules), output=output)


SOURCES = [
    'value_h: "3f800000" value_h: "3f800000" value_h: "3f800000" value_h: "3f800000"',
    "value_f: [2, 2, 2, 2]",
    "value_i: [1077936128, 1077936128, 1077936128, 1077936128]",  # 3.0
    'path: "four.bin"',
    "random_data { lower_bound: 5 upper_bound: 5 }",
]


@pytest.mark.parametrize("first", range(len(SOURCES)))
def test_the_first_source_wins(tmp_path, first):
    np.full(4, 4, "<f4").tofile(tmp_path / "four.bin")
    data, note = load(" ".join(reversed(SOURCES[first:])), tmp_path)
    assert data.tolist() == [first + 1.0] * 4
    assert note == ""


def test_no_source_is_no_data_unless_there_are_no_elements(tmp_path):
    assert load("", tmp_path)[0] is None
    assert load("", tmp_path, dims=(0, 3))[0].shape == (0,)
    assert load("", tmp_path, dims=(1 << 40,))[0] is None
    assert load("random_data {}", tmp_path, output=True)[0] is None


def test_too_few_values_are_padded_and_told(tmp_path):
    data, note = load("value_f: [1, 2]", tmp_path)
    assert data.tolist() == [1, 2, 0, 0]
    assert note == "value_f holds 2 elements, the shape 4: padded with zeros"
    for options in ({"output": True}, {"strict": True}):
        with pytest.raises(CaseFileError, match="value_f holds 2 elements, the shape 4"):
            load("value_f: [1, 2]", tmp_path, **options)


def test_too_many_values_are_refused(tmp_path):
    with pytest.raises(CaseFileError, match="value_f holds 5 elements, the shape 4"):
        load("value_f: [1, 2, 3, 4, 5]", tmp_path)
    with pytest.raises(CaseFileError, match="value_f holds 1 elements, the shape 0"):
        load("value_f: 1", tmp_path, dims=(0,))


def test_strides_ask_for_the_whole_extent(tmp_path):
    data, note = load("value_f: [1, 2, 3, 4, 5, 6, 7]", tmp_path, dims=(2, 2), strides=(5, 1))
    assert (data.shape, note) == ((7,), "")
    assert load("value_f: 9", tmp_path, dims=(3, 3), strides=(0, 0))[0].tolist() == [9]


@pytest.mark.parametrize("body", ["random_data {}", "value_f: 1", 'path: "x.zst"'])
def test_a_few_bytes_cannot_claim_the_memory(tmp_path, body):
    (tmp_path / "x.zst").write_bytes(zstandard.compress(b"1"))
    with pytest.raises(CaseFileError, match=rf"at most {DESCRIBED_BYTES} are"):
        load(body, tmp_path, dims=(1 << 20, 1 << 20))
    with pytest.raises(CaseFileError, match="at most"):
        load(body, tmp_path, dims=((1 << 63) - 1,) * 8)


def test_a_raw_file_must_have_the_size(tmp_path):
    np.arange(1 << 18, dtype="<f4").tofile(tmp_path / "large.bin")
    data = load('path: "large.bin"', tmp_path, dims=(1 << 18,))[0]
    assert np.array_equal(data, np.arange(1 << 18))
    assert not data.flags.owndata, "mapped"
    assert not data.flags.writeable
    np.arange(4, dtype="<f4").tofile(tmp_path / "a.bin")
    assert load('path: "a.bin"', tmp_path)[0].tolist() == [0, 1, 2, 3]
    with pytest.raises(CaseFileError, match=r"'a.bin': the file holds 16 bytes, the tensor's shape and type 20"):
        load('path: "a.bin"', tmp_path, dims=(5,))


def test_a_compressed_file(tmp_path):
    raw = np.arange(4, dtype="<f4").tobytes()
    (tmp_path / "a.zst").write_bytes(zstandard.compress(raw[:8]) + zstandard.compress(raw[8:]))
    assert load('path: "a.zst"', tmp_path)[0].tolist() == [0, 1, 2, 3]
    (tmp_path / "b.zst").write_bytes(b"no zstd at all")
    (tmp_path / "c.zst").write_bytes(zstandard.compress(raw)[:-3])
    (tmp_path / "bomb.zst").write_bytes(zstandard.compress(bytes(200_000_000)))
    for name, count, words in (
        ("a", 5, "the file holds 16 bytes, the tensor's shape and type 20"),
        ("a", 3, "the file holds more than 12 bytes"),
        ("b", 4, "not zstd data"),
        ("c", 4, "'c.zst'"),
        ("bomb", 4, "more than 16 bytes"),
    ):
        with pytest.raises(CaseFileError, match=words):
            load(f'path: "{name}.zst"', tmp_path, dims=(count,))


def test_paths_stay_below_the_case(tmp_path):
    folder = tmp_path / "cases"
    (folder / "sub").mkdir(parents=True)
    for place in (tmp_path / "secret.bin", folder / "sub" / "in.bin"):
        np.zeros(4, "<f4").tofile(place)
    os.symlink(tmp_path / "secret.bin", folder / "link.bin")
    os.symlink(tmp_path, folder / "out")
    os.symlink(folder / "sub", folder / "inside")
    for name in ("sub/in.bin", "sub/../sub/in.bin", "inside/in.bin"):
        assert load(f'path: "{name}"', folder)[0].tolist() == [0] * 4
    absolute = str(tmp_path / "secret.bin"), str(folder / "sub/in.bin")
    for name in ("../secret.bin", "link.bin", "out/secret.bin", *absolute):
        with pytest.raises(CaseFileError, match="leads out of the case's folder"):
            load(f'path: "{name}"', folder)
        assert load(f'path: "{name}"', folder, allow_outside_paths=True)[0].tolist() == [0] * 4


@pytest.mark.parametrize("name", ["missing.bin", "", "a\\000b", "sub", "pipe"])
def test_what_is_no_file_is_told(tmp_path, name):
    (tmp_path / "sub").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CaseFileError, match=r"^path"):
        load(f'path: "{name}"', tmp_path)


def floored(low, high):
    return np.floor(uniform(23, low, high, 4, np.float32))


@pytest.mark.parametrize(
    ("body", "dtype", "wanted"),
    [
        ("", DType.FLOAT, lambda: uniform(23, -1, 1, 4, np.float32)),
        ("seed: 0", DType.FLOAT, lambda: uniform(0, -1, 1, 4, np.float32)),
        ("seed: 5 lower_bound: 0 upper_bound: 9", DType.HALF, lambda: uniform(5, 0, 9, 4, np.float32).astype("<f2")),
        ("lower_bound: 0 lower_bound_double: 3 upper_bound: 9", DType.FLOAT, lambda: uniform(23, 3, 9, 4, np.float32)),
        ("upper_bound: 9", DType.DOUBLE, lambda: uniform(23, -1, 9, 4, np.float64)),
        ("lower_bound: -9 upper_bound: 9", DType.INT32, lambda: floored(-9, 9).astype("<i4")),
        ("upper_bound: 9 convert_dtype: true", DType.INT8, lambda: floored(-1, 9).astype("i1")),
        ("distribution: GAUSSIAN mu: 2 sigma: 3", DType.FLOAT, lambda: gaussian(23, 2, 3, 4, np.float32)),
        ("distribution: GAUSSIAN mu_double: 2", DType.DOUBLE, lambda: gaussian(23, 2, 1, 4, np.float64)),
        ("", DType.COMPLEX_FLOAT, lambda: uniform(23, -1, 1, 8, np.float32).view("<c8")),
    ],
)
def test_random_data_by_type(tmp_path, body, dtype, wanted):
    data = load(f"random_data {{ {body} }}", tmp_path, dtype=dtype)[0]
    assert data.dtype == dtype.storage
    assert data.tobytes() == wanted().tobytes()


@pytest.mark.parametrize(
    ("body", "dtype", "words"),
    [
        ("distribution: SAMPLE", DType.FLOAT, "random_data"),
        ("distribution: UNIQUE_INDEX", DType.INT32, "random_data"),
        ("", DType.INT8, "random_data"),
        ("", DType.INT4X2, "random_data"),
        ("lower_bound: -5 upper_bound: -4", DType.UINT8, "is not a value of uint8"),
    ],
)
def test_what_is_not_drawn_is_told(tmp_path, body, dtype, words):
    with pytest.raises(CaseFileError, match=words):
        load(f"random_data {{ {body} }}", tmp_path, dtype=dtype)


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


DRAW = {"uniform": uniform, "gaussian": gaussian}
REAL = {"float": np.float32, "double": np.float64}
SOURCE = Path(__file__).with_name("draws.cpp")

# Printed by draws.cpp (g++ 12.2, glibc 2.36): kind, type, seed → bits of the first five values from -1 and 3.
GOLDEN = {
    ("uniform", "float", 23): "bf7fd0d0 bf6605a3 3f04043a 3f99105e 3c6ef900",
    ("uniform", "float", -5): "403fff7c 401e5389 bcb7ad00 3f952bce 3f5e7242",
    ("uniform", "float", 0): "bf7ffdf3 bef29c52 40016f59 3f55a860 3f90c6dc",
    ("uniform", "double", 23): "bfecc0b456f2f706 3ff3220be83d08b6 bfeb625803ac9a67 3ff749f2f0a7a7a0 3fefbc63009ea408",
    ("uniform", "double", -5): "4003ca7143ef29a3 3ff2a579eaa9de3a 4000fe494e01e048 3fd235ec0330c170 bfe7a4044e8c7670",
    ("uniform", "double", 0): "bfde538a1f794d24 3feab50c2aac438a bfbfc929c03c0938 3ffb7284ff33cfa0 4005e90113a31d9c",
    ("gaussian", "float", 23): "3fcd8b3e c0ee3df2 bece31b0 c04c4a1b bf8f1e2f",
    ("gaussian", "float", -5): "be6410b0 c0b9c0ba 405fccf4 bfc31c5a bfadcc26",
    ("gaussian", "float", 0): "bfe37de6 40738174 c0afe678 bef38e9a bf2467bc",
    ("gaussian", "double", 23): "bfebbd522a31d5de c00253b508006df2 bfe639c60d819baa c001f4480c9230e9 3ff044c2791c3b60",
    ("gaussian", "double", -5): "bfe44a91a2b48fa3 40021568f9f35333 c0086c4704a61bf3 4001cdf64e74a7de bff198d0b938b0d6",
    ("gaussian", "double", 0): "bff5dab72ea5b82a c0110ab47cf9a99b 3ff0d88e094c37e2 c010e6fb273a53ef bfecce5e8d8e9e52",
}


def bits(values):
    return values.view(f"<u{values.itemsize}").tolist()


@pytest.mark.parametrize(("kind", "real", "seed"), GOLDEN)
def test_the_values_of_cpp(kind, real, seed):
    wanted = [int(word, 16) for word in GOLDEN[kind, real, seed].split()]
    for count in range(6):
        assert bits(DRAW[kind](seed, -1, 3, count, REAL[real])) == wanted[:count]


def test_the_engine_is_its_definition_over_blocks():
    drawn = Engine(23).draw(70_000)
    x = 23
    for k in range(70_000):
        x = x * 16807 % (2**31 - 1)
        if k % 9973 == 0 or k > 65_530:
            assert drawn[k] == x
    halves = Engine(23)
    assert np.array_equal(np.concatenate([halves.draw(12_345), halves.draw(57_655)]), drawn)


@pytest.mark.parametrize("real", REAL.values())
@pytest.mark.parametrize("draw", DRAW.values())
def test_chunks_do_not_show(monkeypatch, draw, real):
    whole = draw(23, -1, 3, 5_001, real)
    for chunk in (1, 7, 1000):
        monkeypatch.setattr(libstdcxx, "_CHUNK", chunk)
        assert bits(draw(23, -1, 3, 5_001, real)) == bits(whole)


def test_the_standard_s_own_check_value():
    # [rand.predef]: the 10000th draw of a default-constructed minstd_rand0 is 1043618065.
    assert Engine(1).draw(10_000)[-1] == 1043618065


def test_a_uniform_value_never_reaches_the_upper_bound():
    values = uniform(23, 0, 1, 200_000, np.float32)
    assert values.dtype == np.float32
    assert values.min() >= 0
    assert values.max() < 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here; the committed values stand for it")
def test_long_runs_against_a_compiled_program(tmp_path):
    program = tmp_path / "draws"
    subprocess.run(["g++", "-O1", str(SOURCE), "-o", str(program)], check=True)
    for kind, real, seed, a, b in [
        ("uniform", "float", 2147483647, -1000, 0.1),
        ("uniform", "double", 7, 1, 0),
        ("gaussian", "float", 9, 0, 1),
        ("gaussian", "double", -2147483648, 0.1, 5),
    ]:
        count = 20_001
        command = [str(program), kind, real, str(seed), str(a), str(b), str(count)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert bits(DRAW[kind](seed, a, b, count, REAL[real])) == [int(word, 16) for word in printed.split()]
