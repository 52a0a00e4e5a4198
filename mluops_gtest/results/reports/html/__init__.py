"""The report as one self-contained page for the browser."""

from mluops_gtest.results.reports.html.page import render_html
from mluops_gtest.results.reports.html.payload import HistoryTrends

__all__ = ["HistoryTrends", "render_html"]
