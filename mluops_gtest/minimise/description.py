"""What became of a case, in a line."""

from mluops_gtest.minimise.search import Minimised


def what_shrank(found: Minimised) -> str:
    """How many there were and are of every quantity: "points 96 → 1, channels 5 → 1"; what is 1 or none is left out."""
    words = [_words(name, before, after) for name, (before, after) in found.sizes.items() if (before, after) != (1, 1)]
    return ", ".join(filter(None, words)) or f"elements {found.elements[0]} → {found.elements[1]}"


def _words(name: str, before: int, after: int) -> str:
    if before == after:
        return f"{name} {after}" if after else ""
    return f"{name} {before} → {after}"
