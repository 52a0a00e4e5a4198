"""`run --save-outputs`: the outputs of cases beside their results, without ever costing the run."""

import shlex
import threading
from pathlib import Path

from mluops_gtest.engine.outputs import CaseOutputs
from mluops_gtest.engine.request import Which
from mluops_gtest.errors import UnwritableError
from mluops_gtest.model.counted import counted
from mluops_gtest.results.folder import OUTPUTS
from mluops_gtest.results.saved_outputs import save_outputs


class OutputSaver:
    """Writes outputs as the run goes on; from what cannot be written on, it only remembers why."""

    def __init__(self, folder: Path, which: Which) -> None:
        self._folder, self._which = folder, which
        # Lanes save side by side; what they write are files of different cases.
        self._lock = threading.Lock()
        self._sizes: dict[str, int] = {}
        # A case is tried again only after a failure, and its result shows the first one.
        self._failed: set[str] = set()
        self.trouble: UnwritableError | None = None

    def __call__(self, outputs: CaseOutputs) -> None:
        """Save the outputs of one call where they are asked for."""
        case, failed = outputs.case, outputs.result.outcome.blocks
        if self.trouble is not None or case.id in self._failed or not (failed or self._which == "all"):
            return
        try:
            size = save_outputs(self._folder, case, outputs.arrays, outputs.scalars)
        except UnwritableError as error:
            self.trouble = error
            return
        with self._lock:
            self._sizes[case.id] = size
            if failed:
                self._failed.add(case.id)

    def words(self) -> str:
        """What is there, how large it is, and how to look at it; empty where nothing was saved."""
        if not self._sizes:
            return ""
        cases = counted(len(self._sizes), "case")
        look = shlex.join(["mluops-test", "diff", min(self._sizes), "--from", str(self._folder)])
        total = size_words(sum(self._sizes.values()))
        return f"Outputs of {cases} ({total}): {self._folder / OUTPUTS}; to look at one: {look}"


def size_words(size: float) -> str:
    """Bytes in the unit that suits."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
