"""Chapter 10: workers of a Dask cluster that lie or stop are named, and others do their work."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.campaign.content import BACKEND, calm_ids, tiny_ids
from tests.campaign.results import lost_or_doubled, reported
from tests.campaign.sandbox import ROOT, Sandbox
from tests.campaign.tally import Try

WORKERS = 3
FAILING = tuple(f"trial/f_answers_{what}" for what in ("infinities", "nan", "nothing", "signalling_nans", "zeros"))
CASES = (*calm_ids()[:15], *FAILING[:2])
STOPPED = "a worker that is stopped"
ADDRESSES = ("tls://127.0.0.1:9", "ucx://127.0.0.1:9", "tcp://127.0.0.1:9", "nonsense://x", "tcp://")


def clusters(folder: Path, root: Path, tries: range) -> list[Try]:
    """Every lie that we know and a stopped worker, each in a run of its own; addresses that lead nowhere."""
    if importlib.util.find_spec("distributed") is None:
        print("not tried, Dask is not installed (pip install distributed) … ", end="", flush=True)
        return []
    from distributed import Client

    from tests.support import lying_workers

    folder.mkdir(parents=True)
    kinds: dict[str, tuple[Any, ...]] = {
        **{lie: (lying_workers.plant, lie) for lie in (*lying_workers.LIES, *lying_workers.SENT)},
        **{lie: (lying_workers.plant, lie) for lie in lying_workers.WRONG_VERDICTS},
        STOPPED: (lying_workers.stop_at_the_next_batch,),
    }
    found = []
    with _cluster(folder) as address:
        for i in tries:
            if i < len(kinds):
                name, (plant, *arguments) = list(kinds.items())[i]
                with Client(address, set_as_default=False) as client:
                    client.wait_for_workers(WORKERS, timeout=60)
                    liar = sorted(client.scheduler_info(n_workers=-1)["workers"])[0]
                    answers = client.run(plant, *arguments, workers=[liar])
                pid = answers[liar] if name == STOPPED else None
                found.append(_run_with(folder / str(i), root, address, name, liar, pid, i))
                with Client(address, set_as_default=False) as client:
                    client.wait_for_workers(WORKERS, timeout=60)
                    client.run(lying_workers.repent)
            elif i < len(kinds) + len(ADDRESSES):
                found.append(_unreachable(folder / str(i), root, ADDRESSES[i - len(kinds)], i))
    return found


@contextlib.contextmanager
def _cluster(folder: Path) -> Iterator[str]:
    """The address of a cluster of three processes."""
    program = ROOT / "tests" / "support" / "dask_cluster.py"
    process = subprocess.Popen(
        [sys.executable, str(program), str(WORKERS), "0", "tcp://"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _run_with(folder: Path, root: Path, address: str, name: str, liar: str, pid: int | None, i: int) -> Try:
    """A run with that worker in the cluster; with its `pid` it stops itself, and is continued afterwards."""
    box = Sandbox(folder)
    out = folder / "results"
    start = time.monotonic()
    options = ("--root", root, "--out", out, "--timeout", "5", "--isolate", "-b", BACKEND, "--cluster", address)
    # Every worker gets a first batch: of a liar about failures it must hold one.
    cases = FAILING if name == "call_failures_passed" else CASES
    done = box.run("run", *cases, *options, "--judge-here")
    if pid is not None:
        os.kill(pid, signal.SIGCONT)
    broken = [] if done.code == 1 else [f"{name}: exit code {done.code}: {done.err[-400:]}"]
    broken += [] if liar in done.err else [f"{name}: nobody names the worker: {done.err[-300:]}"]
    broken += [f"{name}: took {time.monotonic() - start:.0f} s"] if time.monotonic() - start > 120 else []
    for one in reported(out):
        right = "passed" if one["case"] in calm_ids() else "failed"
        broken += [] if one["outcome"] == right else [f"{name}: {one['case']}: {one['outcome']}, {one['reason'][:150]}"]
    lost, words = lost_or_doubled(cases, out)
    gate = box.run("gate", out, "--against", out)
    broken += [] if gate.code in (0, 1) else [f"{name}: our own gate ends with {gate.code}: {gate.err[-300:]}"]
    return done.as_try("workers of a cluster", _repro(i), lost, [*broken, *words])


def _unreachable(folder: Path, root: Path, address: str, i: int) -> Try:
    box = Sandbox(folder)
    options = ("--root", root, "--out", folder / "results", "-q", "-b", BACKEND, "--cluster", address)
    done = box.run("run", tiny_ids()[0], *options)
    broken = (
        [] if done.code in (2, 4) and done.err.strip() else [f"{address}: exit code {done.code}: {done.err[-400:]}"]
    )
    return done.as_try("a cluster that cannot be reached", _repro(i), 0, broken)


def _repro(i: int) -> str:
    return f"python -m tests.campaign --only clusters --try {i}"
