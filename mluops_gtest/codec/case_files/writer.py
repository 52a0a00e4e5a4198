"""From a Case to its file: what our files carry, always in the same bytes."""

from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.codec.case_files.criteria import write_criteria
from mluops_gtest.codec.case_files.elements import encode
from mluops_gtest.codec.case_files.files import write_document
from mluops_gtest.codec.case_files.reader import CPU, THEORY
from mluops_gtest.codec.schema.schema import Document, Schema, TensorDocument
from mluops_gtest.codec.wire.text_writer import write_text
from mluops_gtest.errors import ContentError, suggestion
from mluops_gtest.files.writing import replace_file
from mluops_gtest.model.case import Case, Expect
from mluops_gtest.model.dtypes import DType
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.tensor import Tensor

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
    document.outputs = [_tensor(tensor, schema, blobs_of, readable) for tensor in case.outputs]
    write_criteria(case.criteria, document)
    return document


def _tensor(tensor: Tensor, schema: Schema, blobs_of: Path | None, readable: bool) -> TensorDocument:
    desc = tensor.desc
    document = TensorDocument(schema.tensor())
    message = document.message
    message.id = tensor.id
    message.shape.SetInParent()
    message.shape.dims.extend(desc.dims)
    message.shape.dim_stride.extend(desc.strides or ())
    message.layout = desc.layout.schema_number
    message.dtype = desc.dtype.schema_number
    if tensor.data is None or not len(tensor.data):
        return document
    if tensor.data.dtype != desc.dtype.storage or tensor.data.shape != (desc.extent,):
        raise ContentError(
            f"Tensor {tensor.id!r} holds {tensor.data.dtype} {tensor.data.shape}; "
            f"its descriptor wants {desc.dtype.storage} ({desc.extent},)."
        )
    if blobs_of is not None and tensor.data.nbytes > BLOB_BYTES:
        blob = blobs_of.with_name(f"{blobs_of.stem}.{tensor.id}.bin")
        replace_file(blob, [tensor.data.data])
        message.path = blob.name
    elif readable and desc.dtype in _AS_NUMBERS and np.isfinite(tensor.data).all():
        document.values["value_f"] = tensor.data.astype("<f4")
    else:
        field, values = encode(tensor.data, desc.dtype)
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
