"""Between the value fields of a file and the elements of a tensor: numbers, bit patterns, hexadecimal digits.

The random numbers of C++ case files, bit for bit: libstdc++'s default_random_engine and two distributions.

The engine is x ← 16807·x mod 2^31 − 1. Its k-th draw is x·16807^k, so a block of draws is one product with a table of
powers. All arithmetic is float32 (float64 for double) in the order in which libstdc++ rounds.

Where a tensor's values come from: the first source that is present, checked against the shape.
"""

import binascii
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from mluops_gtest.base.errors import CaseFileError
from mluops_gtest.base.frozen import Value
from mluops_gtest.casefiles.files import read_blob, resolve
from mluops_gtest.casefiles.schema import VALUE_FIELDS, TensorDocument
from mluops_gtest.core.tensor import Array, DType, TensorDesc, narrowed


class ElementPart(NamedTuple):
    """What a value of the file stands for: a whole element, or half of a complex one."""

    kind: str  # real | bfloat | integer | bits
    storage: "np.dtype[Any]"
    per_element: int = 1

    @property
    def bits(self) -> "np.dtype[Any]":
        """The unsigned integer of the same size."""
        return np.dtype(f"<u{self.storage.itemsize}")


@cache
def part_of(dtype: DType) -> ElementPart:
    """The part that one value of a file fills in a tensor of this type."""
    if dtype.name.startswith("COMPLEX"):
        return ElementPart("real", np.dtype(f"<f{dtype.itemsize // 2}"), 2)
    if dtype is DType.BFLOAT16:
        return ElementPart("bfloat", dtype.storage)
    if dtype.is_float:
        return ElementPart("real", dtype.storage)
    # The 8-bit floats and the packed or fixed-point integers: only their bits are stored.
    return ElementPart("integer" if dtype.is_integer else "bits", dtype.storage)


def decode(field: str, values: Array, dtype: DType) -> Array:
    """The elements that the entries of a value field make."""
    part = part_of(dtype)
    if len(values) % part.per_element:
        raise CaseFileError(f"{field} has {len(values)} entries; {dtype.value} takes two per element")
    if field == "value_h":
        parts = _from_digits(values, part, dtype)
    elif field == "value_f":
        parts = from_reals(values, dtype)
    else:
        parts = _from_integers(field, values, part, dtype)
    return np.ascontiguousarray(parts).view(dtype.storage)


def _from_digits(digits: Array, part: ElementPart, dtype: DType) -> Array:
    wanted = 2 * part.storage.itemsize
    raw = _unhexlified(digits) if digits.itemsize == wanted else None
    if raw is None:
        # Rare, and only now looked for: entries of another length.
        raw = _unhexlified(_padded(digits, wanted, dtype))
    if raw is None:
        raise CaseFileError("value_h has an entry that is not hexadecimal")
    # The most significant digit comes first.
    return np.frombuffer(raw, part.bits.newbyteorder(">")).astype(part.bits).view(part.storage)


def _unhexlified(digits: Array) -> bytes | None:
    """The bytes; None where an entry is shorter than the others, or not hexadecimal."""
    try:
        return binascii.unhexlify(np.ascontiguousarray(digits).data)
    except binascii.Error:
        return None


def _padded(digits: Array, wanted: int, dtype: DType) -> Array:
    """Entries of `wanted` digits: zeros are put before shorter ones, and taken away from longer ones."""
    lengths = np.char.str_len(digits)
    width = max(wanted, int(lengths.max(initial=0)))
    chars = np.ascontiguousarray(digits).view(np.uint8).reshape(len(digits), -1)
    padded = np.full((len(digits), width), ord("0"), np.uint8)
    for length in np.unique(lengths).tolist():
        rows = lengths == length
        padded[rows, width - length :] = chars[rows, :length]
    beyond = (padded[:, : width - wanted] != ord("0")).any(axis=1)
    if beyond.any():
        wrong = int(lengths[beyond][0])
        raise CaseFileError(f"value_h has an entry of {wrong} digits; {dtype.value} takes {wanted}")
    return np.ascontiguousarray(padded[:, width - wanted :])


def from_reals(values: Array, dtype: DType) -> Array:
    """Parts from floating-point numbers: rounded to the type, or exactly the integers they are."""
    part = part_of(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        if part.kind == "real":
            return values.astype(part.storage, copy=False)
        if part.kind == "bfloat":
            return narrowed(values.astype("<f4"), dtype)
        if part.kind == "bits":
            raise CaseFileError(f"{dtype.value} cannot be given as numbers; store its bits as value_h or value_i")
        limits = np.iinfo(part.storage)
        fits = (values >= float(limits.min)) & (values < float(limits.max) + 1) & (values == np.floor(values))
        if not fits.all():
            raise CaseFileError(f"{values[~fits][0]} is not a value of {dtype.value}")
        return values.astype(part.storage)


# Where integers are the bits of a floating-point part: field → sizes of the part in bytes.
_PATTERNS: Final = {"value_i": (2, 4), "value_l": (8,), "value_ui": (), "value_ul": ()}


def _from_integers(field: str, values: Array, part: ElementPart, dtype: DType) -> Array:
    size = part.storage.itemsize
    if part.kind in ("real", "bfloat"):
        if size not in _PATTERNS[field] and not (part.kind == "bfloat" and field == "value_ui"):
            raise CaseFileError(f"{field} does not hold {dtype.value}; its bits go to {_field_for(part)}")
        # Of a 32-bit entry the low half is the pattern of a 16-bit type.
        return values.astype(part.bits).view(part.storage)
    if values.dtype.itemsize == size:
        return values.view(part.storage)
    limits = np.iinfo(part.storage)
    if len(values) and (int(values.min()) < limits.min or int(values.max()) > limits.max):
        wrong = next(v for v in (int(values.min()), int(values.max())) if not limits.min <= v <= limits.max)
        raise CaseFileError(f"{field} has {wrong}, which does not fit {dtype.value}")
    return values.astype(part.storage)


def _field_for(part: ElementPart) -> str:
    fields = ["value_h"] + [field for field, sizes in _PATTERNS.items() if part.storage.itemsize in sizes]
    return " or ".join(fields)


_INTEGER_FIELDS: Final = {DType.INT64: "value_l", DType.UINT64: "value_ul", DType.UINT32: "value_ui"}


def encode(data: Array, dtype: DType) -> tuple[str, Array]:
    """The value field that our files use for this type, and its entries; every bit survives."""
    part = part_of(dtype)
    if part.kind in ("real", "bfloat"):
        bits = np.ascontiguousarray(data).view(part.bits).astype(part.bits.newbyteorder(">"))
        return "value_h", np.frombuffer(bits.tobytes().hex().encode(), f"S{2 * part.storage.itemsize}")
    field = _INTEGER_FIELDS.get(dtype, "value_i")
    return field, data if field != "value_i" else data.astype("<i4")


_MULTIPLIER: Final = 16807
_MODULUS: Final = 2**31 - 1
# max − min + 1 of the engine.
_RANGE: Final = 2147483646
_BLOCK: Final = 1 << 16
# Values made at a time: what lies between a draw and its value never takes more than a few megabytes.
_CHUNK: Final = 1 << 18


class Engine:
    """std::default_random_engine (minstd_rand0)."""

    _powers: Array | None = None

    def __init__(self, seed: int) -> None:
        # C++ widens a negative seed to 64 bits, and a state of 0 would stay 0.
        self._state = (seed % 2**64) % _MODULUS or 1

    def draw(self, count: int) -> Array:
        """The next `count` draws, as uint64."""
        drawn = np.empty(count, np.uint64)
        powers = self._table()
        for start in range(0, count, _BLOCK):
            part = drawn[start : start + _BLOCK]
            # Both factors are below 2^31, so the product is exact.
            np.multiply(powers[: len(part)], np.uint64(self._state), out=part)
            part %= np.uint64(_MODULUS)
            self._state = int(part[-1])
        return drawn

    @classmethod
    def _table(cls) -> Array:
        """16807^1 … 16807^_BLOCK mod 2^31 − 1."""
        if cls._powers is None:
            powers = np.array([_MULTIPLIER], np.uint64)
            while len(powers) < _BLOCK:
                powers = np.concatenate([powers, powers * powers[-1] % np.uint64(_MODULUS)])
            cls._powers = powers
        return cls._powers


def _canonical(engine: Engine, count: int, real: Any) -> Array:
    """std::generate_canonical with all bits of `real`: one draw for a float, two for a double, in [0, 1)."""
    if real is np.float32:
        values = (engine.draw(count) - np.uint64(1)).astype(np.float32) / np.float32(_RANGE)
    else:
        draws = (engine.draw(2 * count) - np.uint64(1)).astype(np.float64).reshape(count, 2)
        values = (draws[:, 0] + draws[:, 1] * np.float64(_RANGE)) / np.float64(_RANGE**2)
    np.minimum(values, np.nextafter(real(1), real(0)), out=values)
    return values


def uniform(seed: int, low: float, high: float, count: int, real: Any) -> Array:
    """std::uniform_real_distribution between `low` and the last number before `high`; equal bounds: a constant."""
    low, high = real(low), real(high)
    if low == high:
        return np.full(count, low, real)
    engine = Engine(seed)
    drawn = np.empty(count, real)
    with np.errstate(over="ignore", invalid="ignore"):
        high = np.nextafter(high, low)
        for start in range(0, count, _CHUNK):
            values = drawn[start : start + _CHUNK]
            np.multiply(_canonical(engine, len(values), real), high - low, out=values)
            values += low
    return drawn


def gaussian(seed: int, mean: float, deviation: float, count: int, real: Any) -> Array:
    """std::normal_distribution: the polar method gives two values at a time, the second is saved for the next call."""
    engine = Engine(seed)
    logarithm = _logf if real is np.float32 else _log
    drawn = np.empty(count, real)
    have = 0
    while have < count:
        # Four of five pairs fall into the unit circle (π/4).
        pairs = min(count - have, _CHUNK) // 2 + 1
        points = _canonical(engine, 2 * (pairs + pairs // 3 + 8), real).reshape(-1, 2)
        points = real(2) * points - real(1)
        x, y = points[:, 0], points[:, 1]
        radius = x * x + y * y
        inside = (radius <= 1) & (radius != 0)
        values = _polar(y[inside], x[inside], radius[inside], logarithm, real).reshape(-1)[: count - have]
        with np.errstate(over="ignore", invalid="ignore"):
            values *= real(deviation)
            values += real(mean)
        drawn[have : have + len(values)] = values
        have += len(values)
    return drawn


def _polar(first: Array, second: Array, radius: Array, logarithm: Callable[[Array], Array], real: Any) -> Array:
    """libstdc++ hands out y·m first and saves x·m."""
    factor = np.sqrt(real(-2) * logarithm(radius) / radius)
    return np.stack([first * factor, second * factor], axis=1)


def _log(x: Array) -> Array:
    """C's log: numpy may use another implementation, whose last bit differs."""
    return np.array([math.log(value) for value in x.tolist()], np.float64)


# C's logf as glibc computes it since 2.27 (the method of Arm's optimized routines): 1/c and log(c) for 16 points c of
# [0.7, 1.4), and a polynomial for the rest. A correctly rounded logarithm differs in the last bit once in 140 values.
_POINTS: Final = """
    0x1.661ec79f8f3bep+0 -0x1.57bf7808caadep-2
    0x1.571ed4aaf883dp+0 -0x1.2bef0a7c06ddbp-2
    0x1.49539f0f010bp+0  -0x1.01eae7f513a67p-2
    0x1.3c995b0b80385p+0 -0x1.b31d8a68224e9p-3
    0x1.30d190c8864a5p+0 -0x1.6574f0ac07758p-3
    0x1.25e227b0b8eap+0  -0x1.1aa2bc79c81p-3
    0x1.1bb4a4a1a343fp+0 -0x1.a4e76ce8c0e5ep-4
    0x1.12358f08ae5bap+0 -0x1.1973c5a611cccp-4
    0x1.0953f419900a7p+0 -0x1.252f438e10c1ep-5
    0x1p+0                0x0p+0
    0x1.e608cfd9a47acp-1  0x1.aa5aa5df25984p-5
    0x1.ca4b31f026aap-1   0x1.c5e53aa362eb4p-4
    0x1.b2036576afce6p-1  0x1.526e57720db08p-3
    0x1.9c2d163a1aa2dp-1  0x1.bc2860d22477p-3
    0x1.886e6037841edp-1  0x1.1058bc8a07ee1p-2
    0x1.767dcf5534862p-1  0x1.4043057b6ee09p-2
"""
_INVERSE, _LOGARITHM = np.array([float.fromhex(word) for word in _POINTS.split()]).reshape(-1, 2).T
_LN2: Final = float.fromhex("0x1.62e42fefa39efp-1")
_CUBIC: Final = tuple(map(float.fromhex, ("-0x1.00ea348b88334p-2", "0x1.5575b0be00b6ap-2", "-0x1.ffffef20a4123p-2")))
_OFFSET: Final = 0x3F330000


def _logf(x: Array) -> Array:
    """C's logf for normal float32 numbers above 0."""
    bits = x.view(np.int32)
    shifted = bits - np.int32(_OFFSET)
    index = (shifted >> 19) & 15
    exponent = shifted >> 23
    z = (bits - (exponent << 23)).view(np.float32).astype(np.float64)
    r = z * _INVERSE[index] - 1
    square = r * r
    y = _CUBIC[1] * r + _CUBIC[2]
    y = _CUBIC[0] * square + y
    y = y * square + (_LOGARITHM[index] + exponent * _LN2 + r)
    rounded: Array = y.astype(np.float32)
    return rounded


# Values that a file describes without holding them (drawn, padded, decompressed): at most 2 GiB a tensor, four
# times the largest tensor of the network cases, so that a few bytes cannot claim a machine's memory.
DESCRIBED_BYTES: Final = 1 << 31
DEFAULT_SEED: Final = 23
_UNIFORM: Final = 1
_GAUSSIAN: Final = 2


class Rules(Value):
    """How a case's values are read: the folder that paths start from, and what is tolerated."""

    folder: Path
    strict: bool = False
    allow_outside_paths: bool = False


def load_values(tensor: TensorDocument, desc: TensorDesc, rules: Rules, *, output: bool) -> tuple[Array | None, str]:
    """The flat values of the tensor, or None where the file has none for it; and what was tolerated.

    Those of an input are its whole buffer, those of an output its elements in row-major order.
    """
    wanted = desc.count if output else desc.extent
    for field in VALUE_FIELDS:
        entries = tensor.values.get(field.name)
        if entries is not None and len(entries):
            return _fitted(decode(field.name, entries, desc.dtype), field.name, desc, rules, output)
    if tensor.message.HasField("path"):
        name = tensor.message.path
        if isinstance(name, bytes):
            raise CaseFileError(f"path {name!r} is not UTF-8")
        path = resolve(name, rules.folder, rules.allow_outside_paths)
        if path.suffix == ".zst":
            check_described(desc, "decompressed")
        return read_blob(path, desc.dtype.storage, wanted), ""
    if tensor.message.HasField("random_data") and not output:
        check_described(desc, "drawn")
        return _draw(tensor.message.random_data, desc.dtype, wanted), ""
    return (None if wanted else np.empty(0, desc.dtype.storage)), ""


def _fitted(data: Array, field: str, desc: TensorDesc, rules: Rules, output: bool) -> tuple[Array, str]:
    """The stored values, padded with zeros where an input has too few."""
    wanted = desc.count if output else desc.extent
    if len(data) == wanted:
        return data, ""
    found = f"{field} holds {len(data)} elements, the shape {wanted}"
    if len(data) > wanted or output or rules.strict:
        raise CaseFileError(found)
    check_described(desc, "padded with zeros")
    padded = np.zeros(wanted, desc.dtype.storage)
    padded[: len(data)] = data
    return padded, f"{found}: padded with zeros"


def check_described(desc: TensorDesc, how: str) -> None:
    """An error if a small file asks for more memory than a tensor of a real network needs."""
    # Strides may spread few elements over many bytes, or repeat few bytes in many elements.
    asked = max(desc.nbytes, desc.count * desc.dtype.itemsize)
    if asked > DESCRIBED_BYTES:
        raise CaseFileError(
            f"the shape asks for {asked} bytes of values to be {how}; at most {DESCRIBED_BYTES} are, "
            "so store them in a file of their own (path)"
        )


def _draw(random: Any, dtype: DType, count: int) -> Array:
    """What the C++ runner draws; the generator starts anew for every tensor."""
    part = part_of(dtype)
    if random.distribution not in (_UNIFORM, _GAUSSIAN):
        name = random.DESCRIPTOR.fields_by_name["distribution"].enum_type.values_by_number[random.distribution].name
        raise CaseFileError(f"random_data: the distribution {name} is not reproduced; known: UNIFORM, GAUSSIAN")
    if part.kind == "bits" or (dtype in (DType.INT8, DType.INT16) and not random.convert_dtype):
        raise CaseFileError(
            f"random_data: {dtype.value} is drawn only with convert_dtype, as quantisation is not known"
        )
    real = np.float64 if part.storage == np.dtype("<f8") else np.float32
    seed = random.seed if random.HasField("seed") else DEFAULT_SEED
    entries = count * part.per_element
    if random.distribution == _UNIFORM:
        values = uniform(seed, _bound(random, "lower_bound"), _bound(random, "upper_bound"), entries, real)
    else:
        values = gaussian(seed, _bound(random, "mu"), _bound(random, "sigma"), entries, real)
    if part.kind == "integer":
        values = np.floor(values)
    return np.ascontiguousarray(from_reals(values, dtype)).view(dtype.storage)


def _bound(random: Any, name: str) -> float:
    """The double variant of a number wins where it is given."""
    chosen = f"{name}_double" if random.HasField(f"{name}_double") else name
    return float(getattr(random, chosen))
