"""Arrays in .npy files: numpy reads what is written, whatever the type and shape."""

import numpy as np
import pytest

from mluops_gtest.core.tensor import DType
from mluops_gtest.judging.blocks import value_text, widened
from mluops_gtest.results.saved_outputs import write_npy


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 4), (2, 0, 3)])
@pytest.mark.parametrize("dtype", ["<f4", "<f2", "u1", "<i8", "<c16"])
def test_numpy_reads_what_is_written(tmp_path, shape, dtype):
    array = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    size = write_npy(tmp_path / "new" / "a.npy", array)
    loaded = np.load(tmp_path / "new" / "a.npy", allow_pickle=False)
    assert (loaded.dtype, loaded.shape, loaded.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert size == (tmp_path / "new" / "a.npy").stat().st_size


def test_a_strided_array_is_written_in_its_order(tmp_path):
    array = np.arange(12, dtype="<i4").reshape(3, 4).T
    write_npy(tmp_path / "a.npy", array)
    assert (np.load(tmp_path / "a.npy") == array).all()


def test_bfloat16_becomes_float32():
    stored = np.array([[0x3F80, 0xC040], [0x7F80, 0x7FA5]], "<u2")
    values = widened(stored, DType.BFLOAT16)
    assert (values.dtype, values.shape) == (np.dtype("<f4"), (2, 2))
    assert values[:, 0].tolist() == [1.0, np.inf]
    assert values[0, 1] == -3.0
    assert np.isnan(values[1, 1])


def test_a_pair_of_halves_becomes_complex64():
    stored = np.array([[1.5, -2.0], [0.25, 8.0]], "<f2").view("<u4").reshape(2)
    assert widened(stored, DType.COMPLEX_HALF).tolist() == [1.5 - 2j, 0.25 + 8j]


@pytest.mark.parametrize(
    ("stored", "dtype", "text"),
    [
        (np.float32(0.1), DType.FLOAT, "0.1"),
        (np.array(0x7FA5A5A5, "<u4").view("<f4"), DType.FLOAT, "nan (0x7fa5a5a5)"),
        (np.uint16(0x3FC0), DType.BFLOAT16, "1.5"),
        (np.uint16(0x7FA5), DType.BFLOAT16, "nan (0x7fa5)"),
        (np.uint32(0xC0003E00), DType.COMPLEX_HALF, "(1.5-2j)"),
        (np.int64(-(2**63)), DType.INT64, "-9223372036854775808"),
    ],
)
def test_an_element_for_people(stored, dtype, text):
    assert value_text(stored, dtype) == text
