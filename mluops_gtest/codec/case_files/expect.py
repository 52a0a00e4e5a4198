"""What a case expects of the status and of the caller, as its file says it."""

from typing import Any, Final

from mluops_gtest.codec.schema.schema import Schema
from mluops_gtest.errors import CaseFileError, suggestion
from mluops_gtest.model.case import Expect
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.status import Status

_COMPUTES: Final = Expect()


def read_expect(node: Any, schema: Schema) -> Expect:
    """Our extension in a file; a file without one expects that the operator computes."""
    if not node.HasExtension(schema.expect):
        return _COMPUTES
    message = node.Extensions[schema.expect]
    if not message.HasField("status") or message.status not in Status.__members__.values():
        known = ", ".join(f"{status.value} {status.name}" for status in Status)
        raise CaseFileError(f"expect: status {message.status} is missing or unknown; known: {known}")

    def optional(field: str) -> Any:
        return getattr(message, field) if message.HasField(field) else None

    for field in ("arch", "nram_bytes", "workspace_size"):
        if getattr(message, field) < 0:
            raise CaseFileError(f"expect: {field} is {getattr(message, field)}; it must be at least 0")
    return Expect(
        status=Status(message.status),
        check=text_of(message, "check") or None,
        arch=optional("arch"),
        nram_bytes=optional("nram_bytes"),
        null_descriptor=tuple(message.null_descriptor),
        null_pointer=tuple(message.null_pointer),
        null_handle=message.null_handle,
        workspace_size=optional("workspace_size"),
        degenerate=text_of(message, "degenerate") or None,
    )


def check_nulls(expect: Expect, operator: Operator) -> None:
    """Check that every name given as null exists; a misspelt one would have no effect."""
    if not expect.null_descriptor and not expect.null_pointer:
        return
    tensors = [spec.id for spec in operator.tensors]
    arrays = [field.name for field in operator.param_fields if field.label == "repeated"]
    descriptors = [*tensors, *filter(None, [operator.params_descriptor])]
    for field, known in (("null_descriptor", descriptors), ("null_pointer", [*tensors, "workspace", *arrays])):
        for name in getattr(expect, field):
            if name not in known:
                raise CaseFileError(f"expect: {field} names {name!r}.{suggestion(str(name), known)[:-1]}")


def text_of(message: Any, field: str) -> str:
    """A string field; protobuf hands out bytes where a binary file does not hold UTF-8."""
    value = getattr(message, field)
    if isinstance(value, bytes):
        raise CaseFileError(f"{field} {value[:40]!r} is not UTF-8")
    return str(value)
