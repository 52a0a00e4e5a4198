"""Chapter 2: controllers and fork servers are killed at drawn moments; --resume gives the undisturbed report."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.campaign.content import BACKEND, calm_ids
from tests.campaign.results import comparable, differences, lost_or_doubled, reported
from tests.campaign.sandbox import Sandbox
from tests.campaign.tally import Try, try_all

# Some faults among the calm cases, so that workers come and go.
CASES = (
    *("trial/f_sigsegv", "trial/f_exits_with_3", "trial/f_raises", "trial/f_leaves_a_daemon", "trial/f_answers_zeros"),
    *calm_ids()[:40],
)
HOW = {
    "controller killed": (signal.SIGKILL, False, False),
    "controller killed, last lines torn": (signal.SIGKILL, False, True),
    "controller terminated": (signal.SIGTERM, False, False),
    "controller interrupted": (signal.SIGINT, False, False),
    "fork server killed": (signal.SIGKILL, True, False),
}


def kills(folder: Path, root: Path, seed: int, tries: range, at_once: int) -> list[Try]:
    """Kills, spread over the ways of killing."""
    calm = Sandbox(folder / "undisturbed")
    done = calm.run("run", *CASES, *_options(root, folder / "undisturbed" / "results", 2))
    before = comparable(folder / "undisturbed" / "results")
    order = [one["case"] for one in reported(folder / "undisturbed" / "results")]
    if done.code != 1 or len(before) != len(CASES):
        return [Try("kills", "", lost=len(CASES) - len(before), broken=(f"undisturbed: exit code {done.code}",))]

    def one(i: int) -> Try:
        return _killed(folder / str(i), root, seed, i, before, order)

    return try_all(one, tries, at_once)


def _options(root: Path, out: Path, jobs: int) -> Sequence[str]:
    run = ("--root", str(root), "--out", str(out), "-j", str(jobs))
    return (*run, "-q", "--isolate", "--timeout", "60", "-b", BACKEND)


def _killed(folder: Path, root: Path, seed: int, i: int, before: dict[str, Any], order: list[str]) -> Try:
    draw = random.Random(f"{seed}/kills/{i}")
    kind = list(HOW)[i % len(HOW)]
    number, server, torn = HOW[kind]
    box = Sandbox(folder)
    out = folder / "results"
    arguments: Sequence[str] = ("run", *CASES, *_options(root, out, 1 + i % 3))
    broken: list[str] = []
    left = [0, 0, 0]
    # Once or twice, the second time in the resumed run.
    for _ in range(draw.choice((1, 1, 2))):
        earlier = _identity(out)
        process = box.start(arguments)
        _wait_for_lines(process, out, draw.randrange(len(CASES)), earlier)
        time.sleep(draw.uniform(0, 0.05))
        target = _fork_server(process.pid) if server else process.pid
        if target is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(target, number)
        done = box.finish(process)
        left = [a + b for a, b in zip(left, (done.tracebacks, len(done.processes), len(done.files)), strict=True)]
        broken += [f"left by the killed run: {name}" for name in (*done.processes, *done.files)]
        broken += [f"a trace: {done.err[-700:]}"] if done.tracebacks else []
        # What was finished before the kill came is not torn: nobody writes there any more.
        if torn and (out / "results.jsonl").exists() and not (out / "report.json").exists():
            size = (out / "results.jsonl").stat().st_size
            os.truncate(out / "results.jsonl", max(0, size - draw.randrange(3000)))
        arguments = ("run", "--resume", str(out), "-q")
        if not (out / "run.json").exists():
            arguments = ("run", *CASES, *_options(root, out, 1 + i % 3))
    done = box.run(*arguments)
    lost, words = lost_or_doubled(order, out)
    broken += words
    if done.code != 1:
        broken.append(f"exit code {done.code} instead of 1: {done.err[-300:]}")
    broken += differences(before, comparable(out))
    if [one["case"] for one in reported(out)] != order:
        broken.append("the report has another order")
    return Try(
        kind, f"python -m tests.campaign --only kills --try {i} --seed {seed}", lost, left[0] + done.tracebacks,
        int(done.code == 70), left[1] + len(done.processes), left[2] + len(done.files), tuple(broken),
    )  # fmt: skip


def _identity(out: Path) -> int:
    """Which file holds the results; a run writes another one when it starts, before that Python itself is at work."""
    with contextlib.suppress(OSError):
        return (out / "results.jsonl").stat().st_ino
    return 0


def _wait_for_lines(process: Any, out: Path, count: int, earlier: int) -> None:
    """Until this run has its own file of results with so many cases, or is over."""
    while process.poll() is None:
        with contextlib.suppress(OSError):
            lines = (out / "results.jsonl").read_bytes().count(b"\n")
            if lines >= count and _identity(out) != earlier:
                return
        time.sleep(0.002)


def _fork_server(controller: int) -> int | None:
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{controller}/task/{controller}/children").read_text().split()
        return int(children[0]) if children else None
    return None
