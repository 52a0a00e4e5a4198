"""How every page begins: what it is, what it may load, how it looks."""

import base64
import hashlib
import struct
import zlib
from html import escape
from importlib.resources import files

from mluops_gtest.model.outcome import Outcome
from mluops_gtest.reports.html import chinese, english

WORDS = {
    lang: {**words, **{f"o_{outcome.value}": outcome.words[lang] for outcome in Outcome}}
    for lang, words in (("en", english.WORDS), ("zh", chinese.WORDS))
}
# What browsers and screen readers call the language.
LANGUAGE_TAGS = {"en": "en", "zh": "zh-CN"}


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


_SIZE = 32


def favicon(red: int, green: int, blue: int) -> str:
    """A PNG of a dot as a data address; a page without an icon makes browsers ask the server for one."""
    centre, radius = (_SIZE - 1) / 2, _SIZE / 2 - 1.5
    rows = bytearray()
    for y in range(_SIZE):
        rows.append(0)  # the row's filter: none
        for x in range(_SIZE):
            distance = ((x - centre) ** 2 + (y - centre) ** 2) ** 0.5
            opacity = min(max(radius + 0.5 - distance, 0.0), 1.0)
            rows += bytes((red, green, blue, round(255 * opacity)))
    header = struct.pack(">IIBBBBB", _SIZE, _SIZE, 8, 6, 0, 0, 0)
    png = (
        b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows, 9)) + _chunk(b"IEND", b"")
    )
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


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
