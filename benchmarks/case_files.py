"""Reading and writing case files against protobuf and against raw bytes: `python benchmarks/case_files.py [values]`."""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from google.protobuf import text_format

from mluops_gtest.codec.case_files.elements import decode, encode
from mluops_gtest.codec.case_files.files import read_document, write_document
from mluops_gtest.codec.schema.document import Document, TensorDocument
from mluops_gtest.codec.schema.schema import Schema
from mluops_gtest.codec.wire.binary import read_binary
from mluops_gtest.codec.wire.text_reader import read_text
from mluops_gtest.codec.wire.text_writer import write_text
from mluops_gtest.model.dtypes import DType

SCHEMA = Schema.of(())
# text_format takes ten seconds for a million values and grows linearly: it gets this part, and is scaled up.
PART = 50_000


def best(run: Callable[[], object], times: int = 5) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def document(name: str, values: np.ndarray) -> Document:
    node = SCHEMA.node()
    node.op_name = "benchmark"
    tensor = TensorDocument(SCHEMA.tensor())
    tensor.message.id = "values"
    tensor.message.shape.dims.append(len(values))
    tensor.message.layout, tensor.message.dtype = 5, 2
    tensor.values[name] = encode(values, DType.FLOAT)[1] if name == "value_h" else values
    return Document(node, [tensor])


def text_rows(values: np.ndarray) -> None:
    for name, stored in (("value_h", values), ("value_f", values), ("value_i", values.view("<i4"))):
        text = b"".join(write_text(document(name, stored)))
        part = b"".join(write_text(document(name, stored[:PART])))

        def ours(text: bytes = text, name: str = name) -> None:
            decode(name, read_text(text, SCHEMA).inputs[0].values[name], DType.FLOAT)

        mine = best(ours)
        theirs = best(lambda part=part: text_format.Parse(part, SCHEMA.node()), 2) * len(values) / PART
        show(f"read text {name}", mine, "text_format", theirs)
        whole = document(name, stored)
        mine = best(lambda whole=whole: b"".join(write_text(whole)), 3)
        node = text_format.Parse(part, SCHEMA.node())
        theirs = best(lambda node=node: text_format.MessageToString(node), 2) * len(values) / PART
        show(f"write text {name}", mine, "text_format", theirs)


def show(what: str, mine: float, peer: str, theirs: float) -> None:
    print(f"{what:20} {mine * 1e3:9.2f} ms   {peer:12} {theirs * 1e3:9.2f} ms   {theirs / mine:7.2f} times as fast")


def largest(read: Document) -> float:
    return float(read.inputs[0].values["value_f"].max())


def binary_rows(values: np.ndarray, folder: Path) -> None:
    """Both sides touch every value: a mapped file that nobody looks at costs nothing."""
    path, raw = folder / "case.pb", folder / "raw.bin"

    def write_raw() -> None:
        raw.unlink(missing_ok=True)
        values.tofile(raw)

    print(f"binary, {len(values)} values")
    mine = best(lambda: write_document(document("value_f", values), path), 5)
    show("write value_f", mine, "raw file", best(write_raw, 5))
    mine = best(lambda: largest(read_document(path, SCHEMA)), 20)
    show("read value_f", mine, "raw file", best(lambda: np.fromfile(raw, "<f4").max(), 20))
    data = path.read_bytes()
    mine = best(lambda: largest(read_binary(memoryview(data), SCHEMA)), 20)
    show("parse value_f", mine, "protobuf", best(lambda: SCHEMA.node().ParseFromString(data), 20))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    values = np.random.default_rng(1).standard_normal(count, np.float32)
    print(f"text, {count} float32 values; text_format measured on {PART} and scaled linearly; best of several runs")
    text_rows(values)
    with tempfile.TemporaryDirectory() as folder:
        for n in (count, 10 * count):
            binary_rows(np.resize(values, n), Path(folder))


if __name__ == "__main__":
    main()
