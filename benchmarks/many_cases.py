"""Tiny cases by the thousand beside as many pytest tests: `python -m benchmarks cases`.

The cases are of one operator in a content root of their own; every contestant is a process of its own, from its start
to its end. A test of pytest compares the same two arrays by one assert_allclose.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from shutil import copytree

from benchmarks.processes import IMPORTS, ROOT, Commands, commands
from benchmarks.rows import Goal, Rounds, Row, seconds_of
from mluops_gtest.base.float_state import FloatState
from mluops_gtest.casefiles.lock import LockEntry, lock_path, write_lock
from mluops_gtest.catalog.selection import Session
from mluops_gtest.running.workers.process_state import Interpreter, Processes, ProcFile

OPERATOR = "masked_im2col_forward"
CASES = """\
- name: tiny_{n}
  tags: [random]
  doc: a tiny image
  each: {n: {from: 1, to: %d}}
  params: {kernel_h: 1, kernel_w: 1, pad_h: 0, pad_w: 0}
  data: {recipe: mask_grid, image: [2, 3, 3], masks: 4}
"""
# As many values as the output of a case has.
TESTS = """\
import numpy as np
import pytest

COUNT = %d
BASELINE = np.random.default_rng(1).random((COUNT, 2, 4), np.float32)
EVALUATED = BASELINE.copy()


@pytest.mark.parametrize("number", range(COUNT))
def test_tiny(number):
    np.testing.assert_allclose(EVALUATED[number], BASELINE[number])
"""
# All outputs are 7, which no baseline is.
WRONG = """\
%s
from mluops_gtest import Status


class Wrong:
    name = "wrong"

    def run(self, call):
        for name in call.outputs:
            call.array(name)[...] = 7
        return Status.SUCCESS


backend = Wrong()
"""
UNCONFIRMED = """\
import sys
from mluops_gtest.cli.main import run_main
from mluops_gtest.running.repetition import Confirmation
Confirmation.is_due = lambda *_: False
sys.exit(run_main(sys.argv[1:]))
"""
WITHOUT = "failures not confirmed"
# What confirming may take of a short run.
WITHOUT_AND_A_MINUTE = f"{WITHOUT}, and 60 s"
PYTEST, IMPORT = "pytest", "import numpy, click"
# What a case may take all in: to load, call, judge and write it.
HALF_A_MILLISECOND = "0.5 ms"
# What it may take to see, after each call in a worker, that nothing is left which the next one would meet.
LOOK_LIMIT = "20 µs"


def declared(folder: Path, count: int) -> str:
    """A content root that declares so many cases."""
    root = folder / f"root-{count}"
    copytree(ROOT / "generators" / OPERATOR, root / "generators" / OPERATOR)
    for name in ("cases", "prototxt"):
        (root / name).mkdir()
    (root / "cases" / f"{OPERATOR}.yaml").write_text(CASES % count)
    return str(root)


def generated(python: Commands, count: int) -> str:
    """A content root with so many stored cases."""
    root = declared(python.folder, count)
    python.ours("generate", "--all", "--root", root)
    return root


def locked(folder: Path, count: int) -> str:
    """A content root with so many cases in its lock, as far as a list asks: descriptors, and digests of nothing."""
    root = declared(folder, count)
    session = Session((root,))
    tensor = {"id": "feature", "dtype": "float", "layout": "NCHW", "dims": [1, 2, 3, 3]}
    entries = [
        LockEntry(name, draft.digest, "", "0" * 32, "0" * 32, {"inputs": [tensor] * 3, "outputs": [tensor]}, {})  # type: ignore[list-item]
        for name, draft in session.catalogue.drafts.items()
    ]
    path = lock_path(Path(root) / "prototxt", OPERATOR)
    path.parent.mkdir()
    write_lock(path, entries)
    return root


def run(root: str, *options: str) -> tuple[str, ...]:
    return ("run", "--all", "--root", root, "--out", f"{root}-results", "--overwrite", "-q", *options)


def beside_pytest(count: int) -> Rounds:
    with commands() as python:
        root = generated(python, count)
        tests = python.folder / "test_tiny.py"
        tests.write_text(TESTS % count)
        peer = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly", str(tests))
        while True:
            yield {"ours": python.ours(*run(root)).seconds, PYTEST: python.take(*peer).seconds}


def in_workers(count: int) -> Rounds:
    with commands() as python:
        root = generated(python, count)
        while True:
            inline = python.ours(*run(root)).seconds
            yield {
                "ours": python.ours(*run(root, "--isolate", "-j", "2")).seconds,
                "inline": inline,
                "one worker": python.ours(*run(root, "--isolate")).seconds,
                "inline and 1 ms a case": inline + count * 1e-3,
            }


def per_case(few: int, many: int) -> Rounds:
    """Seconds per case, from the first case to the last: start-up counts for nothing."""
    with commands() as python:
        roots = {count: generated(python, count) for count in (few, many)}

        def each(count: int) -> float:
            python.ours(*run(roots[count]))
            report = json.loads(Path(f"{roots[count]}-results", "report.json").read_bytes())
            return float(report["seconds"]) / count

        while True:
            yield {"ours": each(many), f"of {few}": each(few), HALF_A_MILLISECOND: 0.5e-3}


def looks_after_a_call() -> Rounds:
    floats, interpreter = FloatState(), Interpreter()
    status = ProcFile("/proc/self/status", b"Name:").read()
    processes = Processes(status)

    def look() -> None:
        floats.changes()
        interpreter.restore()
        processes.look(status)

    while True:
        yield {"ours": seconds_of(look), LOOK_LIMIT: 20e-6}


def wrong_everywhere(imports: str, count: int) -> Rounds:
    with commands() as python:
        root = generated(python, count)
        backend = Path(root, "wrong.py")
        backend.write_text(WRONG % imports)
        words = run(root, "--backend", str(backend))
        while True:
            without = python.take("-c", UNCONFIRMED, *words, right=(1,)).seconds
            confirmed = python.ours(*words, right=(1,)).seconds
            yield {"ours": confirmed, WITHOUT: without, WITHOUT_AND_A_MINUTE: without + 60}


def memory(few: int, many: int) -> Rounds:
    with commands() as python:
        roots = {count: generated(python, count) for count in (few, many)}
        while True:
            taken = {count: python.ours(*run(root)).peak_bytes for count, root in roots.items()}
            yield {"ours": taken[many], f"of {few}": taken[few]}


def listing(count: int) -> Rounds:
    with commands() as python:
        root = locked(python.folder, count)
        python.ours("list", "--all", "--root", root)
        while True:
            yield {
                "ours": python.ours("list", "--all", "--root", root).seconds,
                IMPORT: python.take(*IMPORTS).seconds,
            }


def listing_memory(count: int) -> Rounds:
    with commands() as python:
        root = locked(python.folder, count)
        while True:
            yield {"ours": python.ours("list", "--all", "--root", root).peak_bytes, "500 MB": 5e8}


# By process_time around each step of 1000 tiny cases, without imports.
WHY_RUN = (
    "Loading takes half (of that a third reads the text, a third makes tensors and parameters of it, the rest are "
    "digests and the lock's line), the call with its guarded buffers and the verdict 40 % (a sixth of that is the "
    "kernel itself), writing the result 8 %; no function has more than 8 % of its own."
)
# By perf_counter around each step, the fastest of several rounds.
WHY_WORKERS = (
    "With one worker a case takes twice as long as inline: a third of that waits for the answer (both processes "
    "sleep and wake; what the worker itself does is less than half of the wait), a fifth makes, sends and reads the "
    "messages. With two workers the waits overlap, but the cases of both are loaded and judged by one controller, a "
    "Python process that uses one core."
)


def rows() -> Iterator[Row]:
    for count in (1000, 10_000):
        what = f"{count} tiny cases, {count} pytest tests"
        yield Row(f"cases/run/{count}", what, partial(beside_pytest, count), (Goal(PYTEST, 1.0),), why=WHY_RUN)
    yield Row(
        "cases/isolated",
        "1000 tiny cases in two workers",
        partial(in_workers, 1000),
        (Goal("inline", 1.0), Goal("inline and 1 ms a case", 1.0)),
        why=WHY_WORKERS,
    )
    for name, imports, count in (("python", "import numpy", 1000), ("torch", "import torch", 100)):
        what = f"{count} tiny cases of which all fail, some confirmed in fresh workers that import {imports[7:]}"
        goals = (Goal(WITHOUT_AND_A_MINUTE, 1),)
        yield Row(f"cases/wrong/{name}", what, partial(wrong_everywhere, imports, count), goals)
    what = "floats, functions, threads, children, mappings and timers after a call"
    yield Row("cases/left-in-worker", what, looks_after_a_call, (Goal(LOOK_LIMIT, 1),), quick=True)
    goals = (Goal("of 100", 1.1), Goal(HALF_A_MILLISECOND, 1))
    yield Row("cases/growth", "one of 10 000 cases", partial(per_case, 100, 10_000), goals, why=WHY_RUN)
    yield Row(
        "cases/memory",
        "a run of 10 000 cases",
        partial(memory, 1000, 10_000),
        (Goal("of 1000", 1.1),),
        unit="B",
        why="Results take none of it; of each planned case 2.3 KB are its draft, its line in the lock and its id.",
    )
    yield Row("cases/list/10000", "`mluops-test list`", partial(listing, 10_000), (Goal(IMPORT, 10),))
    yield Row("cases/list/100000", "`mluops-test list`", partial(listing, 100_000), (Goal(IMPORT, 100),))
    goals = (Goal("500 MB", 1),)
    yield Row("cases/list/100000/memory", "`mluops-test list`", partial(listing_memory, 100_000), goals, unit="B")
