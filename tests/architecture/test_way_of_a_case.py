"""The way of a case: files that a warm one enters, and frames from the run loop to the request of its worker."""

import threading
from pathlib import Path

import mluops_gtest
from mluops_gtest.running.case_run import CaseRun
from mluops_gtest.running.workers.pool import Worker

PACKAGE = Path(mluops_gtest.__file__).parent
# Reading the stored case (11 of them), calling and judging.
MOST_FILES = 25
MOST_FRAMES = 6
WARM = 10


class Trace:
    """Follows `CaseRun.run` in the threads of worker slots."""

    def __init__(self):
        self.files: list[set[str]] = []
        # Of each request, after how many cases it was made: the first start workers.
        self.frames: list[tuple[int, int]] = []
        self._of_thread = threading.local()

    def __call__(self, frame, event, _argument):
        root = getattr(self._of_thread, "root", None)
        if event == "return" and frame is root:
            self.files.append(self._of_thread.files)
            self._of_thread.root = None
        elif event == "call" and root is None and frame.f_code is CaseRun.run.__code__:
            self._of_thread.root, self._of_thread.files = frame, set()
        if event == "call" and self._of_thread.__dict__.get("root") is not None:
            if frame.f_code.co_filename.startswith(str(PACKAGE)):
                self._of_thread.files.add(frame.f_code.co_filename)
            if frame.f_code is Worker.request.__code__:
                self.frames.append((len(self.files), self._depth(frame)))

    def _depth(self, frame):
        depth = 1
        while frame is not self._of_thread.root:
            frame, depth = frame.f_back, depth + 1
        return depth


def test_one_warm_case_enters_few_files_through_few_frames():
    trace = Trace()
    threading.setprofile(trace)
    try:
        report = mluops_gtest.run("masked_im2col_forward/*_float", backend="numpy", isolate=True, jobs=2)
    finally:
        threading.setprofile(None)
    assert report.passed
    warm = trace.files[WARM:]
    assert len(warm) > WARM
    # The first cases open things, and the large ones are made or come from the cache.
    usual = sorted(warm, key=len)[len(warm) // 2]
    assert len(usual) <= MOST_FILES, sorted(usual)
    frames = [depth for cases, depth in trace.frames if cases > WARM]
    assert frames
    assert max(frames) <= MOST_FRAMES
