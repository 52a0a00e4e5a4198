"""What `mluops-test new` writes: templates with their holes filled."""

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from mluops_gtest.files.writing import replace_text

# Templates are text files, so that no tool takes them for modules of this package.
_SUFFIX = ".txt"
# Numbers for operators that the released schema does not know: above its own, below the largest of a field (2^29 − 1).
_FIRST_NUMBER = 400_000_000
_NUMBERS = 100_000_000


def backend_file(name: str) -> str:
    """The text of a new backend."""
    return _filled("backend.py", name)


def operator_files(name: str) -> dict[Path, str]:
    """The files of a new operator, relative to its root."""
    parts = sorted(part.name.removesuffix(_SUFFIX) for part in _templates().joinpath("operator/generator").iterdir())
    found = {Path("generators", name, part): _filled(f"operator/generator/{part}", name) for part in parts}
    found[Path("cases", f"{name}.yaml")] = _filled("operator/cases.yaml", name)
    found[Path("tests", f"test_{name}.py")] = _filled("operator/test.py", name)
    return found


def write_files(texts: Mapping[Path, str]) -> None:
    """Write every file and the folders that it needs."""
    for path, text in texts.items():
        replace_text(path, text)


def _templates() -> Traversable:
    return files("mluops_gtest.cli").joinpath("templates")


def _filled(template: str, name: str) -> str:
    text = _templates().joinpath(f"{template}{_SUFFIX}").read_text(encoding="utf-8")
    # Derived from the name, so that two authors who never met are unlikely to pick the same.
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % _NUMBERS
    holes = {
        "$NAME": name,
        "$FILE": f"{name}.py",
        "$CLASS": "".join(word.capitalize() for word in name.split("_")),
        "$UPPER": name.upper(),
        "$NUMBER": str(_FIRST_NUMBER + number),
    }
    for hole, value in holes.items():
        text = text.replace(hole, value)
    return text
