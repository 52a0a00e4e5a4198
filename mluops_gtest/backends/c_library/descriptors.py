"""The handle and the descriptors of one call, made in the library exactly as a caller would make them."""

from collections.abc import Sequence
from ctypes import c_int64
from typing import Any, Final

from mluops_gtest.backends.c_library.api import Api, Refused
from mluops_gtest.backends.c_library.resources import Resources
from mluops_gtest.model.call import DEFAULT_ARCH, DEFAULT_NRAM_BYTES, Declined, Handle
from mluops_gtest.model.tensor import TensorDesc

# Entries of zero behind every host array: a call with contradicting sizes makes a library read a little further
# before it refuses, and what it finds there must not depend on chance.
SPARE_ENTRIES: Final = 64


def make_handle(api: Api, resources: Resources, wanted: Handle, queue: int | None) -> int:
    """A handle on the queue that plays the wanted device; a library that cannot play it declines."""
    handle = api.make("mluOpCreate")
    resources.own("handle", lambda: api.call("mluOpDestroy", handle))
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
    descriptor = api.make("mluOpCreateTensorDescriptor")
    resources.own("tensor descriptor", lambda: api.call("mluOpDestroyTensorDescriptor", descriptor))
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
