"""The schema as .proto files, for those who read case files with protoc or in another language."""

from mluops_gtest.codec.schema import base as base_schema
from mluops_gtest.codec.schema.base import SchemaField
from mluops_gtest.codec.schema.schema import PACKAGE, Schema


def proto_files(schema: Schema) -> dict[str, str]:
    """The text of each file by its name: the format's own messages, and our extension."""
    base = [f'syntax = "proto2";\npackage {PACKAGE};\n']
    for name, values in schema.enums.items():
        base += [f"enum {name} {{", *(f"  {word} = {number};" for word, number in values.items()), "}\n"]
    for name, rows in schema.messages.items():
        base += [f"message {name} {{", *(_line(row) for row in rows)]
        if name == "Node":
            base.append("  extensions {} to {};".format(*base_schema.EXTENSION_RANGE))
        base.append("}\n")
    ours = [
        f'syntax = "proto2";\npackage {base_schema.EXPECT_PACKAGE};\nimport "mluoptest.proto";\n',
        "message Expect {",
        *(_line(row) for row in base_schema.EXPECT),
        "}\n",
        f"extend {PACKAGE}.Node {{",
        f"  optional Expect {base_schema.EXPECT_FIELD} = {base_schema.EXPECT_NUMBER};",
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
