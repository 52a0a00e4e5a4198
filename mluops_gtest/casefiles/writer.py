"""From a Case to its file: what our files carry, always in the same bytes.

A call as a folder that any program can read: call.json, call.txt, case.pb and one raw file per input.
"""

import json
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, suggestion
from mluops_gtest.base.files import replace_file
from mluops_gtest.casefiles.elements import encode
from mluops_gtest.casefiles.files import write_document, write_text
from mluops_gtest.casefiles.reader import CPU, THEORY, write_criteria
from mluops_gtest.casefiles.schema import Document, Schema, TensorDocument
from mluops_gtest.core.buffers import whole_buffer
from mluops_gtest.core.call import DEFAULT_ARCH, DEFAULT_NRAM_BYTES, Handle, OpCall, TensorArg
from mluops_gtest.core.case import Case, Expect
from mluops_gtest.core.declaration import OutputSpec, TensorSpec
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.tensor import Array, DType, Tensor, TensorDesc

GENERATOR_CPU: Final = 4
# Types that a float field holds exactly.
_AS_NUMBERS: Final = (DType.HALF, DType.FLOAT)
# With blobs, a tensor of more bytes than this goes to a separate file.
BLOB_BYTES: Final = 1 << 16


def case_text(case: Case, operator: Operator, schema: Schema) -> bytes:
    """The bytes of the case as a committed file: its declaration says why the baseline is constant."""
    committed = replace(case, expect=replace(case.expect, degenerate=None))
    return b"".join(write_text(case_document(committed, operator, schema)))


def write_case(
    case: Case, operator: Operator, path: Path, schema: Schema, *, blobs: bool = False, readable: bool = False
) -> None:
    """Store the case, text or binary by its name; with `blobs`, large tensors as raw files beside it.

    A `readable` file is for people: numbers instead of bit patterns, where a text keeps them.
    """
    write_document(case_document(case, operator, schema, path if blobs else None, readable=readable), path)


def case_document(
    case: Case, operator: Operator, schema: Schema, blobs_of: Path | None = None, *, readable: bool = False
) -> Document:
    """The case as the fields of its file; large tensors are written beside `blobs_of`, the file's path, where given."""
    node = schema.node()
    node.op_name = operator.released_name
    node.op_type = operator.op_type[1]
    node.device = GENERATOR_CPU if case.baseline_stored else CPU
    for figure in THEORY:
        if figure in case.theory:
            setattr(node, figure, case.theory[figure])
    _write_params(case, operator, node)
    if case.expect != Expect():
        _write_expect(case.expect, node.Extensions[schema.expect])
    document = Document(node)
    document.inputs = [_tensor(tensor, schema, blobs_of, readable) for tensor in case.inputs]
    document.outputs = [_tensor(tensor, schema, blobs_of, readable, is_output=True) for tensor in case.outputs]
    write_criteria(case.criteria, document)
    return document


def _tensor(
    tensor: Tensor, schema: Schema, blobs_of: Path | None, readable: bool, *, is_output: bool = False
) -> TensorDocument:
    desc, data = tensor.desc, tensor.data
    document = TensorDocument(schema.tensor())
    message = document.message
    message.id = tensor.id
    message.shape.SetInParent()
    message.shape.dims.extend(desc.dims)
    message.shape.dim_stride.extend(desc.strides or ())
    message.layout = desc.layout.schema_number
    message.dtype = desc.dtype.schema_number
    if data is None or not len(data):
        return document
    if data.dtype != desc.dtype.storage or data.shape != (desc.extent,):
        raise ContentError(
            f"Tensor {tensor.id!r} holds {data.dtype} {data.shape}; "
            f"its descriptor wants {desc.dtype.storage} ({desc.extent},)."
        )
    if is_output and desc.is_strided:
        data = np.ascontiguousarray(tensor.values).reshape(-1)
    if blobs_of is not None and data.nbytes > BLOB_BYTES:
        blob = blobs_of.with_name(f"{blobs_of.stem}.{tensor.id}.bin")
        replace_file(blob, [data.data])
        message.path = blob.name
    elif readable and desc.dtype in _AS_NUMBERS and np.isfinite(data).all():
        document.values["value_f"] = data.astype("<f4")
    else:
        field, values = encode(data, desc.dtype)
        document.values[field] = values
    return document


def _write_params(case: Case, operator: Operator, node: Any) -> None:
    known = [field.name for field in operator.param_fields]
    if operator.params is not None:
        message = getattr(node, operator.params.field)
        message.SetInParent()
    for name, value in case.params.items():
        if name not in known:
            raise ContentError(f"{case.id}: {operator.name} has no parameter {name!r}.{suggestion(name, known)}")
        if value is None:
            continue
        try:
            if isinstance(value, tuple):
                getattr(message, name).extend(value)
            else:
                setattr(message, name, value)
        except (TypeError, ValueError, AttributeError) as error:
            raise ContentError(f"{case.id}: the parameter {name} cannot be {value!r}: {error}.") from error


def _write_expect(expect: Expect, message: Any) -> None:
    message.status = int(expect.status)
    for field in ("check", "arch", "nram_bytes", "workspace_size", "degenerate"):
        if getattr(expect, field) is not None:
            setattr(message, field, getattr(expect, field))
    if expect.null_handle:
        message.null_handle = True
    message.null_descriptor.extend(expect.null_descriptor)
    message.null_pointer.extend(expect.null_pointer)


FORMAT: Final = 1
# Values of `data` without a file: the pointer is null, or valid but must not be read.
NULL: Final = "null"
NONE: Final = "none"
_SUFFIX: Final = {"input": "in", "output": "out"}


def call_to_json(call: OpCall) -> dict[str, Any]:
    """The description of the call; values stay out, `data` names the file that holds them or is to hold them."""
    return {
        "format": FORMAT,
        "operator": call.operator,
        "handle": None if call.handle is None else {"arch": call.handle.arch, "nram_bytes": call.handle.nram_bytes},
        "device": call.device,
        "workspace": {"size": call.workspace_size, "null": call.workspace is None},
        "params": None
        if call.params is None
        else {name: list(value) if isinstance(value, tuple) else value for name, value in call.params.items()},
        "tensors": [
            _tensor_json(role, name, arg)
            for role, args in (("input", call.inputs), ("output", call.outputs))
            for name, arg in args.items()
        ],
        "scalars": dict(call.scalars),
    }


def _tensor_json(role: str, name: str, arg: TensorArg | None) -> dict[str, Any]:
    tensor: dict[str, Any] = {"id": name, "role": role, "descriptor": None, "data": NONE}
    if arg is None:
        return tensor
    tensor["descriptor"] = {
        "dtype": arg.dtype.value,
        "layout": arg.layout.value,
        "dims": list(arg.dims),
        "strides": None if arg.strides is None else list(arg.strides),
    }
    if arg.null:
        tensor["data"] = NULL
    elif arg.array is not None:
        tensor["data"] = f"{name}.{_SUFFIX[role]}"
        tensor["bytes"] = arg.desc.nbytes
        if role == "output" and arg.array.size:
            tensor |= _filling(arg.array.view(arg.dtype.bits))
    return tensor


def _filling(bits: Array) -> dict[str, str]:
    """One element, poison or preset, fills the whole buffer, unless some rows keep what the caller preset."""
    first = bits.flat[0]
    return {"fill": first.tobytes().hex()} if (bits == first).all() else {}


def call_lines(description: Mapping[str, Any]) -> Iterator[str]:
    """The lines of call.txt: words and numbers with one space between them, the operator among the first."""
    yield f"format {description['format']}"
    yield f"operator {description['operator']}"
    handle = description["handle"]
    yield "handle null" if handle is None else f"handle {handle['arch']} {handle['nram_bytes']}"
    yield f"device {'none' if description['device'] is None else description['device']}"
    workspace = description["workspace"]
    yield f"workspace {workspace['size']} {'null' if workspace['null'] else 'given'}"
    yield from _params(description["params"])
    for tensor in description["tensors"]:
        yield from _tensor_lines(tensor)


def _params(params: Mapping[str, Any] | None) -> Iterator[str]:
    if params is None:
        yield "params null"
        return
    for name, value in params.items():
        values = value if isinstance(value, list) else [value]
        yield _line("param", name, *map(_word, values))


def _tensor_lines(tensor: Mapping[str, Any]) -> Iterator[str]:
    role, name, desc = tensor["role"], tensor["id"], tensor["descriptor"]
    if desc is None:
        yield _line(role, name, "absent")
        return
    dims = desc["dims"]
    yield _line(role, name, desc["dtype"], desc["layout"], tensor["data"], tensor.get("bytes", 0), len(dims), *dims)
    if desc["strides"] is not None:
        yield _line("strides", name, *desc["strides"])
    if "fill" in tensor:
        yield _line("fill", name, tensor["fill"])


def _line(*words: object) -> str:
    return " ".join(map(str, words))


def _word(value: Any) -> str:
    """Numbers as they are, a truth value as 0 or 1, a null array as null, a string in quotes."""
    return str(int(value)) if isinstance(value, bool) else json.dumps(value)


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
            # An output that one element cannot fill is there before the call, as an input is, or instead of one.
            is_filled = "fill" in tensor and tensor["id"] not in self._operators[call.operator].initial_contents
            if tensor["id"] in files and not is_filled and (tensor["role"] == "input" or tensor["bytes"]):
                arg = call.tensor(tensor["id"])
                whole_buffer(arg, call.array(tensor["id"])).tofile(files[tensor["id"]])
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
        for spec, tensor in zip(_file_inputs(call, operator), document.inputs, strict=True):
            file = files.get(spec.becomes or spec.id)
            if file is not None and file.is_file() and file.stat().st_size:
                tensor.message.path = file.name
        write_document(document, path)


def _file_inputs(call: OpCall, operator: Operator) -> tuple[TensorSpec, ...]:
    """The inputs that a file of the call has: not the last ones, which it lacks."""
    given = list(operator.inputs)
    while given and given[-1].optional and call.inputs[given[-1].id] is None:
        given.pop()
    return tuple(given)


def case_of(call: OpCall, operator: Operator) -> Case:
    """A case without values that makes this call; the baseline is left to the reference."""
    given = _file_inputs(call, operator)
    lacking = operator.optional - {spec.id for spec in given}
    return Case(
        id=call.operator,
        operator=call.operator,
        inputs=tuple(
            _folder_tensor(spec, call.outputs[spec.becomes] if spec.becomes else call.inputs[spec.id]) for spec in given
        ),
        outputs=tuple(_folder_tensor(spec, call.outputs[spec.id]) for spec in operator.outputs),
        params=call.params or {},
        criteria=((),) * len(operator.outputs),
        expect=_caller(call, operator, lacking),
        baseline_stored=False,
    )


def _folder_tensor(spec: TensorSpec | OutputSpec, arg: TensorArg | None) -> Tensor:
    # Only the last inputs can be absent: any other null descriptor is in `expect`, and a placeholder takes its place.
    return Tensor(spec.id, TensorDesc(spec.dtypes[0], spec.own_layouts[0], (0,)) if arg is None else arg.desc)


def _caller(call: OpCall, operator: Operator, lacking: Container[str]) -> Expect:
    """What is special about the caller; status and check keep their defaults, so that no file tells the answer."""
    tensors = {**call.inputs, **call.outputs}
    descriptors = [name for name, arg in tensors.items() if arg is None and name not in lacking]
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
