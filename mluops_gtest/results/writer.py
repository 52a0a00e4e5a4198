"""What a run leaves: run.json before the first case, results.jsonl line by line, report.json at the end.

Beside them causes.json, the causes of its failures, and with --save-outputs a folder per case with its outputs.
"""

import contextlib
import hashlib
import io
import itertools
import math
import os
import re
import shlex
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mluops_gtest.base.errors import ContentError, UnwritableError, repr_short
from mluops_gtest.base.files import place_below, replace_file
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import strip_to_line
from mluops_gtest.base.typed_files import Source, convert, decode_json, file_bytes, json_bytes
from mluops_gtest.core.report import CaseFinished, CasesRetracted, Event, RunReport, Tally
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.tensor import Array, DType, digest_tensors
from mluops_gtest.results.folder import (
    AFTER_RESULTS,
    BEFORE_RESULTS,
    CAUSES,
    OUTPUTS,
    REPORT,
    RESULTS,
    RUN,
    ResultsFolder,
    StoredResults,
)
from mluops_gtest.results.records import ResultReader, head_to_json, result_to_json

if TYPE_CHECKING:
    from mluops_gtest.core.case import Case
    from mluops_gtest.judging.groups import CauseGroup


class _ShortenedError(UnwritableError):
    """What was written is no longer there."""


class ResultFiles:
    """Writes the results of one run; every finished case is on disk before the next one starts.

    Nothing of a result stays in memory but its place in the file.
    """

    def __init__(self, folder: ResultsFolder, request: dict[str, Any], done: Iterable[CaseResult] = ()) -> None:
        self.seconds = 0.0
        # What all results so far come to.
        self.tally = Tally()
        self._folder = folder
        self._request = json_bytes(request, indent=1) + b"\n"
        self._path = folder.path / RESULTS
        # Case → the number of its line; where each line begins, and where the last one ends.
        self._numbers: dict[str, int] = {}
        self._starts = array("q", [0])
        self._write_known(map(self._count, done))
        try:
            # An older report must not survive beside the results of a run that is killed.
            for name in (REPORT, CAUSES):
                (folder.path / name).unlink(missing_ok=True)
        except OSError as error:
            raise UnwritableError.of(folder.path, error) from error
        self._file = self._open_file()

    def _write_known(self, lines: Iterable[bytes]) -> None:
        """Write what is known so far, as the files of a run that goes on from here."""
        replace_file(self._folder.path / RUN, [self._request])
        replace_file(self._path, lines)

    def _open_file(self) -> io.FileIO:
        try:
            return self._path.open("a+b", buffering=0)
        except OSError as error:
            raise UnwritableError.of(self._path, error) from error

    def __enter__(self) -> "ResultFiles":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __call__(self, event: Event) -> None:
        """Listen to the run; UnwritableError where a result cannot be kept."""
        if isinstance(event, CaseFinished):
            start = time.perf_counter()
            self._append(event.result)
            self.seconds += time.perf_counter() - start
        elif isinstance(event, CasesRetracted):
            self._retract(set(event.cases))

    def __contains__(self, case: str) -> bool:
        return case in self._numbers

    def __iter__(self) -> Iterator[CaseResult]:
        return iter(self.in_order(self._numbers))

    def in_order(self, cases: Iterable[str]) -> StoredResults:
        """The results of these cases, read when they are asked for, while the files are open."""
        reader = ResultReader(Source(str(self._path), "`mluops-test run` writes this file; start the run again."))
        return StoredResults(array("q", map(self._numbers.__getitem__, cases)), self._line, reader, self.tally)

    def write_report(self, report: RunReport, cases: Iterable[str]) -> None:
        """The report on these cases, whole or not at all; their results are copied from the lines that are written."""
        lines = (self._line(self._numbers[case]) for case in cases)
        try:
            replace_file(self._folder.path / REPORT, _encode_report(report, lines), make_folder=False)
        except _ShortenedError:
            raise
        except UnwritableError as error:
            raise UnwritableError(f"{error} {self._advise_to_resume('writes the report')}") from error

    def _append(self, result: CaseResult) -> None:
        line = _encode(result)
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            # Half a line helps nobody; should it stay, whoever reads it drops it.
            with contextlib.suppress(OSError):
                self._file.truncate(self._starts[-1])
            raise UnwritableError.of(self._path, error, self._advise_to_resume("runs the rest")) from error
        self._count(result, line)
        if not self._is_in_place():
            advice = self._advise_to_resume("runs the rest")
            raise UnwritableError(f"{self._path}: cannot be written: the file was removed. {advice}")

    def _retract(self, cases: set[str]) -> None:
        """Write the file again without these cases."""
        lines = [self._line(number) for case, number in self._numbers.items() if case not in cases]
        reader = ResultReader(Source(str(self._path), ""))
        self.tally, self._numbers, self._starts = Tally(), {}, array("q", [0])
        self._write_known(self._count(reader.read(line, check=False)) for line in lines)
        self._file.close()
        self._file = self._open_file()

    def _count(self, result: CaseResult, line: bytes = b"") -> bytes:
        """Remember the place of the next line, and return it."""
        line = line or _encode(result)
        self._numbers[result.case] = len(self._starts) - 1
        self._starts.append(self._starts[-1] + len(line))
        self.tally.add(result)
        return line

    def _line(self, number: int) -> bytes:
        """A line that is written; also from a file that was removed, as long as it is open."""
        start, end = self._starts[number : number + 2]
        self._file.seek(start)
        line = self._file.read(end - start) or b""
        if len(line) != end - start:
            raise _ShortenedError(f"{self._path}: another program has shortened the file; run again.")
        return line

    def _is_in_place(self) -> bool:
        """What is written to a file that was removed or moved away reaches nobody."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno()))
        except OSError:
            return False

    def _advise_to_resume(self, resumed: str) -> str:
        """What is on disk, and how to go on; files that somebody removed are written again first."""
        if not self._is_in_place():
            try:
                if not self._folder.recover():
                    return "Another run may be there now; run this one again with another --out."
                self._write_known(map(self._line, range(len(self._starts) - 1)))
            except UnwritableError:
                return "Nothing of this run could be kept; run it again with another --out."
        again = shlex.join(["mluops-test", "run", "--resume", str(self._folder.path)])
        return f"The results of {self.tally.cases} cases are kept there; once it can be written, `{again}` {resumed}."


def write_results(folder: ResultsFolder, report: RunReport) -> None:
    """A finished report as a results folder of its own."""
    folder.clear()
    replace_file(folder.path / RESULTS, map(_encode, report.results))
    replace_file(folder.path / REPORT, _encode_report(report))


def _encode_report(report: RunReport, lines: Iterable[bytes] | None = None) -> Iterator[bytes]:
    """The head for people, then a line per result for programs; `lines` where they are written already."""
    yield json_bytes(head_to_json(report), indent=1).removesuffix(b"\n}")
    yield b",\n" + BEFORE_RESULTS
    separator = b""
    for line in map(_encode, report.results) if lines is None else lines:
        yield separator
        yield line.removesuffix(b"\n")
        separator = b",\n"
    yield b"\n" + AFTER_RESULTS + b"}\n"


def _encode(result: CaseResult) -> bytes:
    return json_bytes(result_to_json(result)) + b"\n"


_MAX_CAUSES_BYTES: Final = 1 << 16
_MAX_CAUSES: Final = 100
_MAX_SMALLEST: Final = 20
_MAX_SAMPLES: Final = 3
# Characters of a text. Each takes at most 4 bytes, so that one cause always fits.
_MAX_TEXT: Final = 400


class CauseSample(Value):
    """A wrong element of the example; values as text, so that NaN survives JSON."""

    index: tuple[int, ...]
    got: str
    expected: str


class CauseSummary(Value):
    """Cases that fail alike, in English; where they have no place, law or condition in common it is empty."""

    # `v3:…`; of a failure that is not explained (a crash, a wrong status) its fingerprint.
    id: str
    # Empty: several fail in the same way.
    operator: str
    outcome: str
    headline: str
    # Empty: the failure is not explained.
    output: str
    place: str
    law: str
    condition: str
    samples: tuple[CauseSample, ...]
    # Number of cases, and the ids of the smallest.
    cases: int
    smallest: tuple[str, ...]
    repro: str
    # A waiver may name the id.
    waivable: bool


def causes_of(report: RunReport) -> tuple[CauseSummary, ...]:
    """Every cause, those of most cases first."""
    failing = report.failing
    if not failing:
        return ()
    # Late: a run that passes has nothing to explain.
    from mluops_gtest.judging.groups import cause_groups

    return tuple(map(_summarise, cause_groups(failing, report.results, report.shapes)))


def write_causes(folder: Path, report: RunReport) -> None:
    """Write causes.json: as many causes as fit, the rest counted."""
    causes = causes_of(report)
    for number in range(min(len(causes), _MAX_CAUSES), -1, -1):
        rest = causes[number:]
        more = {"more_causes": len(rest), "more_cases": sum(one.cases for one in rest)}
        data = json_bytes({"format": 1, "causes": causes[:number], **more}, indent=1) + b"\n"
        if len(data) <= _MAX_CAUSES_BYTES:
            break
    replace_file(folder / CAUSES, [data], make_folder=False)


def _summarise(group: "CauseGroup") -> CauseSummary:
    from mluops_gtest.core.readings import format_headline, format_headline_parts

    head, example = group.headline, group.example
    operator, outcome = group.operator or "several operators", example.outcome.value
    words = f"{operator}: {outcome}: {example.reason}" if head is None else format_headline(head)
    place, law_words, condition = ("", "", "") if head is None else format_headline_parts(head)
    samples = [s for one in example.explained if head is not None and one.output == head.output for s in one.samples]
    return CauseSummary(
        id=_shorten(group.mark),
        operator=_shorten(group.operator),
        outcome=outcome,
        headline=_shorten(words),
        output="" if head is None else _shorten(head.output),
        place=_shorten(place),
        law=_shorten(law_words),
        condition=_shorten(condition),
        samples=tuple(
            CauseSample(s.index, _shorten(s.evaluated), _shorten(s.baseline)) for s in samples[:_MAX_SAMPLES]
        ),
        cases=len(group.members),
        smallest=tuple(_shorten(result.case) for result in group.members[:_MAX_SMALLEST]),
        repro=_shorten(example.repro),
        waivable=group.placed_law is not None,
    )


def _shorten(text: str) -> str:
    line = strip_to_line(text)
    return line if len(line) <= _MAX_TEXT else f"{line[: _MAX_TEXT - 1]}…"


OUTPUTS_RECORD: Final = "outputs.json"
# Declared ids are folders of their own names; an id that is a path becomes a digest.
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_]+(/[A-Za-z0-9_]+)?")
# As long as the largest scalar that a call may report.
_SCALAR: Final = re.compile(r"-?[0-9]{1,1300}")
_OUTPUTS_REMEDY: Final = "`mluops-test run --save-outputs` writes it; run the case again."


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
    import numpy as np  # late, as all of numpy here: whoever reads results needs none

    head = io.BytesIO()
    values = np.ascontiguousarray(array)
    # A scalar stays one: ascontiguousarray makes a list of it.
    described = np.lib.format.header_data_from_array_1_0(values.reshape(array.shape))
    np.lib.format.write_array_header_1_0(head, described)
    data = values.reshape(-1).view(np.uint8).data if values.size else b""
    replace_file(path, [head.getvalue(), data])
    return head.tell() + values.nbytes


def save_outputs(folder: Path, case: "Case", arrays: Mapping[str, Array], scalars: Mapping[str, int]) -> int:
    """Write the outputs of a case into a results folder, over those of an earlier try; their bytes."""
    try:
        place = place_below(folder, _outputs_folder(folder, case.id).relative_to(folder))
    except ContentError as error:
        raise UnwritableError(str(error)) from error
    dtypes = {tensor.id: tensor.desc.dtype for tensor in case.outputs}
    kept = {name: array for name, array in arrays.items() if array.size}
    size = sum(write_npy(place / _npy_name(name), array) for name, array in kept.items())
    tensors = {name: SavedTensor(_npy_name(name), dtypes[name].value, array.shape) for name, array in kept.items()}
    record = SavedOutputs(
        case.id, digest_tensors(case.inputs), {name: str(value) for name, value in scalars.items()}, tensors
    )
    # Last, so that a record never names what is not there.
    replace_file(place / OUTPUTS_RECORD, [json_bytes(asdict(record), indent=1) + b"\n"])
    return size


def read_outputs(folder: Path, case: "Case") -> tuple[dict[str, Array], dict[str, int]] | None:
    """The outputs and scalars that a run saved of the case, mapped, not read; None where it saved none."""
    place = _outputs_folder(folder, case.id)
    record = _read_record(place)
    if record is None or record.case != case.id:
        return None
    source = Source(str(place / OUTPUTS_RECORD), _OUTPUTS_REMEDY)
    if record.inputs != digest_tensors(case.inputs):
        raise source.error("the inputs of the case have changed since (another seed, or a changed declaration)")
    import numpy as np

    arrays: dict[str, Array] = {}
    for tensor in case.outputs:
        if tensor.desc.is_empty:
            arrays[tensor.id] = np.empty(tensor.desc.dims, tensor.desc.dtype.storage)
            continue
        saved = record.tensors.get(tensor.id)
        if saved is None or saved.file != _npy_name(tensor.id):
            raise source.error(f"no file of {tensor.id}")
        arrays[tensor.id] = _map_array(place / saved.file, tensor.desc.dtype, tensor.desc.dims)
    for text in record.scalars.values():
        if not _SCALAR.fullmatch(text):
            raise source.error(f"{repr_short(text)} is not an integer", ".scalars")
    return arrays, {name: int(text) for name, text in record.scalars.items()}


def remove_outputs(folder: Path) -> None:
    """Remove what `save_outputs` wrote there, and nothing else."""
    records = [sorted((folder / OUTPUTS).glob(f"{depth}/{OUTPUTS_RECORD}")) for depth in ("*", "*/*")]
    for path in itertools.chain(*records):
        record = None
        try:
            with contextlib.suppress(ContentError):
                record = _read_record(path.parent)
            for tensor in [] if record is None else record.tensors.values():
                if tensor.file == Path(tensor.file).name:
                    (path.parent / tensor.file).unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        except OSError as error:
            raise UnwritableError.of(path.parent, error) from error
        for place in (path.parent, path.parent.parent, folder / OUTPUTS):
            with contextlib.suppress(OSError):
                place.rmdir()


def _read_record(place: Path) -> SavedOutputs | None:
    source = Source(str(place / OUTPUTS_RECORD), _OUTPUTS_REMEDY)
    try:
        data = file_bytes(place / OUTPUTS_RECORD)
    except OSError:
        return None
    return convert(decode_json(data, source), SavedOutputs, source)


def _map_array(path: Path, dtype: DType, dims: tuple[int, ...]) -> Array:
    """The array in the file; one of another type or shape is refused before anything is mapped."""
    import numpy as np

    source = Source(str(path), _OUTPUTS_REMEDY)
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


def _outputs_folder(folder: Path, case_id: str) -> Path:
    name = case_id if _PLAIN_ID.fullmatch(case_id) else hashlib.sha256(case_id.encode("utf-8", "replace")).hexdigest()
    return folder / OUTPUTS / name


def _npy_name(tensor_id: str) -> str:
    return f"{tensor_id}.npy"
