"""The stored cases of an operator in one file, as wheels carry them: thousands of small files take twice the space."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mluops_gtest.base.errors import CaseFileError

if TYPE_CHECKING:
    from zipfile import ZipFile

PACK: Final = "cases.zip"


def is_stored(path: Path) -> bool:
    """There is a stored case for this path: a file of its own, or one in the pack beside it."""
    pack = _open_pack(path.parent)
    return path.exists() or (pack is not None and path.name in pack.NameToInfo)


def packed_bytes(path: Path) -> bytes | None:
    """The case in the pack; None where it has a file of its own, or none at all."""
    pack = _open_pack(path.parent)
    if pack is None or path.name not in pack.NameToInfo or path.exists():
        return None
    try:
        return pack.read(path.name)
    except Exception as error:
        raise _damaged(path.parent, error) from error


@cache
def _open_pack(folder: Path) -> "ZipFile | None":
    path = folder / PACK
    if not path.is_file():
        return None
    from zipfile import ZipFile  # late: only an installed wheel has packs

    try:
        return ZipFile(path)
    except Exception as error:
        raise _damaged(folder, error) from error


def _damaged(folder: Path, error: Exception) -> CaseFileError:
    # What a damaged archive raises is no closed list.
    return CaseFileError(f"{folder / PACK}: cannot be read: {error}. Install the package again.")
