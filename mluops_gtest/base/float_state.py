"""How a thread computes with floats: rounding, subnormals and traps of the processor, and numpy's errstate.

A library may change that for the thread which loads or calls it. Calls run with what loading left, judgements with
ours.
"""

import contextlib
import ctypes
import platform
import sys
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from mluops_gtest.base.errors import UsageError

# More than any system's fenv_t: 32 bytes on x86-64 with glibc.
_Registers = ctypes.c_uint32 * 64
# Two words of fenv_t that hold controls, each with the bits that are no sticky flags: x87 and MXCSR, or FPCR alone.
# Of other machines it is put back as well, but nobody is told.
_CONTROLS: Final = {"x86_64": (0, 0x0F3F, 7, 0xFFC0), "aarch64": (0, 0xFFFFFFFF, 0, 0)}
_WORD, _BITS, _OTHER_WORD, _OTHER_BITS = _CONTROLS.get(platform.machine(), (0, 0, 0, 0))
# Where numpy 2 keeps its errstate: to look there takes a tenth of the public functions' time.
_EXTOBJ: Final[Any] = getattr(sys.modules.get("numpy._core.umath"), "_extobj_contextvar", None)
_DEFAULT_ERRORS: Final = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}


def _functions() -> tuple[Any, Any, Any] | None:
    """The C library's fegetenv and fesetenv, and what the latter takes for the state of a new program."""
    try:
        library = ctypes.CDLL(None)
        take, put = library["fegetenv"], library["fesetenv"]
        take.argtypes = put.argtypes = (ctypes.c_void_p,)
        if sys.platform == "darwin":
            return take, put, ctypes.addressof(_Registers.in_dll(library, "_FE_DFL_ENV"))
    except (OSError, TypeError, AttributeError, ValueError):
        return None
    return take, put, ctypes.c_void_p(-1)


_C: Final = _functions()


class FloatState:
    """The state of the calling thread at the moment."""

    def __init__(self) -> None:
        self._registers = _Registers()
        if _C is not None:
            _C[0](self._registers)
        self._controls = _controls(self._registers)
        self._errors: tuple[Any, Any] = (np.geterr(), np.geterrcall())
        self._extobj = None if _EXTOBJ is None else _EXTOBJ.get()

    def enter(self) -> None:
        """Let the calling thread compute like this."""
        if _C is not None:
            _C[1](self._registers)
        if _EXTOBJ is not None:
            _EXTOBJ.set(self._extobj)
        else:
            np.seterr(**self._errors[0])
            np.seterrcall(self._errors[1])

    def changes(self) -> tuple[str, ...]:
        """In words, what is different in the calling thread now; no sticky flag, which every operation sets."""
        found: tuple[str, ...] = ()
        if _C is not None:
            now = _Registers()
            _C[0](now)
            if _controls(now) != self._controls:
                found = ("changed how floats are rounded, flushed to zero or trapped; that was put back",)
        is_same = _EXTOBJ is not None and _EXTOBJ.get() is self._extobj
        if not is_same and (np.geterr(), np.geterrcall()) != self._errors:
            found = (*found, "changed numpy's errstate; that was put back")
        return found


def _controls(registers: "ctypes.Array[ctypes.c_uint32]") -> tuple[int, int]:
    return registers[_WORD] & _BITS, registers[_OTHER_WORD] & _OTHER_BITS


def _own_state() -> FloatState:
    """The state of a new program, whatever was loaded before us."""
    before = FloatState()
    if _C is not None:
        _C[1](_C[2])
    np.seterr(**_DEFAULT_ERRORS)  # type: ignore[arg-type]
    np.seterrcall(None)
    own = FloatState()
    before.enter()
    return own


OWN: Final = _own_state()


@contextlib.contextmanager
def own_floats() -> Iterator[FloatState]:
    """Compute as the harness does while this lasts; gives the state before, which comes back in the end."""
    before = FloatState()
    OWN.enter()
    try:
        yield before
    finally:
        before.enter()


def require_float_state(backend: str) -> None:
    """Refuse foreign code in this process where nobody could put back what it does to floats."""
    if _C is None:
        raise UsageError(
            f"Backend {backend!r} cannot run in this process: the C library has no fegetenv, so that what it does to "
            "rounding and subnormals would decide verdicts. Leave out --no-isolate."
        )
