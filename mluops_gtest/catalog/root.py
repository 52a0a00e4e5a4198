"""Where the content lives: generators/, cases/ and prototxt/ beside each other, in one folder or in several."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from mluops_gtest.base.errors import UsageError

# The word that stands for the operators that are installed with this package.
BUILTIN: Final = "builtin"
_PACKAGE = Path(__file__).resolve().parent.parent


class Root(NamedTuple):
    """A content root; a bundled one lives inside the installed package and is never written to."""

    path: Path
    bundled: bool = False

    @property
    def generators(self) -> Path:
        return self.path / "generators"

    @property
    def cases(self) -> Path:
        return self.path / "cases"

    @property
    def stored(self) -> Path:
        return self.path / "prototxt"


def find_roots(words: Iterable[str]) -> tuple[Root, ...]:
    """The roots that `--root` names, in that order: folders, or the word `builtin`."""
    roots: dict[Path, Root] = {}
    for word in words:
        root = builtin_root() if word == BUILTIN else Root(Path(word).resolve())
        if not root.generators.is_dir():
            raise UsageError(
                f"Root {word}: it has no folder generators/; a root has generators/, cases/ and prototxt/."
            )
        if root.path in roots:
            raise UsageError(f"Root {word}: {root.path} is named twice; name each root once.")
        roots[root.path] = root
    return tuple(roots.values())


def builtin_root() -> Root:
    """The content inside the package, else the checkout around the package."""
    bundled = _PACKAGE / "_content"
    if bundled.is_dir():
        return Root(bundled, bundled=True)
    checkout = _PACKAGE.parent
    if (checkout / "generators").is_dir():
        return Root(checkout)
    raise UsageError(
        "No content found: this installation has no operators. Name a folder that has generators/ with --root DIR."
    )


def root_words(roots: tuple[str, ...], settings: object = None) -> Iterator[str]:
    """The options that name these roots; none for the default, unless settings could change it."""
    if roots != (BUILTIN,) or settings is not None:
        for root in roots:
            yield from ("--root", root)


def recorded_roots(record: Mapping[str, Any]) -> Any:
    """What run.json or a report's selection holds about roots; earlier versions recorded one or none as `root`."""
    return record["roots"] if "roots" in record else [record.get("root") or BUILTIN]
