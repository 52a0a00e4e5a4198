"""The case schema: what schema.txt has of proto2 package `mluoptest`, plus operators and their parameters.

And the documents that it reads, and its .proto files.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct, field

from mluops_gtest.base.errors import ContentError
from mluops_gtest.base.frozen import Value
from mluops_gtest.core.declaration import ParamField
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.tensor import Array, CriterionKind, DType, Layout


class SchemaField(NamedTuple):
    """One field of a message, as a line of a .proto file says it."""

    label: str
    type: str
    name: str
    number: int
    default: str | None = None
    packed: bool = False


def _read_tables() -> tuple[dict[str, tuple[SchemaField, ...]], dict[str, dict[str, int]]]:
    """The messages and enums of schema.txt: `label type name number [default | packed]`, and `NAME number`."""
    messages: dict[str, tuple[SchemaField, ...]] = {}
    enums: dict[str, dict[str, int]] = {}
    text = Path(__file__).with_name("schema.txt").read_text(encoding="utf-8")
    for block in re.split(r"^(?=message|enum)", text, flags=re.MULTILINE)[1:]:
        (kind, name), *rows = map(str.split, block.splitlines())
        if kind == "enum":
            enums[name] = {word: int(number) for word, number in rows}
        else:
            messages[name] = tuple(_field_of(*row) for row in rows)
    return messages, enums


def _field_of(label: str, type_: str, name: str, number: str, more: str | None = None) -> SchemaField:
    is_packed = more == "packed"
    return SchemaField(label, type_, name, int(number), None if is_packed else more, is_packed)


_MESSAGES, _ENUMS = _read_tables()
NODE: Final = _MESSAGES.pop("Node")
# Our one addition to the format: what a case expects of the caller and of the status.
EXPECT: Final = _MESSAGES.pop("Expect")
MESSAGES: Final[Mapping[str, tuple[SchemaField, ...]]] = _MESSAGES
# Only a schema with operators has op_type: proto2 knows no enum without values.
OP_TYPE: Final = SchemaField("optional", "OpType", "op_type", 8)
EXTENSION_RANGE: Final = (3000, 4000)

ENUMS: Final[Mapping[str, Mapping[str, int]]] = {
    "TensorLayout": {layout.schema_name: layout.schema_number for layout in Layout},
    "DataType": dict(
        sorted(
            {"DTYPE_UNSET": 0, "DTYPE_INVALID": 15, **{d.schema_name: d.schema_number for d in DType}}.items(),
            key=lambda item: item[1],
        )
    ),
    "EvaluationCriterion": {kind.name: kind.schema_number for kind in CriterionKind},
    **_ENUMS,
}

# Where the addition stands.
EXPECT_PACKAGE: Final = "mluops_gtest"
EXPECT_FIELD: Final = "expect"
EXPECT_NUMBER: Final = 3500
# The first line of a text whose Expect would hold nothing but `degenerate`: the released text reader refuses an
# extension that it does not know, and skips a comment.
REMARK: Final = b"# [mluops_gtest.expect] degenerate: "

# The widest element is a double: 16 hexadecimal digits.
MAX_DIGITS: Final = 16


class ValueField(NamedTuple):
    """A repeated field that may be millions long: its place in Tensor and the array type that holds it."""

    name: str
    number: int
    # None: strings of hexadecimal digits, held as bytes of a common width (`S8`, …).
    storage: "np.dtype[Any] | None"

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest integer the field holds."""
        return _limits(self.storage)


@cache
def _limits(storage: "np.dtype[Any]") -> tuple[int, int]:
    limits = np.iinfo(storage)
    return int(limits.min), int(limits.max)


# In the order in which a reader takes them: the first that is present holds the tensor's values.
VALUE_FIELDS: Final = (
    ValueField("value_h", 9, None),
    ValueField("value_f", 7, np.dtype("<f4")),
    ValueField("value_i", 8, np.dtype("<i4")),
    ValueField("value_l", 17, np.dtype("<i8")),
    ValueField("value_ui", 18, np.dtype("<u4")),
    ValueField("value_ul", 19, np.dtype("<u8")),
)


class Unknown(Value):
    """Something in the file that the schema does not know: a field, or an enumerator of a known field."""

    where: str  # "line 3, column 5" in a text, the message it stands in in a binary file
    field: str  # its name in a text, its number in a binary file
    # The enumerator, where the field is known and its value is not.
    value: str | None = None

    def __str__(self) -> str:
        if self.value is None:
            return f"field {self.field} ({self.where})"
        return f"{self.field}: {self.value} ({self.where})"


class TensorDocument(Struct):
    """One tensor of the file: the protobuf message without its value fields, and those as arrays."""

    message: Any
    values: dict[str, Array] = field(default_factory=dict)
    unknown: list[Unknown] = field(default_factory=list)


class Document(Struct):
    """One case file: the Node without its tensors, and the tensors in order."""

    node: Any
    inputs: list[TensorDocument] = field(default_factory=list)
    outputs: list[TensorDocument] = field(default_factory=list)
    unknown: list[Unknown] = field(default_factory=list)

    @property
    def tensors(self) -> list[TensorDocument]:
        """Inputs, then outputs."""
        return self.inputs + self.outputs

    def all_unknown(self) -> list[Unknown]:
        """Everything in the file that the schema does not know."""
        return [*self.unknown, *(item for tensor in self.tensors for item in tensor.unknown)]


def joined(parts: list[Array]) -> Array:
    """One array of all parts; a single part is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def string_records(strings: Array, head: Callable[[int], bytes], tail: bytes = b"") -> Any:
    """The strings one after the other, each behind the head for its length and before the tail."""
    lengths = np.char.str_len(strings)
    width = int(lengths[0])
    if (lengths != width).any():
        return b"".join(head(len(text)) + text + tail for text in strings.tolist())
    start, end = (np.frombuffer(part, np.uint8) for part in (head(width), tail))
    rows = np.empty((len(strings), len(start) + width + len(end)), np.uint8)
    rows[:, : len(start)] = start
    rows[:, len(start) : len(start) + width] = (
        np.ascontiguousarray(strings, f"S{width}").view(np.uint8).reshape(-1, width)
    )
    rows[:, len(start) + width :] = end
    return rows.reshape(-1).data


def shortened(digits: bytes) -> bytes:
    """A value_h of any length in 1 to MAX_DIGITS digits; ValueError if more than leading zeros would be lost."""
    if len(digits) <= MAX_DIGITS:
        return digits or b"0"
    if digits[:-MAX_DIGITS].strip(b"0"):
        raise ValueError(f"{len(digits)} digits; the widest element takes {MAX_DIGITS}")
    return digits[-MAX_DIGITS:]


def few(items: Iterable[object], most: int = 5) -> str:
    """The first of many, for a message."""
    words = [str(item) for item in items]
    rest = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + rest


PACKAGE: Final = "mluoptest"
SCALARS: Final = frozenset({"int32", "int64", "uint32", "uint64", "float", "double", "bool", "string"})
_KINDS: Final = {"float": "real", "double": "real", "bool": "bool", "string": "string"}
_VALUE_FIELDS: Final = {field.name: field for field in VALUE_FIELDS}


class Field(NamedTuple):
    """What a reader of text must know of a field."""

    name: str
    kind: str  # integer | real | bool | string | enum | message
    repeated: bool
    words: Mapping[bytes, int]  # an enum's names
    fields: "Fields"  # a message's fields
    values: ValueField | None  # a field that goes to an array


Fields = Mapping[bytes, Field]


@dataclass(frozen=True)
class Schema:
    """Messages and enums of `mluoptest` and our extension; the protobuf classes are built at first use."""

    messages: Mapping[str, tuple[SchemaField, ...]]
    enums: Mapping[str, Mapping[str, int]]

    @staticmethod
    def of(operators: Iterable[Operator]) -> "Schema":
        """The schema that knows these operators' parameters and op_type names."""
        enums = {name: dict(values) for name, values in ENUMS.items()}
        params: dict[str, tuple[SchemaField, tuple[SchemaField, ...]]] = {}
        op_types: dict[str, int] = {}
        owners: dict[str, str] = {}
        for operator in operators:
            for enum in (param.enum for param in operator.param_fields if param.enum is not None):
                _merge(enums.setdefault(enum.name, {}), enum.values, operator.name)
            _merge(op_types, dict([operator.op_type]), operator.name)
            spec = operator.params
            if spec is None:
                continue
            for what in (f"the parameter field {spec.field}", f"the field number {spec.number}"):
                other = owners.setdefault(what, operator.name)
                if other != operator.name:
                    raise ContentError(f"{operator.name} and {other} both use {what}. Give each operator its own.")
            row = SchemaField("optional", spec.message, spec.field, spec.number)
            params[spec.field] = (row, tuple(map(_row, spec.fields)))
        node = list(NODE)
        if op_types:
            enums["OpType"] = op_types
            node.append(OP_TYPE)
        messages = dict(MESSAGES)
        for row, fields in params.values():
            if messages.setdefault(row.type, fields) != fields:
                raise ContentError(f"The parameter message {row.type} is declared twice, with different fields.")
            node.append(row)
        messages["Node"] = tuple(sorted(node, key=lambda row: row.number))
        return Schema(messages, enums)

    def node(self) -> Any:
        return self._classes[0]()

    def tensor(self) -> Any:
        return self._classes[1]()

    @property
    def expect(self) -> Any:
        """The handle of our extension, for `node.Extensions[…]`."""
        return self._classes[2]

    @cached_property
    def fields(self) -> Fields:
        """The fields of Node by the name they have in a text; our extension under its bracketed name."""
        expect = self._fields(EXPECT)
        key = f"[{EXPECT_PACKAGE}.{EXPECT_FIELD}]"
        return {**self._fields(self.messages["Node"]), key.encode(): Field(key, "message", False, {}, expect, None)}

    def _fields(self, rows: tuple[SchemaField, ...]) -> Fields:
        fields = {}
        for row in rows:
            kind = _KINDS.get(row.type, "integer") if row.type in SCALARS else "enum"
            words = {name.encode(): number for name, number in self.enums.get(row.type, {}).items()}
            nested: Fields = {}
            if row.type in self.messages:
                kind, nested = "message", self._fields(self.messages[row.type])
            values = _VALUE_FIELDS.get(row.name)
            fields[row.name.encode()] = Field(row.name, kind, row.label == "repeated", words, nested, values)
        return fields

    @cached_property
    def _classes(self) -> tuple[Any, Any, Any]:
        from google.protobuf import descriptor_pool, message_factory

        pool = descriptor_pool.DescriptorPool()
        try:
            for file in self.files():
                pool.Add(file)
            names = (f"{PACKAGE}.Node", f"{PACKAGE}.Tensor")
            node, tensor = (message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names)
            expect = pool.FindExtensionByName(f"{EXPECT_PACKAGE}.{EXPECT_FIELD}")
        except (TypeError, KeyError) as error:
            raise ContentError(f"The operators' parameter messages do not make a valid schema: {error}") from error
        return node, tensor, expect

    def files(self) -> tuple[Any, Any]:
        """The two files of the schema as FileDescriptorProto: the format's own, and our extension of it."""
        from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

        base = FileDescriptorProto(name="mluoptest.proto", package=PACKAGE, syntax="proto2")
        for name, values in self.enums.items():
            enum = base.enum_type.add(name=name)
            for word, number in values.items():
                enum.value.add(name=word, number=number)
        for name, fields in self.messages.items():
            message = base.message_type.add(name=name)
            for row in fields:
                self._describe(row, message.field.add())
            if name == "Node":
                start, last = EXTENSION_RANGE
                message.extension_range.add(start=start, end=last + 1)
        ours = FileDescriptorProto(
            name="mluops_gtest_expect.proto",
            package=EXPECT_PACKAGE,
            syntax="proto2",
            dependency=[base.name],
        )
        message = ours.message_type.add(name="Expect")
        for row in EXPECT:
            self._describe(row, message.field.add())
        ours.extension.add(
            name=EXPECT_FIELD,
            number=EXPECT_NUMBER,
            label=FieldDescriptorProto.LABEL_OPTIONAL,
            type=FieldDescriptorProto.TYPE_MESSAGE,
            type_name=f".{EXPECT_PACKAGE}.Expect",
            extendee=f".{PACKAGE}.Node",
        )
        return base, ours

    def _describe(self, row: SchemaField, field: Any) -> None:
        kind = row.type if row.type in SCALARS else "enum" if row.type in self.enums else "message"
        field.name = row.name
        field.number = row.number
        field.label = getattr(field, f"LABEL_{row.label.upper()}")
        field.type = getattr(field, f"TYPE_{kind.upper()}")
        if kind in ("enum", "message"):
            field.type_name = f".{PACKAGE}.{row.type}"
        if row.default is not None:
            field.default_value = row.default
        if row.packed:
            field.options.packed = True


def _row(field: ParamField) -> SchemaField:
    type_ = field.enum.name if field.type == "enum" and field.enum is not None else field.type
    default = None if field.default is None or field.label == "repeated" else _default(field)
    return SchemaField(field.label, type_, field.name, field.number, default)


def _default(field: ParamField) -> str:
    if isinstance(field.default, bool):
        return str(field.default).lower()
    if field.enum is not None:
        # A descriptor names the default of an enum, a declaration may give its number.
        names = {number: name for name, number in field.enum.values.items()}
        return names.get(field.default, str(field.default))  # type: ignore[arg-type]
    return str(field.default)


def _merge(into: dict[str, int], values: Mapping[str, int], operator: str) -> None:
    for name, number in values.items():
        same_name = into.setdefault(name, number)
        twins = [other for other, value in into.items() if value == number and other != name]
        if same_name != number or twins:
            clash = f"{twins[0]} = {number}" if twins else f"{name} = {same_name}"
            raise ContentError(f"{operator}: {name} = {number} contradicts {clash}, which is already in the schema.")


def proto_files(schema: Schema) -> dict[str, str]:
    """The text of each file by its name: the format's own messages, and our extension."""
    base = [f'syntax = "proto2";\npackage {PACKAGE};\n']
    for name, values in schema.enums.items():
        base += [f"enum {name} {{", *(f"  {word} = {number};" for word, number in values.items()), "}\n"]
    for name, rows in schema.messages.items():
        base += [f"message {name} {{", *(_line(row) for row in rows)]
        if name == "Node":
            base.append("  extensions {} to {};".format(*EXTENSION_RANGE))
        base.append("}\n")
    ours = [
        f'syntax = "proto2";\npackage {EXPECT_PACKAGE};\nimport "mluoptest.proto";\n',
        "message Expect {",
        *(_line(row) for row in EXPECT),
        "}\n",
        f"extend {PACKAGE}.Node {{",
        f"  optional Expect {EXPECT_FIELD} = {EXPECT_NUMBER};",
        "}",
    ]
    return {"mluoptest.proto": "\n".join(base), "mluops_gtest_expect.proto": "\n".join(ours) + "\n"}


def _line(row: SchemaField) -> str:
    options = []
    if row.packed:
        options.append("packed = true")
    if row.default is not None:
        default = f'"{row.default}"' if row.type == "string" else row.default
        options.append(f"default = {default}")
    suffix = f" [{', '.join(options)}]" if options else ""
    return f"  {row.label} {row.type} {row.name} = {row.number}{suffix};"
