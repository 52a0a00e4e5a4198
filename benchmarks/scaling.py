"""What a cluster costs: `python -m benchmarks.scaling` runs the same cases on this machine and on local Dask workers.

The backend sleeps for a fixed time per case, so that two cores can hold many workers: what is left is what handing out,
judging and keeping costs. Start-up is not counted. Prints a Markdown table and the model that follows.
"""

import argparse
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
WORKERS = (1, 2, 4)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sleep", type=float, default=0.02, help="seconds that the backend takes per case")
    parser.add_argument("--select", default="ball_query/*", help="the cases")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "sleeping.py"
        file.write_text(BACKEND.format(seconds=options.sleep))
        common = (options.select, "--backend", str(file))
        rows = []
        for workers in WORKERS:
            here, cases, _ = seconds_of(folder / "here", *common, "-j", str(workers))
            there, _, spent = seconds_of(
                folder / "there", *common, "--cluster", f"local:{workers}", "--ship", str(file)
            )
            rows.append((workers, cases, here, there, spent))
    ideal = rows[0][1] * options.sleep
    heads = (
        "workers",
        "one machine",
        "cluster",
        "cluster / one machine",
        "efficiency",
        "ms per case of the controller",
    )
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for workers, cases, here, there, spent in rows:
        cells = (f"{here:.2f} s", f"{there:.2f} s", f"{there / here:.2f}×", f"{ideal / workers / there:.0%}")
        print(f"| {workers} | {' | '.join(cells)} | {spent / cases * 1e3:.1f} |")
    each = min(spent / cases for _, cases, _, _, spent in rows)
    print(
        f"\nThe controller and the scheduler, both in this process, spend {each * 1e3:.1f} ms of processor time per "
        f"case,\ntheir start included: {CASES * each / 60:.0f} minutes for {CASES} cases; {DEVICES} devices that take "
        f"{options.sleep * 1e3:.0f} ms a case need {CASES * options.sleep / DEVICES / 60:.0f}."
    )


if __name__ == "__main__":
    main()
