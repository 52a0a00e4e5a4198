"""All that the content roots declare: their operators and their cases."""

from functools import cached_property
from pathlib import Path

from mluops_gtest.content.declarations import load_declarations
from mluops_gtest.content.operators import Operators, load_operators
from mluops_gtest.content.root import Root
from mluops_gtest.errors import ContentError, DeclarationError, suggestion
from mluops_gtest.files.case_suffixes import TEXT
from mluops_gtest.garbage import no_garbage_collection
from mluops_gtest.model.case import CaseDraft


class Catalogue:
    """The declared content of one or several roots; operators and cases are loaded when first asked for."""

    def __init__(self, *roots: Root) -> None:
        self.roots = roots

    @cached_property
    def operators(self) -> Operators:
        return load_operators(*(root.path for root in self.roots))

    def root_of(self, operator: str) -> Root:
        """The root that the operator of that canonical name lives in, with its cases, files and lock."""
        file = self.operators.files[operator]
        return next(root for root in self.roots if file.is_relative_to(root.generators))

    @cached_property
    def drafts(self) -> dict[str, CaseDraft]:
        """Every declared case by id: operators by name, cases in file order."""
        with no_garbage_collection():
            return self._load_drafts()

    def _load_drafts(self) -> dict[str, CaseDraft]:
        drafts: dict[str, CaseDraft] = {}
        files = [(path, root) for root in self.roots for path in root.cases.glob("*.yaml")]
        for path, root in sorted(files, key=lambda item: item[0].name):
            operator = self.operators.get(path.stem)
            if operator is None:
                raise DeclarationError(
                    f"{path}: no operator of that name in {root.generators}.{suggestion(path.stem, self.operators)}"
                )
            home = self.root_of(operator.name)
            if home is not root:
                raise DeclarationError(
                    f"{path}: the operator {operator.name} lives in {self.operators.files[operator.name]}, so its "
                    f"cases belong in {home.cases / path.name}. Move them there, or leave out one --root."
                )
            drafts.update((draft.id, draft) for draft in load_declarations(path, operator))
        return drafts

    def stored_in(self, folder: Path) -> set[str]:
        """The ids of the cases whose files are committed in this folder: the prototxt/ of one root."""
        return {case_id for case_id, draft in self.drafts.items() if self.root_of(draft.operator).stored == folder}

    def stored_path(self, case_id: str) -> Path:
        """Where the declared case's file is committed when it is small."""
        return self.root_of(case_id.partition("/")[0]).stored / f"{case_id}{TEXT}"

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
        draft = self.drafts.get(inside.with_suffix("").as_posix())
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
        operator = self.operators.get_any(head)
        return f"{operator.name}{slash}{tail}" if operator else text
