"""The operator test report in Markdown, in English or Chinese."""

from mluops_gtest.reports.markdown.document import render_markdown

__all__ = ["render_markdown"]
