"""Random numbers that are the same on every machine and with every numpy: raw Philox bits, our own mapping.

Definition (version 1). A case has a seed, a tensor draws from the stream of its name. The key of the stream is
the first 16 bytes of SHA-256("mluops-test/1/<seed>/<name>") read as two little-endian 64-bit words; lane i of the
stream is 32-bit half i mod 2 (low half first) of 64-bit word i // 2 of numpy's raw Philox4x64 output from counter 0.
Each element depends on its own lane(s) alone, so any part of a tensor can be drawn without the rest.
"""

import ctypes
import hashlib
import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mluops_gtest.base.native.arrays import address_of
from mluops_gtest.base.native.library import native_library
from mluops_gtest.core.case import Reseed
from mluops_gtest.core.tensor import Array

_Array = npt.NDArray[Any]


class _Functions:
    def __init__(self, library: ctypes.CDLL) -> None:
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self.lanes, self.lattice = library.mluops_lanes, library.mluops_lattice
        self.lanes.argtypes = [pointer, ctypes.c_uint64, number, pointer]
        self.lattice.argtypes = [pointer, ctypes.c_uint64, number, ctypes.c_uint64, ctypes.c_float, pointer]
        self.lanes.restype = self.lattice.restype = None


_functions: Final = cache(_Functions)


def fill_stream(key: _Array, start: int, out: _Array) -> bool:
    """Write the uint32 lanes from lane `start` on of the stream with this key of two words."""
    library = native_library()
    if library is None:
        return False
    _functions(library).lanes(address_of(key), start, len(out), address_of(out))
    return True


def fill_lattice(key: _Array, start: int, bits: int, scale: float, out: _Array) -> bool:
    """Write the float32 lattice values of the lanes from `start`, a multiple of 8, on."""
    library = native_library()
    if library is None:
        return False
    _functions(library).lattice(address_of(key), start, len(out), (1 << bits) - 1, scale, address_of(out))
    return True


_LANES_PER_BLOCK = 8  # a Philox4x64 block is four 64-bit words
_CHUNK = 1 << 20  # lanes that one thread draws and maps at a time: in 64-bit words 8 MiB
_THREADS = 2
# Every element of a drawn tensor takes one: 256 Mi of them are seven times the largest tensor of a real network here,
# and two gigabytes where values have 64 bits.
MAX_LANES = 1 << 28

# By the type that holds an element its bits, how many of these are mantissa, and the bias of the exponent.
_FORMATS: Final[dict[str, tuple["np.dtype[Any]", int, int]]] = {
    "<f2": (np.dtype("<u2"), 10, 15),
    "<u2": (np.dtype("<u2"), 7, 127),
    "<f4": (np.dtype("<u4"), 23, 127),
}

Shape = int | tuple[int, ...]


class Stream:
    """One named sequence of 32-bit lanes; methods map lanes to values, element i from lane i."""

    def __init__(self, seed: int, name: str) -> None:
        digest = hashlib.sha256(f"mluops-test/1/{seed}/{name}".encode()).digest()
        self._key = np.frombuffer(digest[:16], dtype="<u8").astype(np.uint64)

    def lanes(self, count: int, start: int = 0) -> Array:
        """`count` uint32 lanes from lane `start` on."""
        if count <= _CHUNK and native_library() is None:
            return self._block(start, count)

        def fill(offset: int, part: Array) -> None:
            if not fill_stream(self._key, start + offset, part):
                part[:] = self._block(start + offset, len(part))

        return _filled(count, np.dtype(np.uint32), fill)

    def _block(self, start: int, count: int) -> Array:
        first, skip = divmod(start, _LANES_PER_BLOCK)
        words = (skip + count + 1) // 2
        raw = np.random.Philox(key=self._key, counter=first).random_raw(words)
        lanes: Array = np.asarray(raw, dtype="<u8").view("<u4")[skip : skip + count]
        return lanes

    def integers(self, low: int, high: int, shape: Shape) -> Array:
        """int64 in [low, high): floor(lane · (high − low) / 2^32) + low; high − low ≤ 2^32."""
        span = high - low
        if not 0 < span <= 2**32:
            raise ValueError(f"integers: empty or too wide range [{low}, {high})")

        def fill(start: int, part: Array) -> None:
            lanes = self.lanes(len(part), start).astype(np.uint64)
            part[:] = (lanes * np.uint64(span)) >> np.uint64(32)
            part += low

        return _filled(shape, np.dtype(np.int64), fill)

    def lattice(self, shape: Shape, bits: int, scale: int | None = None, dtype: str = "<f4") -> Array:
        """±k · 2^-scale with k uniform in 1 … 2^bits − 1; never 0, so that a dropped element shows.

        scale defaults to `bits`, so that values lie in (−1, 1). 24 bits fill a float32, 11 a half.
        """
        most = 11 if np.dtype(dtype).itemsize == 2 else 24
        if not 1 <= bits <= most:
            raise ValueError(f"lattice: {bits} bits; {dtype} holds 1 to {most}")
        factor = np.float32(2.0 ** -(bits if scale is None else scale))

        def fill(start: int, part: Array) -> None:
            values = part if part.dtype == np.float32 else np.empty(len(part), np.float32)
            if not fill_lattice(self._key, start, bits, float(factor), values):
                lanes = self.lanes(len(part), start)
                # The lowest bit is the sign, the other 31 pick the magnitude.
                magnitude = ((lanes >> np.uint32(1)).astype(np.uint64) * np.uint64((1 << bits) - 1)) >> np.uint64(31)
                values[:] = magnitude + np.uint64(1)
                np.negative(values, out=values, where=(lanes & np.uint32(1)).astype(bool))
                values *= factor
            if values is not part:
                part[:] = values

        return _filled(shape, np.dtype(dtype), fill)

    def mantissas(self, shape: Shape, exponents: tuple[int, int] = (0, 0), dtype: str = "<f4") -> Array:
        """±1.m · 2^e with every mantissa bit random and e uniform in [lo, hi]; float32, float16, uint16 for bfloat16.

        Sign and mantissa come from the lane's low bits, the exponent from a second lane of the stream
        `count` lanes further on.
        """
        lo, hi = exponents
        count = _count(shape)
        word, mantissa_bits, bias = _FORMATS[np.dtype(dtype).str]
        if lo < 1 - bias or hi > bias:
            raise ValueError(f"mantissas: exponents {lo}…{hi} leave the normal range {1 - bias}…{bias}")

        def fill(start: int, part: Array) -> None:
            lanes = self.lanes(len(part), start)
            spread = (self.lanes(len(part), count + start).astype(np.uint64) * np.uint64(hi - lo + 1)) >> np.uint64(32)
            exponent = (spread.astype(np.int64) + (lo + bias)).astype(np.uint32) << np.uint32(mantissa_bits)
            sign = (lanes >> np.uint32(31)) << np.uint32(8 * word.itemsize - 1)
            part[:] = sign | exponent | (lanes & np.uint32((1 << mantissa_bits) - 1))

        return _filled(shape, word, fill).view(dtype)

    def permutation(self, count: int) -> Array:
        """A permutation of 0 … count − 1: the stable order of 64-bit keys (lanes 2i and 2i+1)."""
        return np.argsort(self._keys(count), kind="stable")

    def _keys(self, count: int) -> Array:
        return self.lanes(2 * count).view("<u8")

    def sample(self, population: int, count: int) -> Array:
        """`count` distinct numbers below `population`, in random order."""
        if count > population:
            raise ValueError(f"sample: {count} distinct numbers below {population} do not exist")
        if not 0 < count < population:
            return self.permutation(population)[:count]
        keys = self._keys(population)
        # The beginning of the permutation, without ordering the rest of it.
        few = np.flatnonzero(keys <= np.partition(keys, count - 1)[count - 1])
        return few[np.argsort(keys[few], kind="stable")[:count]]


class Draw:
    """A case's own source of randomness: independent streams by name."""

    def __init__(self, seed: int, reseed: Reseed | None = None) -> None:
        self.seed = seed if reseed is None else reseed.seed(seed)
        self._reseed = reseed
        # Somebody asked for random numbers.
        self.used = False

    def stream(self, name: str) -> Stream:
        """The stream of that name; asking twice gives the same numbers again."""
        self.used = True
        return Stream(self.seed, name)

    def shared(self, seed: int) -> "Draw":
        """What all cases that name this seed draw alike; other values under --reseed, as everything else."""
        self.used = True
        return Draw(seed, self._reseed)


def _count(shape: Shape) -> int:
    return shape if isinstance(shape, int) else math.prod(shape)


def _filled(shape: Shape, dtype: "np.dtype[Any]", fill: Callable[[int, Array], None]) -> Array:
    """Values of which `fill(start, part)` writes those from `start` on; threads share many."""
    count = _count(shape)
    if count > MAX_LANES:
        raise ValueError(f"{count} random numbers are asked for; at most {MAX_LANES} are drawn at once")
    out = np.empty(count, dtype)
    if count <= _CHUNK:
        fill(0, out)
        return out.reshape(shape)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(lambda start: fill(start, out[start : start + _CHUNK]), range(0, count, _CHUNK)))
    return out.reshape(shape)
