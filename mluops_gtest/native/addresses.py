"""Where an array's memory is: numpy's C interface to an array, without the Python code behind `array.ctypes`."""

import ctypes
from typing import Any, ClassVar, Final

import numpy.typing as npt


class _ArrayInterface(ctypes.Structure):
    """numpy's documented PyArrayInterface."""

    data: int | None

    _fields_: ClassVar = [
        ("two", ctypes.c_int),
        ("nd", ctypes.c_int),
        ("typekind", ctypes.c_char),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_int),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
    ]


_pointer: Final = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.POINTER(_ArrayInterface), [ctypes.py_object, ctypes.c_char_p]


def address_of(array: npt.NDArray[Any]) -> int:
    """The address of the first element, valid as long as the array lives."""
    capsule = array.__array_struct__
    return _pointer(capsule, None)[0].data or 0
