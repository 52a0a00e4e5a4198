"""A shared library with the C API of the operators as a backend, on a device or on host memory.

A call is made as a C caller makes it: a handle and descriptors come from the library, the declared arguments of the
operator's functions become ctypes, and everything is given back.
"""

import contextlib
import math
import os
from collections.abc import Callable, Sequence
from ctypes import POINTER, byref, c_bool, c_float, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.backends.c_memory import (
    MADE,
    RUNTIME,
    Api,
    CallMemory,
    DeviceMemory,
    Function,
    Prototypes,
    Refused,
    Resources,
    Role,
    Runtime,
    SharedLibrary,
    status_of,
)
from mluops_gtest.base.frozen import Value
from mluops_gtest.core.buffers import whole_buffer
from mluops_gtest.core.call import (
    DEFAULT_ARCH,
    DEFAULT_NRAM_BYTES,
    Declined,
    Handle,
    OpCall,
    Params,
    QueryAnswer,
    Status,
    TensorArg,
    Violated,
)
from mluops_gtest.core.case import DEVICE_VARIABLE
from mluops_gtest.core.cause import Cause, HostArrayChanged
from mluops_gtest.core.operator_parts import (
    ArgumentSource,
    CApi,
    CArgument,
    CArguments,
    CEnum,
    CFunction,
    CParams,
    CSignature,
    CType,
)
from mluops_gtest.core.tensor import TensorDesc

# Entries of zero behind every host array: a call with contradicting sizes makes a library read a little further
# before it refuses, and what it finds there must not depend on chance.
SPARE_ENTRIES: Final = 64


def make_handle(api: Api, resources: Resources, wanted: Handle, queue: int | None) -> int:
    """A handle on the queue that plays the wanted device; a library that cannot play it declines."""
    handle = api.make(resources, "handle", "mluOpCreate", "mluOpDestroy")
    api.call("mluOpSetQueue", handle, queue)
    if wanted.arch != DEFAULT_ARCH:
        _play(api, "mluOpTestSetArch", handle, wanted.arch, "an older device")
    if wanted.nram_bytes != DEFAULT_NRAM_BYTES:
        _play(api, "mluOpTestSetNramBytes", handle, wanted.nram_bytes, "another NRAM size")
    return handle


def make_tensor_descriptor(api: Api, resources: Resources, name: str, desc: TensorDesc) -> int:
    """A tensor descriptor with 64-bit dims, and strides where the tensor has them."""
    if desc.dtype.c_number is None:
        raise Declined(f"the C API has no number for the type {desc.dtype.value} of {name}")
    names = ("mluOpCreateTensorDescriptor", "mluOpDestroyTensorDescriptor")
    descriptor = api.make(resources, "tensor descriptor", *names)
    head = (descriptor, desc.layout.c_number, desc.dtype.c_number, len(desc.dims), c_array(c_int64, desc.dims))
    if desc.strides is None:
        api.call("mluOpSetTensorDescriptor_v2", *head, about=name)
    else:
        api.call("mluOpSetTensorDescriptorEx_v2", *head, c_array(c_int64, desc.strides), about=name)
    return descriptor


def c_array(element: Any, values: Any) -> Any:
    """The values as a host array with spare zeros behind them; None is the null pointer."""
    if values is None:
        return None
    numbers: Sequence[int] = [fitting(element, value, "an entry of a host array") for value in values]
    return (element * (len(numbers) + SPARE_ENTRIES))(*numbers)


def fitting(ctype: Any, value: int, name: str) -> int:
    """The value, if the C type can hold it; ctypes would cut it silently."""
    if ctype(value).value != value:
        raise Declined(f"{name} is {value}, which the C type {ctype.__name__.removeprefix('c_')} cannot hold")
    return int(value)


def _play(api: Api, hook: str, handle: int, value: int, what: str) -> None:
    if not api.offers(hook):
        raise Declined(f"library cannot simulate {what} (it does not export {hook})")
    try:
        api.call(hook, handle, value)
    except Refused as refused:
        raise Declined(f"library cannot simulate {what} ({hook} refuses {value})") from refused


_NUMBERS: Final = {CType.INT: c_int, CType.INT64: c_int64, CType.FLOAT: c_float, CType.BOOL: c_bool}


@dataclass(slots=True)
class CallArguments:
    """What the arguments of one call are taken from; None is a null pointer throughout."""

    params: Params | None
    handle: int | None = None
    params_descriptor: int | None = None
    descriptors: dict[str, int | None] = field(default_factory=dict)
    data: dict[str, int | None] = field(default_factory=dict)
    dims: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
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
            case ArgumentSource.SIZE:
                return _number(argument, argument.size(self.dims))
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
        case ArgumentSource.SCALAR | ArgumentSource.SIZE:
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


def prototypes_of(declared: CParams) -> Prototypes:
    """The descriptor's functions with the types of their arguments."""
    return {
        declared.create: (MADE,),
        declared.destroy: (c_void_p,),
        declared.set: (c_void_p, *types_of(declared.arguments)),
        **{getter: (c_void_p, POINTER(c_int)) for getter in declared.getters.values()},
    }


def make_params_descriptor(api: Api, resources: Resources, declared: CParams, arguments: CallArguments) -> int:
    """A descriptor of the call's parameters; a host array that is None is passed as NULL."""
    descriptor = api.make(resources, "parameter descriptor", declared.create, declared.destroy)
    # Values of its own: what the setter does to its host arrays is no affair of the operator.
    api.call(declared.set, descriptor, *CallArguments(arguments.params).values(declared.arguments))
    return descriptor


def results_of(api: Api, declared: CParams, descriptor: int) -> dict[str, int]:
    """The scalar results that the operator noted in the descriptor."""
    results = {}
    for name, getter in declared.getters.items():
        value = c_int()
        api.call(getter, descriptor, byref(value))
        results[name] = value.value
    return results


MLU_LIBRARY = "libmluops.so"
MLU_RUNTIME = "libcnrt.so"

# The C functions of the operator of that name; None where none are declared.
CFunctions = Callable[[str], CApi | None]


class _Bound(Value):
    """An operator's signature with the library's functions."""

    signature: CSignature
    function: Function
    query: Function | None

    def operate(self, arguments: CallArguments) -> int:
        return self.function(*arguments.values(self.signature.function.arguments))

    def ask(self, arguments: CallArguments) -> QueryAnswer | None:
        """What the library's workspace query answers; None where the operator has none."""
        query = self.signature.query
        if self.query is None or query is None:
            return None
        status = status_of(query.name, self.query(*arguments.values(query.arguments)))
        if arguments.query_size is None:
            return QueryAnswer(query.name, status, size_null=True, twin_of=query.twin_of)
        size = arguments.query_size.value if status is Status.SUCCESS else 0
        return QueryAnswer(query.name, status, size, twin_of=query.twin_of)


class CLibraryBackend:
    """Runs each case through the library's C API, on the device that a runtime offers or else on host memory.

    A descriptor setter that refuses ends the call with its status. The workspace query is made in every call and told
    in `call.queries`; where it refuses, the operator is called all the same with a null workspace of size 0: its own
    status is the answer. Otherwise workspace and size are passed as the call gives them.
    """

    def __init__(
        self,
        functions: CFunctions,
        library: str | Path,
        runtime: str | Path | None = None,
        *,
        name: str | None = None,
    ) -> None:
        self._functions = functions
        # Before the library, and visible: a library may be linked without naming the runtime that it calls.
        beside = None if runtime is None else SharedLibrary(runtime, visible=True)
        self._library = SharedLibrary(library)
        self.name = name or f"c:{self._library.name}"
        self._api = Api(self._library)
        self.version = self._api.version()
        # The library itself, or one that it depends on, may offer the runtime.
        if beside is None and len(self._library.lacking(RUNTIME)) < len(RUNTIME):
            beside = self._library
        self._runtime = None if beside is None else Runtime(beside)
        self._operators: dict[str, _Bound] = {}
        self._seconds: float | None = None

    @classmethod
    def mlu(cls, functions: CFunctions, runtime: str | Path | None = None) -> "CLibraryBackend":
        """The accelerator's own library and runtime, as the system's loader finds them."""
        return cls(functions, MLU_LIBRARY, runtime or MLU_RUNTIME, name="mlu")

    @property
    def host_memory(self) -> bool:
        """The operators work on the harness's own buffers: there is no runtime."""
        return self._runtime is None

    def workspace_size(self, call: OpCall) -> int:
        """What the library's query says; 0 where it refuses, which `run` then tells."""
        operator = self._bound(call.operator)
        with Resources() as resources:
            try:
                arguments = self._arguments_of(call, operator, resources, self._memory_for(resources, call.device))
                answer = operator.ask(arguments)
                return 0 if answer is None else answer.size
            except Refused:
                return 0

    def run(self, call: OpCall) -> Status:
        """Make the call; the status is the operator's, or that of the function around it that refused first."""
        operator = self._bound(call.operator)
        self._seconds = None
        with Resources() as resources:
            try:
                status = self._run(call, operator, resources)
            except Refused as refused:
                call.notes.append(refused.note)
                status = refused.status
        for refusal in resources.refusals:
            call.notes.append(refusal.note)
            if status is Status.SUCCESS:
                status = refusal.status
        return status

    def run_empty(self, call: OpCall) -> None:
        """All that a call takes but the operator: handle, descriptors, workspace query, copies."""
        operator = replace(self._bound(call.operator), function=lambda *_: 0)
        with contextlib.suppress(Refused), Resources() as resources:
            self._run(call, operator, resources)

    def device_seconds(self) -> float | None:
        """What the notifiers around the last operator call measured; None where there are none."""
        return self._seconds

    def healthy(self) -> bool:
        """Everything but an operator works: handle, queue, a small buffer, sync, free."""
        device = os.environ.get(DEVICE_VARIABLE, "")
        with Resources() as resources:
            try:
                memory = self._memory_for(resources, int(device) if device.isdecimal() else None)
                make_handle(self._api, resources, Handle(), memory.queue)
                memory.put("probe", np.zeros(64, np.uint8), Role.OUTPUT)
                memory.execute(lambda: 0)
                damage = memory.collect()
            except (Refused, ValueError):
                return False
        return not damage and not resources.refusals

    def _run(self, call: OpCall, operator: _Bound, resources: Resources) -> Status:
        memory = self._memory_for(resources, call.device)
        arguments = self._arguments_of(call, operator, resources, memory)
        answer = operator.ask(arguments)
        if answer is not None:
            call.queries.append(answer)
            if call.size_null:
                arguments.query_size = None
                call.queries.extend(filter(None, [operator.ask(arguments)]))
        optional = {one.name for one in operator.signature.function.arguments if one.optional}
        for tensors, role in ((call.inputs, Role.INPUT), (call.outputs, Role.OUTPUT)):
            for name, arg in tensors.items():
                is_absent = arg is None and name in optional
                arguments.data[name] = None if is_absent else _address(memory, name, arg, role)
        if answer is None or answer.status is Status.SUCCESS:
            arguments.workspace_size = call.workspace_size
            if call.workspace is not None:
                arguments.workspace = memory.put("workspace", call.workspace, Role.WORKSPACE)
        code, self._seconds = memory.execute(lambda: operator.operate(arguments))
        damage = memory.collect() + arguments.changed_arrays()
        if damage:
            raise Violated(*damage)
        status = status_of(operator.signature.function.name, code)
        if status is not Status.SUCCESS:
            return status
        if operator.signature.params is not None and arguments.params_descriptor is not None:
            call.scalars.update(results_of(self._api, operator.signature.params, arguments.params_descriptor))
        if memory.remark:
            call.notes.append(memory.remark)
        return status

    def _memory_for(self, resources: Resources, device: int | None) -> CallMemory:
        return CallMemory() if self._runtime is None else DeviceMemory(self._runtime, resources, device)

    def _arguments_of(self, call: OpCall, operator: _Bound, resources: Resources, memory: CallMemory) -> CallArguments:
        """The handle and all descriptors; what the call has as None stays null."""
        arguments = CallArguments(call.params)
        if call.handle is not None:
            arguments.handle = make_handle(self._api, resources, call.handle, memory.queue)
        declared = operator.signature.params
        if declared is not None and call.params is not None:
            arguments.params_descriptor = make_params_descriptor(self._api, resources, declared, arguments)
        for name, arg in (*call.inputs.items(), *call.outputs.items()):
            made = None if arg is None else make_tensor_descriptor(self._api, resources, name, arg.desc)
            arguments.descriptors[name] = made
            arguments.dims[name] = None if arg is None else arg.dims
        return arguments

    def _bound(self, operator: str) -> _Bound:
        """The operator's functions, bound at its first call."""
        if operator in self._operators:
            return self._operators[operator]
        signatures = self._functions(operator)
        if signatures is None:
            raise Declined(f"no C functions for {operator}: it declares no `c_api`")
        library = self._library
        for signature in signatures:
            if not library.lacking(signature.symbols):
                if signature.params is not None:
                    self._api.bind(prototypes_of(signature.params))
                query = None if signature.query is None else self._bind_function(signature.query)
                bound = _Bound(signature, self._bind_function(signature.function), query)
                return self._operators.setdefault(operator, bound)
        missing = " or ".join(", ".join(library.lacking(signature.symbols)) for signature in signatures)
        raise Declined(f"{library.name} does not export {missing}")

    def _bind_function(self, declared: CFunction) -> Function:
        return self._library.bind(declared.name, types_of(declared.arguments))


def _address(memory: CallMemory, name: str, arg: TensorArg | None, role: Role) -> int | None:
    """NULL where the call says so; a page where there is a pointer and nothing behind it."""
    if arg is not None and arg.null:
        return None
    if arg is None or arg.array is None:
        return memory.page(name)
    return memory.put(name, whole_buffer(arg, arg.array).view(np.uint8), role)
