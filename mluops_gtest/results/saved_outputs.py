"""Arrays as .npy files, and the outputs that a run saves: a folder per case with a record of what lies there."""

import contextlib
import hashlib
import io
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

import numpy as np

from mluops_gtest.base.errors import ContentError, UnwritableError, repr_short
from mluops_gtest.base.files import place_below, replace_file
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.typed_files import Source, convert, decode_json, file_bytes, json_bytes
from mluops_gtest.core.case import Case
from mluops_gtest.core.tensor import Array, DType, digest_tensors
from mluops_gtest.results.folder import OUTPUTS

RECORD: Final = "outputs.json"
# Declared ids are folders of their own names; an id that is a path becomes a digest.
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_]+(/[A-Za-z0-9_]+)?")
# As long as the largest scalar that a call may report.
_NUMBER: Final = re.compile(r"-?[0-9]{1,1300}")
_REMEDY: Final = "`mluops-test run --save-outputs` writes it; run the case again."


class SavedTensor(Value):
    """One file; `dtype` is ours, since numpy has no bfloat16: its elements are stored as their 16 bits."""

    file: str
    dtype: str
    dims: tuple[int, ...]


class SavedOutputs(Value):
    """What a call left; `inputs` is the digest of its inputs. Scalars are texts: they may be too large for JSON."""

    case: str
    inputs: str
    scalars: dict[str, str]
    tensors: dict[str, SavedTensor]


def write_npy(path: Path, array: Array) -> int:
    """Write the array whole or not at all; its bytes."""
    head = io.BytesIO()
    values = np.ascontiguousarray(array)
    # A scalar stays one: ascontiguousarray makes a list of it.
    described = np.lib.format.header_data_from_array_1_0(values.reshape(array.shape))
    np.lib.format.write_array_header_1_0(head, described)
    data = values.reshape(-1).view(np.uint8).data if values.size else b""
    replace_file(path, [head.getvalue(), data])
    return head.tell() + values.nbytes


def save_outputs(folder: Path, case: Case, arrays: Mapping[str, Array], scalars: Mapping[str, int]) -> int:
    """Write the outputs of a case into a results folder, over those of an earlier try; their bytes."""
    try:
        place = place_below(folder, _place(folder, case.id).relative_to(folder))
    except ContentError as error:
        raise UnwritableError(str(error)) from error
    dtypes = {tensor.id: tensor.desc.dtype for tensor in case.outputs}
    kept = {name: array for name, array in arrays.items() if array.size}
    size = sum(write_npy(place / _file(name), array) for name, array in kept.items())
    tensors = {name: SavedTensor(_file(name), dtypes[name].value, array.shape) for name, array in kept.items()}
    record = SavedOutputs(
        case.id, digest_tensors(case.inputs), {name: str(value) for name, value in scalars.items()}, tensors
    )
    # Last, so that a record never names what is not there.
    replace_file(place / RECORD, [json_bytes(asdict(record), indent=1) + b"\n"])
    return size


def read_outputs(folder: Path, case: Case) -> tuple[dict[str, Array], dict[str, int]] | None:
    """The outputs and scalars that a run saved of the case, mapped, not read; None where it saved none."""
    place = _place(folder, case.id)
    record = _record(place)
    if record is None or record.case != case.id:
        return None
    source = Source(str(place / RECORD), _REMEDY)
    if record.inputs != digest_tensors(case.inputs):
        raise source.error("the inputs of the case have changed since (another seed, or a changed declaration)")
    arrays: dict[str, Array] = {}
    for tensor in case.outputs:
        if tensor.desc.is_empty:
            arrays[tensor.id] = np.empty(tensor.desc.dims, tensor.desc.dtype.storage)
            continue
        saved = record.tensors.get(tensor.id)
        if saved is None or saved.file != _file(tensor.id):
            raise source.error(f"no file of {tensor.id}")
        arrays[tensor.id] = _mapped(place / saved.file, tensor.desc.dtype, tensor.desc.dims)
    return arrays, {name: _number(text, source) for name, text in record.scalars.items()}


def remove_outputs(folder: Path) -> None:
    """Remove what `save_outputs` wrote there, and nothing else."""
    for path in list(_records(folder)):
        record = None
        try:
            with contextlib.suppress(ContentError):
                record = _record(path.parent)
            for tensor in [] if record is None else record.tensors.values():
                if tensor.file == Path(tensor.file).name:
                    (path.parent / tensor.file).unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        except OSError as error:
            raise UnwritableError.of(path.parent, error) from error
        for place in (path.parent, path.parent.parent, folder / OUTPUTS):
            with contextlib.suppress(OSError):
                place.rmdir()


def _records(folder: Path) -> Iterator[Path]:
    for depth in ("*", "*/*"):
        yield from sorted((folder / OUTPUTS).glob(f"{depth}/{RECORD}"))


def _record(place: Path) -> SavedOutputs | None:
    source = Source(str(place / RECORD), _REMEDY)
    try:
        data = file_bytes(place / RECORD)
    except OSError:
        return None
    return convert(decode_json(data, source), SavedOutputs, source)


def _number(text: str, source: Source) -> int:
    if not _NUMBER.fullmatch(text):
        raise source.error(f"{repr_short(text)} is not an integer", ".scalars")
    return int(text)


def _mapped(path: Path, dtype: DType, dims: tuple[int, ...]) -> Array:
    """The array in the file; one of another type or shape is refused before anything is mapped."""
    source = Source(str(path), _REMEDY)
    try:
        # A pipe would wait for its writer.
        if not path.is_file():
            raise source.error("no such file")
        with path.open("rb") as file:
            if np.lib.format.read_magic(file) != (1, 0):
                raise source.error("not the .npy file that a run writes")
            shape, fortran, stored = np.lib.format.read_array_header_1_0(file)
            if (shape, fortran, stored) != (dims, False, dtype.storage):
                raise source.error(f"{stored} of shape {list(shape)}, the case has {dtype.storage} of {list(dims)}")
            start = file.tell()
        if path.stat().st_size != start + math.prod(dims) * dtype.itemsize:
            raise source.error("the file is cut short")
        return np.asarray(np.memmap(path, dtype.storage, "r", start, dims))
    except (OSError, ValueError) as error:
        raise source.error(f"cannot be read ({error})") from error


def _place(folder: Path, case_id: str) -> Path:
    name = case_id if _PLAIN_ID.fullmatch(case_id) else hashlib.sha256(case_id.encode("utf-8", "replace")).hexdigest()
    return folder / OUTPUTS / name


def _file(tensor_id: str) -> str:
    return f"{tensor_id}.npy"
