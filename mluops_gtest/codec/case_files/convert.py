"""One case file to the other format, field by field: nothing is judged, nothing is lost without saying so."""

import filecmp
from pathlib import Path

from mluops_gtest.codec.case_files.blobs import file_bytes, resolve
from mluops_gtest.codec.case_files.files import is_text, read_document, write_document
from mluops_gtest.codec.schema.document import Document, few
from mluops_gtest.codec.schema.schema import Schema
from mluops_gtest.errors import CaseFileError
from mluops_gtest.files.writing import replace_file


def convert(src: Path, dst: Path, schema: Schema, *, drop_unknown: bool = False) -> tuple[str, ...]:
    """Write `src` as `dst`, text or binary by their names; answers what was dropped.

    Only binary to binary keeps what the schema does not know; otherwise such a file is refused unless
    `drop_unknown`. random_data stays as it is; files that `path` names are copied into another folder.
    """
    keeps_unknown = not is_text(src) and not is_text(dst)
    document = read_document(src, schema)
    dropped = () if keeps_unknown else tuple(str(item) for item in document.all_unknown())
    if dropped and not drop_unknown:
        raise CaseFileError(
            f"{src}: converting to {dst.name} would lose what the schema does not know: {few(dropped)}. "
            "Allow it with --drop-unknown, or load the operators that declare it."
        )
    try:
        _copy_blobs(document, src.parent, dst.parent)
        write_document(document, dst)
    except CaseFileError as error:
        raise CaseFileError(f"{src}: {error}") from error
    return dropped


def _copy_blobs(document: Document, old: Path, new: Path) -> None:
    """Make every relative path lead to the same bytes from the new folder."""
    if old.resolve() == new.resolve():
        return
    names = {str(tensor.message.path) for tensor in document.tensors if tensor.message.HasField("path")}
    for name in sorted(name for name in names if not Path(name).is_absolute()):
        source, target = resolve(name, old, allow_outside=False), new / name
        if not target.exists():
            replace_file(target, [file_bytes(source)])
        elif not filecmp.cmp(source, target, shallow=False):
            raise CaseFileError(f"path {name!r}: {new} has another file of that name; move one of them.")
