"""False alarms and missed changes of the gate on synthetic times: `python -m studies.gate_statistics`.

Samples are log-normal with 5 %, 2 % of them take three times as long, and every run shifts its medians by 1.5 %. Of 100
gates of 200 cases without a change at most 5 may raise an alarm; of 100 in which one case is 10 % slower at least 90
must name that case. Both hold wherever a mark stands; the other lines show what one run of the baseline cannot do.
"""

import argparse
import math
import sys
import time

import numpy as np

from mluops_gtest.results.statistics import TimeVerdict
from tests.unit.results.synthetic import SHIFT, alarmed, one_slower, synthetic_gate

CASES = 200
SLOW = 7
# The shift belongs to each case and run, or all cases of a run share it; the last column: both limits must hold.
SETTINGS = [
    ("shift of each case and run, 8 baseline runs", {"runs": 8, "samples": 300}, True),
    ("shift of each case and run, 5 baseline runs", {"runs": 5, "samples": 500}, True),
    ("shift of each case, 1.5 % between two runs", {"samples": 300, "shift": SHIFT / math.sqrt(2)}, True),
    ("shift that all cases of a run share", {"samples": 300, "shared": True}, True),
    ("shift of each case and run, 1 baseline run", {"samples": 300}, False),
    ("the same with 10 samples", {"samples": 10}, False),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gates", type=int, default=100, help="gates per line")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"{'':50}  {'alarms':>6}  {'found':>6}  {'others':>6}  {'seconds':>7}   of {options.gates} gates")
    good = True
    for name, how, must_hold in SETTINGS:
        rng = np.random.default_rng(options.seed)
        start = time.perf_counter()
        alarms = sum(alarmed(synthetic_gate(rng, np.ones(CASES), **how)) for _ in range(options.gates))
        found = others = 0
        for _ in range(options.gates):
            answers = [ratio.answer for ratio in synthetic_gate(rng, one_slower(CASES, which=SLOW), **how).ratios]
            found += answers[SLOW] is TimeVerdict.SLOWER
            others += any(answer is TimeVerdict.SLOWER for i, answer in enumerate(answers) if i != SLOW)
        holds = alarms <= 0.05 * options.gates and found >= 0.9 * options.gates
        good = good and (holds or not must_hold)
        mark = ("ok" if holds else "FAILS") if must_hold else ""
        print(f"{name:50}  {alarms:6}  {found:6}  {others:6}  {time.perf_counter() - start:7.1f}   {mark}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
