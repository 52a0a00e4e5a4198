"""`derived.lock` of an operator: the cases that `generate` derived, what no call shows, and the sources of both.

`- {standard: checks, base: [valid_default]}` in cases/<operator>.yaml asks for them. Only `generate` derives; all
others read what the lock says.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import field

from mluops_gtest.base.errors import DeclarationError, repr_short, suggestion
from mluops_gtest.base.files import replace_file
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.typed_files import Source, convert, decode_json, read_bytes
from mluops_gtest.base.yaml_lines import Lines
from mluops_gtest.casefiles.lock import plain_json
from mluops_gtest.catalog.operators import imported_files
from mluops_gtest.core.call import Status
from mluops_gtest.core.case import CaseDraft, Change, Expect
from mluops_gtest.core.operator_parts import C_API, EXACT, MUTANTS, REDUCTIONS, TORCH_KERNEL, VARIANTS

DERIVED_NAME: Final = "derived.lock"
# Raised when the same operator gets other cases, so that its lock is derived anew.
VERSION: Final = 3
CHECKS, ORDER = "checks", "order"
SIZES, DTYPES, PRECISION, NONFINITE = "sizes", "dtypes", "precision", "nonfinite"
# Their cases differ from the base in values; a file may have several entries of each. With the keys beyond `base`.
VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    SIZES: ("axes", "around", "tiles", "data", "budget"),
    DTYPES: (),
    PRECISION: ("by",),
    NONFINITE: ("by",),
}
STANDARDS: Final = (CHECKS, ORDER, *VALUES)
_KEYS: Final = ("standard", "base")
_REMEDY: Final = "`mluops-test generate` writes this file; restore it or generate again."
# Parts of an operator that shape no case.
_OTHER_PARTS: Final = frozenset(
    ("kernel.py", *(f"{part.file}.py" for part in (MUTANTS, VARIANTS, TORCH_KERNEL, C_API, REDUCTIONS, EXACT)))
)
_DIGITS: Final = 16


class Standard(Value):
    """An entry of the YAML file that asks for derived cases."""

    name: str
    # Names of declared cases.
    bases: tuple[str, ...]
    where: str
    # The other keys, as they are written.
    options: Mapping[str, Any] = field(default_factory=dict)


class DerivedCase(Value):
    """A case that follows from its base: what it has instead, and what must come back."""

    name: str
    base: str
    doc: str
    expect: Expect
    standard: str = CHECKS
    tags: tuple[str, ...] = ("negative",)
    changes: Mapping[str, Change] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    # Of a case with other values: arguments of the recipe, the type that it gets, the sizes that the case is there for.
    data: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)


class Unseen(Value):
    """What no call shows: of the order of two checks (`before`, `behind`), or of one check; and why.

    Of a case with other values that is left out: its name, `left out`, and why.
    """

    first: str
    later: str
    what: str
    reason: str
    calls: int = 0
    # Nothing says why: so many calls were tried, and none shows it.
    is_unexplained: bool = False
    # A check that is declared as never reached answers the call of that name.
    is_reached: bool = False


class Derivation(Value):
    """The content of the lock; `source` is the digest of all that it was derived from."""

    source: str
    cases: tuple[DerivedCase, ...] = ()
    unseen: tuple[Unseen, ...] = ()

    def has(self, standard: str) -> bool:
        """Cases of that standard were derived."""
        return any(case.standard == standard for case in self.cases)


def split_standards(entries: Iterable[Lines], path: Path) -> tuple[list[Lines], list[Standard]]:
    """The entries that declare cases, and what the others ask to be derived."""
    plain: list[Lines] = []
    standards: list[Standard] = []
    for entry in entries:
        if "standard" in entry:
            standards.append(_standard(entry, path, [one.name for one in standards]))
        else:
            plain.append(entry)
    return plain, standards


def _standard(entry: Lines, path: Path, earlier: Sequence[str]) -> Standard:
    name, bases = entry["standard"], entry.get("base")
    if not isinstance(name, str) or name not in STANDARDS:
        raise _refusal(entry, "standard", path, f"there is none of that name.{suggestion(str(name), STANDARDS)[:-1]}")
    keys = (*_KEYS, *VALUES.get(name, ()))
    for key in entry:
        if key not in keys:
            raise _refusal(entry, key, path, f"unknown key {repr_short(key)}.{suggestion(str(key), keys)[:-1]}")
    if name in earlier and name not in VALUES:
        raise _refusal(entry, "standard", path, "the file has it already; list all bases in one entry")
    words = [bases] if isinstance(bases, str) else bases
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise _refusal(entry, "base", path, "base must be the name of a case, or a list of names")
    options = {key: value for key, value in entry.items() if key not in _KEYS}
    return Standard(name, tuple(dict.fromkeys(words)), f"{path}:{entry.line}", options)


def _refusal(entry: Lines, key: str, path: Path, message: str) -> DeclarationError:
    return DeclarationError(f"{path}:{entry.line_of(key)}: standard {repr_short(entry['standard'])}: {message}.")


def refuse_bases(standards: Iterable[Standard], drafts: Mapping[str, CaseDraft]) -> None:
    """Refuse a base that is no declared case, or that is not called in the ordinary way."""
    for standard in standards:
        for name in standard.bases:
            start = f"{standard.where}: standard {standard.name!r}: "
            if name not in drafts:
                hint = suggestion(name, drafts).split(" Known:")[0]
                raise DeclarationError(f"{start}no case of this file is named {name!r}.{hint} Name one that computes.")
            draft = drafts[name]
            if draft.changes or draft.changed_params or not draft.expect.is_plain:
                raise DeclarationError(
                    f"{start}the base {name!r} must be a valid call, without change, null or expect."
                )


def derived_path(declarations: Path) -> Path:
    """The lock beside the stored cases of the operator whose declarations these are."""
    return declarations.parents[1] / "prototxt" / declarations.stem / DERIVED_NAME


def digest_sources(declarations: Path, standards: Sequence[Standard], drafts: Mapping[str, CaseDraft]) -> str:
    """A digest of what cases are derived from: the entries, their bases, the operator's code.

    Declared cases that a check answers count as well: the same call is not derived.
    """
    digest = hashlib.sha256(f"{VERSION}\0".encode())
    for standard in standards:
        digest.update(repr((standard.name, [(name, drafts[name].digest) for name in standard.bases])).encode())
        if standard.name in VALUES:
            words = [(drafts[name].doc, drafts[name].tags) for name in standard.bases]
            digest.update(repr((standard.options, words)).encode())
    digest.update(repr(sorted(one.digest for one in drafts.values() if one.expect.check is not None)).encode())
    for file in imported_files(declarations.parents[1] / "generators", declarations.stem):
        if file.name not in _OTHER_PARTS or file.parent.name != declarations.stem:
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:_DIGITS]


def read_current(declarations: Path, standards: Sequence[Standard], drafts: Mapping[str, CaseDraft]) -> Derivation:
    """What the lock says; an error where it is missing, or was derived from something else."""
    if not standards:
        return Derivation("")
    path, operator = derived_path(declarations), declarations.stem
    found = read_derived(path)
    if found is None or found.source != digest_sources(declarations, standards, drafts):
        what = "are not in the lock file" if found is None else "have changed since they were derived"
        raise DeclarationError(
            f"{standards[0].where}: the derived cases of {operator} {what}. "
            f"Run `mluops-test generate --op {operator}` and look at the difference."
        )
    return found


def read_derived(path: Path) -> Derivation | None:
    """The content of the lock; None where there is none, or one of another version."""
    if not os.path.lexists(path):
        return None
    lines = enumerate(read_bytes(path).splitlines(), 1)
    records = [decode_json(line, Source(f"{path}:{number}", _REMEDY)) for number, line in lines]
    if not records or not isinstance(records[0], dict) or records[0].get("version") != VERSION:
        return None
    cases: list[DerivedCase] = []
    unseen: list[Unseen] = []
    for number, record in enumerate(records[1:], 2):
        source = Source(f"{path}:{number}", _REMEDY)
        if isinstance(record, dict) and "name" in record:
            cases.append(_case(record, source))
        else:
            unseen.append(convert(record, Unseen, source))
    return Derivation(str(records[0].get("source")), tuple(cases), tuple(unseen))


def _case(record: dict[str, Any], source: Source) -> DerivedCase:
    expect = dict(convert(record.get("expect"), dict[str, Any], source))
    status = expect.get("status", Status.SUCCESS.name)
    if status not in Status.__members__:
        raise source.error(f"unknown status {repr_short(status)}", ".expect.status")
    record = {**record, "expect": {**expect, "status": Status[status].value}}
    record["params"] = {name: _number(value) for name, value in convert(record.get("params", {}), dict, source).items()}
    data = convert(record.get("data", {}), dict[str, Any], source)
    record["data"] = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    return convert(record, DerivedCase, source)


def _number(value: Any) -> Any:
    """JSON has no number that is not finite: the word stands for it."""
    if isinstance(value, list):
        return tuple(map(_number, value))
    return float(value) if value in ("nan", "inf", "-inf") else value


def derived_bytes(derivation: Derivation) -> bytes:
    """The file: a line for its sources, a line per case in the order of derivation, one for each that is unseen."""
    lines = [{"version": VERSION, "source": derivation.source}]
    lines += [_record(one) for one in derivation.cases]
    lines += [_set_fields(one) for one in derivation.unseen]
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def write_derived(path: Path, derivation: Derivation) -> None:
    """Replace the lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, [derived_bytes(derivation)])


def _record(case: DerivedCase) -> dict[str, Any]:
    record = _set_fields(case)
    record["expect"] = {**_set_fields(case.expect), "status": case.expect.status.name}
    if case.changes:
        record["changes"] = {name: _set_fields(change) for name, change in case.changes.items()}
    if case.params:
        record["params"] = {name: plain_json(value) for name, value in case.params.items()}
    return record


def _set_fields(value: Any) -> dict[str, Any]:
    """The fields that differ from their defaults."""
    defaults = value.__dataclass_fields__
    items = ((name, getattr(value, name)) for name in value.__struct_fields__)
    return {name: item for name, item in items if item != defaults[name].default and item != {}}
