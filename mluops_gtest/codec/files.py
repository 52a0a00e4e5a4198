"""Case files on disk: which format a name stands for, reading a document, and replacing a file in one step."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from mluops_gtest.codec.binary import read_binary, write_binary
from mluops_gtest.codec.blobs import file_bytes
from mluops_gtest.codec.document import Document
from mluops_gtest.codec.schema import Schema
from mluops_gtest.codec.text_reader import read_text
from mluops_gtest.codec.text_writer import write_text
from mluops_gtest.errors import CaseFileError, ContentError

TEXT: Final = ".prototxt"
BINARY: Final = ".pb"


def is_text(path: Path) -> bool:
    """True for a text case, False for a binary one; the name decides."""
    if path.suffix not in (TEXT, BINARY):
        raise CaseFileError(f"{path}: a case file ends in {TEXT} (text) or {BINARY} (binary).")
    return path.suffix == TEXT


def read_document(path: Path, schema: Schema) -> Document:
    """The document in a case file; errors name the file, and line and column of a text."""
    text = is_text(path)
    data = file_bytes(path)
    try:
        return read_text(bytes(data), schema) if text else read_binary(data, schema)
    except CaseFileError as error:
        raise CaseFileError(f"{path}:{'' if text else ' '}{error}.") from error


def write_document(document: Document, path: Path) -> None:
    """The document as a case file, text or binary by its name."""
    replace_file(path, (write_text if is_text(path) else write_binary)(document))


def replace_file(path: Path, pieces: Iterable[Any]) -> None:
    """Write aside and move into place, so that nobody ever reads half a file."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with aside.open("wb") as file:
                file.writelines(pieces)
            os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise ContentError(f"{path}: cannot be written: {error.strerror or error}.") from error
