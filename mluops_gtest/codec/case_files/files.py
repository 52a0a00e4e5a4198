"""Case files on disk: which format a name stands for, reading and writing a document."""

from pathlib import Path

from mluops_gtest.codec.case_files.blobs import file_bytes
from mluops_gtest.codec.schema.document import Document
from mluops_gtest.codec.schema.schema import Schema
from mluops_gtest.codec.wire.binary import binary_operator_name, read_binary, write_binary
from mluops_gtest.codec.wire.text_reader import read_text, text_operator_name
from mluops_gtest.codec.wire.text_writer import write_text
from mluops_gtest.errors import CaseFileError
from mluops_gtest.files.case_suffixes import BINARY, CASE_SUFFIXES, TEXT
from mluops_gtest.files.writing import replace_file


def is_text(path: Path) -> bool:
    """True for a text case, False for a binary one; the name decides."""
    if path.suffix not in CASE_SUFFIXES:
        raise CaseFileError(f"{path}: a case file ends in {TEXT} (text) or {BINARY} (binary).")
    return path.suffix == TEXT


def read_document(path: Path, schema: Schema, data: memoryview | None = None) -> Document:
    """The document in a case file, or in `data` from it; errors name the file, and line and column of a text."""
    text = is_text(path)
    data = file_bytes(path) if data is None else data
    try:
        return read_text(bytes(data), schema) if text else read_binary(data, schema)
    except CaseFileError as error:
        raise CaseFileError(f"{path}:{'' if text else ' '}{error}.") from error


def read_name(path: Path, schema: Schema) -> str:
    """The op_name in a case file whose values may be broken; empty where it has none."""
    text = is_text(path)
    data = file_bytes(path)
    try:
        return text_operator_name(bytes(data), schema) if text else binary_operator_name(data)
    except CaseFileError as error:
        raise CaseFileError(f"{path}:{'' if text else ' '}{error}.") from error


def write_document(document: Document, path: Path) -> None:
    """The document as a case file, text or binary by its name."""
    replace_file(path, (write_text if is_text(path) else write_binary)(document))
