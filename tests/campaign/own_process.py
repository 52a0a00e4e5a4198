"""Chapter 7: in one's own process no backend decides a verdict by what it does there, and the gate can refuse it."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.campaign.content import calm_ids, tiny_ids
from tests.campaign.results import reported
from tests.campaign.sandbox import ROOT, Finished, Sandbox
from tests.campaign.tally import Try

REPRO = "python -m tests.campaign --only own_process"
AT_LOAD = ROOT / "tests" / "campaign" / "at_load.py"
ORDINARY = [name for name in calm_ids()[:20] if name not in tiny_ids()]
# mt.compare and the fixture, in a thread that flushes.
ARRAYS = """
import numpy as np
import pytest

import mluops_gtest as mt
from mluops_gtest.pytest_plugin import CaseFailed
from tests.campaign.floats import change_floats

BASELINE = np.full({count}, 700_000, np.uint32).view(np.float32)  # a thread that flushes could not convert it


@pytest.fixture(autouse=True)
def _floats():
    change_floats("flush")


def test_compare():
    assert not mt.compare(np.zeros_like(BASELINE), BASELINE, {{"diff3": 0.0}}).passed
    assert mt.compare(BASELINE, BASELINE, {{"diff3": 0.0}}).passed


@pytest.mark.mluops("indice_convolution_backward_data/tiny_results_float")
def test_fixture(mluops_case):
    mluops_case.check(mluops_case.expected)
    with pytest.raises(CaseFailed):
        mluops_case.check({{name: np.zeros_like(array) for name, array in mluops_case.expected.items()}})
"""


def own_process(folder: Path, root: Path, at_once: int, *, quick: bool) -> list[Try]:
    """Floats that are changed when a backend is loaded, in workers and without them; and `gate --require-isolated`."""
    changes = ("flush",) if quick else ("flush", "upwards", "trap")
    runs = [
        (how, where, name) for how in changes for where in ("--no-isolate", "--isolate") for name in ("Zeros", "Right")
    ]
    with ThreadPoolExecutor(at_once) as pool:
        tries = list(pool.map(lambda item: _at_load(folder / f"load-{item[0]}", root, *item[1]), enumerate(runs)))
        tries += pool.map(lambda count: _arrays(folder / f"arrays-{count}", count), (8, 3_000_000))
    return [*tries, *_gates(folder / "gates", root)]


def _at_load(folder: Path, root: Path, how: str, where: str, name: str) -> Try:
    box = Sandbox(folder)
    cases, outcome = (tiny_ids()[:3], "failed") if name == "Zeros" else (ORDINARY, "passed")
    done = _run(box, root, "results", cases, where, how, name)
    results = reported(box.folder / "results")
    broken = [f"{one['case']}: {one['outcome']} instead of {outcome}" for one in results if one["outcome"] != outcome]
    broken += [] if done.code == int(outcome == "failed") else [f"exit code {done.code}: {done.err[-300:]}"]
    return done.as_try(f"floats at load: {how}, {where}", REPRO, abs(len(cases) - len(results)), broken)


def _run(box: Sandbox, root: Path, out: str, cases: Sequence[str], where: str, how: str, name: str) -> Finished:
    options = ("--root", root, "--out", box.folder / out, "-q", where, "-b", f"{AT_LOAD}:{name}")
    return box.run("run", *cases, *options, environment={"CAMPAIGN_FLOATS": how})


def _arrays(folder: Path, count: int) -> Try:
    box = Sandbox(folder)
    (folder / "test_arrays.py").write_text(ARRAYS.format(count=count))
    options = ("-q", "-p", "no:cacheprovider", "-p", "mluops_gtest.pytest_plugin")
    done = box.run(*options, folder / "test_arrays.py", module="pytest")
    broken = [] if done.code == 0 else [f"exit code {done.code}: {done.out[-1500:]}"]
    return done.as_try("floats at load: mt.compare and the fixture", REPRO, 0, broken)


def _gates(folder: Path, root: Path) -> list[Try]:
    """What the gate says of results from workers, from one's own process, and of those that do not say."""
    box = Sandbox(folder)
    tries = []
    for where in ("--isolate", "--no-isolate"):
        made = _run(box, root, where, ORDINARY[:2], where, "upwards", "Right")
        tries.append(_gate(box, where, where == "--isolate", made))
    report = json.loads((folder / "--isolate" / "report.json").read_text())
    del report["backend"]["isolated"]
    (folder / "silent").mkdir()
    (folder / "silent" / "report.json").write_text(json.dumps(report))
    return [*tries, _gate(box, "silent", False, made)]


def _gate(box: Sandbox, results: str, passes: bool, made: Finished) -> Try:
    gate = ("gate", box.folder / results, "--against", box.folder / results)
    plain, strict = box.run(*gate), box.run(*gate, "--require-isolated")
    codes = (made.code, plain.code, strict.code)
    broken = [] if codes == (0, 0, int(not passes)) else [f"{results}: exit codes {codes}: {strict.out[-300:]}"]
    if not passes and "isolation was off" not in plain.out + strict.out and "does not say" not in strict.out:
        broken.append(f"{results}: nobody is told: {strict.out[-300:]}")
    return strict.as_try("gate --require-isolated", REPRO, 0, broken)
