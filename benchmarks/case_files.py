"""Case files beside protobuf's text_format, protoc, np.load and raw bytes."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from google.protobuf import text_format

from benchmarks.plain_c import at, compiled, number
from benchmarks.rows import Goal, Rounds, Row, interleaved
from mluops_gtest.base.native.library import numpy_alone
from mluops_gtest.casefiles.elements import decode, encode
from mluops_gtest.casefiles.files import read_document, write_document, write_text
from mluops_gtest.casefiles.schema import Document, Schema, TensorDocument, proto_files
from mluops_gtest.casefiles.text_reader import read_text
from mluops_gtest.core.tensor import Array, DType

SCHEMA = Schema.of(())
COUNT = 1_000_000
# text_format takes ten seconds for a million values and grows linearly: it gets this part, and is scaled up.
PART = 20_000
TEXT_FORMAT, PROTOC, STRTOF, BYTES = "text_format", "protoc --encode", "strtof in a C loop", "reading the bytes"
RAW = "np.fromfile of the raw bytes"
NAMES = ("value_f", "value_h", "value_i")


def rows() -> list[Row]:
    fast = (Goal(TEXT_FORMAT, 1 / 250), Goal(PROTOC, 1 / 10))
    reading = [
        Row(
            f"text/read/{name}",
            f"1 M float32 as {name}",
            partial(_reading, name, native=True),
            fast,
            BYTES,
            quick=name != "value_i",
        )
        for name in NAMES
    ]
    without = [
        Row(
            f"text/read-numpy/{name}",
            f"1 M float32 as {name} without the native core",
            partial(_reading, name, native=False),
            (Goal(TEXT_FORMAT, 1 / factor),),
            BYTES,
        )
        for name, factor in (("value_f", 25), ("value_h", 100))
    ]
    writing = [
        Row(f"text/write/{name}", f"1 M float32 as {name}", partial(_writing, name), (Goal(TEXT_FORMAT, 1),), BYTES)
        for name in NAMES
    ]
    binary = [
        Row(
            f"binary/read/{size}",
            f"{size} float32 from a binary case file, every value looked at",
            partial(_binary, count),
            (Goal(RAW, 1.5),),
            RAW,
            quick=size == "1M",
        )
        for size, count in (("1M", COUNT), ("10M", 10 * COUNT))
    ]
    return [
        *reading,
        *without,
        *writing,
        Row("text/growth", "seconds per value: 2 M as value_f beside 0.2 M", _growth, (Goal("0.2 M", 1.25),)),
        *binary,
        Row("binary/write/1M", "1 M float32 into a binary case file", _binary_writing, (), "raw file"),
    ]


def document(name: str, values: Array) -> Document:
    """A case with one tensor whose values are in the field of that name."""
    node = SCHEMA.node()
    node.op_name = "benchmark"
    tensor = TensorDocument(SCHEMA.tensor())
    tensor.message.id = "values"
    tensor.message.shape.dims.append(len(values))
    tensor.message.layout, tensor.message.dtype = 5, 2
    tensor.values[name] = encode(values, DType.FLOAT)[1] if name == "value_h" else values
    return Document(node, [tensor])


def values_of(name: str, count: int = COUNT) -> Array:
    values = np.random.default_rng(1).standard_normal(count, np.float32)
    return values.view("<i4") if name == "value_i" else values


def parse(name: str, text: bytes) -> None:
    decode(name, read_text(text, SCHEMA).inputs[0].values[name], DType.FLOAT)


def _by_numpy(name: str, text: bytes) -> None:
    with numpy_alone():
        parse(name, text)


def _reading(name: str, *, native: bool) -> Rounds:
    values = values_of(name)
    text, part = (b"".join(write_text(document(name, some))) for some in (values, values[:PART]))
    contestants: dict[str, Callable[[], object]] = {
        "read_text": partial(parse if native else _by_numpy, name, text),
        TEXT_FORMAT: lambda: text_format.Parse(part, SCHEMA.node()),
    }
    library = compiled()
    if name == "value_f" and library is not None:
        numbers, out = b" ".join(text.split(b"value_f: ")[1:]) + b"\0", np.empty(COUNT, "<f4")
        contestants[STRTOF] = lambda: library.parse_floats(numbers, number(COUNT), at(out))
    whole = np.frombuffer(text[: len(text) // 8 * 8], np.uint64)
    contestants[BYTES] = lambda: np.bitwise_or.reduce(whole)
    with tempfile.TemporaryDirectory() as folder:
        if shutil.which("protoc"):
            contestants[PROTOC] = _protoc(Path(folder), text)
        for one in interleaved(contestants):
            yield one | {TEXT_FORMAT: one[TEXT_FORMAT] * COUNT / PART}


def _protoc(folder: Path, text: bytes) -> Callable[[], object]:
    for file, content in proto_files(SCHEMA).items():
        (folder / file).write_text(content, encoding="utf-8")
    (folder / "case.prototxt").write_bytes(text)
    message = SCHEMA.node().DESCRIPTOR
    command = ["protoc", f"--proto_path={folder}", f"--encode={message.full_name}", message.file.name]

    def encoded() -> None:
        with (folder / "case.prototxt").open("rb") as file:
            subprocess.run(command, stdin=file, stdout=subprocess.DEVNULL, check=True)

    return encoded


def _writing(name: str) -> Rounds:
    values = values_of(name)
    whole = document(name, values)
    size = sum(map(len, write_text(whole)))
    node = text_format.Parse(b"".join(write_text(document(name, values[:PART]))), SCHEMA.node())
    source, target = np.ones(size, np.uint8), np.empty(size, np.uint8)
    for one in interleaved(
        {
            "write_text": lambda: b"".join(write_text(whole)),
            TEXT_FORMAT: lambda: text_format.MessageToString(node),
            BYTES: lambda: np.copyto(target, source),
        }
    ):
        yield one | {TEXT_FORMAT: one[TEXT_FORMAT] * COUNT / PART}


def _growth() -> Rounds:
    texts = {"2 M": (2e6, b""), "0.2 M": (2e5, b"")}
    for size, (count, _) in texts.items():
        texts[size] = count, b"".join(write_text(document("value_f", values_of("value_f", int(count)))))
    for one in interleaved({size: partial(parse, "value_f", text) for size, (_, text) in texts.items()}):
        yield {size: one[size] / count for size, (count, _) in texts.items()}


def _binary(count: int) -> Rounds:
    """All sides touch every value: a mapped file that nobody looks at costs nothing."""
    values = values_of("value_f", count)
    with tempfile.TemporaryDirectory() as folder:
        path, raw, saved = (Path(folder, name) for name in ("case.pb", "raw.bin", "saved.npy"))
        write_document(document("value_f", values), path)
        values.tofile(raw)
        np.save(saved, values)
        data = path.read_bytes()
        yield from interleaved(
            {
                "read_document": lambda: np.max(read_document(path, SCHEMA).inputs[0].values["value_f"]),
                "np.load": lambda: np.load(saved).max(),
                "ParseFromString": lambda: np.asarray(_parsed(data).input[0].value_f, "<f4").max(),
                RAW: lambda: np.fromfile(raw, "<f4").max(),
            }
        )


def _parsed(data: bytes) -> object:
    node = SCHEMA.node()
    node.ParseFromString(data)
    return node


def _binary_writing() -> Rounds:
    values = values_of("value_f")
    whole = document("value_f", values)
    with tempfile.TemporaryDirectory() as folder:
        path, raw, saved = (Path(folder, name) for name in ("case.pb", "raw.bin", "saved.npy"))
        yield from interleaved(
            {
                "write_document": lambda: write_document(whole, path),
                "np.save": lambda: np.save(saved, values),
                "raw file": lambda: values.tofile(raw),
            }
        )
