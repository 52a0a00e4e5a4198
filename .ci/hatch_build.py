"""Puts generators/, cases/ and prototxt/ into a wheel as mluops_gtest/_content; an editable install needs none."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ContentHook(BuildHookInterface):
    """Force-includes the content folders in standard wheels only."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds."""
        if version != "standard":
            return
        for name in ("generators", "cases", "prototxt"):
            folder = Path(self.root, name)
            for file in sorted(folder.rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    target = f"mluops_gtest/_content/{file.relative_to(self.root).as_posix()}"
                    build_data["force_include"][str(file)] = target
