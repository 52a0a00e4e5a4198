"""Declared cases with other random values: made on use, the larger ones cached by seed, committed files untouched."""

import functools
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from msgspec.structs import replace

from mluops_gtest.authoring.random import Draw
from mluops_gtest.codec.lock import LockEntry
from mluops_gtest.errors import CaseFileError, ContentError, DeclarationError, OperatorError, UnwritableError
from mluops_gtest.files.cache_folder import cache_folder
from mluops_gtest.files.writing import replace_text
from mluops_gtest.generate.cache import (
    CASE_FILE,
    MADE_FILE,
    RESEEDED,
    discard,
    keep_newest,
    mark_used,
    publish,
)
from mluops_gtest.generate.make import make_case, same_values
from mluops_gtest.model.case import Case, CaseDraft, Reseed, Reseeded
from mluops_gtest.model.digest import digest_tensors
from mluops_gtest.model.operator import Operator
from mluops_gtest.value import Value

# Draws that may miss a case's conditions before the case counts as broken. Few cases ever need a second one.
ATTEMPTS = 32
# Bytes of tensors from which a case is kept on disk: below that, making it again is as fast as reading it.
_CACHED_FROM = 1 << 16
# Seeds whose cases stay on disk. A new one every night must not fill it.
_SEEDS_KEPT = 4


def make_reseeded(draft: CaseDraft, operator: Operator, number: int, locked: LockEntry | None = None) -> Case:
    """The case with the values of --reseed `number`; values that miss its conditions are drawn again.

    `locked` is the lock's line of the declared case, by which a case is known whose values did not change.
    """
    for attempt in range(ATTEMPTS):
        draw = Draw(draft.seed, Reseed(number, attempt))
        try:
            case = make_case(draft, operator, draw)
        except ContentError as error:
            if not draw.used or isinstance(error, OperatorError) or isinstance(error.__cause__, MemoryError):
                raise
            refusal = error
        else:
            fixed = not draw.used or (locked is not None and same_values(case, locked))
            return replace(case, reseeded=Reseeded(number, attempt, fixed))
    raise DeclarationError(
        f"{draft.where}: case {draft.id}: none of {ATTEMPTS} draws under --reseed {number} meets its conditions; "
        f"the last one: {refusal} Let the recipe draw so that they hold with (nearly) every seed."
    ) from refusal


class CaseFiles(Value):
    """How the cache writes a case into a file and reads it back."""

    write: Callable[[Case, Path], None]
    read: Callable[[Path, str], Case]


class ReseededCases(Value):
    """The declared cases under one --reseed number."""

    number: int
    # The folder with an operator's code.
    generators_of: Callable[[str], Path]
    files: CaseFiles

    def load(self, draft: CaseDraft, operator: Operator, locked: LockEntry | None, begin: Callable[[], None]) -> Case:
        """The complete case, from the cache or made; `begin` is told before one is made."""
        folder = self._folder(draft)
        if folder.is_dir():
            case = self._cached(folder, draft)
            if case is not None:
                mark_used(folder)
                return case
            discard(folder)
        begin()
        case = make_reseeded(draft, operator, self.number, locked)
        if case.nbytes < _CACHED_FROM:
            return case
        return self._published(case, folder)

    def _folder(self, draft: CaseDraft) -> Path:
        name = draft.id.partition("/")[2]
        code = code_digest(self.generators_of(draft.operator), draft.operator)
        return _seeds() / str(self.number) / draft.operator / f"{name}-{draft.digest}-{code}"

    def _cached(self, folder: Path, draft: CaseDraft) -> Case | None:
        """The case as it was published; None where the disk damaged it."""
        try:
            made = json.loads((folder / MADE_FILE).read_text(encoding="utf-8"))
            case = self.files.read(folder / CASE_FILE, draft.id)
            intact = [digest_tensors(case.inputs), digest_tensors(case.outputs)] == made["digests"]
            return replace(case, reseeded=Reseeded(**made["reseeded"])) if intact else None
        except (OSError, ValueError, LookupError, TypeError, CaseFileError):
            return None

    def _published(self, case: Case, folder: Path) -> Case:
        assert case.reseeded is not None
        digests = [digest_tensors(case.inputs), digest_tensors(case.outputs)]
        made = json.dumps({"digests": digests, "reseeded": asdict(case.reseeded)})

        def fill(aside: Path) -> None:
            self.files.write(case, aside / CASE_FILE)
            replace_text(aside / MADE_FILE, made)

        try:
            publish(folder, fill)
            keep_newest(_seeds(), _SEEDS_KEPT, used=str(self.number))
            # Read back, so that the tensors are views of the file and the generator's memory is free again.
            return replace(self.files.read(folder / CASE_FILE, case.id), reseeded=case.reseeded)
        except (OSError, ContentError, UnwritableError) as error:
            return replace(case, notes=(*case.notes, f"could not be cached in {folder.parent}: {error}"))


def _seeds() -> Path:
    return cache_folder() / RESEEDED


@functools.cache
def code_digest(generators: Path, operator: str) -> str:
    """A digest of all code that shapes an operator's cases: no lock covers them, so any change makes them again."""
    package = Path(__file__).parents[1]
    folders = [package / "authoring", package / "generate", package / "model", generators / operator]
    files = [generators / f"{operator}.py", *(path for folder in folders for path in sorted(folder.rglob("*.py")))]
    digest = hashlib.sha256()
    for path in files:
        if path.is_file():
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
