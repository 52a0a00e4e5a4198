"""What a cluster costs: `python -m benchmarks.scaling [--sleep S] [--workers N…]`, `… --network`.

Runs about 2000 tiny cases with workers of this machine (`-j N`) and on a local Dask cluster of as many processes, in
turn, and prints the best of each as a Markdown table; start-up is not counted. `--sleep` lets the backend take so long
per case, so that a machine of few cores can hold many workers. What the controller and the scheduler, which share a
process here, spend per case is what they spend on all of them beyond what they spend on two. `--network` runs large
cases on one worker and on two, of one thread each.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import mluops_gtest as mt
from mluops_gtest.cli.main import run_main

BACKEND = """\
import time
import mluops_gtest as mt


class Sleeping(mt.NumpyBackend):
    name = "sleeping"

    def run(self, call):
        time.sleep({seconds})
        return super().run(call)


backend = Sleeping()
"""
TINY = ("--tag", "negative", "--tag", "smoke")
TWO = ("ball_query/handle_null", "ball_query/nothing_missing_ok")
NETWORK = ("--tag", "network", "--op", "three_interpolate_forward")
CASES = 10**6
DEVICES = 100


def seconds_of(folder: Path, *arguments: str) -> tuple[float, int, float]:
    """Seconds of a run without its start-up, its cases, and processor seconds of this process from start to end."""
    before = time.process_time()
    code = run_main(["run", "-q", "--out", str(folder), "--overwrite", *arguments])
    spent = time.process_time() - before
    report = mt.RunReport.load(folder)
    if code != 0:
        raise SystemExit(f"the run ended with {code}: {report.summary}")
    return report.seconds, len(report.results), spent


def tiny(folder: Path, sleep: float, workers: list[int], rounds: int) -> None:
    """Tiny cases on one machine and on a cluster."""
    file = folder / "sleeping.py"
    file.write_text(BACKEND.format(seconds=sleep))
    backend = ("--backend", str(file))
    print("| workers | cases | one machine | cluster | cluster / one machine | controller, ms per case |")
    print("|---|---|---|---|---|---|", flush=True)
    least = []
    for number in workers:
        cluster = (*backend, "--ship", str(file), "--cluster", f"local:{number}")
        start = min(seconds_of(folder / "two", *TWO, *cluster)[2] for _ in range(rounds))
        here, there, spent, cases = [], [], [], 0
        for _ in range(rounds):
            seconds, cases, _ = seconds_of(folder / "here", *TINY, *backend, "-j", str(number))
            here.append(seconds)
            seconds, cases, own = seconds_of(folder / "there", *TINY, *cluster)
            there.append(seconds)
            spent.append(own)
        least.append((min(spent) - start) / cases)
        times = f"{min(here):.2f} s | {min(there):.2f} s | {min(there) / min(here):.2f}×"
        print(f"| {number} | {cases} | {times} | {least[-1] * 1e3:.1f} |", flush=True)
    each = min(least)
    print(
        f"\n{each * 1e3:.1f} ms per case are {CASES * each / 60:.0f} minutes for {CASES} cases: {DEVICES} devices are "
        f"busy if a case takes {DEVICES * each * 1e3:.0f} ms or more."
    )


def network(folder: Path, rounds: int) -> None:
    """Large cases on one worker and on two."""
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
    best = {1: float("inf"), 2: float("inf")}
    cases = 0
    for _ in range(rounds):
        for workers in (1, 2):
            seconds, cases, _ = seconds_of(folder / "network", *NETWORK, "--cluster", f"local:{workers}")
            best[workers] = min(best[workers], seconds)
    print(f"{cases} network cases: {best[1]:.1f} s with 1 worker, {best[2]:.1f} s with 2: {best[1] / best[2]:.2f}×")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sleep", type=float, default=0.0, help="seconds that the backend takes per case (default: 0)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="(default: 1 2)")
    parser.add_argument("--rounds", type=int, default=3, help="of each the best counts (default: 3)")
    parser.add_argument("--network", action="store_true", help="network cases on one worker and on two")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if options.network:
            network(Path(name), options.rounds)
        else:
            tiny(Path(name), options.sleep, options.workers, options.rounds)


if __name__ == "__main__":
    main()
