"""Operators put together for an audit: what audit may not import itself is handed to it here."""

import functools
from typing import Final

from mluops_gtest.api.session import Session
from mluops_gtest.audit.subject import Subject
from mluops_gtest.content.selection import Selected
from mluops_gtest.generate.reseeding import make_reseeded
from mluops_gtest.model.case import Case
from mluops_gtest.model.parts import MUTANTS

# Several rules ask for the same few cases again and again; all of them would fill the memory.
_CASES_KEPT: Final = 256


def subject_of(session: Session, name: str, seeds: int) -> Subject:
    """The operator with its declared cases, the stored ones complete."""
    catalogue = session.catalogue
    operator = catalogue.operators[name]
    declared = catalogue.drafts_of(name)
    source = session.source(tuple(Selected(draft.id, name, draft.tags, draft=draft) for draft in declared.values()))

    @functools.lru_cache(_CASES_KEPT)
    def reseeded(case_id: str, seed: int) -> Case:
        return make_reseeded(declared[case_id], operator, seed, source.lock.get(case_id))

    stored = {case_id: source.load(case_id) for case_id in declared if catalogue.stored_path(case_id).exists()}
    return Subject(
        operator=operator,
        generator=catalogue.operators.files[name],
        declarations=catalogue.root_of(name).cases / f"{name}.yaml",
        drafts=tuple(declared.values()),
        cases=tuple(stored.values()),
        mutants=catalogue.operators.part(name, MUTANTS) or (),
        seeds=seeds,
        reseeded=reseeded,
        load=lambda case_id: stored.get(case_id) or source.load(case_id),
    )
