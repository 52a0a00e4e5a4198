"""From the declared arguments of an operator's C functions to ctypes: their types, and the values of one call."""

import math
from ctypes import POINTER, byref, c_float, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass, field
from typing import Any, Final

from mluops_gtest.backends.c_library.descriptors import c_array, fitting
from mluops_gtest.model.c_api import ArgumentSource, CArgument, CArguments, CEnum, CType
from mluops_gtest.model.call import Declined, Params
from mluops_gtest.model.cause import Cause, HostArrayChanged

_NUMBERS: Final = {CType.INT: c_int, CType.INT64: c_int64, CType.FLOAT: c_float}


@dataclass(slots=True)
class CallArguments:
    """What the arguments of one call are taken from; None is a null pointer throughout."""

    params: Params | None
    handle: int | None = None
    params_descriptor: int | None = None
    descriptors: dict[str, int | None] = field(default_factory=dict)
    data: dict[str, int | None] = field(default_factory=dict)
    workspace: int | None = None
    workspace_size: int = 0
    # Where the workspace query writes; None is a null pointer here, too.
    query_size: c_size_t | None = field(default_factory=c_size_t)
    _arrays: dict[str, Any] = field(default_factory=dict)

    def values(self, arguments: CArguments) -> list[Any]:
        """The values of these arguments, in their order."""
        return [self._value(argument) for argument in arguments]

    def changed_arrays(self) -> list[Cause]:
        """Host arrays that the library wrote although it gets them as const."""
        return [
            HostArrayChanged(name)
            for name, array in self._arrays.items()
            if array is not None and bytes(array) != bytes(c_array(array._type_, self._param(name)))
        ]

    def _value(self, argument: CArgument) -> Any:
        match argument.source:
            case ArgumentSource.HANDLE:
                return self.handle
            case ArgumentSource.PARAMS:
                return self.params_descriptor
            case ArgumentSource.DESCRIPTOR:
                return self.descriptors[argument.name]
            case ArgumentSource.DATA:
                return self.data[argument.name]
            case ArgumentSource.SCALAR:
                return _number(argument, self._param(argument.name))
            case ArgumentSource.HOST_ARRAY:
                return self._array(argument)
            case ArgumentSource.WORKSPACE:
                return self.workspace
            case ArgumentSource.WORKSPACE_SIZE:
                return self.workspace_size
            case ArgumentSource.ASKED_SIZE:
                return None if self.query_size is None else byref(self.query_size)

    def _param(self, name: str) -> Any:
        if self.params is None:
            raise Declined(f"the descriptor of the parameters is null, and {name} is an argument of its own")
        return self.params[name]

    def _array(self, argument: CArgument) -> Any:
        """One host array for the whole call; None where the caller passes none."""
        if argument.name not in self._arrays:
            self._arrays[argument.name] = c_array(_number_type(argument), self._param(argument.name))
        return self._arrays[argument.name]


def types_of(arguments: CArguments) -> list[Any]:
    """The ctypes of these arguments; handles, descriptors and data are plain pointers."""
    return [_type(argument) for argument in arguments]


def _type(argument: CArgument) -> Any:
    match argument.source:
        case ArgumentSource.SCALAR:
            return _number_type(argument)
        case ArgumentSource.HOST_ARRAY:
            return POINTER(_number_type(argument))
        case ArgumentSource.WORKSPACE_SIZE:
            return c_size_t
        case ArgumentSource.ASKED_SIZE:
            return POINTER(c_size_t)
    return c_void_p


def _number_type(argument: CArgument) -> Any:
    return c_int if isinstance(argument.type, CEnum) else _NUMBERS[argument.type]


def _number(argument: CArgument, value: Any) -> Any:
    if argument.type is not CType.FLOAT:
        return fitting(_number_type(argument), value, argument.name)
    # Rounding to float is what a C caller does, too; only a number that becomes infinite is another one.
    if math.isfinite(value) and not math.isfinite(c_float(value).value):
        raise Declined(f"{argument.name} is {value}, which the C type float cannot hold")
    return value
