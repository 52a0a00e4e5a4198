"""The oldest versions that pyproject.toml allows of every core package, as arguments for pip."""

import re
import sys
import tomllib
from pathlib import Path


def oldest(requirement: str) -> str:
    """`click>=8.1; marker` becomes `click==8.1; marker`: the floor, and nothing newer."""
    found = re.fullmatch(r"([\w.-]+)>=([\w.]+)(\s*;.*)?", requirement)
    if found is None:
        sys.exit(f"pyproject.toml: {requirement!r} must have the form 'package>=version', with a marker or without")
    name, version, marker = found.groups()
    return f"{name}=={version}{marker or ''}"


project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
print(*map(oldest, project["dependencies"]), sep="\n")
