"""The style of every page, and the words of a content policy that allows it and no other."""

import base64
import hashlib
from importlib.resources import files

from mluops_gtest.model.outcome import Outcome


def styles() -> str:
    """The colours of every outcome, and all style sheets."""
    rules = "{{ --word: var(--{0}); --under: var(--{0}-ground); --solid: var(--fill-{0}); }}\n"
    tones = "".join(f".o-{outcome.value} {rules.format(outcome.tone.value)}" for outcome in Outcome)
    return tones + static(".css")


def static(ending: str) -> str:
    """All files of one kind, in the order of their names."""
    found = [file for file in files(__package__).joinpath("static").iterdir() if file.name.endswith(ending)]
    return "".join(file.read_text(encoding="utf-8") for file in sorted(found, key=lambda file: file.name))


def digest(text: str) -> str:
    """The source expression that allows this one inline text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"
