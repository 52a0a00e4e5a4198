"""Case files on disk: which format a name stands for; a document read, written, or converted field by field."""

import filecmp
from pathlib import Path
from typing import Final

from mluops_gtest.codec.case_files.blobs import file_bytes, resolve
from mluops_gtest.codec.schema.schema import Document, Schema, few
from mluops_gtest.codec.wire.binary import binary_operator_name, read_binary, write_binary
from mluops_gtest.codec.wire.text_reader import read_text, text_operator_name
from mluops_gtest.codec.wire.text_writer import write_text
from mluops_gtest.errors import CaseFileError, ContentError
from mluops_gtest.files.case_suffixes import BINARY, CASE_SUFFIXES, TEXT
from mluops_gtest.files.writing import place_below, replace_file

# Protobuf's own limit of a message; values beyond it stand in files beside the case.
_MAX_BYTES: Final = (1 << 31) - 1


def is_text(path: Path) -> bool:
    """True for a text case, False for a binary one; the name decides."""
    if path.suffix not in CASE_SUFFIXES:
        raise CaseFileError(f"{path}: a case file ends in {TEXT} (text) or {BINARY} (binary).")
    return path.suffix == TEXT


def read_document(path: Path, schema: Schema, data: memoryview | None = None) -> Document:
    """The document in a case file, or in `data` from it; errors name the file, and line and column of a text."""
    text = is_text(path)
    data = _case_bytes(path) if data is None else data
    try:
        return read_text(bytes(data), schema) if text else read_binary(data, schema)
    except CaseFileError as error:
        raise CaseFileError(f"{path}:{'' if text else ' '}{error}.") from error


def read_name(path: Path, schema: Schema) -> str:
    """The op_name in a case file whose values may be broken; empty where it has none."""
    text = is_text(path)
    data = _case_bytes(path)
    try:
        return text_operator_name(bytes(data), schema) if text else binary_operator_name(data)
    except CaseFileError as error:
        raise CaseFileError(f"{path}:{'' if text else ' '}{error}.") from error


def _case_bytes(path: Path) -> memoryview:
    data = file_bytes(path)
    if len(data) > _MAX_BYTES:
        raise CaseFileError(
            f"{path}: {len(data)} bytes are too many for a case file: a protobuf message has less than 2 GiB. "
            "Put large values into files beside the case (`path`)."
        )
    return data


def write_document(document: Document, path: Path) -> None:
    """The document as a case file, text or binary by its name."""
    replace_file(path, (write_text if is_text(path) else write_binary)(document))


def convert(
    src: Path, dst: Path, schema: Schema, *, drop_unknown: bool = False, degenerate: str | None = None
) -> tuple[str, ...]:
    """Write `src` as `dst`, text or binary by their names; answers what was dropped.

    Only binary to binary keeps what the schema does not know; otherwise such a file is refused unless
    `drop_unknown`. random_data stays as it is; files that `path` names are copied into another folder. `degenerate` is
    why the baseline is constant, where a declaration says so and not the file.
    """
    keeps_unknown = not is_text(src) and not is_text(dst)
    document = read_document(src, schema)
    dropped = () if keeps_unknown else tuple(str(item) for item in document.all_unknown())
    if dropped and not drop_unknown:
        raise CaseFileError(
            f"{src}: converting to {dst.name} would lose what the schema does not know: {few(dropped)}. "
            "Allow it with --drop-unknown, or load the operators that declare it."
        )
    if degenerate is not None:
        expect = document.node.Extensions[schema.expect]
        expect.status, expect.degenerate = expect.status, degenerate
    try:
        _copy_blobs(document, src.parent, dst.parent)
        write_document(document, dst)
    except ContentError as error:
        raise CaseFileError(f"{src}: {error}") from error
    return dropped


def _copy_blobs(document: Document, old: Path, new: Path) -> None:
    """Make every relative path lead to the same bytes from the new folder."""
    if old.resolve() == new.resolve():
        return
    names = {str(tensor.message.path) for tensor in document.tensors if tensor.message.HasField("path")}
    for name in sorted(name for name in names if not Path(name).is_absolute()):
        source, target = resolve(name, old, allow_outside=False), place_below(new, name)
        if not target.exists():
            replace_file(target, [file_bytes(source)])
        elif not filecmp.cmp(source, target, shallow=False):
            raise CaseFileError(f"path {name!r}: {new} has another file of that name; move one of them.")
