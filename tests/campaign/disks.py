"""Chapter 5: disks that are full: exit 74 and one sentence, everything finished kept, nothing temporary left."""

import random
import shutil
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.campaign.content import BACKEND, calm_ids
from tests.campaign.results import comparable, differences, lost_or_doubled
from tests.campaign.sandbox import Sandbox
from tests.campaign.tally import Try

CASES = (*calm_ids()[:12], "trial/f_answers_zeros")
FULL = Path("/dev/full")
UNWRITABLE = 74


def disks(folder: Path, root: Path, seed: int, wanted: range, at_once: int) -> list[Try]:
    """Runs on limited files, folders that vanish, and commands whose output has nowhere to go."""
    box = Sandbox(folder / "undisturbed")
    before = folder / "undisturbed" / "results"
    box.run("run", *CASES, *_options(root, before))
    size = max(path.stat().st_size for path in before.iterdir())

    def limited(i: int) -> Try:
        draw = random.Random(f"{seed}/disks/{i}")
        return _limited_run(folder / f"run-{i}", root, before, draw.randrange(0, int(size * 1.1)), i, seed)

    with ThreadPoolExecutor(at_once) as pool:
        tries = list(pool.map(limited, wanted))
        tries += pool.map(lambda i: _vanishing(folder / f"gone-{i}", root, i, seed), range(max(1, len(wanted) // 5)))
        # A few of the commands where few tries are wanted.
        step = max(1, 10 // len(wanted))
        tries += pool.map(lambda item: _full_output(folder, item), list(enumerate(_commands(root, before)))[::step])
        tries += pool.map(lambda item: _full_file(folder, item, seed), list(enumerate(_writers(root, before)))[::step])
    return tries


def _options(root: Path, out: Path) -> Sequence[str]:
    # Not isolated: a limit on files also holds for the shared memory of workers.
    return ("--root", str(root), "--out", str(out), "-q", "--no-isolate", "-b", BACKEND)


def _stray(folder: Path, allowed: Sequence[str]) -> list[str]:
    if not folder.is_dir():
        return []
    return [f"a stray file {path.name}" for path in folder.rglob("*") if path.name not in allowed]


RESULT_FILES = ("run.json", "results.jsonl", "report.json", "causes.json", "lock", "run.lock", ".lock")


def _limited_run(folder: Path, root: Path, before: Path, most: int, i: int, seed: int) -> Try:
    box = Sandbox(folder)
    out = folder / "results"
    first = box.run("run", *CASES, *_options(root, out), most_file_bytes=most)
    broken = [f"left by the first run: {name}" for name in (*first.processes, *first.files)]
    broken += (
        [] if first.code in (1, UNWRITABLE) else [f"{most} bytes a file: exit code {first.code}: {first.err[-300:]}"]
    )
    if first.code == UNWRITABLE and len(first.err.strip().splitlines()) > 3:
        broken.append(f"more than a sentence: {first.err[-500:]}")
    broken += _stray(out, RESULT_FILES)
    broken += ["a trace in the first run"] * min(1, first.tracebacks)
    again = ("--resume", str(out), "-q") if (out / "run.json").exists() else (*CASES, *_options(root, out))
    done = box.run("run", *again)
    lost, words = lost_or_doubled(CASES, out)
    broken += words
    broken += [] if done.code == 1 else [f"resumed: exit code {done.code}: {done.err[-300:]}"]
    broken += differences(comparable(before), comparable(out))
    return done.as_try(
        "a limit on file sizes", f"python -m tests.campaign --only disks --try {i} --seed {seed}", lost, broken
    )


def _vanishing(folder: Path, root: Path, i: int, seed: int) -> Try:
    """The results folder is removed while the run writes to it."""
    box = Sandbox(folder)
    out = folder / "results"
    options = ("--root", root, "--out", out, "-q", "--isolate", "-b", BACKEND, "--timeout", "2")
    process = box.start(("run", "trial/f_sleeps", *CASES, *options))

    def remove() -> None:
        while process.poll() is None and not (out / "results.jsonl").exists():
            time.sleep(0.01)
        shutil.rmtree(out, ignore_errors=True)

    remover = threading.Thread(target=remove)
    remover.start()
    done = box.finish(process)
    remover.join()
    broken = [] if done.code == UNWRITABLE else [f"exit code {done.code}: {done.err[-300:]}"]
    return done.as_try(
        "a results folder that vanishes", f"python -m tests.campaign --only disks --seed {seed}", 0, broken
    )


def _commands(root: Path, results: Path) -> list[tuple[str, ...]]:
    """Commands that print."""
    return [
        ("list", "--all", "--root", str(root)),
        ("show", CASES[0], "--root", str(root)),
        ("ops", "--root", str(root)),
        ("backends",),
        ("schema",),
        ("report", str(results), "--format", "json"),
        ("report", str(results), "--format", "junit"),
        ("report", str(results), "--format", "html"),
        ("compare", str(results), str(results), "--all"),
        ("gate", str(results), "--against", str(results)),
        ("verify", CASES[0], "--root", str(root)),
        ("--help",),
        ("run", "--help"),
        ("--version",),
    ]


def _full_output(folder: Path, item: tuple[int, tuple[str, ...]]) -> Try:
    i, arguments = item
    box = Sandbox(folder / f"out-{i}")
    done = box.run(*arguments, stdout=FULL)
    broken = (
        [] if done.code == UNWRITABLE else [f"{arguments[0]} > /dev/full: exit code {done.code}: {done.err[-300:]}"]
    )
    if len(done.err.strip().splitlines()) > 3:
        broken.append(f"{arguments[0]}: more than a sentence: {done.err[-500:]}")
    return done.as_try("a full standard output", f"mluops-test {' '.join(arguments)} > /dev/full", 0, broken)


def _writers(root: Path, results: Path) -> list[tuple[str, ...]]:
    """Commands that write the file or folder that stands last."""
    case = next((root / "prototxt").rglob("*.prototxt"))
    return [
        ("report", str(results), "--format", "html", "-o", "report.html"),
        ("report", str(results), "--format", "markdown", "-o", "report.md"),
        ("report", str(results), "--format", "junit", "-o", "junit.xml"),
        ("merge", str(results), "--out", "merged"),
        ("convert", "--root", str(root), str(case.parent), "binary"),
        ("generate", "--all", "--root", str(root), "--out", "made"),
        ("history", "add", str(results), "--db", "history.sqlite"),
        ("schema", "--out", "proto"),
        ("new", "backend", "fresh_backend"),
    ]


def _full_file(folder: Path, item: tuple[int, tuple[str, ...]], seed: int) -> Try:
    i, arguments = item
    most = random.Random(f"{seed}/writers/{i}").choice((0, 1, 100))
    box = Sandbox(folder / f"file-{i}")
    before = {path.name for path in box.folder.iterdir()} | {"out", "err"}
    done = box.run(*arguments, most_file_bytes=most)
    allowed = {*before, Path(arguments[-1]).name}
    broken = []
    if done.code != UNWRITABLE:
        broken.append(f"{most} bytes a file: {' '.join(arguments[:2])}: exit code {done.code}: {done.err[-300:]}")
    broken += [f"a stray file {path.name}" for path in box.folder.iterdir() if path.name not in allowed]
    repro = f"prlimit --fsize={most} mluops-test {' '.join(arguments)}"
    return done.as_try("a file that cannot be written", repro, 0, broken)
