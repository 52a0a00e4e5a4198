"""All that the content roots declare: their operators and their cases.

Which cases a command works on; every command resolves the same arguments to the same ids.

What a command works with: the content roots, their catalogue, the selection, the source of cases.
"""

import contextlib
import fnmatch
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mluops_gtest.base.errors import (
    CaseFileError,
    ContentError,
    DeclarationError,
    HarnessWarning,
    NothingSelectedError,
    UnknownNameError,
    UsageError,
    repr_short,
    suggestion,
)
from mluops_gtest.base.files import CASE_SUFFIXES, TEXT
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.gc_tuning import no_garbage_collection
from mluops_gtest.casefiles.lock import case_path, is_stored
from mluops_gtest.catalog.declaration_cache import DeclaredCases, load_declarations
from mluops_gtest.catalog.operators import Operators, load_operators, operator_name
from mluops_gtest.catalog.replaced import Successors, read_replaced, replaced_words
from mluops_gtest.catalog.root import BUILTIN, Root, find_roots
from mluops_gtest.core.case import NAMED_TAGS, TAGS, Case, CaseDraft, Query
from mluops_gtest.core.operator_parts import SPACE

if TYPE_CHECKING:
    from mluops_gtest.catalog.source import StoredCases


class Catalogue:
    """The declared content of one or several roots; each operator and its cases are loaded when first asked for."""

    def __init__(self, *roots: Root) -> None:
        self.roots = roots
        self._declared: dict[str, DeclaredCases] = {}
        self._replaced: dict[str, Successors] = {}
        self._homes: dict[str, Root] = {}
        # Only making a typed call tells what it is; whoever loads it next takes the case from here.
        self.typed_cases: dict[str, Case] = {}

    @cached_property
    def operators(self) -> Operators:
        return load_operators(*(root.path for root in self.roots))

    def root_of(self, operator: str) -> Root:
        """The root that the operator of that canonical name lives in, with its cases, files and lock."""
        if operator not in self._homes:
            file = self.operators.files[operator]
            self._homes[operator] = next(root for root in self.roots if file.is_relative_to(root.generators))
        return self._homes[operator]

    def hides(self, root: Path, operator: str) -> bool:
        """The root has an operator of that canonical name, and a later root's is taken."""
        generators = root / "generators"
        return any(
            file.is_relative_to(generators) and operator_name(file) == operator for file in self.operators.hidden
        )

    @cached_property
    def drafts(self) -> dict[str, CaseDraft]:
        """Every declared case by id: operators by name, cases in file order; all content is checked."""
        for root in self.roots:
            for path in sorted(root.cases.glob("*.yaml")):
                if path.stem not in self.operators:
                    raise DeclarationError(
                        f"{path}: no operator of that name in {root.generators}.{suggestion(path.stem, self.operators)}"
                    )
        self.operators.refuse_twins({name: self._of_one(name).names for name in self.operators})
        return self.drafts_of(*self.operators)

    def load_all(self) -> None:
        """Load and check everything, also what no operator claims."""
        _ = self.operators.values(), self.drafts, [self.replaced(name) for name in self.operators]

    def drafts_of(self, *operators: str) -> dict[str, CaseDraft]:
        """The declared cases of the operators of these canonical names, in order; no other operator is loaded."""
        return {case_id: draft for name in sorted(operators) for case_id, draft in self._of_one(name).drafts.items()}

    def draft(self, case_id: str) -> CaseDraft | None:
        """The declared case of that id, or the one that its words make; None where there is none.

        Only its operator is loaded.
        """
        call = split_words(case_id)
        if call is not None and call[0] in self.operators:
            from mluops_gtest.catalog.prompt import typed_case  # late: it makes cases

            draft, case = typed_case(self.operators[call[0]], self.operators.part(call[0], SPACE), call[1])
            self.typed_cases[draft.id] = case
            return draft
        operator, slash, _ = case_id.partition("/")
        return self._of_one(operator).drafts.get(case_id) if slash and operator in self.operators else None

    def replaced(self, operator: str) -> Successors:
        """What stands for the old ids of the operator of that canonical name."""
        if operator not in self._replaced:
            folder = self.root_of(operator).stored / operator
            self._replaced[operator] = read_replaced(folder, self._of_one(operator).drafts)
        return self._replaced[operator]

    def successors(self, case_id: str) -> tuple[str, ...]:
        """The cases that show what a case of that old id showed; none where it is no old id."""
        operator, slash, _ = case_id.partition("/")
        return self.replaced(operator).get(case_id, ()) if slash and operator in self.operators else ()

    def _of_one(self, operator: str) -> DeclaredCases:
        if operator not in self._declared:
            self._declared[operator] = self._load_declared(operator)
        return self._declared[operator]

    def _load_declared(self, operator: str) -> DeclaredCases:
        home = self.root_of(operator)
        for root in self.roots:
            path = root.cases / f"{operator}.yaml"
            if root is not home and not self.hides(root.path, operator) and os.path.lexists(path):
                raise DeclarationError(
                    f"{path}: the operator {operator} lives in {self.operators.files[operator]}, so its "
                    f"cases belong in {home.cases / path.name}. Move them there, or leave out one --root."
                )
        path = home.cases / f"{operator}.yaml"
        # A link that leads nowhere is a file that cannot be read, not a missing one.
        if not os.path.lexists(path):
            return DeclaredCases(self.operators[operator].names, {})
        with no_garbage_collection():
            return load_declarations(path, self.operators, operator)

    def stored_path(self, case_id: str) -> Path:
        """Where the declared case's file is committed when it is small."""
        return case_path(self.root_of(case_id.partition("/")[0]).stored, case_id)

    def has_stored(self, case_id: str) -> bool:
        """The declared case is stored, not made when it is used."""
        return is_stored(self.stored_path(case_id))

    @property
    def root_paths(self) -> tuple[str, ...]:
        """The folders of the content roots, for those who load operators elsewhere."""
        return tuple(str(root.path) for root in self.roots)

    def draft_of(self, file: Path) -> CaseDraft | None:
        """The declaration behind a stored file of one of the roots; None for any other file."""
        try:
            resolved = file.resolve()
        except (OSError, RuntimeError):
            # Whoever reads the file reports a loop of links.
            return None
        inside = self.inside_store(resolved)
        if inside is None or inside.suffix != TEXT:
            return None
        draft = self.draft(inside.with_suffix("").as_posix())
        if draft is not None and self.stored_path(draft.id) != resolved:
            if any(
                self.hides(root.path, draft.operator) for root in self.roots if resolved.is_relative_to(root.stored)
            ):
                return None
            raise ContentError(
                f"{resolved}: the case {draft.id} lives in another root, its file is {self.stored_path(draft.id)}. "
                "Remove one of the two files, or leave out one --root."
            )
        return draft

    def inside_store(self, resolved: Path) -> Path | None:
        """The path relative to its root's prototxt/; None if it is in no root."""
        for root in self.roots:
            if resolved.is_relative_to(root.stored):
                return resolved.relative_to(root.stored)
        return None

    def canonical_id(self, text: str) -> str:
        """The id, glob or typed call with a released operator name replaced by the canonical one."""
        head, slash, tail = text.partition(":" if ":" in text.partition("/")[0] else "/")
        if head in self.operators:
            return text
        operator = self.operators.get_any(head) if head else None
        return f"{operator.name}{slash}{tail}" if operator else text


def split_words(text: str) -> tuple[str, str] | None:
    """Operator and words of `matmul:M=2`, or of an id that is made of words; None for any other text."""
    operator, colon, words = text.partition(":")
    if not colon or "/" in operator:
        operator, _, words = text.partition("/")
        colon = "=" if "=" in words and not words.endswith(CASE_SUFFIXES) else ""
    return (operator, words) if colon else None


_TOKEN = re.compile(r"\s*(?:(?P<paren>[()])|(?P<word>[^\s()]+))")
_DEPTH_LIMIT = 50


_Matcher = Callable[[str, tuple[str, ...]], bool]


class Keyword:
    """A parsed expression; `matches` evaluates it for one case."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [match["paren"] or match["word"] for match in _TOKEN.finditer(text)]
        self._position = 0
        self._depth = 0
        self._matcher = self._either()
        if self._position != len(self._tokens):
            raise self._error(f"unexpected {repr_short(self._tokens[self._position])}")

    def matches(self, case_id: str, tags: tuple[str, ...]) -> bool:
        """The expression holds for this case."""
        return self._matcher(case_id.lower(), tags)

    def _error(self, what: str) -> UsageError:
        return UsageError(
            f"-k {repr_short(self._text)}: {what}. "
            "Write words joined by and, or, not, ( and ), e.g. -k 'edge and not half'."
        )

    def _peek(self) -> str | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def _either(self) -> _Matcher:
        parts = self._joined_by("or", self._all)
        return lambda case_id, tags: any(part(case_id, tags) for part in parts)

    def _all(self) -> _Matcher:
        parts = self._joined_by("and", self._one)
        return lambda case_id, tags: all(part(case_id, tags) for part in parts)

    def _joined_by(self, word: str, parse: Callable[[], _Matcher]) -> list[_Matcher]:
        parts = [parse()]
        while self._peek() == word:
            self._position += 1
            parts.append(parse())
        return parts

    def _one(self) -> _Matcher:
        token = self._peek()
        if token is None or token in (")", "and", "or"):
            raise self._error(f"a word is missing before {token!r}" if token else "a word is missing at the end")
        self._position += 1
        self._depth += 1
        if self._depth > _DEPTH_LIMIT:
            raise self._error("nested too deeply")
        if token == "not":
            negated = self._one()
            matcher: _Matcher = lambda case_id, tags: not negated(case_id, tags)  # noqa: E731
        elif token == "(":
            matcher = self._either()
            if self._peek() != ")":
                raise self._error("a closing parenthesis is missing")
            self._position += 1
        else:
            word = token.lower()
            matcher = lambda case_id, tags: word in case_id or word in tags  # noqa: E731
        self._depth -= 1
        return matcher


_GLOB = re.compile(r"[*?\[]")
# Sizes of real networks, and those at which threads collide: they take seconds.
NOT_DEFAULT = frozenset({*NAMED_TAGS, "network", "race"})


class Selected(Value):
    """One selected case: declared (draft) or a file of the user's (path)."""

    id: str
    operator: str
    tags: tuple[str, ...]
    # The user named this id or file exactly, so it runs even if its tags are not in the default set.
    named: bool = False
    draft: CaseDraft | None = None
    path: Path | None = None
    # It was asked for by an id that no case has any more, in words.
    note: str = ""

    @property
    def is_declared(self) -> bool:
        """It is neither a file of the user's nor a call that was typed: the lock and the store have it."""
        return self.draft is not None and not self.draft.is_typed


class Selection(Value):
    """The selected cases, and the operators that the query is about: those it names; None: all."""

    cases: tuple[Selected, ...]
    operators: frozenset[str] | None
    # Declared cases of these operators that were not selected.
    left_out: int


class Filter:
    """What a query demands of a case beyond being named."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._keyword = Keyword(query.keyword) if query.keyword else None
        self._default, self._tags = query.is_default, set(query.tags)

    def passes(self, case_id: str, tags: tuple[str, ...], *, named: bool, of_operators: Callable[[], bool]) -> bool:
        """The case is wanted; `of_operators` is asked only where operators are named."""
        if self._default:
            return NOT_DEFAULT.isdisjoint(tags)
        if not named and any(tag in tags and tag not in self._tags for tag in NAMED_TAGS):
            return False
        if self._query.operators and not of_operators():
            return False
        return (not self._tags or not self._tags.isdisjoint(tags)) and (
            self._keyword is None or self._keyword.matches(case_id, tags)
        )


def select(catalogue: Catalogue, query: Query, operator_of: Callable[[Path], str]) -> Selection:
    """The cases that the query names, in the order named or declared; an empty selection is an error.

    `operator_of` reads the operator of a user's file; it is called only if `--op` filters files.
    """
    for tag in query.tags:
        if tag not in TAGS:
            raise UnknownNameError("tag", tag, TAGS)
    wanted_operators = {catalogue.operators.canonical(name) for name in query.operators}
    demands = Filter(query)

    def passes(case: Selected) -> bool:
        def of_operators() -> bool:
            return _is_of(case, wanted_operators, catalogue, operator_of)

        return demands.passes(case.id, case.tags, named=case.named, of_operators=of_operators)

    about = frozenset(wanted_operators) or None
    named: dict[str, Selected] = {}
    for case in _matching(catalogue, query.select):
        if case.named or case.id not in named:
            named[case.id] = case
    if query.select:
        about = frozenset(case.operator for case in named.values() if case.is_declared)
    declared = catalogue.drafts if about is None else catalogue.drafts_of(*about)
    candidates = named or {case_id: _declared(draft) for case_id, draft in declared.items()}
    cases = tuple(case for case in candidates.values() if passes(case))
    if not cases:
        raise NothingSelectedError(
            "The selection matches no case. `mluops-test list --all` shows every declared case; "
            "filters of different kinds must all match."
        )
    chosen = {case.id for case in cases}
    return Selection(cases, about, sum(case_id not in chosen for case_id in declared))


def _is_of(case: Selected, wanted: set[str], catalogue: Catalogue, operator_of: Callable[[Path], str]) -> bool:
    if case.path is None:
        return case.operator in wanted
    try:
        operator = catalogue.operators.get_any(operator_of(case.path))
    except CaseFileError:
        # Keep it: loading the file reports what is wrong with it, and the other cases still run.
        return True
    return operator is not None and operator.name in wanted


def _declared(draft: CaseDraft, *, named: bool = False) -> Selected:
    return Selected(draft.id, draft.operator, draft.tags, named, draft=draft)


def _matching(catalogue: Catalogue, patterns: Sequence[str]) -> Iterator[Selected]:
    """The cases of every pattern: an id, an operator, a glob over ids, a file or a folder, a typed call."""
    for pattern in patterns:
        canonical = catalogue.canonical_id(pattern)
        draft = catalogue.draft(canonical)
        if draft is not None:
            yield _declared(draft, named=True)
            continue
        if successors := catalogue.successors(canonical):
            among = catalogue.drafts_of(canonical.partition("/")[0])
            note = replaced_words(canonical, successors)
            yield from (replace(_declared(among[one], named=True), note=note) for one in successors)
            continue
        if canonical in catalogue.operators:
            found = [_declared(draft) for draft in catalogue.drafts_of(canonical).values()]
        else:
            found = list(_on_disk(catalogue, Path(pattern)))
        if not found and _GLOB.search(pattern):
            head = canonical.partition("/")[0]
            among = catalogue.drafts_of(head) if head in catalogue.operators else catalogue.drafts
            found = [_declared(among[case_id]) for case_id in fnmatch.filter(among, canonical)]
        if not found and (call := split_words(pattern)) is not None:
            catalogue.operators.find(call[0])
        if not found:
            hint = suggestion(pattern[:200], [*catalogue.operators, *catalogue.drafts]).split(" Known:")[0]
            raise NothingSelectedError(
                f"{repr_short(pattern)} is not a case id, an operator with cases, a glob that matches ids, or a file "
                f"or folder with cases.{hint} `mluops-test list --all --format ids` shows every id."
            )
        yield from found


def _on_disk(catalogue: Catalogue, path: Path) -> Iterator[Selected]:
    """A named file is a case whatever its suffix; in a folder only files with our suffixes are."""
    files = []
    # A name that the system refuses, such as one of 5000 characters, matches nothing.
    with contextlib.suppress(OSError):
        if path.is_dir():
            files = sorted(p for suffix in CASE_SUFFIXES for p in path.rglob(f"*{suffix}"))
        elif path.is_file():
            files = [path]
    for file in files:
        draft = catalogue.draft_of(file)
        if draft is not None:
            yield _declared(draft, named=path == file)
        else:
            yield Selected(file.as_posix(), "", (), path == file, path=file)


class Session:
    """The content that a command works with, loaded on first use."""

    def __init__(self, roots: tuple[str, ...] = (BUILTIN,)) -> None:
        self.roots = roots

    @cached_property
    def catalogue(self) -> Catalogue:
        catalogue = Catalogue(*find_roots(self.roots))
        for file in catalogue.operators.hidden:
            name = operator_name(file)
            warnings.warn(
                f"{name}: {catalogue.operators.files[name]} is taken, the operator of the last root that has it; "
                f"{file} is not. To take the other one, name its --root last.",
                HarnessWarning,
                stacklevel=2,
            )
        return catalogue

    def select(self, query: Query) -> Selection:
        """The cases that the query means."""
        return select(self.catalogue, query, _operator_of)

    def select_one(self, name: str) -> Selected:
        """The one case of that name."""
        chosen = self.select(Query((name,))).cases
        if len(chosen) != 1:
            raise UsageError(f"{name!r} names {len(chosen)} cases; `mluops-test list {name!r}` lists them.")
        return chosen[0]

    def source(
        self,
        selected: tuple[Selected, ...],
        *,
        strict: bool = False,
        allow_outside_paths: bool = False,
        on_generate: Callable[[str], None] | None = None,
        reseed: int | None = None,
    ) -> "StoredCases":
        """Where the selected cases come from."""
        from mluops_gtest.catalog.source import StoredCases

        return StoredCases(
            self.catalogue,
            selected,
            strict=strict,
            allow_outside_paths=allow_outside_paths,
            on_generate=on_generate,
            reseed=reseed,
        )


def _operator_of(file: Path) -> str:
    from mluops_gtest.casefiles.reader import read_operator_name

    return read_operator_name(file)
