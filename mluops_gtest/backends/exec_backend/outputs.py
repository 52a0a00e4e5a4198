"""Output files back into the harness's buffers: whole or not at all."""

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mluops_gtest.backends.exec_backend.files import UnreadableError, open_regular
from mluops_gtest.model.call import OpCall, TensorArg, Violated
from mluops_gtest.model.cause import Cause, FileSize, Told
from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.status import Status


def take_outputs(call: OpCall, files: Mapping[str, Path], status: Status) -> None:
    """Copy every file of the right size; a wrong size, or a file missing after SUCCESS, is a violation.

    A file written beside a refusal is copied too, so that the harness sees the write.
    """
    # With nothing to do an operator returns early, and an early return writes nothing.
    idle = any(arg is not None and arg.desc.is_empty for arg in (*call.inputs.values(), *call.outputs.values()))
    found: list[Cause] = []
    for name, path in files.items():
        arg = call.tensor(name)
        wanted = arg.desc.nbytes
        try:
            with open_regular(path) as (file, size):
                got = _copy(file, arg, call.array(name)) if size == wanted else size
            if got != wanted:
                found.append(FileSize(path.name, got, name, wanted))
        except FileNotFoundError:
            if status is Status.SUCCESS and not idle:
                found.append(FileSize(path.name, None, name, wanted))
        except UnreadableError as error:
            found.append(Told(str(error)))
    if found:
        raise Violated(*found)


def _copy(file: io.BufferedReader, arg: TensorArg, array: Array) -> int:
    """Read into the buffer; answers the bytes that the file really had."""
    if array.flags.c_contiguous:
        return file.readinto(array.reshape(-1).view(np.uint8).data)
    flat = np.fromfile(file, arg.dtype.storage, arg.desc.extent)
    if len(flat) == arg.desc.extent:
        array[...] = arg.desc.view(flat)
    return flat.nbytes
