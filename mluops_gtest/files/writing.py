"""The one place that writes files: whole or not at all, nothing left beside them, and one sentence when it fails."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mluops_gtest.errors import ContentError, UnwritableError, shown


def replace_file(path: Path, pieces: Iterable[Any], *, make_folder: bool = True) -> None:
    """Write the pieces aside and move them into place, so that no reader ever sees half a file."""
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            # A device or a pipe, e.g. -o /dev/stdout: nothing may take its place.
            with path.open("wb") as device:
                device.writelines(pieces)
        else:
            # A link stays one: what it leads to is replaced.
            _replace(Path(os.path.realpath(path)), pieces)
    except OSError as error:
        raise UnwritableError.of(path, error) from error


def replace_text(path: Path, text: str, *, make_folder: bool = True) -> None:
    """The same for text, in UTF-8."""
    replace_file(path, [text.encode()], make_folder=make_folder)


def place_below(folder: Path, name: str | Path) -> Path:
    """Where a file goes whose name comes from data: below the folder, or nowhere (ContentError)."""
    try:
        path, inside = (Path(os.path.realpath(one)) for one in (folder / name, folder))
    except ValueError as error:
        raise ContentError(f"{shown(str(name))} is not the name of a file: {error}.") from error
    if path == inside or not path.is_relative_to(inside):
        raise ContentError(
            f"{shown(str(name))} leads out of {folder}, by '..', an absolute path or a link: nothing is written there."
        )
    return path


def _replace(path: Path, pieces: Iterable[Any]) -> None:
    # A short name: the file's own may be as long as the disk allows.
    aside = path.with_name(f".mluops-{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        with aside.open("wb") as file:
            file.writelines(pieces)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
