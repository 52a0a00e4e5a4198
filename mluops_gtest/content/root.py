"""Where the content lives: generators/, cases/ and prototxt/ beside each other in one folder."""

from dataclasses import dataclass
from pathlib import Path

from mluops_gtest.errors import UsageError

_PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Root:
    """A content root; a bundled one lives inside the installed package and is never written to."""

    path: Path
    bundled: bool = False

    @property
    def cases(self) -> Path:
        """Declared cases."""
        return self.path / "cases"

    @property
    def stored(self) -> Path:
        """Stored cases."""
        return self.path / "prototxt"

    @property
    def lock(self) -> Path:
        """Digests of every declared case."""
        return self.stored / "baselines.lock"


def find_root(given: Path | None) -> Root:
    """`--root`, else the content inside the package, else the checkout around the package."""
    if given is not None:
        if not (given / "generators").is_dir():
            raise UsageError(
                f"--root {given}: no folder generators/ there; a root holds generators/, cases/, prototxt/."
            )
        return Root(given.resolve())
    bundled = _PACKAGE / "_content"
    if bundled.is_dir():
        return Root(bundled, bundled=True)
    checkout = _PACKAGE.parent
    if (checkout / "generators").is_dir():
        return Root(checkout)
    raise UsageError(
        "No content found: this installation carries no operators. Name a folder with generators/ by --root DIR."
    )
