"""The folder that a fuzz run keeps: a case file per cause, an index of them, and how far each fuzz run has come.

Failures are one by what went wrong and where it shows, whatever the values, the sizes and the places.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from threading import Lock
from typing import Final, TypeVar

import yaml
from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, UnknownNameError, UsageError
from mluops_gtest.base.files import TEXT, place_below, replace_file, replace_text
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.typed_files import Source, convert, decode_json, file_bytes, json_bytes
from mluops_gtest.casefiles.reader import read_case
from mluops_gtest.casefiles.schema import Schema
from mluops_gtest.casefiles.writer import write_case
from mluops_gtest.catalog.operators import Operators
from mluops_gtest.catalog.selection import Catalogue
from mluops_gtest.core.case import Case
from mluops_gtest.core.cause import BeyondBound, Cause, Exceeded, NonFinite, Prelude
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.result import CaseResult

# What tells two causes of one kind apart; everything else in a cause is a figure, a place or a text.
_TELLING: Final = ("output", "input", "buffer", "side", "signal", "code", "exception", "answered", "expected", "check")
# Laws of wrong values vary with the size of an output: so many are kept of failures that are alike otherwise.
_MAX_LAWS: Final = 3

CauseKey = tuple[str, ...]


def cause_key(result: CaseResult) -> CauseKey:
    """The words that failures of one cause share: operator, outcome, the main cause, and how values are wrong."""
    main = next((cause for cause in result.causes if not isinstance(cause, Prelude)), None)
    law = next((type(one.law).__name__ for one in result.explained if one.law is not None), "")
    return (result.operator, result.outcome.value, *_words(main), law)


def _words(cause: Cause | None) -> tuple[str, ...]:
    if cause is None:
        return ()
    if isinstance(cause, NonFinite | Exceeded | BeyondBound):
        return ("values", cause.output)
    return (type(cause).__name__, *(str(getattr(cause, name)) for name in _TELLING if hasattr(cause, name)))


class KnownCauses:
    """The causes that have been met; worker slots ask side by side."""

    def __init__(self) -> None:
        self._met: set[CauseKey] = set()
        self._alike: Counter[CauseKey] = Counter()
        self._lock = Lock()

    def is_new(self, key: CauseKey) -> bool:
        """Nobody met it before; from now on it is known."""
        with self._lock:
            if key in self._met or self._alike[key[:-1]] >= _MAX_LAWS:
                return False
            self._met.add(key)
            self._alike[key[:-1]] += 1
            return True


T = TypeVar("T")
INDEX: Final = "corpus.json"
STATE: Final = "state.json"
_FORMAT: Final = 1
# Keys of files that earlier versions wrote.
_FORMER_KEYS: Final = {"hunts": "fuzz_runs"}
_UNFIT: Final = re.compile(r"[^a-z0-9]+")


class CorpusEntry(Value):
    """A case file of the corpus, as the index tells it."""

    # Below the corpus.
    file: str
    operator: str
    headline: str
    cause: tuple[str, ...]
    backend: str
    seed: int
    draw: int
    # What was drawn, as a prompt takes it (catalog/prompt.py); empty where no words make it.
    words: str = ""


class Progress(Value):
    """How far a fuzz run has come: so many draws of this seed are done, and these pairs of classes were met."""

    operator: str
    backend: str
    seed: int
    # Of the space that was drawn from; draws of another one are not the same calls.
    space: str
    draws: int = 0
    seen: str = ""


class _Index(Value):
    format: int
    cases: tuple[CorpusEntry, ...]


class _State(Value):
    format: int
    fuzz_runs: tuple[Progress, ...]


class Corpus:
    """A folder of cases that once failed; worker slots write into it side by side."""

    def __init__(self, folder: Path, operators: Operators) -> None:
        self.folder = folder
        self._operators = operators
        self._lock = Lock()
        index, state = _read(folder / INDEX, _Index), _read(folder / STATE, _State)
        self._entries = {} if index is None else {entry.file: entry for entry in index.cases}
        self._fuzz_runs = {} if state is None else {_key(run): run for run in state.fuzz_runs}

    @cached_property
    def _schema(self) -> Schema:
        return Schema.of(self._operators.values())

    def files(self, operator: str) -> tuple[Path, ...]:
        """The case files of that operator, also those that somebody put there."""
        return tuple(sorted((self.folder / operator).glob(f"*{TEXT}")))

    def load(self, file: Path) -> Case:
        """A case of the corpus; nobody conditioned it, so that a constant baseline is no doubt."""
        case = read_case(file, self._schema, self._operators, case_id=str(file))
        return replace(case, expect=replace(case.expect, degenerate="drawn"))

    def name_for(self, operator: str, key: CauseKey) -> Path:
        """A file for a failure of that cause; one that is there stays."""
        words = _UNFIT.sub("-", "-".join(word for word in key[1:4] if word).lower()).strip("-")[:48]
        mark = hashlib.sha256("\0".join(key).encode()).hexdigest()[:6]
        plain = self.folder / operator / f"{words}-{mark}{TEXT}"
        numbered = (plain.with_stem(f"{plain.stem}-{number}") for number in count(2))
        return next(path for path in chain([plain], numbered) if not path.exists())

    def keep(self, case: Case, operator: Operator, path: Path, entry: CorpusEntry) -> None:
        """Write the case and its line of the index; what stood there before is replaced."""
        with self._lock:
            place = place_below(self.folder, path.relative_to(self.folder))
            write_case(case, operator, place, Schema.of([operator]), blobs=True, readable=True)
            self._entries[entry.file] = entry
            self._write_index()

    def retitle(self, headlines: Mapping[str, str]) -> None:
        """Tell these files with other headlines from now on."""
        with self._lock:
            for file, headline in headlines.items():
                self._entries[file] = replace(self._entries[file], headline=headline)
            self._write_index()

    def forget(self, path: Path, file: str) -> None:
        """Remove a case that turned out to be like another one."""
        with self._lock:
            for part in path.parent.glob(f"{path.stem}.*"):
                part.unlink(missing_ok=True)
            self._entries.pop(file, None)
            self._write_index()

    def _write_index(self) -> None:
        cases = [asdict(self._entries[file]) for file in sorted(self._entries)]
        replace_file(self.folder / INDEX, [json_bytes({"format": _FORMAT, "cases": cases}, indent=1)])

    def entry(self, name: str) -> CorpusEntry:
        """The case of that file, written as the index has it, with or without its suffix; an error lists them."""
        known = {file.removesuffix(TEXT): entry for file, entry in self._entries.items()}
        if not known:
            raise UsageError(f"{self.folder} has no case; name the folder of the fuzz run that found it: --corpus DIR.")
        if name.removesuffix(TEXT) not in known:
            raise UnknownNameError(f"case of {self.folder}", name, known)
        return known[name.removesuffix(TEXT)]

    def progress(self, wanted: Progress) -> Progress:
        """How far the fuzz run has come for this operator, backend, seed and space; none of it where it is new."""
        found = self._fuzz_runs.get(_key(wanted), wanted)
        return found if found.space == wanted.space else wanted

    def last_seed(self, operator: str, backend: str) -> int | None:
        """The seed of the newest fuzz run of that operator on that backend."""
        seeds = [run.seed for run in self._fuzz_runs.values() if (run.operator, run.backend) == (operator, backend)]
        return seeds[-1] if seeds else None

    def remember(self, fuzz_runs: tuple[Progress, ...]) -> None:
        """Write down how far these have come."""
        with self._lock:
            for run in fuzz_runs:
                # The newest last.
                self._fuzz_runs.pop(_key(run), None)
                self._fuzz_runs[_key(run)] = run
            record = {"format": _FORMAT, "fuzz_runs": [asdict(run) for run in self._fuzz_runs.values()]}
            replace_file(self.folder / STATE, [json_bytes(record, indent=1)])


def promote(entry: CorpusEntry, catalogue: Catalogue) -> tuple[str, Path]:
    """Declare the call that was drawn in cases/<operator>.yaml; returns its id and that file."""
    root, where = catalogue.root_of(catalogue.operators.find(entry.operator).name), f"{entry.file}: "
    draft = catalogue.draft(f"{entry.operator}/{entry.words}") if entry.words else None
    if draft is None:
        raise UsageError(f"{where}no recipe makes this call: it has faults. Run the file, or declare a case like it.")
    if root.bundled:
        raise UsageError(
            f"{where}{entry.operator} is in the installed package; name a root of yours that has it: --root DIR."
        )
    name = _UNFIT.sub("_", Path(entry.file).stem.lower())
    path = root.cases / f"{entry.operator}.yaml"
    if f"{entry.operator}/{name}" in catalogue.drafts_of(entry.operator):
        raise UsageError(f"{where}{path} has a case {name} already.")
    expect = draft.expect
    case = {
        "name": name,
        "tags": ["random"],
        "doc": "found by fuzzing: " + entry.headline.translate({ord("{"): "(", ord("}"): ")"}),
        **({"degenerate": expect.degenerate} if expect.degenerate else {}),
        **({"expect": {"status": expect.status.name, "check": expect.check}} if expect.check else {}),
        "params": draft.params,
        "data": {"recipe": draft.recipe, **draft.args},
        "dtypes": [draft.dtype],
        "seed": draft.seed,
    }
    text = path.read_text(encoding="utf-8").rstrip("\n") + "\n\n" if path.is_file() else ""
    # Without tuples, which YAML has no word for.
    plain = json.loads(json.dumps([case]))
    words = yaml.safe_dump(plain, default_flow_style=None, sort_keys=False, allow_unicode=True, width=110)
    replace_text(path, text + words)
    return f"{entry.operator}/{name}", path


def _key(run: Progress) -> tuple[str, str, int]:
    return run.operator, run.backend, run.seed


def _read(path: Path, wanted: type[T]) -> T | None:
    """What the file holds; None where there is none."""
    try:
        data = file_bytes(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ContentError(f"{path}: cannot be read: {error.strerror or error}.") from error
    source = Source(str(path), "Repair or remove it; the case files beside it are run all the same.")
    record = decode_json(data, source)
    if isinstance(record, dict):
        record = {_FORMER_KEYS.get(key, key): value for key, value in record.items()}
    return convert(record, wanted, source)
