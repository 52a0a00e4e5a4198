"""Runs of many cases: results are on disk and not in memory."""

import gc

from tests.support.toy_root import write_toy_root

CASES = 30
COUNTS_RESULTS = """
import gc
from mluops_gtest import Status
from mluops_gtest.core.result import CaseResult


class Counts:
    name = "counts"

    def run(self, call):
        with open(__file__ + ".live", "a") as file:
            print(sum(isinstance(one, CaseResult) for one in gc.get_objects()), file=file)
        x = call.inputs["x"].array
        call.outputs["y"].array[...] = x * (call.params["factor"] + (x.size == 7))
        return Status.SUCCESS
"""


def test_a_run_holds_no_results(cli, run, tmp_path):
    cases = f"- name: ramp_{{n}}\n  tags: [random]\n  doc: d\n  each: {{n: {{from: 2, to: {CASES + 1}}}}}\n"
    root = write_toy_root(tmp_path / "many", cases + '  data: {recipe: ramp, count: "{n}"}\n')
    assert cli("generate", "--all", "--root", root).code == 0
    (tmp_path / "counts.py").write_text(COUNTS_RESULTS)
    # What other tests left is not looked at each time: there may be millions of objects.
    gc.collect()
    gc.freeze()
    try:
        found = run("--root", root, "-b", f"{tmp_path / 'counts.py'}:Counts", "--no-isolate")
    finally:
        gc.unfreeze()
    assert (found.code, found.report["summary"]) == (1, {"passed": CASES - 1, "failed": 1})
    live = [int(line) for line in (tmp_path / "counts.py.live").read_text().split()]
    assert len(live) == CASES
    # The result that is being made, and the one before it.
    assert max(live) - min(live) <= 3, live
    assert [result["case"] for result in found.report["results"]] == [f"scale_by/ramp_{n}" for n in range(2, CASES + 2)]
