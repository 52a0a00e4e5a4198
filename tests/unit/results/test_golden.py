"""Whole documents as they are written; MLUOPS_TEST_UPDATE_GOLDEN=1 writes them anew, to be reviewed as a diff."""

import os

import pytest

from mluops_gtest.core.outcome import Outcome
from mluops_gtest.results.reports.files import render
from tests.support.reports import GOLDEN, golden_report

REPORT = golden_report()
DOCUMENTS = {
    "report.en.md": lambda: "".join(render(REPORT, "markdown")),
    "report.zh.md": lambda: "".join(render(REPORT, "markdown", "zh")),
    "junit.xml": lambda: "".join(render(REPORT, "junit")),
    "ctrf.json": lambda: "".join(render(REPORT, "ctrf")),
}


def test_the_golden_report_has_everything():
    assert {result.outcome for result in REPORT.results} == set(Outcome)
    for field in ("readings", "worst", "perf", "profile", "attempts", "output", "notes", "fingerprint"):
        assert any(getattr(result, field) for result in REPORT.results), field


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_document_is_the_golden_one(name):
    text = DOCUMENTS[name]()
    path = GOLDEN / name
    if os.environ.get("MLUOPS_TEST_UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8", newline="")
    assert text == path.read_bytes().decode()
