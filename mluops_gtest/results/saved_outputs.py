"""The outputs of calls: seen while they are in their buffers, saved by a run, read and judged again.

`run --save-outputs` writes a folder per case: arrays as .npy files and a record of what lies there.
"""

import contextlib
import hashlib
import io
import math
import re
import shlex
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final, Literal

import numpy as np
from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, UnwritableError, repr_short
from mluops_gtest.base.files import place_below, replace_file
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import pluralize
from mluops_gtest.base.typed_files import Source, convert, decode_json, file_bytes, json_bytes
from mluops_gtest.core.buffers import owned_rows
from mluops_gtest.core.case import Case
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseInfo, CaseResult, Profile
from mluops_gtest.core.tensor import Array, Criterion, DType, Tensor, digest_tensors
from mluops_gtest.judging.blocks import profile_of, value_text
from mluops_gtest.judging.criteria import allowed_error, compare, count_beyond, worst_elements
from mluops_gtest.judging.elementwise import Expectation, expectation_of
from mluops_gtest.judging.fingerprint import with_fingerprint
from mluops_gtest.judging.verdict import effective_criteria, judge_values, result_fields
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
    for path in [path for depth in ("*", "*/*") for path in sorted((folder / OUTPUTS).glob(f"{depth}/{RECORD}"))]:
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


class ElementDifference(Value):
    """An element that differs; values as text, so that NaN and bits survive JSON."""

    index: tuple[int, ...]
    flat: int
    got: str
    expected: str
    error: float
    # The error over max(|expected|, rms of expected).
    relative: float


class OutputDifference(Value):
    """How the rows that the operator owns differ from what they must be."""

    output: str
    dims: tuple[int, ...]
    dtype: DType
    rows: int | None
    compared: int
    unequal: int
    bits_unequal: int
    # Beyond what a single element is held to; `threshold` 0: it must be equal.
    beyond: int
    threshold: float
    # The worst first.
    elements: tuple[ElementDifference, ...]
    # Where; None: all elements are equal.
    profile: Profile | None


class OutputPair(Value):
    """An output that is compared: the rows that the operator owns, as the backend left them and as they must be."""

    tensor: Tensor
    criteria: tuple[Criterion, ...]
    got: Array
    expected: Array

    def difference(self, number: int, cells: tuple[int, int]) -> OutputDifference:
        """With so many of the worst elements, and a map of at most so many rows and columns."""
        got, expected = np.ascontiguousarray(self.got), np.ascontiguousarray(self.expected)
        name, dims, dtype = self.tensor.id, self.tensor.desc.dims, self.tensor.desc.dtype
        comparison = compare(got, expected, dtype, [criterion.kind for criterion in self.criteria])
        profile = profile_of(name, got, expected, dtype, cells)
        threshold, unequal = allowed_error(self.criteria), comparison.unequal
        beyond = count_beyond(got, expected, dtype, threshold) if profile is not None and threshold else unequal
        elements = []
        for one in () if profile is None else worst_elements(got, expected, dtype, number, comparison.worst):
            index = tuple(map(int, np.unravel_index(one.flat, got.shape)))
            values = value_text(got[index], dtype), value_text(expected[index], dtype)
            elements.append(ElementDifference(index, one.flat, *values, one.error, one.scaled))
        counts = comparison.compared, unequal, comparison.bits_unequal, beyond
        rows = len(got) if got.shape != dims else None
        return OutputDifference(name, dims, dtype, rows, *counts, threshold, tuple(elements), profile)


class CaseOutputs(Value):
    """One call that answered: the verdict on it and the outputs as the backend left them, by name."""

    case: Case
    operator: Operator
    expectation: Expectation
    result: CaseResult
    arrays: Mapping[str, Array]
    scalars: Mapping[str, int]

    def pairs(self) -> tuple[OutputPair, ...]:
        """Every output that is compared, in order."""
        pairs = []
        for tensor, criteria in zip(self.expectation.outputs, self.case.criteria, strict=True):
            if criteria is None or tensor.desc.is_empty:
                continue
            spec = self.operator.output(tensor.id)
            usual = self.operator.usual_criteria(tensor.id, tensor.desc.dtype, self.case.facts)
            effective = effective_criteria(tensor.desc.dtype, criteria, usual, recomputed=self.expectation.recomputed)
            rows = owned_rows(spec, self.expectation.counts)
            pairs.append(OutputPair(tensor, effective, self.arrays[tensor.id][:rows], tensor.values[:rows]))
        return tuple(pairs)


# Sees the outputs while they are still in their buffers; copy what is needed longer.
OutputListener = Callable[[CaseOutputs], None]


def judge_saved(case: Case, operator: Operator, arrays: Mapping[str, Array], scalars: Mapping[str, int]) -> CaseOutputs:
    """The verdict on the values of an earlier call."""
    expectation = expectation_of(case, operator)
    status = expectation.answer.status
    draft = CaseResult(case.id, case.operator, case.tags, Outcome.SKIPPED, status, status, info=CaseInfo.of(case))
    judgement = judge_values(case, operator, expectation, arrays, scalars, bitwise=False)
    result = with_fingerprint(replace(draft, **result_fields(judgement, draft.notes)))
    return CaseOutputs(case, operator, expectation, result, arrays, scalars)


class OutputSaver:
    """Writes outputs as the run goes on; from what cannot be written on, it only remembers why."""

    def __init__(self, folder: Path, which: Literal["failed", "all"]) -> None:
        self._folder, self._which = folder, which
        # Slots save side by side; what they write are files of different cases.
        self._lock = threading.Lock()
        self._sizes: dict[str, int] = {}
        # A case is tried again only after a failure, and its result shows the first one.
        self._failed: set[str] = set()
        self.trouble: UnwritableError | None = None

    def __call__(self, outputs: CaseOutputs) -> None:
        """Save the outputs of one call where they are asked for."""
        case, failed = outputs.case, outputs.result.outcome.blocks
        if self.trouble is not None or case.id in self._failed or not (failed or self._which == "all"):
            return
        try:
            size = save_outputs(self._folder, case, outputs.arrays, outputs.scalars)
        except UnwritableError as error:
            self.trouble = error
            return
        with self._lock:
            self._sizes[case.id] = size
            if failed:
                self._failed.add(case.id)

    def words(self) -> str:
        """What is there, how large it is, and how to look at it; empty where nothing was saved."""
        if not self._sizes:
            return ""
        cases = pluralize(len(self._sizes), "case")
        look = shlex.join(["mluops-test", "diff", min(self._sizes), "--from", str(self._folder)])
        total = size_words(sum(self._sizes.values()))
        return f"Outputs of {cases} ({total}): {self._folder / OUTPUTS}; to look at one: {look}"


def size_words(size: float) -> str:
    """Bytes in the unit that suits."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
