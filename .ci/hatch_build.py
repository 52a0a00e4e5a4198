"""Puts docs/, generators/, cases/ and prototxt/ into a wheel as mluops_gtest/_content, and compiles the native core.

The stored cases of an operator are one file there: thousands of small ones would take twice the space.

An editable install needs no copy of the content, but the native core beside its sources. Without a C compiler there is
none, and numpy does its work.
"""

import importlib.util
import tempfile
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags


class ContentHook(BuildHookInterface):
    """Force-includes the content folders and the native core in standard wheels; builds the core for editable ones."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds."""
        building = self._building()
        if version != "standard":
            building.build_unless_current(building.LIBRARY)
            return
        self._temporary = tempfile.TemporaryDirectory()
        library = Path(self._temporary.name, building.LIBRARY.name)
        if building.build(library) is None:
            build_data["force_include"][str(library)] = building.LIBRARY.relative_to(self.root).as_posix()
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{_platform()}"
        for name in ("docs", "generators", "cases", "prototxt"):
            folder = Path(self.root, name)
            for file in sorted(folder.rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".prototxt":
                    target = f"mluops_gtest/_content/{file.relative_to(self.root).as_posix()}"
                    build_data["force_include"][str(file)] = target

        for folder in sorted(Path(self.root, "prototxt").iterdir()):
            pack = Path(self._temporary.name, f"{folder.name}.zip")
            _pack(pack, sorted(folder.glob("*.prototxt")))
            build_data["force_include"][str(pack)] = f"mluops_gtest/_content/prototxt/{folder.name}/cases.zip"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Called by hatchling when it has built."""
        if version == "standard":
            self._temporary.cleanup()

    def _building(self) -> ModuleType:
        """base/native/library.py, which is not installed yet."""
        path = Path(self.root, "mluops_gtest", "base", "native", "library.py")
        spec = importlib.util.spec_from_file_location("native_library", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def _pack(pack: Path, files: list[Path]) -> None:
    """Not compressed, since the wheel is; without dates, so that equal cases make equal packs."""
    with zipfile.ZipFile(pack, "w") as archive:
        for file in files:
            archive.writestr(zipfile.ZipInfo(file.name), file.read_bytes())


def _platform() -> str:
    """This machine's own: nobody has checked the library against an older system."""
    platforms = (tag.platform for tag in sys_tags())
    return next(name for name in platforms if not name.startswith(("manylinux", "musllinux")))
