"""Results over time: a SQLite file of runs, and what it tells of each case."""

from mluops_gtest.results.history.store import History, history_path
from mluops_gtest.results.history.trends import CaseTrend, Point, Run

__all__ = ["CaseTrend", "History", "Point", "Run", "history_path"]
