"""A submission: results in one archive, what they are claimed to show, and whether its files agree with that.

The archive comes from others. Its members have fixed names and sizes; nothing in it is executed, imported or a path.
"""

import hashlib
import io
import struct
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from mluops_gtest.base.errors import ContentError, UsageError
from mluops_gtest.base.files import replace_file
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import pluralize
from mluops_gtest.base.typed_files import Source, convert, decode_json, json_bytes, keep_plain, plain_file_bytes
from mluops_gtest.casefiles.lock import bare_case, lock_path, read_locks, unfold_entry
from mluops_gtest.catalog.make import declared_criteria
from mluops_gtest.catalog.selection import NOT_DEFAULT, Catalogue
from mluops_gtest.core.case import OPEN_TAGS, TAGS, Case, CaseDraft
from mluops_gtest.core.outcome import SIZELESS, Outcome
from mluops_gtest.core.report import RunReport, Tally, backend_of
from mluops_gtest.core.result import CaseInfo, CaseResult
from mluops_gtest.judging.verdict import effective_criteria
from mluops_gtest.results.folder import REPORT, RUN
from mluops_gtest.results.gate_reference import Waiver, apply_waivers
from mluops_gtest.results.records import report_from_json, report_to_json, with_words
from mluops_gtest.version import __version__

MANIFEST: Final = "manifest.json"
# The bytes of each member at most.
MEMBERS: Final = {MANIFEST: 1 << 22, RUN: 1 << 26, REPORT: 1 << 29}
_MAX_ARCHIVE: Final = 1 << 28
# The record at the end of an archive without a comment; behind a locator there is one of larger archives.
_END: Final = struct.Struct("<4s4H2LH")
_LOCATOR: Final = b"PK\x06\x07"
_LOCATOR_BYTES: Final = 20
_MAX_NAMED: Final = 5

Level = Literal["core", "full"]
# The tags of the cases that each level leaves out.
_LEFT_OUT: Final[Mapping[Level, Collection[str]]] = {"core": NOT_DEFAULT, "full": OPEN_TAGS}
# What `check-submission` holds against the suite or computes again; all other fields of a result are the word of the
# claimant, as far as they agree.
_RECOMPUTED: Final = {"case", "operator", "tags", "expected_status", "repro"}


class Claim(Value):
    """What an archive claims; all else, figures too, follows from its report."""

    level: Level
    # Those that the claim is restricted to; empty: all of the suite.
    operators: tuple[str, ...]
    # Operator → SHA-256 of its lock, which has the digests of its cases and baselines.
    suite: Mapping[str, str]
    waivers: tuple[Waiver, ...]
    # How the backend was sealed off from the answers; None: it was not.
    sealing: None = None


class Figures(Value):
    """What a report shows of the operators that are claimed."""

    cases: int
    # Those of which the backend was asked.
    compared: int
    summary: Mapping[str, int]
    # Reason → how many cases were skipped for it, most first.
    skipped: Mapping[str, int]
    # Failing case → why it may, and who looks after it.
    waived: Mapping[str, str]


class Manifest(Value):
    """The claim, and the SHA-256 of every other file of the archive."""

    format: Literal[1]
    claim: Claim
    files: Mapping[str, str]


class Finding(Value):
    """Something that was looked at, and what came of it."""

    what: str
    # Without what is `open` a claim is neither refuted nor does it hold.
    verdict: Literal["holds", "refuted", "open", "not checked"]
    details: tuple[str, ...] = ()

    @staticmethod
    def of(what: str, contradictions: Iterable[str]) -> "Finding":
        """It holds unless something contradicts it."""
        details = tuple(contradictions)
        return Finding(what, "refuted" if details else "holds", details)


class Submission(Value):
    """An archive as it was read; the report is None where it is none that a run writes, and `broken` says why."""

    manifest: Manifest
    files: Mapping[str, bytes]
    report: RunReport | None
    broken: str = ""

    @property
    def claim(self) -> Claim:
        return self.manifest.claim

    @property
    def figures(self) -> Figures | None:
        return None if self.report is None else figures_of(self.report, self.claim)


def figures_of(report: RunReport, claim: Claim) -> Figures:
    """Counts of the claimed operators; a waiver that had expired on the day of the run covers nothing."""
    results = {one.case: one for one in report.results if not claim.operators or one.operator in claim.operators}
    tally, day = Tally(results.values()), datetime.fromisoformat(report.started).date()
    current = [waiver for waiver in claim.waivers if waiver.expires >= day]
    covered = apply_waivers(current, results, backend_of(report), day, set()).covered
    waived = {case: f"{one.reason} ({one.owner}, until {one.expires})" for case, one in sorted(covered.items())}
    skipped = Counter(one.reason for one in results.values() if one.outcome is Outcome.SKIPPED)
    return Figures(tally.cases, tally.covered, tally.summary, dict(skipped.most_common()), waived)


def digests_of_suite(catalogue: Catalogue, operators: Iterable[str]) -> dict[str, str]:
    """Operator → SHA-256 of its lock, of those that have one."""
    paths = {name: lock_path(catalogue.root_of(name).stored, name) for name in sorted(operators)}
    return {name: _digest(path.read_bytes()) for name, path in paths.items() if path.is_file()}


def required_cases(catalogue: Catalogue, level: Level, operators: Collection[str]) -> dict[str, CaseDraft]:
    """The declared cases of these operators that the level asks for."""
    drafts = catalogue.drafts_of(*operators)
    return {case: draft for case, draft in drafts.items() if not set(draft.tags).intersection(_LEFT_OUT[level])}


def find_gaps(required: Mapping[str, CaseDraft], report: RunReport) -> list[str]:
    """Which operators, and which cases of others with their tags, have no result; empty where none lacks."""
    reached = {result.case for result in report.results if result.outcome is not Outcome.NOT_RUN}
    seen = {case.partition("/")[0] for case in reached}
    missing = [draft for case, draft in required.items() if case not in reached]
    absent = sorted({draft.operator for draft in missing} - seen)
    words = [f"no result of {pluralize(len(absent), 'operator')}: {_name_first(absent)}"] if absent else []
    if rest := [draft for draft in missing if draft.operator in seen]:
        tags = ", ".join(f"{tag} {number}" for tag, number in Counter(tag for one in rest for tag in one.tags).items())
        names = _name_first([draft.id for draft in rest])
        words.append(f"no result of {pluralize(len(rest), 'case')}: {names}; by tag: {tags or 'none'}")
    return words


def words_to_cover(level: Level, operators: Sequence[str]) -> str:
    """The command that runs what the level asks for."""
    # Without a tag heavy cases do not run.
    tags = [f"--tag {tag}" for tag in TAGS if tag not in OPEN_TAGS] if level == "full" else []
    return " ".join(["mluops-test run", *(f"--op {name}" for name in operators), *tags, "--out results"])


def pack(claim: Claim, files: Mapping[str, bytes]) -> Submission:
    """The claim with these files, as it is read again."""
    return _submission(Manifest(1, claim, {name: _digest(data) for name, data in files.items()}), files, Path(REPORT))


def write_submission(out: Path, submission: Submission) -> str:
    """Write the archive, the same bytes for the same results; the SHA-256 of it."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in {MANIFEST: json_bytes(submission.manifest, indent=1) + b"\n", **submission.files}.items():
            # Without the time of day.
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    replace_file(out, [stream.getvalue()])
    return _digest(stream.getvalue())


def read_submission(path: Path) -> Submission:
    """The archive at this path; ContentError where it is none that `submit` writes."""
    try:
        data = plain_file_bytes(path, _MAX_ARCHIVE)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error}); name an archive.") from error
    files = _read_members(path, data)
    source = _source(path, MANIFEST)
    record = decode_json(files.pop(MANIFEST), source)
    manifest = convert(record, Manifest, source)
    keep_plain(record, source)
    if decode_json(json_bytes(manifest), source) != record:
        raise source.error("it has keys that no manifest has")
    return _submission(manifest, files, path)


def _submission(manifest: Manifest, files: Mapping[str, bytes], path: Path) -> Submission:
    source = _source(path, REPORT)
    record = decode_json(files[REPORT], source)
    try:
        return Submission(manifest, files, report_from_json(record, source))
    except ContentError as error:
        return Submission(manifest, files, None, str(error))


def _read_members(path: Path, data: bytes) -> dict[str, bytes]:
    def refuse(what: str) -> ContentError:
        return ContentError(f"{path}: {what}. `mluops-test submit` writes such archives; ask for it again.")

    end = len(data) - _END.size
    magic, *_, number, size, _, comment = _END.unpack(data[end:]) if end >= 0 else (b"", 0, 0, 0, 0)
    if magic != b"PK\x05\x06" or comment or data[max(end - _LOCATOR_BYTES, 0) : end].startswith(_LOCATOR):
        raise refuse("not a whole zip archive of less than 4 GiB without a comment")
    # Before anything is listed: the list itself may be a bomb.
    if number > len(MEMBERS) or size > 1 << 12:
        raise refuse(f"more than the members {', '.join(MEMBERS)}")
    files: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist():
                name = member.orig_filename
                is_plain = member.external_attr >> 28 in (0, 8) and not member.flag_bits & 1
                if name not in MEMBERS or name in files or not is_plain or member.file_size > MEMBERS[name]:
                    raise refuse(
                        f"{name[:100]!r} is there twice, no plain file, too large or none of {', '.join(MEMBERS)}"
                    )
                files[name] = archive.read(member)
    except ContentError:
        raise
    except Exception as error:
        # What a damaged archive raises is no closed list.
        raise refuse(f"damaged ({str(error)[:200]})") from error
    if not {MANIFEST, REPORT} <= files.keys():
        raise refuse(f"{MANIFEST} or {REPORT} is missing")
    return files


def check_files(submission: Submission) -> Iterator[Finding]:
    """Whether the files are those of the manifest, and every word of the report that follows from others does."""
    manifest, files, report = submission.manifest, submission.files, submission.report
    wrong = manifest.files.items() ^ {name: _digest(data) for name, data in files.items()}.items()
    yield Finding.of("every file has the digest of the manifest", sorted({f"{name} has not" for name, _ in wrong}))
    yield Finding.of("the report is one that a run writes", [submission.broken] if submission.broken else [])
    if report is None:
        return
    what = "the report has what follows from it, and nothing else"
    if report.tool_version != __version__:
        words = f"mluops-test {report.tool_version} wrote it, and this is {__version__}"
        yield Finding(what, "not checked", (words,))
    else:
        source = Source(REPORT, "")
        written, meant = decode_json(files[REPORT], source), decode_json(json_bytes(report_to_json(report)), source)
        yield Finding.of(what, _unlike_places(written, meant, "report"))
    inside = (f"{one.case}: {words}" for one in report.results for words in contradictions(one))
    yield Finding.of("every outcome follows from its readings, statuses and causes", inside)


def _unlike_places(written: Any, meant: Any, at: str) -> Iterator[str]:
    """Where two documents differ, in one of which something may be missing."""
    if written != meant:
        here, there = dict(_leaves(written, at)), dict(_leaves(meant, at))
        for place in {**here, **there}:
            if place not in here or place not in there or here[place] != there[place]:
                yield f"{place}: {here.get(place, 'nothing')!r:.100}, not {there.get(place, 'nothing')!r:.100}"


def _leaves(value: Any, at: str) -> Iterator[tuple[str, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    yield from (leaf for key, item in items for leaf in _leaves(item, f"{at}.{key}"))
    if not items:
        yield at, value


def contradictions(result: CaseResult) -> Iterator[str]:
    """What of a result cannot be true together, beyond what no reader accepts."""
    for one in result.readings:
        if not one.within and one.value <= one.threshold and one.criterion != SIZELESS:
            yield f"{one.output} {one.criterion}: {one.value} is within {one.threshold}"
    if result.outcome in (Outcome.XFAILED, Outcome.XPASSED):
        yield f"{result.outcome.value}, which only the gate gives"
    if result.compared < bool(result.readings) or result.outcome.was_called < result.compared:
        yield f"{result.outcome.value} with {pluralize(len(result.readings), 'reading')}, compared: {result.compared}"
    if (result.outcome is Outcome.PASSED) == bool(result.causes):
        yield f"{result.outcome.value} {'with a cause' if result.causes else 'without a cause'}"


class Suite:
    """The content that the checker has, held against results of others."""

    def __init__(self, catalogue: Catalogue, claim: Claim) -> None:
        self.catalogue, self.claim = catalogue, claim
        self._digests = digests_of_suite(catalogue, catalogue.operators)
        # The operators of the claim whose locks are the same here.
        self.same = sorted(name for name, digest in claim.suite.items() if self._digests.get(name) == digest)
        self._drafts = catalogue.drafts_of(*self.same)
        self._locks = {name: read_locks(catalogue.root_of(name).stored, [name]) for name in self.same}

    def check(self, report: RunReport) -> Iterator[Finding]:
        """Whether the suite is the same, the level complete, and every case the one that is declared here."""
        claim, wanted = self.claim, set(self.claim.operators or self._digests)
        if other := sorted(claim.suite.keys() - set(self.same)):
            words = f"other locks here, so that nothing of them is checked: {', '.join(other)}"
            yield Finding("the suite is that of this installation", "open", (words,))
        # Of a later version a suite may have more.
        odd = wanted ^ claim.suite.keys() if claim.operators else wanted - claim.suite.keys()
        gaps = find_gaps(required_cases(self.catalogue, claim.level, self.same), report)
        found = [*(f"claim and suite differ in {name}" for name in sorted(odd)), *gaps]
        yield Finding.of(f"level {claim.level} is complete for {pluralize(len(self.same), 'operator')}", found)
        same = set(self.same)
        own = [one for one in report.results if one.operator in same or one.case.partition("/")[0] in same]
        unlike = (f"{one.case}: {words}" for one in own for words in self._unlike(one, report.reseed is not None))
        what = f"operator, tags, tensors, status and thresholds of {pluralize(len(own), 'case')} are the suite's"
        yield Finding.of(what, unlike)

    def _unlike(self, result: CaseResult, is_reseeded: bool) -> Iterator[str]:
        """In what the result is not of the case that this suite declares."""
        draft, passed = self._drafts.get(result.case), result.outcome is Outcome.PASSED
        if draft is None:
            yield "this suite has no such case"
            return
        if (result.operator, result.tags) != (draft.operator, draft.tags):
            yield "another operator or other tags"
        if result.expected_status is not draft.expect.status and (passed or result.expected_status is not None):
            yield f"{draft.expect.status.name} is expected"
        lock = self._locks[draft.operator]
        case = bare_case(unfold_entry(lock[draft.id], draft, lock), draft)
        info = CaseInfo.of(case)
        # Data decide some shapes and parameters; of a case that was not loaded nothing is known.
        names = ["doc", "check", "arch", *(() if is_reseeded else ("inputs", "outputs", "params"))]
        for name in names if passed or result.info.tensors else ():
            if with_words(getattr(result.info, name)) != with_words(getattr(info, name)):
                yield f"info.{name} is {getattr(info, name)}"
        yield from self._unlike_readings(result, case, draft, must_have=passed and not info.check)

    def _unlike_readings(self, result: CaseResult, case: Case, draft: CaseDraft, *, must_have: bool) -> Iterator[str]:
        operator, wanted = self.catalogue.operators[draft.operator], dict[tuple[str, str], float]()
        seen = {(one.output, one.criterion) for one in result.readings}
        declared = declared_criteria(draft, operator, case.outputs, case.facts)
        for tensor, criteria in zip(case.outputs, declared, strict=True):
            usual = operator.usual_criteria(tensor.id, tensor.desc.dtype, case.facts)
            required = effective_criteria(tensor.desc.dtype, criteria, usual, recomputed=False)
            own = {(tensor.id, one.kind.canonical.value): one.threshold for one in required}
            wanted |= own
            # How many rows there are, data decide; why an output has no reading, a note says.
            is_open = tensor.desc.is_empty or operator.output(tensor.id).rows_owned
            if must_have and not is_open and not any(note.startswith(tensor.id) for note in result.notes):
                yield from (f"no reading of {' '.join(key)}" for key in own if key not in seen)
        tensors = {tensor.id for tensor in case.outputs}
        for one in result.readings:
            # A result that is no tensor must be equal.
            is_scalar = one.output not in tensors and one.criterion == "exact"
            if one.threshold != wanted.get((one.output, one.criterion), 0.0 if is_scalar else None):
                yield f"{one.output} {one.criterion} ≤ {one.threshold} is not what the suite asks for"


def unchecked_fields() -> dict[str, list[str]]:
    """By file what an archive may say as it likes, as long as its files agree, unless cases are run again."""
    head = [name for name in RunReport.__struct_fields__ if name != "results"]
    own = [f"results[].{name}" for name in CaseResult.__struct_fields__ if name not in _RECOMPUTED]
    return {RUN: ["all of it"], MANIFEST: ["waivers"], REPORT: [*head, *own]}


def _name_first(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _source(path: Path, name: str) -> Source:
    return Source(f"{path}: {name}", "`mluops-test submit` writes such archives; ask for it again.")
