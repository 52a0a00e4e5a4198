"""Text case files as we write them: fields in the order of their numbers, two blanks per level, one field per line.

Values in separate files beside the case: raw bytes, plain or compressed with zstd.

Case files on disk: which format a name stands for; a document read, written, or converted field by field.
"""

import filecmp
import os
import stat
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from mluops_gtest.base.errors import CaseFileError, ContentError, repr_short
from mluops_gtest.base.files import BINARY, CASE_SUFFIXES, TEXT, mapped, place_below, replace_file
from mluops_gtest.base.native.arrays import value_lines
from mluops_gtest.casefiles.binary import binary_operator_name, read_binary, write_binary
from mluops_gtest.casefiles.lock import packed_bytes
from mluops_gtest.casefiles.schema import (
    EXPECT_FIELD,
    EXPECT_PACKAGE,
    REMARK,
    VALUE_FIELDS,
    Document,
    Schema,
    TensorDocument,
    ValueField,
    few,
    string_records,
)
from mluops_gtest.casefiles.text_reader import read_text, text_operator_name
from mluops_gtest.core.tensor import Array

_INPUT: Final = 6
_OUTPUT: Final = 7
_ESCAPES: Final = {ord("\n"): b"\\n", ord("\r"): b"\\r", ord("\t"): b"\\t", ord('"'): b'\\"', ord("\\"): b"\\\\"}
# Parameters of more numbers stand in one list: a line of its own for each would be most of the file.
_MOST_LINES: Final = 1_080
# The only NaN that a reader of text makes of the word `nan`.
_PLAIN_NAN: Final = 0x7FC00000


def write_text(document: Document) -> Iterator[Any]:
    """The bytes of a text case, piece by piece; the same document always gives the same bytes."""
    pieces: list[tuple[int, Any]] = list(_fields(document.node, b""))
    for number, name, tensors in ((_INPUT, b"input", document.inputs), (_OUTPUT, b"output", document.outputs)):
        for tensor in tensors:
            pieces.append((number, name + b" {\n"))
            pieces += [(number, piece) for piece in _tensor(tensor)]
            pieces.append((number, b"}\n"))
    yield from (piece for _, piece in sorted(pieces, key=lambda item: item[0]))


def _tensor(tensor: TensorDocument) -> Iterator[Any]:
    pieces = list(_fields(tensor.message, b"  "))
    present = [field for field in VALUE_FIELDS if len(tensor.values.get(field.name, ()))]
    pieces += [(field.number, _values(field, tensor.values[field.name])) for field in present]
    yield from (piece for _, piece in sorted(pieces, key=lambda item: item[0]))


def _fields(message: Any, indent: bytes) -> Iterator[tuple[int, bytes]]:
    """(number, text) of every field that is set."""
    for field, value in message.ListFields():
        name = field.name.encode()
        if field.is_extension:
            if _is_remark(value):
                yield -1, REMARK + quoted(value.degenerate) + b"\n"
                continue
            name = f"[{EXPECT_PACKAGE}.{EXPECT_FIELD}]".encode()
        if field.message_type is not None:
            inner = b"".join(text for _, text in _fields(value, indent + b"  "))
            yield field.number, indent + name + b" {\n" + inner + indent + b"}\n"
        else:
            # A repeated field is a container of protobuf's own.
            values = (value,) if isinstance(value, (int, float, str, bytes)) else value
            if len(values) > _MOST_LINES:
                items = b", ".join(_scalar(field, item) for item in values)
                yield field.number, indent + name + b": [" + items + b"]\n"
                continue
            yield field.number, b"".join(indent + name + b": " + _scalar(field, item) + b"\n" for item in values)


def _is_remark(expect: Any) -> bool:
    """Nothing is expected that a plain call does not give; only the reason for a constant baseline is there."""
    return not expect.status and [field.name for field, _ in expect.ListFields()] == ["status", "degenerate"]


def _scalar(field: Any, value: Any) -> bytes:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name).encode()
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int):
        return str(value).encode()
    if isinstance(value, float):
        # A float field holds a rounded double: its shortest text is that of the float.
        is_float = field.type == field.TYPE_FLOAT
        return _shortest(np.array([value], "<f4"))[0] if is_float else str(value).encode()
    return quoted(value)


def quoted(value: str | bytes) -> bytes:
    """A string literal; everything that is not printable ASCII is escaped."""
    raw = value.encode() if isinstance(value, str) else value
    return b'"' + b"".join(_ESCAPES.get(c) or (bytes([c]) if 32 <= c < 127 else b"\\%03o" % c) for c in raw) + b'"'


def _values(field: ValueField, values: Array) -> Any:
    """One line per value, not indented: blanks would be a tenth of the file."""
    label = field.name.encode() + b": "
    if field.storage is None:
        return string_records(values, lambda _: label + b'"', b'"\n')
    if field.storage.kind == "f":
        odd_nan = np.isnan(values) & (values.view("<u4") != _PLAIN_NAN)
        if odd_nan.any():
            bits = int(values.view("<u4")[odd_nan][0])
            raise CaseFileError(f"value_f holds the NaN {bits:#010x}, which a text cannot keep; store it as value_h.")
    written = value_lines(values, label, partial(spelled_lines, label))
    return spelled_lines(label, values) if written is None else written


def spelled_lines(label: bytes, values: Array) -> bytes:
    """A line for each number, spelled by numpy and Python."""
    words = _shortest(values) if values.dtype.kind == "f" else (str(value).encode() for value in values.tolist())
    return label + b"\n".join(words).replace(b"\n", b"\n" + label) + b"\n"


def _shortest(values: Array) -> list[bytes]:
    """Floats with the fewest digits that give them back, with an exponent below 1e-4 and from 1e16 on."""
    words: list[bytes] = values.astype("S32").tolist()
    size = np.abs(values)
    # From 1e6 on it depends on the version of numpy.
    for place in np.flatnonzero((size >= 1e6) & (size < 1e16)):
        whole = f"{Decimal(words[place].decode()):f}"
        words[place] = (whole if "." in whole else f"{whole}.0").encode()
    return words


# Larger files are mapped instead of read: unused pages are never loaded.
_MAP_FROM: Final = 1 << 18
# To open a pipe would otherwise wait for its writer.
_READ_ONLY: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def file_bytes(path: Path) -> memoryview:
    """The bytes of a regular file; a large one is mapped."""
    try:
        handle = os.open(path, _READ_ONLY)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise CaseFileError(f"{path}: cannot be read: it is not a regular file.")
            if status.st_size >= _MAP_FROM:
                return mapped(handle)
            return memoryview(os.read(handle, _MAP_FROM))
        finally:
            os.close(handle)
    except OSError as error:
        # To map a file takes address space, which a limit may lack.
        raise CaseFileError(f"{path}: cannot be read: {error.strerror or error}.") from error


def stored_bytes(path: Path) -> memoryview:
    """The bytes of a stored case, from its own file or from the pack of its operator."""
    packed = packed_bytes(path)
    return file_bytes(path) if packed is None else memoryview(packed)


def resolve(name: str, folder: Path, allow_outside: bool) -> Path:
    """The file that a case in `folder` names; one outside the folder's tree is refused unless allowed."""
    try:
        path = (folder / name).resolve()
        outside = Path(name).is_absolute() or not path.is_relative_to(folder.resolve())
        there = path.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        # Some messages repeat the whole path, and a name that is too long is too long to read.
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise CaseFileError(f"path {repr_short(name)} is not the name of a file: {why}") from error
    if outside and not allow_outside:
        raise CaseFileError(
            f"path {name!r} leads out of the case's folder {folder}; only files below it are read, "
            "unless paths outside are allowed explicitly"
        )
    if not there:
        raise CaseFileError(f"path {name!r}: there is no such file in {folder}")
    return path


def read_blob(path: Path, storage: "np.dtype[Any]", count: int) -> Array:
    """`count` elements from a file that must hold exactly them."""
    wanted = count * storage.itemsize
    if path.suffix == ".zst":
        return _read_compressed(path, wanted).view(storage)
    data = file_bytes(path)
    if len(data) != wanted:
        raise _wrong_size(path, str(len(data)), wanted)
    return np.frombuffer(data, storage)


def _wrong_size(path: Path, has: str, wanted: int) -> CaseFileError:
    return CaseFileError(f"path {path.name!r}: the file holds {has} bytes, the tensor's shape and type {wanted}")


def _read_compressed(path: Path, wanted: int) -> Array:
    """Never decompresses more than one byte beyond what the tensor holds."""
    data = np.empty(wanted, np.uint8)
    target = data.data
    filled = 0
    try:
        with path.open("rb") as file, _decompressor(file) as stream:
            while filled < wanted and (n := stream.readinto(target[filled:])):
                filled += n
            beyond = stream.read(1)
    except (OSError, EOFError) as error:
        raise CaseFileError(f"path {path.name!r}: cannot be read, or cut: {error}") from error
    except Exception as error:
        # Each zstd library has its own error type.
        if type(error).__name__ != "ZstdError":
            raise
        raise CaseFileError(f"path {path.name!r}: not zstd data, or cut: {error}") from error
    if filled < wanted or beyond:
        raise _wrong_size(path, f"more than {wanted}" if beyond else str(filled), wanted)
    return data


def _decompressor(file: IO[bytes]) -> Any:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        import zstandard

        return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    return zstd.ZstdFile(file)


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
