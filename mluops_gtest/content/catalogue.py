"""All that the content roots declare: their operators and their cases."""

import os
from functools import cached_property
from pathlib import Path

from mluops_gtest.content.kept_declarations import Declared, load_declarations
from mluops_gtest.content.operators import Operators, load_operators
from mluops_gtest.content.root import Root
from mluops_gtest.errors import ContentError, DeclarationError, suggestion
from mluops_gtest.files.case_suffixes import TEXT
from mluops_gtest.garbage import no_garbage_collection
from mluops_gtest.model.case import CaseDraft


class Catalogue:
    """The declared content of one or several roots; each operator and its cases are loaded when first asked for."""

    def __init__(self, *roots: Root) -> None:
        self.roots = roots
        self._declared: dict[str, Declared] = {}
        self._homes: dict[str, Root] = {}
        self._stores: dict[str, Path] = {}

    @cached_property
    def operators(self) -> Operators:
        return load_operators(*(root.path for root in self.roots))

    def root_of(self, operator: str) -> Root:
        """The root that the operator of that canonical name lives in, with its cases, files and lock."""
        if operator not in self._homes:
            file = self.operators.files[operator]
            self._homes[operator] = next(root for root in self.roots if file.is_relative_to(root.generators))
        return self._homes[operator]

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
        _ = self.operators.values(), self.drafts

    def drafts_of(self, *operators: str) -> dict[str, CaseDraft]:
        """The declared cases of the operators of these canonical names, in order; no other operator is loaded."""
        return {case_id: draft for name in sorted(operators) for case_id, draft in self._of_one(name).drafts.items()}

    def draft(self, case_id: str) -> CaseDraft | None:
        """The declared case of that id, None where there is none; only its operator is loaded."""
        operator, slash, _ = case_id.partition("/")
        return self._of_one(operator).drafts.get(case_id) if slash and operator in self.operators else None

    def _of_one(self, operator: str) -> Declared:
        if operator not in self._declared:
            self._declared[operator] = self._load_declared(operator)
        return self._declared[operator]

    def _load_declared(self, operator: str) -> Declared:
        home = self.root_of(operator)
        for root in self.roots:
            path = root.cases / f"{operator}.yaml"
            if root is not home and os.path.lexists(path):
                raise DeclarationError(
                    f"{path}: the operator {operator} lives in {self.operators.files[operator]}, so its "
                    f"cases belong in {home.cases / path.name}. Move them there, or leave out one --root."
                )
        path = home.cases / f"{operator}.yaml"
        # A link that leads nowhere is a file that cannot be read, not a missing one.
        if not os.path.lexists(path):
            return Declared(self.operators[operator].names, {})
        with no_garbage_collection():
            return load_declarations(path, self.operators, operator)

    def stored_path(self, case_id: str) -> Path:
        """Where the declared case's file is committed when it is small."""
        operator = case_id.partition("/")[0]
        if operator not in self._stores:
            self._stores[operator] = self.root_of(operator).stored
        return self._stores[operator] / f"{case_id}{TEXT}"

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
        """The id or glob with a released operator name replaced by the canonical one."""
        head, slash, tail = text.partition("/")
        if head in self.operators:
            return text
        operator = self.operators.get_any(head) if head else None
        return f"{operator.name}{slash}{tail}" if operator else text
