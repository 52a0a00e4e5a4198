"""All that a content root declares: its operators and its cases."""

from functools import cached_property
from pathlib import Path

from mluops_gtest.content.declarations import load_declarations
from mluops_gtest.content.operators import Operators, load_operators
from mluops_gtest.content.root import Root
from mluops_gtest.errors import DeclarationError, suggestion
from mluops_gtest.garbage import no_garbage_collection
from mluops_gtest.model.case import CaseDraft


class Catalogue:
    """The declared content of one root; operators and cases are loaded when first asked for."""

    def __init__(self, root: Root) -> None:
        self.root = root

    @cached_property
    def operators(self) -> Operators:
        """The operators of the root."""
        return load_operators(self.root.path)

    @cached_property
    def drafts(self) -> dict[str, CaseDraft]:
        """Every declared case by id: operators by name, cases in file order."""
        with no_garbage_collection():
            return self._load_drafts()

    def _load_drafts(self) -> dict[str, CaseDraft]:
        drafts: dict[str, CaseDraft] = {}
        for path in sorted(self.root.cases.glob("*.yaml")):
            operator = self.operators.get(path.stem)
            if operator is None:
                raise DeclarationError(
                    f"{path}: no operator of that name in {self.root.path / 'generators'}."
                    f"{suggestion(path.stem, self.operators)}"
                )
            drafts.update((draft.id, draft) for draft in load_declarations(path, operator))
        return drafts

    def stored_path(self, case_id: str) -> Path:
        """Where the case's file is committed when it is small."""
        return self.root.stored / f"{case_id}.prototxt"

    def draft_of(self, file: Path) -> CaseDraft | None:
        """The declaration behind a stored file of this root; None for any other file."""
        try:
            resolved = file.resolve()
        except (OSError, RuntimeError):
            # A loop of links is told by whoever reads the file.
            return None
        if resolved.suffix != ".prototxt" or not resolved.is_relative_to(self.root.stored):
            return None
        return self.drafts.get(resolved.relative_to(self.root.stored).with_suffix("").as_posix())

    def canonical_id(self, text: str) -> str:
        """An id or glob whose operator part is a released name, with the canonical one in its place."""
        head, slash, tail = text.partition("/")
        operator = self.operators.get_any(head)
        return f"{operator.name}{slash}{tail}" if operator else text
