"""Chapter 3: mutated case files, text and binary: read, or refused by a CaseFileError, by numpy for the same reason.

`python -m tests.campaign.case_files SEED FIRST END` reads those mutations and prints what goes wrong.
"""

import contextlib
import os
import random
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mluops_gtest.base.errors import CaseFileError
from mluops_gtest.base.native.library import numpy_alone
from mluops_gtest.casefiles.files import read_document, write_document
from mluops_gtest.casefiles.reader import read_case
from mluops_gtest.casefiles.schema import Schema
from mluops_gtest.catalog.root import Root
from mluops_gtest.catalog.selection import Catalogue
from tests.campaign.in_pieces import pieces, tell, try_in_process
from tests.campaign.mutate import mutated_bytes
from tests.campaign.results import reported, written_lines
from tests.campaign.sandbox import MAX_MEMORY, ROOT, Sandbox
from tests.campaign.tally import Try, try_all

# By the number of the try: even ones are binary, odd ones text.
_TWO_MISTAKES = "text case files with two mistakes"
KINDS = ("mutated binary case files", "mutated text case files", "mutated binary case files", _TWO_MISTAKES)
MISTAKES = (b"99999999999999999999", b"abc", b"-", b"08", b"1e", b"")
MAX_WORDS = 3000
# One file takes milliseconds; whoever takes a minute hangs.
MAX_SECONDS_PER_FILE = 60
PER_RUN = 50
# What a run of files may end with: right, failed, broken content, nothing compared.
GOOD_CODES = (0, 1, 3, 5)


def originals(seed: int) -> list[Path]:
    """Stored cases of every operator, the small ones, in an order drawn from the seed."""
    small = sorted(path for path in (ROOT / "prototxt").rglob("*.prototxt") if path.stat().st_size < 6000)
    random.Random(f"{seed}/originals").shuffle(small)
    return small[:200]


def mutation(texts: list[bytes], binaries: list[bytes], seed: int, i: int) -> tuple[bytes, str]:
    """Mutation number i of this seed, and the ending of its name."""
    draw = random.Random(f"{seed}/case_files/{i}")
    if KINDS[i % len(KINDS)] == _TWO_MISTAKES:
        lines = draw.choice(texts).split(b"\n")
        values = [at for at, line in enumerate(lines) if line.startswith(b"value_")] or range(len(lines))
        for at in draw.sample(values, min(2, len(values))):
            lines[at] = lines[at].partition(b":")[0] + b": " + draw.choice(MISTAKES)
        return b"\n".join(lines), ".prototxt"
    pool, suffix = (texts, ".prototxt") if i % 2 else (binaries, ".pb")
    return mutated_bytes(draw.choice(pool), draw.choice(pool), draw), suffix


def pools(seed: int, schema: Schema) -> tuple[list[bytes], list[bytes]]:
    """The originals as text and as binary."""
    paths = originals(seed)
    with tempfile.TemporaryDirectory() as folder:
        binaries = []
        for path in paths:
            write_document(read_document(path, schema), Path(folder) / "case.pb")
            binaries.append((Path(folder) / "case.pb").read_bytes())
    return [path.read_bytes() for path in paths], binaries


def read_mutations(seed: int, first: int, end: int) -> None:
    """Read them all in this process; a JSON line for each that ends in anything but a case or a CaseFileError."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    catalogue = Catalogue(Root(ROOT))
    schema = Schema.of(catalogue.operators.values())
    texts, binaries = pools(seed, schema)
    with tempfile.TemporaryDirectory() as folder:

        def attempt(i: int) -> str:
            data, suffix = mutation(texts, binaries, seed, i)
            path = Path(folder) / f"case{suffix}"
            path.write_bytes(data)
            signal.alarm(MAX_SECONDS_PER_FILE)
            try:
                said = _refusal(path, schema, catalogue)
                with numpy_alone():
                    said_by_numpy = _refusal(path, schema, catalogue)
            except BaseException:
                return traceback.format_exc()[-600:]
            finally:
                signal.alarm(0)
            # A message is for people: short, and printable.
            if len(said) > MAX_WORDS or "\x1b" in said:
                return f"a message of {len(said)} characters: {said[:200]}"
            return "" if said == said_by_numpy else f"{said[:200]}; without the native core: {said_by_numpy[:200]}"

        for i in range(first, end):
            tell(i, attempt)


def _refusal(path: Path, schema: Schema, catalogue: Catalogue) -> str:
    """What is wrong with the file, in words; none where it is read."""
    try:
        read_case(path, schema, catalogue.operators)
    except CaseFileError as error:
        return str(error) or "no word"
    return ""


def in_process(folder: Path, seed: int, tries: range, at_once: int) -> list[Try]:
    """Mutations read by the readers themselves, in several processes."""
    folder.mkdir(parents=True)
    environment = dict(os.environ, TMPDIR=str(folder))

    def some(piece: range) -> list[Try]:
        wrong = try_in_process("tests.campaign.case_files", (str(seed),), piece, environment)
        bad = [_failed(seed, i, what) for i, what in wrong.items()]
        good = [i for i in piece if i not in wrong]
        return [*bad, *(Try(kind, "", count=sum(j % len(KINDS) == at for j in good)) for at, kind in enumerate(KINDS))]

    with ThreadPoolExecutor(at_once) as pool:
        found = [one for part in pool.map(some, pieces(tries)) for one in part]
    left = list(folder.iterdir())
    return [*found, *([Try("mutated case files", "", files=len(left))] if left else [])]


def _failed(seed: int, i: int, what: str) -> Try:
    return Try(
        KINDS[i % len(KINDS)], f"python -m tests.campaign.case_files {seed} {i} {i + 1}", tracebacks=1, broken=(what,)
    )


def by_command(folder: Path, seed: int, tries: range, at_once: int) -> list[Try]:
    """Mutations as folders of files that `run` runs: one result for each, whatever it is."""
    schema = Schema.of(Catalogue(Root(ROOT)).operators.values())
    texts, binaries = pools(seed, schema)

    def some(first: int) -> Try:
        box = Sandbox(folder / str(first))
        files = box.folder / "files"
        files.mkdir()
        names = []
        for i in range(first, first + PER_RUN):
            data, suffix = mutation(texts, binaries, seed, i)
            (files / f"m{i}{suffix}").write_bytes(data)
            names.append(f"m{i}{suffix}")
        out = box.folder / "results"
        done = box.run("run", files, "--out", out, "-q")
        broken = [] if done.code in GOOD_CODES else [f"exit code {done.code}: {done.err[-400:]}"]
        results, lines = reported(out), written_lines(out)
        broken += [f"{one['case']}: {one['reason'][:200]}" for one in results if "bug of mluops-test" in one["reason"]]
        lost = abs(len(names) - len({one["case"] for one in results})) + abs(len(names) - len(lines))
        bugs = int(done.code == 70)
        repro = f"python -m tests.campaign --only case_runs --try {first} --seed {seed}"
        return Try(
            "mutated case files, run", repro, lost, done.tracebacks, bugs, len(done.processes), len(done.files),
            tuple(broken), PER_RUN,
        )  # fmt: skip

    return try_all(some, tries[::PER_RUN], at_once)


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise TimeoutError(f"no answer within {MAX_SECONDS_PER_FILE} s")

    before = signal.signal(signal.SIGALRM, ring)
    yield
    signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    with _alarm():
        read_mutations(*map(int, sys.argv[1:4]))
