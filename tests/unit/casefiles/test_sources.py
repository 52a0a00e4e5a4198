import os

import numpy as np
import pytest
import zstandard

from mluops_gtest.base.errors import CaseFileError
from mluops_gtest.casefiles.elements import DESCRIBED_BYTES, Rules, gaussian, load_values, uniform
from mluops_gtest.casefiles.text_reader import read_text
from mluops_gtest.core.tensor import DType, Layout, TensorDesc
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
    with pytest.raises(CaseFileError, match="the file holds 16 bytes, the tensor's shape and type 20"):
        load('path: "a.zst"', tmp_path, dims=(5,))
    with pytest.raises(CaseFileError, match="the file holds more than 12 bytes"):
        load('path: "a.zst"', tmp_path, dims=(3,))
    (tmp_path / "b.zst").write_bytes(b"no zstd at all")
    with pytest.raises(CaseFileError, match="not zstd data"):
        load('path: "b.zst"', tmp_path)
    (tmp_path / "c.zst").write_bytes(zstandard.compress(raw)[:-3])
    with pytest.raises(CaseFileError, match=r"'c.zst'"):
        load('path: "c.zst"', tmp_path)


def test_a_bomb_is_left_alone_behind_the_declared_size(tmp_path):
    (tmp_path / "bomb.zst").write_bytes(zstandard.compress(bytes(200_000_000)))
    with pytest.raises(CaseFileError, match="more than 16 bytes"):
        load('path: "bomb.zst"', tmp_path)


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
