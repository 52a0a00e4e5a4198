"""Malformed files that no mutation finds: each must be refused before the work is done."""

from itertools import pairwise
from typing import Final

_RAMP = "data: {recipe: ramp, count: 4}"
_LETTERS = "abcdefghijk"


def _case(rest: str, name: str = "x") -> str:
    return f'- {{name: "{name}", tags: [random], doc: "§1", {rest}}}\n'


_ALIASES = "a: &a [x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in pairwise(_LETTERS)
)
_DECLARATIONS = (
    "[" * 100_000,
    "- " * 50_000 + "x",
    "{a: " * 5000,
    _ALIASES,
    _case('data: {recipe: ramp, count: "{9**64**64}"}'),
    _case('data: {recipe: ramp, count: "{' + "(" * 100_000 + '}"}'),
    _case("data: {recipe: ramp, count: 1000000000000000}"),
    _case('params: {factor: "{dtype * 3000000000}"}, ' + _RAMP),
    _case("each: {n: {from: 1, to: 1000000000000}}, " + _RAMP, name="x_{n}"),
    _case("each: {a: {from: 1, to: 99999}, b: {from: 1, to: 99999}}, " + _RAMP, name="x_{a}_{b}"),
    "- !!python/object/apply:os.system [true]\n",
)
MALFORMED: Final[dict[str, tuple[bytes, ...]]] = {
    "declarations": (*(text.encode() for text in _DECLARATIONS), b"- {name: \xed\xa0\x80}\n", b""),
    "report.json": (b"[" * 200_000, b'{"a":' * 100_000, b"9" * 100_000, b'"\\ud800"', b"\xff\xfe", b""),
    "run.json": (b"[" * 200_000, b"null", b"{}", b"[]", b"\x00" * 1000),
    "results.jsonl": (b"[" * 200_000 + b"\n", b"null\n", b"{}\n", b"\n\n\n", b"\x00" * 1000 + b"\n"),
    "baseline of the gate": (b"[" * 200_000, b"{}", b"null", b'{"format": 1, "kind": "mluops-test baseline"}'),
    "waivers": (b"[" * 100_000, b"- " * 50_000, b"a: &a [*a]", b"- *nobody", b"{", b"x", b"- 1", b"!!python/none"),
    "device spec": (b"[" * 100_000, b"name: x\nbandwidth_bytes_per_s: .nan\npeak_ops_per_s: .inf\n", b"- 1", b""),
    "history database": (b"", b"SQLite format 3\x00", b"SQLite format 3\x00" + b"\xff" * 4096, b"{}" * 3000),
    "lock file": (b"[" * 100_000, b"{}", b"x", b"\x00" * 100),
}
