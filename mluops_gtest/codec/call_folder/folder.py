"""A call as a folder that any program can read: call.json, call.txt, case.pb and one raw file per input."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from mluops_gtest.codec.call_folder.call_json import NONE, NULL, call_to_json
from mluops_gtest.codec.call_folder.call_text import call_lines
from mluops_gtest.codec.case_files.files import write_document
from mluops_gtest.codec.case_files.writer import case_document
from mluops_gtest.codec.schema.schema import Schema
from mluops_gtest.model.call import DEFAULT_ARCH, DEFAULT_NRAM_BYTES, Handle, OpCall, TensorArg
from mluops_gtest.model.case import Case, Expect
from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.operator import Operator, OutputSpec, TensorSpec
from mluops_gtest.model.tensor import Tensor, TensorDesc

CALL_JSON: Final = "call.json"
CALL_TEXT: Final = "call.txt"
CASE: Final = "case.pb"
_WORKSPACE: Final = "workspace"


class CallFolderWriter:
    """Writes calls of these operators; the expected answer is in no file, as it is not in the call."""

    def __init__(self, operators: Mapping[str, Operator]) -> None:
        self._operators = operators
        self._schemas: dict[str, Schema] = {}

    def write(self, call: OpCall, folder: Path) -> dict[str, Path]:
        description = call_to_json(call)
        files = {
            tensor["id"]: folder / tensor["data"]
            for tensor in description["tensors"]
            if tensor["data"] not in (NULL, NONE)
        }
        for tensor in description["tensors"]:
            # An output that one element cannot fill is there before the call, as an input is.
            if tensor["id"] in files and "fill" not in tensor and (tensor["role"] == "input" or tensor["bytes"]):
                arg = call.tensor(tensor["id"])
                buffer_of(arg, call.array(tensor["id"])).tofile(files[tensor["id"]])
        self._write_case(call, folder / CASE, files)
        (folder / CALL_TEXT).write_text("".join(f"{line}\n" for line in call_lines(description)), encoding="utf-8")
        (folder / CALL_JSON).write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
        return {name: files[name] for name in call.outputs if name in files}

    def _write_case(self, call: OpCall, path: Path, files: Mapping[str, Path]) -> None:
        """The call in the case format; its inputs are the raw files beside it."""
        operator = self._operators[call.operator]
        if operator.name not in self._schemas:
            self._schemas[operator.name] = Schema.of((operator,))
        document = case_document(case_of(call, operator), operator, self._schemas[operator.name])
        for spec, tensor in zip(operator.inputs, document.inputs, strict=True):
            file = files.get(spec.id)
            if file is not None and file.stat().st_size:
                tensor.message.path = file.name
        write_document(document, path)


def buffer_of(arg: TensorArg, array: Array) -> Array:
    """The tensor's whole buffer, flat; between the elements of a strided one zeros."""
    if not arg.desc.is_strided:
        return np.ascontiguousarray(array).reshape(-1)
    flat = np.zeros(arg.desc.extent, arg.dtype.storage)
    arg.desc.view(flat)[...] = array
    return flat


def case_of(call: OpCall, operator: Operator) -> Case:
    """A case without values that makes this call; the baseline is left to the reference."""
    return Case(
        id=call.operator,
        operator=call.operator,
        inputs=tuple(_tensor(spec, call.inputs[spec.id]) for spec in operator.inputs),
        outputs=tuple(_tensor(spec, call.outputs[spec.id]) for spec in operator.outputs),
        params=call.params or {},
        criteria=((),) * len(operator.outputs),
        expect=_caller(call, operator),
        baseline_stored=False,
    )


def _tensor(spec: TensorSpec | OutputSpec, arg: TensorArg | None) -> Tensor:
    # The format has no absent tensor: a null descriptor is listed in `expect`, and a placeholder takes its place.
    return Tensor(spec.id, TensorDesc(spec.dtypes[0], spec.layouts[0], (0,)) if arg is None else arg.desc)


def _caller(call: OpCall, operator: Operator) -> Expect:
    """What is special about the caller; status and check keep their defaults, so that no file tells the answer."""
    tensors = {**call.inputs, **call.outputs}
    descriptors = [name for name, arg in tensors.items() if arg is None]
    if call.params is None and operator.params_descriptor is not None:
        descriptors.append(operator.params_descriptor)
    pointers = [name for name, arg in tensors.items() if arg is not None and arg.null]
    pointers += [name for name, value in (call.params or {}).items() if value is None]
    if call.workspace is None and call.workspace_size:
        pointers.append(_WORKSPACE)
    handle = call.handle or Handle()
    return Expect(
        arch=None if handle.arch == DEFAULT_ARCH else handle.arch,
        nram_bytes=None if handle.nram_bytes == DEFAULT_NRAM_BYTES else handle.nram_bytes,
        null_descriptor=tuple(descriptors),
        null_pointer=tuple(pointers),
        null_handle=call.handle is None,
        workspace_size=call.workspace_size or None,
    )
