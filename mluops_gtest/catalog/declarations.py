"""cases/<operator>.yaml → CaseDrafts: keys, words and values are checked, ranges expand."""

import contextlib
import hashlib
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mluops_gtest.base.errors import DeclarationError, repr_short, suggestion
from mluops_gtest.base.files import MAX_CASES, MAX_DECLARED, MAX_WRITTEN_OUT
from mluops_gtest.base.yaml_lines import Lines, load_yaml
from mluops_gtest.catalog import templates
from mluops_gtest.catalog.derived_lock import (
    VALUES,
    DerivedCase,
    Standard,
    read_current,
    refuse_bases,
    split_standards,
)
from mluops_gtest.catalog.templates import CRITERIA, DTYPES, LAYOUTS, Vocabulary, fits, recipe_arguments
from mluops_gtest.core.call import ParamValue, Status
from mluops_gtest.core.case import TAGS, CaseDraft, Change, Expect
from mluops_gtest.core.declaration import ParamField
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.tensor import Criterion, CriterionKind

_INTEGER_RANGE = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def param_value(field: ParamField, value: Any) -> ParamValue:
    """A declared parameter as the schema's field holds it: enum words become numbers, lists become tuples."""
    if field.label == "repeated":
        if not isinstance(value, list):
            raise ValueError(f"{field.name} must be a list of {field.type}, not {repr_short(value)}")
        return tuple(_scalar(field, item) for item in value)
    result: ParamValue = _scalar(field, value)
    return result


def _scalar(field: ParamField, value: Any) -> Any:
    if field.enum is not None and isinstance(value, str):
        if value not in field.enum.values:
            raise ValueError(
                f"{field.name}: unknown {field.enum.name} {repr_short(value)}.{suggestion(value, field.enum.values)}"
            )
        return field.enum.values[value]
    if field.type in ("float", "double"):
        if not fits(value, float):
            raise ValueError(f"{field.name} must be a number, not {repr_short(value)}")
        return float(value)
    if field.type in ("bool", "string"):
        if not isinstance(value, bool if field.type == "bool" else str):
            raise ValueError(f"{field.name} must be a {field.type}, not {repr_short(value)}")
        return value
    low, high = _INTEGER_RANGE.get(field.type, _INTEGER_RANGE["int32"])
    if not fits(value, int) or not low <= value <= high:
        raise ValueError(f"{field.name} must be an integer in {low} … {high}, not {repr_short(value)}")
    return value


def as_dims(value: Any, name: str) -> tuple[int, ...] | None:
    """A list of axis lengths or strides, or None where none is given."""
    if value is None:
        return None
    if not isinstance(value, list) or not all(fits(item, int) and item >= 0 for item in value):
        raise ValueError(f"{name} must be a list of integers ≥ 0, not {repr_short(value)}")
    return tuple(value)


_KEYS = (
    *("name", "tags", "doc", "each", "params", "data", "dtypes", "seed", "criteria", "degenerate", "note"),
    *("change", "null", "handle", "workspace_size", "expect", "sizes"),
)
# Without any of these keys a case is called in the ordinary way and expects success.
_SPECIAL = frozenset({"expect", "null", "handle", "workspace_size", "degenerate"})
_PLAIN = Expect()
_NO_SIZES: Mapping[str, int] = {}
_NAME = re.compile(r"[a-z0-9_]+")
_SHAPING = ("operator", "recipe", "args", "params", "dtype", "seed", "expect", "changes", "changed_params")
# Part of every digest: raised when the meaning of declarations changes for all cases at once.
_DIGEST_VERSION = 1


class _BadValueError(Exception):
    """A wrong key or value inside one declaration; the caller adds file, line and case."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def load_declarations(path: Path, operator: Operator) -> tuple[CaseDraft, ...]:
    """Every case declared in one file, expanded, in file order; behind them the derived ones, as the lock has them."""
    drafts, standards = load_written(path, operator)
    where = {(standard.name, base): standard.where for standard in standards for base in standard.bases}
    for case in read_current(path, standards, drafts).cases:
        _add(drafts, draft_of(drafts[case.base], case, where[case.standard, case.base]))
    return tuple(drafts.values())


def draft_of(base: CaseDraft, case: DerivedCase, where: str) -> CaseDraft:
    """A derived case as if it were declared."""
    draft = replace(
        base,
        id=f"{base.operator}/{case.name}",
        tags=case.tags,
        doc=case.doc,
        expect=case.expect,
        changes=case.changes,
        changed_params=case.params,
        expect_declared=True,
        note=case.note,
        where=where,
        sizes=case.sizes,
        base=base.id,
    )
    if case.standard in VALUES:
        # A seed that the base does not have from its id was chosen.
        own = seed_of(None, base.id) == base.seed
        draft = replace(
            draft,
            args={**base.args, **case.data},
            params={**base.params, **case.params},
            changed_params={},
            dtype=case.dtype,
            seed=seed_of(None, draft.id) if own else base.seed,
        )
    names = (*_SHAPING, "criteria") if base.criteria else _SHAPING
    return replace(draft, digest=_digest({name: getattr(draft, name) for name in names}))


def load_written(path: Path, operator: Operator) -> tuple[dict[str, CaseDraft], list[Standard]]:
    """The cases that one file declares itself, by name, and what it asks to be derived from them."""
    document = load_yaml(path) or []
    if not isinstance(document, list):
        raise DeclarationError(f"{path}:1: the file must be a list of cases, each `- name: …`.")
    for entry in document:
        if not isinstance(entry, Lines):
            raise DeclarationError(
                f"{path}: every item must be a mapping with the keys {', '.join(_KEYS)}; got {repr_short(entry)}."
            )
    words = Vocabulary(operator)
    entries, standards = split_standards(document, path)
    _refuse_many(entries, words, path)
    drafts: dict[str, CaseDraft] = {}
    for entry in entries:
        for draft in _expanded(entry, words, path):
            _add(drafts, draft)
    refuse_bases(standards, drafts)
    return drafts, standards


def _add(drafts: dict[str, CaseDraft], draft: CaseDraft) -> None:
    name = draft.id.partition("/")[2]
    if name in drafts:
        raise DeclarationError(f"{draft.where}: the case {draft.id} is declared already at {drafts[name].where}.")
    drafts[name] = draft


def _refuse_many(entries: list[Lines], words: Vocabulary, path: Path) -> None:
    """Refuse too many or too long cases before any is made."""
    total = 0
    for entry in entries:
        with _placed(entry, path):
            with _blame("each"):
                count = templates.count(_mapping(entry, "each")) * len(_dtypes(entry, words))
            total += count
            if total > MAX_CASES:
                raise _BadValueError("each", f"with the {count} cases of this entry the file has more than {MAX_CASES}")
            # No entry is longer than a whole file may be.
            if count * MAX_WRITTEN_OUT > MAX_DECLARED and count * (length := _length(entry)) > MAX_DECLARED:
                raise _BadValueError("each", f"{count} cases of {length} characters are more than {MAX_DECLARED}")


def _length(value: Any) -> int:
    """The number of characters in a declaration; anything that is not text counts as one."""
    if isinstance(value, dict):
        return sum(len(key) + _length(item) for key, item in value.items())
    if isinstance(value, list):
        return sum(map(_length, value))
    return 1 + len(value) if isinstance(value, str) else 1


@contextlib.contextmanager
def _placed(entry: Lines, path: Path) -> Iterator[None]:
    """Adds file, line and name of the entry to its errors."""
    try:
        yield
    except _BadValueError as error:
        title = repr_short(entry.get("name", "?"))
        raise DeclarationError(f"{path}:{entry.line_of(error.key)}: case {title}: {error}.") from error


def _expanded(entry: Lines, words: Vocabulary, path: Path) -> Iterator[CaseDraft]:
    with _placed(entry, path):
        _check_keys("", entry, _KEYS)
        for key in ("name", "tags", "doc", "data"):
            if key not in entry:
                raise _BadValueError("", f"the key {key!r} is missing")
        dtypes = _dtypes(entry, words)
        for variables in templates.expand(_mapping(entry, "each")):
            for dtype, suffix in dtypes:
                yield _draft(entry, words, {**variables, "dtype": dtype}, suffix, f"{path}:{entry.line}")


def _dtypes(entry: Lines, words: Vocabulary) -> list[tuple[str, str]]:
    """(dtype, name suffix) of each case that the entry's dtypes make."""
    dtypes = entry.get("dtypes", [words.default_dtype])
    if not isinstance(dtypes, list) or not dtypes:
        raise _BadValueError("dtypes", "dtypes must be a list such as [float, half]")
    for dtype in dtypes:
        _check_word("dtypes", "dtype", dtype, words.dtypes)
    named = "{dtype}" in str(entry.get("name")) or len(dtypes) == 1
    return [(dtype, "" if named else f"_{dtype}") for dtype in dtypes]


def _draft(entry: Lines, words: Vocabulary, variables: Mapping[str, Any], suffix: str, where: str) -> CaseDraft:
    def filled(key: str, default: Any) -> Any:
        if key not in entry:
            return default
        with _blame(key):
            return templates.fill(entry[key], variables)

    operator = words.operator
    name = f"{filled('name', '')}{suffix}"
    if not _NAME.fullmatch(name):
        raise _BadValueError(
            "name", f"the name becomes {repr_short(name)}; allowed are lower-case letters, digits and _"
        )
    tags = _tags(entry)
    data = filled("data", {})
    recipe, args = _recipe(data, operator)
    change = filled("change", {})
    if not isinstance(change, dict):
        raise _BadValueError("change", "change must be a mapping from a tensor id (or params) to what differs")
    changed_params = change.pop("params", {})
    expect = _expect(filled, words) if _SPECIAL.intersection(entry) else _PLAIN
    if "negative" in tags and "expect" not in entry:
        raise _BadValueError(
            "tags", "a negative case must state its expected status: expect: {status: BAD_PARAM, check: …}"
        )
    case_id = f"{operator.name}/{name}"
    # What shapes the case's tensors and expectation; tags, document and note do not.
    shaping = {
        "operator": operator.name,
        "recipe": recipe,
        "args": args,
        "params": _params(filled("params", {}), words, "params"),
        "dtype": variables["dtype"],
        "seed": seed_of(filled("seed", None), case_id),
        "expect": expect,
        "changes": {tensor: _change(tensor, value, words) for tensor, value in change.items()},
        "changed_params": _params(changed_params, words, "change"),
    }
    criteria = _criteria(filled("criteria", {}), words)
    return CaseDraft(
        id=case_id,
        tags=tags,
        doc=str(filled("doc", "")),
        expect_declared="expect" in entry,
        note=str(filled("note", "")),
        where=where,
        digest=_digest(shaping | ({"criteria": criteria} if criteria else {})),
        criteria=criteria,
        sizes=_sizes(filled("sizes", {}), operator) if "sizes" in entry else _NO_SIZES,
        **shaping,
    )


def _tags(entry: Lines) -> tuple[str, ...]:
    tags = entry["tags"]
    if not isinstance(tags, list) or not tags:
        raise _BadValueError("tags", f"tags must be a list of: {', '.join(TAGS)}")
    for tag in tags:
        _check_word("tags", "tag", tag, TAGS)
    return tuple(tags)


def _recipe(data: Any, operator: Operator) -> tuple[str, dict[str, Any]]:
    if not isinstance(data, dict) or "recipe" not in data:
        raise _BadValueError(
            "data", f"data must be a mapping with `recipe`, one of: {', '.join(sorted(operator.recipes))}"
        )
    args = dict(data)
    name = args.pop("recipe")
    _check_word("data", "recipe", name, operator.recipes)
    with _blame("data"):
        return name, recipe_arguments(name, operator.recipes[name], args)


def _params(values: Any, words: Vocabulary, key: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise _BadValueError(key, "params must be a mapping of parameter names to values")
    fields = words.params
    result = {}
    for name, value in values.items():
        _check_word(key, "parameter", name, fields)
        with _blame(key):
            result[name] = param_value(fields[name], value)
    return result


def _criteria(values: Any, words: Vocabulary) -> dict[str, tuple[Criterion, ...]]:
    _check_keys("criteria", values, words.judged)
    criteria = {}
    for output, wanted in values.items():
        _check_keys("criteria", wanted, tuple(CRITERIA))
        for kind, threshold in wanted.items():
            if not fits(threshold, float) or not 0 <= threshold < math.inf:
                raise _BadValueError(
                    "criteria", f"{kind} of {output} must be a number ≥ 0, not {repr_short(threshold)}"
                )
        if not wanted:
            raise _BadValueError("criteria", f"{output} needs at least one criterion, e.g. {{diff3: 0}}")
        criteria[output] = tuple(Criterion(CRITERIA[kind], float(threshold)) for kind, threshold in wanted.items())
    return criteria


def _sizes(values: Any, operator: Operator) -> dict[str, int]:
    if not isinstance(values, dict):
        raise _BadValueError("sizes", "sizes must be a mapping such as {rows: 65}")
    for name, size in values.items():
        if name not in operator.sizes:
            known = suggestion(str(name), operator.sizes)[:-1] if operator.sizes else f" {operator.name} declares none"
            raise _BadValueError("sizes", f"unknown size {repr_short(name)}.{known}")
        if not fits(size, int) or size < 1:
            raise _BadValueError("sizes", f"{name} must be an integer ≥ 1, not {repr_short(size)}")
    return values


def seed_of(value: Any, case_id: str) -> int:
    """The seed that a case declares; where it declares none, the one that its id gives."""
    if value is None:
        return int.from_bytes(hashlib.sha256(case_id.encode()).digest()[:4], "little")
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _BadValueError("seed", f"seed must be an integer ≥ 0, not {repr_short(value)}")
    return value


def _change(tensor: str, value: Any, words: Vocabulary) -> Change:
    _check_word("change", "tensor", tensor, words.tensors, also="params")
    _check_keys("change", value, ("dims", "dtype", "layout", "strides"))
    for key, known in (("dtype", DTYPES), ("layout", LAYOUTS)):
        if key in value:
            _check_word("change", key, value[key], known)
    with _blame("change"):
        dims, strides = as_dims(value.get("dims"), "dims"), as_dims(value.get("strides"), "strides")
    return Change(dims, value.get("dtype"), value.get("layout"), strides)


def _expect(filled: Any, words: Vocabulary) -> Expect:
    wanted, null, handle = filled("expect", {}), filled("null", {}), filled("handle", {})
    _check_keys("expect", wanted, ("status", "check"))
    _check_keys("null", null, ("handle", "descriptors", "pointers"))
    _check_keys("handle", handle, ("arch", "nram_bytes"))
    status = wanted.get("status", Status.SUCCESS.name)
    _check_word("expect", "status", status, Status.__members__)
    check = wanted.get("check")
    if check is not None:
        _check_word("expect", "check", check, words.checks)
    _check_words("null", null.get("descriptors", []), words.descriptors)
    _check_words("null", null.get("pointers", []), words.pointers)
    for key, numbers in (("handle", handle), ("workspace_size", {"workspace_size": filled("workspace_size", 0)})):
        for name, number in numbers.items():
            if not fits(number, int) or number < 0:
                raise _BadValueError(key, f"{name} must be an integer ≥ 0, not {repr_short(number)}")
    degenerate = filled("degenerate", None)
    if degenerate is not None and not (isinstance(degenerate, str) and degenerate):
        raise _BadValueError("degenerate", "degenerate must be a text that gives the reason")
    return Expect(
        status=Status[status],
        check=check,
        arch=handle.get("arch"),
        nram_bytes=handle.get("nram_bytes"),
        null_descriptor=tuple(null.get("descriptors", [])),
        null_pointer=tuple(null.get("pointers", [])),
        null_handle=bool(null.get("handle", False)),
        workspace_size=filled("workspace_size", None),
        degenerate=degenerate,
    )


def _mapping(entry: Lines, key: str) -> dict[str, Any]:
    value = entry.get(key, {})
    if not isinstance(value, dict):
        raise _BadValueError(key, f"{key} must be a mapping")
    return value


def _check_keys(key: str, value: Any, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, dict):
        raise _BadValueError(key, f"{key} must be a mapping with: {', '.join(allowed)}")
    for word in value:
        _check_word(key or str(word), "key", word, allowed)


def _check_words(key: str, words: Any, allowed: tuple[str, ...]) -> None:
    if not isinstance(words, list):
        raise _BadValueError(key, f"must be a list of: {', '.join(allowed)}")
    for word in words:
        _check_word(key, "name", word, allowed)


def _check_word(key: str, kind: str, word: Any, known: Collection[str], also: str | None = None) -> None:
    """Refuse a word that is not known; `also` is one more that is suggested."""
    # What is no text may not even be hashable.
    if not isinstance(word, str) or word not in known:
        names = known if also is None else (*known, also)
        raise _BadValueError(key, f"unknown {kind} {repr_short(word)}.{suggestion(str(word), names)[:-1]}")


@contextlib.contextmanager
def _blame(key: str) -> Iterator[None]:
    """Says which key of the declaration a refused value stands under."""
    try:
        yield
    except ValueError as error:
        raise _BadValueError(key, str(error)) from error


def _digest(shaping: dict[str, Any]) -> str:
    text = _ENCODER.encode({"version": _DIGEST_VERSION, **shaping})
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _set_fields(value: Expect | Change | Criterion | CriterionKind) -> Any:
    """The fields that differ from their defaults, so that a field added later keeps today's digests."""
    if isinstance(value, CriterionKind):
        return value.value
    fields = value.__dataclass_fields__.values()
    return {f.name: getattr(value, f.name) for f in fields if getattr(value, f.name) != f.default}


_ENCODER = json.JSONEncoder(sort_keys=True, default=_set_fields)
