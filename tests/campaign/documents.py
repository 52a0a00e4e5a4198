"""Chapter 4: every file that is read back, malformed: told in one sentence with the right exit code, never a trace.

`python -m tests.campaign.documents FOLDER SEED FIRST END` tries those mutations of the originals in FOLDER, in its own
process, and prints what went wrong.
"""

import contextlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.campaign.in_pieces import pieces, tell, try_in_process
from tests.campaign.malformed import MALFORMED
from tests.campaign.mutate import mutated_bytes, mutated_tree
from tests.campaign.sandbox import MAX_MEMORY, Sandbox
from tests.campaign.tally import Try

# Anything but a bug of ours (70) and an interruption.
GOOD_CODES: Final = (0, 1, 2, 3, 4, 5, 74)
MAX_SECONDS: Final = 30
CASES: Final = ("scale_by/ramp_2", "scale_by/ramp_3")


class Document(NamedTuple):
    """A kind of file: where it stands in the originals, and the commands that read it there."""

    kind: str
    path: str
    commands: tuple[str, ...]


_GATE = "gate results --against baseline.json"
DOCUMENTS: Final = (
    Document(
        "report.json",
        "results/report.json",
        (
            *(f"report results --format {form}" for form in ("markdown", "html", "junit", "ctrf")),
            *(
                "report results --format json --against baseline.json",
                _GATE,
                "gate results --against new.json --update",
            ),
            *("compare results results", "history add results --db other.sqlite", "merge results --out merged"),
        ),
    ),
    Document("results.jsonl", "cut/results.jsonl", ("run --resume cut -q",)),
    Document("run.json", "cut/run.json", ("run --resume cut -q",)),
    Document(
        "baseline of the gate",
        "baseline.json",
        (
            _GATE,
            f"{_GATE} --format markdown",
            f"{_GATE} --update",
            "report results --format json --against baseline.json",
        ),
    ),
    Document("waivers", "waivers.yaml", (f"{_GATE} --waivers waivers.yaml --format github",)),
    Document(
        "history database",
        "history.sqlite",
        (
            *("history show --db history.sqlite", f"history show {CASES[0]} --db history.sqlite"),
            *("history trend --op scale_by --db history.sqlite", "history add results --db history.sqlite"),
            "report results --history history.sqlite --format json",
        ),
    ),
    Document("device spec", "device.yaml", ("device-spec device.yaml",)),
    Document(
        "declarations", "root/cases/scale_by.yaml", ("list --all --root root", "generate --all --root root --out made")
    ),
    Document(
        "lock file",
        "root/prototxt/scale_by/baselines.lock",
        ("verify --all --root root", "generate --all --check --root root"),
    ),
)

WAIVERS = """\
- {case: scale_by/*, outcome: failed, reason: rounds twice, owner: ann, expires: 2099-09-30}
- {case: "*/x", fingerprint: "v1:3f2a9c01d4e7", reason: "a bug", owner: bob, expires: 2099-01-01, backend: mlu}
"""
DEVICE = "name: my-device\nbandwidth_bytes_per_s: 1.2e+12\npeak_ops_per_s: {float: 1.6e+13, half: 6.4e+13}\n"


def make_originals(folder: Path) -> None:
    """One right file of every kind."""
    from tests.support.toy_root import write_toy_root

    box = Sandbox(folder / "sandbox")
    originals = folder / "originals"
    originals.mkdir()
    root = write_toy_root(originals / "root")
    (originals / "waivers.yaml").write_text(WAIVERS)
    (originals / "device.yaml").write_text(DEVICE)
    for arguments in (
        ("generate", "--all", "--root", root),
        ("run", *CASES, "--root", root, "--out", originals / "results", "-q", "--perf", "--samples", "5"),
        ("run", *CASES, "--root", root, "--out", originals / "cut", "-q"),
        ("gate", originals / "results", "--against", originals / "baseline.json", "--update"),
        ("history", "add", originals / "results", originals / "cut", "--db", originals / "history.sqlite"),
    ):
        done = box.run(*arguments)
        if done.code != 0:
            raise RuntimeError(f"{arguments}: exit code {done.code}: {done.out} {done.err}")
    # As after a kill: one case done, no report.
    (originals / "cut" / "report.json").unlink()
    lines = (originals / "cut" / "results.jsonl").read_bytes().splitlines(keepends=True)
    (originals / "cut" / "results.jsonl").write_bytes(lines[0])
    with contextlib.closing(sqlite3.connect(originals / "history.sqlite")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def mutated(document: Document, data: bytes, seed: int, i: int) -> bytes:
    """The file of try number i."""
    draw = random.Random(f"{seed}/documents/{i}")
    by_hand = MALFORMED.get(document.kind, ())
    if i // len(DOCUMENTS) < len(by_hand):
        return by_hand[i // len(DOCUMENTS)]
    if document.path.endswith((".json", ".jsonl")) and draw.random() < 0.7:
        tree = mutated_tree(json.loads(data.splitlines()[0] if document.path.endswith("l") else data), draw)
        return json.dumps(tree).encode() + b"\n"
    if document.path.endswith(".sqlite") and draw.random() < 0.5:
        # Flips in one page, most of them in what the database says of itself.
        page = bytearray(data)
        for _ in range(draw.randint(1, 40)):
            page[draw.randrange(min(len(page), draw.choice((100, 4096, len(page)))))] = draw.randrange(256)
        return bytes(page)
    if document.path.endswith((".yaml", ".lock")) and draw.random() < 0.5:
        import yaml

        with contextlib.suppress(Exception):
            return yaml.safe_dump(mutated_tree(yaml.safe_load(data), draw)).encode()
    return mutated_bytes(data, data, draw)


def try_mutations(folder: Path, seed: int, first: int, end: int) -> None:
    """Try them all in this process; a JSON line for each that breaks a promise."""
    from mluops_gtest.cli.main import run_main

    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    work = folder / f"work-{first}"

    def attempt(i: int) -> str:
        document = DOCUMENTS[i % len(DOCUMENTS)]
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(folder / "originals", work)
        os.chdir(work)
        path = work / document.path
        path.write_bytes(mutated(document, path.read_bytes(), seed, i))
        words = random.Random(f"{seed}/command/{i}").choice(document.commands)
        what = _attempt(run_main, words.split())
        return what and f"{words}: {what}"

    for i in range(first, end):
        tell(i, attempt)
    os.chdir(folder)
    shutil.rmtree(work, ignore_errors=True)


def _attempt(run_main: Callable[[list[str]], int], arguments: list[str]) -> str:
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    signal.alarm(MAX_SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run_main(arguments)
    except BaseException:
        return traceback.format_exc()[-500:]
    finally:
        signal.alarm(0)
    said = _said(out) + _said(err)
    if code not in GOOD_CODES or "Traceback (most recent call last)" in said:
        return f"exit code {code}: {said[-500:]}"
    if any(sign in said for sign in ("\x1b", "\u202e", "\x07")):
        return "control characters on the terminal"
    return ""


def _said(stream: io.TextIOWrapper) -> str:
    with contextlib.suppress(ValueError):
        stream.flush()
    buffer: Any = stream.buffer
    return str(buffer.getvalue().decode(errors="replace"))


def documents(folder: Path, seed: int, tries: range, at_once: int) -> list[Try]:
    """Malformed files of all kinds."""
    folder.mkdir(parents=True)
    make_originals(folder)
    box = Sandbox(folder / "tries")

    def some(piece: range) -> list[Try]:
        wrong = try_in_process("tests.campaign.documents", (str(folder), str(seed)), piece, box.environment)
        return [_one(seed, i, wrong.get(i)) for i in piece]

    with ThreadPoolExecutor(at_once) as pool:
        found = [one for part in pool.map(some, pieces(tries)) for one in part]
    left = [name for _, name in box.processes()]
    files = list(box.tmp.iterdir())
    return [*found, *([Try("malformed files", "", processes=len(left), files=len(files))] if left or files else [])]


def _one(seed: int, i: int, what: str | None) -> Try:
    kind = f"malformed {DOCUMENTS[i % len(DOCUMENTS)].kind}"
    if what is None:
        return Try(kind, "")
    repro = f"python -m tests.campaign --only documents --try {i} --seed {seed}"
    return Try(kind, repro, tracebacks=int("Traceback" in what), bugs=int("exit code 70" in what), broken=(what,))


def _ring(*_: object) -> None:
    raise TimeoutError(f"no answer within {MAX_SECONDS} s")


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, _ring)
    try_mutations(Path(sys.argv[1]), *map(int, sys.argv[2:5]))
