"""How every page begins: what it is, what it may load, how it looks."""

from html import escape

from mluops_gtest.reports.html.favicon import favicon
from mluops_gtest.reports.html.styles import digest
from mluops_gtest.reports.html.translations import LANGUAGE_TAGS


def head(lang: str, title: str, icon: tuple[int, int, int], style: str, script: str | None = None) -> str:
    """All up to the body; the policy allows this style and this script, and nothing else."""
    scripts = "" if script is None else f" script-src {digest(script)};"
    policy = f"default-src 'none'; img-src data:; style-src {digest(style)};{scripts} base-uri 'none'"
    return f"""<!DOCTYPE html>
<html lang="{LANGUAGE_TAGS[lang]}" data-theme="auto">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<link rel="icon" href="{favicon(*icon)}">
<style>{style}</style>
</head>
"""
