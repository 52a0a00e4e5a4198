"""How a thread computes with floats: changed as libraries do it, without a compiler, and looked at."""

import ctypes
import platform

import numpy as np

TINY = np.float32(1e-39)
_Registers = ctypes.c_uint32 * 64
# The word of fenv_t that holds the controls of SSE or of ARM's units, and what sets it so.
_WORD, _BITS = {
    "x86_64": (7, {"flush": (0x8040, 0), "upwards": (0x4000, 0), "trap": (0, 0x0200)}),
    "aarch64": (0, {"flush": (1 << 24, 0), "upwards": (1 << 22, 0), "trap": (1 << 9, 0)}),
}[platform.machine()]


def change_floats(how: str) -> None:
    """Let the calling thread flush subnormals to zero, round upwards, or trap divisions by zero."""
    library, registers = ctypes.CDLL(None), _Registers()
    library.fegetenv(registers)
    on, off = _BITS[how]
    registers[_WORD] = (registers[_WORD] | on) & ~off
    library.fesetenv(registers)


def floats() -> tuple[bool, bool, int]:
    """Whether subnormals are 0 in the calling thread, whether it rounds up, and the controls."""
    registers = _Registers()
    ctypes.CDLL(None).fegetenv(registers)
    rounds_up = np.float32(1) + TINY != 1
    return bool(TINY * np.float32(1) == 0), bool(rounds_up), registers[_WORD] & ~0x3F
