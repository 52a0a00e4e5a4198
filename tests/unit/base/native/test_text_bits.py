"""Values in text are the same ones, bit for bit, whoever reads and writes them; so are errors and their places."""

from functools import partial
from itertools import cycle, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mluops_gtest.base.errors import CaseFileError
from mluops_gtest.base.native.arrays import value_lines, value_text
from mluops_gtest.casefiles.files import spelled_lines
from mluops_gtest.casefiles.schema import VALUE_FIELDS, ValueField
from mluops_gtest.casefiles.text_reader import read_text
from mluops_gtest.casefiles.text_values import TextError, ValueColumn
from mluops_gtest.core.tensor import Array
from tests.support.examples import examples
from tests.support.native_core import NATIVE, NUMPY, going
from tests.unit.casefiles.toy import SCHEMA

FIELDS = {field.name: field for field in VALUE_FIELDS}
ORDINARY = {
    "value_h": ('"3f800000"', "'BF800000'", '"00000001"'),
    "value_f": ("1.5", "-0.1", "3e-7", "0", "1e22", "123456789.25", ".5", "7.", "-0.0", "4.5e-06"),
    "value_i": ("0", "-1", "2147483647", "-2147483648", "17"),
    "value_l": ("0", "-1", "9223372036854775807", "-9223372036854775808", "17"),
    "value_ui": ("0", "4294967295", "17"),
}
# What the general path must read, or refuse.
ODD = {
    "value_h": ('"3F8"', '"3f80" "0000"', '"\\x33f800000"', "\"3f800000'", '"xyz"', '"', "1", '""'),
    "value_f": (
        *("nan", "-NaN", "inf", "-Infinity", "+inff", "1.5f", "1e400", "1e-400", "1e39", "5e-324", "1.4e-45"),
        *("0.1000000000000000055511151231257827021181583404541015625", "9007199254740993", "007.5", "- 1", "+ 2.5"),
        *("123456789012345678901234567890", "1e23", "1e-23", "12345678901234567890e-30", "0e99999999999", "1" * 400),
        *("1e", "1e+", ".", "-", "0x1p3", "1.5.2", "1.5_", "nano", "infinit", "1,5", "1 2", "e5", "1ff"),
    ),
    "value_i": (
        *("010", "0x1F", "-0x1", "- 5", "2147483648", "-2147483649", "99999999999999999999"),
        *("1.5", "08", "1f", "+7"),
    ),
    "value_l": ("010", "0x1F", "9223372036854775808", "-9223372036854775809", "1" * 30, "1e5", "+ 3", "-0"),
    "value_ui": ("010", "-1", "-0", "+1", "4294967296", "0xffffffff", "18446744073709551616"),
}


def read(way: str, text: bytes, field: ValueField) -> object:
    """Bits and where the reader stopped, or the error with its place."""
    column = ValueColumn(field)
    with going(way):
        try:
            end = column.read(text, 0)
            values = column.array()
        except TextError as error:
            return error.pos, str(error)
    return values.dtype, values.tobytes(), end


def both(text: bytes, field: ValueField) -> object:
    natively = read(NATIVE, text, field)
    assert natively == read(NUMPY, text, field), text[-200:]
    return natively


def as_list(words: list[str], gaps: str) -> bytes:
    return f"[{gaps}{f'{gaps},{gaps}'.join(words)}{gaps}] }}".encode()


def as_fields(name: str, words: list[str], gaps: str) -> bytes:
    return (f"{gaps or ' '}{name}:{gaps}".join(words) + " }").encode()


@pytest.mark.parametrize("name", ORDINARY)
def test_any_run_is_read_alike(name: str) -> None:
    field = FIELDS[name]
    words = st.one_of(st.sampled_from(ORDINARY[name]), st.sampled_from(ODD[name]))
    # Long runs in few draws: some words over and over.
    ordinary = st.builds(
        lambda words, count: list(islice(cycle(words), count)),
        st.lists(st.sampled_from(ORDINARY[name]), min_size=1, max_size=9),
        st.integers(66, 80),
    )

    @settings(derandomize=True, max_examples=examples(100), database=None)
    @given(ordinary, st.lists(words, max_size=3), ordinary, st.sampled_from(["", " ", "\n", "\t \r\n"]))
    def property_holds(before: list[str], odd: list[str], after: list[str], gaps: str) -> None:
        both(as_list(before + odd + after, gaps), field)
        both(as_fields(name, before + odd + after, gaps), field)
        both(as_fields(name, before + odd, gaps), field)

    property_holds()


@pytest.mark.parametrize("name", ORDINARY)
def test_every_odd_spelling_behind_a_long_run_is_read_alike(name: str) -> None:
    plain = [ORDINARY[name][0]] * 70
    for odd in ODD[name]:
        for words in ([*plain, odd], [*plain, odd, *plain]):
            both(as_fields(name, words, " "), FIELDS[name])
            both(as_list(words, ""), FIELDS[name])


@pytest.mark.parametrize("name", [name for name in ORDINARY if name != "value_h"])
def test_any_word_of_the_characters_of_numbers_is_read_alike(name: str) -> None:
    plain = [ORDINARY[name][0]] * 70

    @settings(derandomize=True, max_examples=examples(300), database=None)
    @given(st.text("0123456789.-+e/:f", min_size=1, max_size=17), st.sampled_from(["", " "]))
    def property_holds(word: str, gap: str) -> None:
        both(as_fields(name, [*plain, word, *plain], " " + gap), FIELDS[name])
        both(as_list([*plain, word, *plain], gap), FIELDS[name])

    property_holds()


@pytest.mark.parametrize(
    "tail", ["", " ", " value_f", " value_f:", " value_f: ", ", ;value_f : 2 }", "\x00", " value_fx: 1"]
)
def test_a_text_that_ends_anywhere_is_read_alike(tail: str) -> None:
    both(as_fields("value_f", ["1.25"] * 100, " ")[:-2] + tail.encode(), FIELDS["value_f"])
    both(b"[" + b"1.25, " * 100 + tail.encode(), FIELDS["value_f"])


def test_the_place_of_a_number_that_does_not_fit_is_its_own() -> None:
    text = as_fields("value_i", ["1"] * 100 + ["4294967296"] + ["2"] * 100, " ")
    assert both(text, FIELDS["value_i"]) == (text.index(b"4294967296"), "value_i: 4294967296 does not fit int32")


def reals(words: list[str], storage: str) -> np.ndarray:
    with going(NATIVE):
        reader = value_text(f"{','.join(words)},".encode(), None)
        parts, _ = reader.numbers(0, np.dtype(storage))
        return np.concatenate(parts)


def test_every_spelling_of_a_double_is_rounded_correctly() -> None:
    bits = np.random.Philox(key=9).random_raw(4000)
    numbers = bits.view(np.float64)
    numbers = numbers[np.isfinite(numbers)].tolist()
    halfway = ["9007199254740993", "9007199254740995", "2.5e-324", "2.4703282292062328e-324", "1e23", "8.5e22"]
    assert reals(halfway, "<f8").tolist() == list(map(float, halfway))
    for spell in (repr, "{:.17g}".format, "{:.40e}".format, "{:.3g}".format, "{:.25f}".format):
        words = [spell(number) for number in numbers if spell != "{:.25f}".format or abs(number) < 1e20]
        assert reals(words, "<f8").tolist() == list(map(float, words))


def test_every_spelling_of_a_float_is_rounded_as_protobuf_does() -> None:
    bits = (np.random.Philox(key=10).random_raw(4000) >> np.uint64(32)).astype(np.uint32)
    numbers = bits.view(np.float32)
    numbers = numbers[np.isfinite(numbers)]
    for spell in (str, "{:.9g}".format, "{:.6f}".format):
        words = [spell(number) for number in numbers]
        with np.errstate(over="ignore"):
            expected = np.array(list(map(float, words))).astype("<f4")
        assert reals(words, "<f4").tobytes() == expected.tobytes()


def test_a_locale_with_a_decimal_comma_changes_nothing() -> None:
    import locale

    before = locale.setlocale(locale.LC_NUMERIC)
    for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "de_DE"):
        try:
            locale.setlocale(locale.LC_NUMERIC, name)
            break
        except locale.Error:
            continue
    else:
        pytest.skip("no locale with a decimal comma is installed")
    try:
        both(as_fields("value_f", ["1.5", "1.2345678901234567890123e-30"] * 100, " "), FIELDS["value_f"])
    finally:
        locale.setlocale(locale.LC_NUMERIC, before)


def written(values: Array) -> tuple[bytes, bytes]:
    """The lines of the C library and those of numpy."""
    with going(NATIVE):
        natively = value_lines(values, b"value: ", partial(spelled_lines, b"value: "))
    assert natively is not None
    return natively, spelled_lines(b"value: ", values)


def test_floats_are_written_with_the_same_digits() -> None:
    bits = np.random.Philox(key=5).random_raw(20_000).view("<u4")
    powers = np.arange(1, 255, dtype="<u4") << 23
    steps = (powers[:, None] + np.array([-2, -1, 0, 1, 2, 3])).astype("<u4").reshape(-1)
    random = bits.view("<f4")[np.isfinite(bits.view("<f4"))]
    decimals = (np.arange(-30_000, 30_000) / 1000).astype("<f4")
    tens = np.array([f"{digit}e{power}" for power in range(-45, 38) for digit in (1, 2, 5, 9.999999)], "<f4")
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 1.1754942e-38, 3.4028235e38], "<f4")
    steps, whole = steps.view("<f4"), np.arange(2.0**24, 2.0**24 + 99)
    for values in (random, steps, -steps, decimals, tens, special, whole):
        natively, by_numpy = written(values.astype("<f4"))
        assert natively == by_numpy


@pytest.mark.parametrize("storage", ["<i4", "<i8", "<u4", "<u8"])
def test_integers_are_written_with_the_same_digits(storage: str) -> None:
    limits = np.iinfo(storage)
    values = np.random.Philox(key=6).random_raw(1000).view(storage)
    ends = np.array([0, 1, 9, 10, 99, 100, limits.min, limits.max], storage)
    for some in (values, values[::3], ends):
        natively, by_numpy = written(some)
        assert natively == by_numpy


@given(
    first=st.sampled_from(["value_i", "value_ui"]),
    lengths=st.tuples(*[st.sampled_from([0, 1, 63, 64, 65, 200, 5000])] * 3),
    mistakes=st.tuples(*[st.sampled_from(["99999999999999999999", "abc", "-", "08"])] * 2),
    apart=st.booleans(),
)
@settings(max_examples=examples())
def test_of_two_mistakes_the_first_is_named(first, lengths, mistakes, apart):
    """Too large a number is seen when words become numbers, other mistakes at once: the place in the file decides."""
    second = "value_l" if apart else first
    pieces = [f"{first}: 7\n" * lengths[0], f"{first}: {mistakes[0]}\n", f"{first}: 7\n" * lengths[1]]
    pieces += [f"{second}: {mistakes[1]}\n", f"{second}: 7\n" * lengths[2]]
    text = f'op_name: "x"\ninput {{\nid: "t"\n{"".join(pieces)}}}\n'.encode()
    for way in (NATIVE, NUMPY):
        with going(way), pytest.raises(CaseFileError) as told:
            read_text(text, SCHEMA)
        assert str(told.value).startswith(f"{4 + lengths[0]}:"), way
