"""How fast commands start: `python benchmarks/start_up.py [--cpu]`. Ratios to `python -c "import numpy, click"`.

Each command is a process of its own, in an empty folder, with compiled modules and kept declarations, as in daily use;
first it runs once without being measured. --cpu counts the processor time of the process and its children instead of
the time on the clock: on a machine that is busy with other things, only that is comparable.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
OPERATOR = "masked_im2col_forward"
TINY = f"{OPERATOR}/retinanet_1x1_twin_float"
PEER = ["-c", "import numpy, click"]
# What is measured, and the ratio that it should keep below; None: told only.
ROWS = {
    "--help": (["--help"], 0.6),
    f"run {TINY}": (["run", TINY, "--out", "results", "--overwrite"], 2.5),
    f"show {TINY}": (["show", TINY], None),
    f"list --op {OPERATOR}": (["list", "--op", OPERATOR], 2.0),
    "list --all": (["list", "--all"], None),
}


def seconds(arguments, folder, environment, *, cpu):
    """How long one process takes."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime if cpu else wall


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="store_true", help="processor time instead of the time on the clock")
    parser.add_argument("--rounds", type=int, default=9, help="measurements of each command (9)")
    options = parser.parse_args()
    commands = {"peer": PEER, **{name: ["-m", "mluops_gtest", *words] for name, (words, _) in ROWS.items()}}
    taken = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        own = {
            "PYTHONPATH": str(ROOT),
            "PYTHONPYCACHEPREFIX": f"{folder}/compiled",
            "MLUOPS_TEST_CACHE": f"{folder}/cache",
            "MLUOPS_TEST_SETTINGS": "none",
        }
        environment = {**os.environ, **own}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for arguments in commands.values():
            seconds(arguments, folder, environment, cpu=options.cpu)
        for _ in range(options.rounds):
            for name, arguments in commands.items():
                taken[name].append(seconds(arguments, folder, environment, cpu=options.cpu))
    unit = "CPU ms" if options.cpu else "ms"
    peers = taken.pop("peer")
    print(f"{'python -c ' + repr(PEER[1]):60} {statistics.median(peers) * 1e3:7.0f} {unit}")
    for name, times in taken.items():
        # Of neighbours in time, so that what slows the machine down meets both.
        ratio = statistics.median(mine / peer for mine, peer in zip(times, peers, strict=True))
        goal = ROWS[name][1]
        words = "" if goal is None else f"  goal {goal}" + ("" if ratio <= goal else "  MISSED")
        print(f"{name:60} {statistics.median(times) * 1e3:7.0f} {unit}  {ratio:5.2f}x{words}")


if __name__ == "__main__":
    main()
