"""The random numbers are what their definition says: on any numpy, in any order, from any part."""

import hashlib

import numpy as np
import pytest

from mluops_gtest.authoring.random import Draw, Stream

# Committed once: a release that changes one of these changes every baseline.
GOLDEN = {
    (0, "x"): (
        (0xF7F88A27, 0x7BFBE2BC, 0x46DB5A2A, 0xDBF8E4B6, 0xF4E03C42, 0xA2A39CA6, 0xF337C32F, 0x8BB63838, 0x3231BEF8),
        (0xF78A769E, 0xE8A4F10C, 0x41FB0418),
    ),
    (20240917, "input_features"): (
        (0x67CBDF52, 0x44DEFE96, 0x44B748C3, 0xDB8B6221, 0x9FD96D8E, 0x5CE33E6A, 0xF62FFD10, 0xD759FCD9, 0x364345AF),
        (0xF3AE3FB5, 0x9A2A608E, 0x9D7AD537),
    ),
}
FAR = 2**33 + 5
WORD = 2**64 - 1


def philox(counter: int, key: tuple[int, int]) -> list[int]:
    """One block of Philox4x64-10 as Salmon et al. define it."""
    x, (k0, k1) = [(counter >> (64 * i)) & WORD for i in range(4)], key
    for _ in range(10):
        low, high = 0xD2E7470EE14C6C93 * x[0], 0xCA5A826395121157 * x[2]
        x = [(high >> 64) ^ x[1] ^ k0, high & WORD, (low >> 64) ^ x[3] ^ k1, low & WORD]
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & WORD, (k1 + 0xBB67AE8584CAA73B) & WORD
    return x


def literal_bits(seed: int, name: str, i: int) -> int:
    digest = hashlib.sha256(f"mluops-test/1/{seed}/{name}".encode()).digest()
    key = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")
    # numpy counts up before it computes a block.
    word = philox(1 + i // 8, key)[i % 8 // 2]
    return word >> 32 if i % 2 else word & 0xFFFFFFFF


@pytest.fixture
def stream() -> Stream:
    return Stream(7, "data")


@pytest.mark.parametrize(("seed", "name"), GOLDEN)
def test_lanes_are_the_committed_ones(seed: int, name: str) -> None:
    first, far = GOLDEN[seed, name]
    assert tuple(Stream(seed, name).lanes(9).tolist()) == first
    assert tuple(Stream(seed, name).lanes(3, start=FAR).tolist()) == far


@pytest.mark.parametrize(("seed", "name"), GOLDEN)
def test_lanes_follow_the_definition_without_numpy(seed: int, name: str) -> None:
    stream = Stream(seed, name)
    for start in (0, 3, 1000, FAR):
        assert stream.lanes(20, start).tolist() == [literal_bits(seed, name, start + i) for i in range(20)]


def test_any_part_can_be_drawn_without_the_rest(stream: Stream) -> None:
    whole = stream.lanes(200)
    for start in range(20):
        for count in (0, 1, 7, 8, 9, 50):
            assert np.array_equal(stream.lanes(count, start), whole[start : start + count])


def test_streams_are_repeatable_and_differ_by_seed_and_name() -> None:
    draw = Draw(7)
    again, other_name, other_seed = draw.stream("data"), draw.stream("datb"), Draw(8).stream("data")
    lanes = draw.stream("data").lanes(64)
    assert np.array_equal(again.lanes(64), lanes)
    for other in (other_name, other_seed):
        assert np.count_nonzero(other.lanes(64) == lanes) < 2


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-5, 5), (0, 3), (-(2**31), 2**31), (2**40, 2**40 + 7)])
def test_integers_are_the_scaled_lanes(stream: Stream, low: int, high: int) -> None:
    drawn = stream.integers(low, high, (4, 25))
    assert (drawn.shape, drawn.dtype) == ((4, 25), np.int64)
    assert drawn.ravel().tolist() == [low + int(lane) * (high - low) // 2**32 for lane in stream.lanes(100)]
    assert drawn.min() >= low
    assert drawn.max() < high
    assert high - low > 10 or set(drawn.ravel().tolist()) == set(range(low, high))


@pytest.mark.parametrize(("low", "high"), [(3, 3), (4, 3), (0, 2**32 + 1)])
def test_an_impossible_range_is_refused(stream: Stream, low: int, high: int) -> None:
    with pytest.raises(ValueError, match="empty or too wide"):
        stream.integers(low, high, 4)


@pytest.mark.parametrize(
    ("dtype", "bits", "scale"),
    [("<f4", 1, None), ("<f4", 10, None), ("<f4", 24, None), ("<f4", 24, 30), ("<f4", 20, -4), ("<f2", 11, 9)],
)
def test_lattice_values_are_exact_and_never_zero(stream: Stream, dtype: str, bits: int, scale: int | None) -> None:
    values = stream.lattice((50, 40), bits, scale, dtype)
    assert (values.shape, values.dtype) == ((50, 40), np.dtype(dtype))
    steps = values.astype(np.float64) * 2.0 ** (bits if scale is None else scale)
    assert np.array_equal(steps, np.rint(steps))
    assert np.abs(steps).min() >= 1
    assert np.abs(steps).max() <= 2**bits - 1
    assert scale is not None or np.abs(values).max() < 1
    # Both signs, and the whole width is used.
    assert 0.4 < (steps > 0).mean() < 0.6
    assert np.abs(steps).max() > (2**bits - 1) * 0.9


@pytest.mark.parametrize(("dtype", "bits"), [("<f4", 25), ("<f4", 0), ("<f2", 12)])
def test_a_lattice_wider_than_the_type_is_refused(stream: Stream, dtype: str, bits: int) -> None:
    with pytest.raises(ValueError, match=f"{bits} bits; {dtype} holds 1 to"):
        stream.lattice(4, bits, dtype=dtype)


@pytest.mark.parametrize(
    ("dtype", "exponents"),
    [("<f4", (0, 0)), ("<f4", (-3, 5)), ("<f4", (-126, 127)), ("<f2", (0, 0)), ("<f2", (-14, 15))],
)
def test_mantissas_use_every_bit_and_every_exponent(stream: Stream, dtype: str, exponents: tuple[int, int]) -> None:
    values = stream.mantissas((100, 60), exponents, dtype)
    assert (values.shape, values.dtype) == ((100, 60), np.dtype(dtype))
    assert np.isfinite(values).all()
    _, exponent = np.frexp(values.astype(np.float64))  # of a fraction in [½, 1): one more than ours
    assert set((exponent - 1).ravel().tolist()) == set(range(exponents[0], exponents[1] + 1))
    patterns = values.view(f"u{values.itemsize}").ravel()
    mantissa = {2: 0x03FF, 4: 0x007FFFFF}[values.itemsize]
    assert np.bitwise_or.reduce(patterns & mantissa) == mantissa
    assert np.bitwise_and.reduce(patterns & mantissa) == 0
    assert 0.4 < np.signbit(values).mean() < 0.6


@pytest.mark.parametrize(("dtype", "exponents"), [("<f4", (-127, 0)), ("<f4", (0, 128)), ("<f2", (-15, 0))])
def test_exponents_outside_the_normal_range_are_refused(stream: Stream, dtype: str, exponents: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="leave the normal range"):
        stream.mantissas(4, exponents, dtype)


@pytest.mark.parametrize("count", [0, 1, 2, 64, 1000])
def test_a_permutation_holds_every_number_once(stream: Stream, count: int) -> None:
    permutation = stream.permutation(count)
    assert sorted(permutation.tolist()) == list(range(count))
    if count == 1000:
        assert np.count_nonzero(permutation == np.arange(count)) < 10
    assert Stream(0, "x").permutation(8).tolist() == [5, 7, 6, 0, 3, 2, 1, 4], "committed"


def test_a_sample_is_distinct_and_below_the_population(stream: Stream) -> None:
    sample = stream.sample(100, 30).tolist()
    assert len(set(sample)) == 30
    assert set(sample) <= set(range(100))
    assert sorted(stream.sample(5, 5).tolist()) == list(range(5))
    assert stream.sample(5, 0).size == 0
    with pytest.raises(ValueError, match="6 distinct numbers below 5"):
        stream.sample(5, 6)


@pytest.mark.parametrize("keys", [[7, 3, 3, 9, 3, 1], [2, 2, 2, 2]])
def test_a_sample_is_the_beginning_of_the_permutation(stream: Stream, monkeypatch, keys) -> None:
    """Numbers of equal keys keep their order, also where only some of them belong to the sample."""
    assert stream.sample(1000, 37).tolist() == stream.permutation(1000)[:37].tolist()
    monkeypatch.setattr(Stream, "lanes", lambda self, count: np.array(keys, "<u8").view("<u4"))
    for count in range(len(keys) + 1):
        assert stream.sample(len(keys), count).tolist() == sorted(range(len(keys)), key=keys.__getitem__)[:count]
