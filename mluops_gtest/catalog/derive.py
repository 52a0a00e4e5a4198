"""Derived cases: those of an operator's checks are calls that break one alone, and calls that show their order.

Of every two checks of different statuses a call is looked for that the first answers although the later one does not
hold either; a pair that is given up is recorded with its reason.
"""

import contextlib
import os
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import chain, combinations
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, DeclarationError
from mluops_gtest.catalog.check_order import Demand, find_pair, orders_told_by
from mluops_gtest.catalog.declarations import draft_of, load_written
from mluops_gtest.catalog.derive_values import derive_values
from mluops_gtest.catalog.derived_lock import (
    CHECKS,
    ORDER,
    VALUES,
    Derivation,
    DerivedCase,
    Standard,
    Unseen,
    derived_bytes,
    derived_path,
    digest_sources,
    read_derived,
    write_derived,
)
from mluops_gtest.catalog.make import make_case
from mluops_gtest.catalog.number_ranges import case_symbols
from mluops_gtest.catalog.violation_search import Kinds, Look, Search, call_key
from mluops_gtest.catalog.violations import NULL, STRIDED, Kind, Violation, violation_between
from mluops_gtest.core.call import Space
from mluops_gtest.core.case import BUFFER_LIMIT, Case, CaseDraft
from mluops_gtest.core.declaration import Check
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.operator_parts import SPACE, KnownOperators
from mluops_gtest.core.shape import ShapeError

# Of a check that is declared as never reached.
REACHED: Final = "a call reaches it, although it is subsumed"
# Why a just-valid neighbour of a limit is not asked.
NOT_TOLD: Final = "no later check of another status answers"

_CONSTANT: Final = "derived from a check: its values are not chosen"
_NOTE_LARGE: Final = "2^31 elements and more: a descriptor without a buffer"
Found = tuple[list[DerivedCase], list[Unseen]]


def update_lock(declarations: Path, operators: KnownOperators, name: str, *, check: bool) -> str:
    """Derive the cases that the operator's declarations ask for and write them into its derived.lock, if it is stale.

    With `check` derive anew and write nothing: how the lock differs, in words; empty if it does not.
    """
    operator, path = operators[name], derived_path(declarations)
    drafts, standards = load_written(declarations, operator)
    if not standards:
        return _remove_orphan(path, name, check=check)
    locked, source = read_derived(path), digest_sources(declarations, standards, drafts)
    if not check and locked is not None and locked.source == source:
        return ""
    derived = Derivation(source, *derive(operator, drafts, standards, operators.part(name, SPACE), locked))
    if not check:
        write_derived(path, derived)
        return ""
    if locked is None:
        return f"{name}: {path} is missing"
    return "" if derived_bytes(derived) == derived_bytes(locked) else f"{name}: {path} differs from what is derived"


def _remove_orphan(path: Path, name: str, *, check: bool) -> str:
    """A lock that no entry of the YAML file asks for any more."""
    if not check:
        path.unlink(missing_ok=True)
    return f"{name}: {path} is there, but nothing asks for derived cases" if os.path.lexists(path) else ""


def derive(
    operator: Operator,
    drafts: Mapping[str, CaseDraft],
    standards: Sequence[Standard],
    space: Space | None,
    locked: Derivation | None,
) -> tuple[tuple[DerivedCase, ...], tuple[Unseen, ...]]:
    """The cases of these standards, and what no call shows.

    A declared case stands for a derived one of the same call, or of the same name that breaks the same check. Cases of
    the lock that still hold are preferred.
    """
    cases: list[DerivedCase] = []
    unseen: list[Unseen] = []
    known = set(_declared_calls(operator, drafts))
    searches: dict[tuple[str, ...], Search] = {}
    for standard in standards:
        if standard.name in VALUES:
            values = derive_values(operator, drafts, standard)
            cases += values[0]
            unseen += values[1]
            continue
        if standard.bases not in searches:
            searches[standard.bases] = _search(operator, {name: drafts[name] for name in standard.bases}, space)
        search = searches[standard.bases]
        if standard.name == CHECKS:
            found = derive_checks(search, drafts)
        else:
            found = derive_order(
                search, [] if locked is None else [one for one in locked.cases if one.standard == ORDER], drafts
            )
        for case in found[0]:
            key = call_key(_applied(search.bases[case.base], case))
            namesake = drafts.get(case.name)
            is_same = namesake is not None and namesake.expect.check == case.expect.check is not None
            if key in known or (is_same and standard.name == CHECKS):
                continue
            complete = _completed(operator, drafts[case.base], case)
            if complete is not None:
                known.add(key)
                cases.append(complete)
        unseen += found[1]
    return tuple(cases), tuple(unseen)


def _search(operator: Operator, drafts: Mapping[str, CaseDraft], space: Space | None) -> Search:
    search = Search(operator, {name: make_case(draft, operator) for name, draft in drafts.items()}, space)
    for name, draft in drafts.items():
        _refuse_alike(search, name, draft)
    return search


def _applied(base: Case, case: DerivedCase) -> Case:
    return Violation("", case.changes, case.params, case.expect).apply(base)


def _declared_calls(operator: Operator, drafts: Mapping[str, CaseDraft]) -> Iterator[object]:
    """The calls of declared cases that a check answers."""
    for draft in drafts.values():
        if draft.expect.check is not None:
            yield call_key(make_case(draft, operator))


def _refuse_alike(search: Search, name: str, draft: CaseDraft) -> None:
    """Sizes that are equal, or below 2, hide which of them a check looks at, unless the checks force them to be so."""
    base = search.bases[name]
    try:
        sizes = case_symbols(base, search.operator)
    except ShapeError as error:
        raise DeclarationError(f"{draft.where}: the base {draft.id} does not have its shapes: {error}.") from error
    free = {symbol: size for symbol, size in sizes.items() if _can_grow(search, name, symbol)}
    small = next((symbol for symbol, size in free.items() if size < 2), None)
    if small is not None:
        raise DeclarationError(
            f"{draft.where}: the base {draft.id} has {small} = {free[small]}; let every size of a base be at least 2."
        )
    for one, other in combinations(free, 2):
        if free[one] == free[other]:
            raise DeclarationError(
                f"{draft.where}: the base {draft.id} has {one} = {other} = {free[one]}; let the sizes of a base be "
                "different, so that no check can mistake one for the other."
            )


def _can_grow(search: Search, name: str, symbol: str) -> bool:
    """No check refuses one more of it."""
    looks = (search.look(name, (kind,)) for kind in search.kinds[name] if kind.slug == f"all_{symbol}_more".lower())
    return any(look is not None and look.computes for look in looks)


def case_name(check: str, slug: str) -> str:
    """The name of the case in which this check answers; it does not say the same twice."""
    return slug if slug == check or slug.startswith(f"{check}_") else f"{check}_{slug}"


def derive_checks(search: Search, drafts: Mapping[str, CaseDraft]) -> Found:
    """For every check that a call can reach: calls that break it alone, and the just-valid neighbours of its limits."""
    cases: dict[str, DerivedCase] = {}
    unseen = list(_reached(search))
    beyond: set[tuple[str, str, str]] = set()
    for place, check in enumerate(search.operator.checks):
        if check.subsumed is not None:
            continue
        looks = search.least_of(place).answered
        chosen = [look for look in looks if len(look.kinds) == 1 and _is_own(look.kinds[0], check.name)]
        if not any(map(search.is_told, chosen)):
            others = [look for look in looks if len(look.kinds) > 1 or not _is_own(look.kinds[0], check.name)]
            chosen += ([look for look in others if search.is_told(look)] or others)[:1]
        if not chosen:
            unseen.append(
                Unseen(check.name, "", "reached", f"none of {len(search.singles)} calls", is_unexplained=True)
            )
        for look in chosen:
            name = case_name(check.name, look.slug)
            cases.setdefault(name, _derived(search, look, CHECKS, name))
            beyond.add((look.base, look.kinds[0].target, check.name))
    not_told: dict[tuple[str, str], Unseen] = {}
    told: set[tuple[str, str]] = set()
    for base, kind, name in _limits(search):
        if (base, kind.target, name) in beyond and case_name(name, kind.slug) not in cases:
            neighbour = _neighbour(search, base, kind, name, drafts[base])
            if isinstance(neighbour, DerivedCase):
                cases[neighbour.name] = neighbour
                told.add((name, kind.target))
            else:
                not_told[name, kind.target] = neighbour
    unseen += [one for key, one in not_told.items() if key not in told]
    return list(cases.values()), unseen


def _limits(search: Search) -> Iterator[tuple[str, Kind, str]]:
    """Each just-valid kind on its base, with the checks that refuse one more."""
    for base, kinds in search.kinds.items():
        for kind in kinds:
            if kind.is_valid:
                yield from ((base, kind, name) for name in sorted(kind.limit_of or ()))


def _reached(search: Search) -> Iterator[Unseen]:
    """The checks that are declared as never reached, and are."""
    found = {look.answer: look for look in search.singles if look.answer is not None and look.is_defined}
    for place, look in sorted(found.items()):
        if search.operator.checks[place].subsumed is not None:
            yield Unseen(search.operator.checks[place].name, "", look.slug, REACHED, is_reached=True)


def _is_own(kind: Kind, check: str) -> bool:
    return kind.limit_of is None or check in kind.limit_of


def _neighbour(search: Search, base: str, kind: Kind, name: str, draft: CaseDraft) -> DerivedCase | Unseen:
    """The last call that the check does not refuse: it computes, or a later check of another status answers."""
    checks = search.operator.checks
    own = next(place for place, check in enumerate(checks) if check.name == name)
    case = case_name(name, kind.slug)
    alone = search.look(base, (kind,))
    if alone is not None and alone.computes and alone.is_defined:
        derived = replace(_derived(search, alone, CHECKS, case), doc=f"{checks[own].doc}: just valid")
        complete = _completed(search.operator, draft, derived)
        if complete is not None:
            return complete
    nulls = [one for one in search.kinds[base] if one.category == NULL and one.what == "ptr_null"]
    for kinds in ((kind,), *((kind, null) for null in nulls)):
        look = search.look(base, kinds)
        if look is None or look.answer is None or not look.is_defined:
            continue
        answering = checks[look.answer]
        if look.answer > own and answering.status != checks[own].status and not _clears_no_memory(answering, look.case):
            doc = f"{checks[own].doc}: just valid for {name}; {answering.message}"
            return replace(_derived(search, look, CHECKS, case), doc=doc)
    return Unseen(name, "", case, NOT_TOLD)


def _clears_no_memory(check: Check, case: Case) -> bool:
    """Who clears outputs before that check answers would write where no buffer is."""
    return any(one.id in check.may_clear and one.desc.nbytes > BUFFER_LIMIT for one in case.outputs)


def _completed(operator: Operator, base: CaseDraft, case: DerivedCase) -> DerivedCase | None:
    """The case, which says why its baseline is constant if it is; None where it computes what cannot be computed."""
    if not operator.computes(case.expect.status, case.expect.check):
        return case
    plain = replace(case, expect=replace(case.expect, degenerate=None))
    for one in (plain, replace(case, expect=replace(case.expect, degenerate=_CONSTANT))):
        with contextlib.suppress(ContentError):
            make_case(draft_of(base, one, base.where), operator)
            return one
    return None


def _derived(search: Search, look: Look, standard: str, name: str, more: str = "") -> DerivedCase:
    """The case of a call, which expects what the checks say of it."""
    base = search.bases[look.base]
    violation = violation_between(base, look.case, name)
    check = None if look.answer is None else search.operator.checks[look.answer]
    expect = violation.caller
    if check is not None:
        expect = replace(expect, status=check.status, check=check.name)
    is_large = any(tensor.desc.is_large for tensor in look.case.tensors)
    return DerivedCase(
        name=name,
        standard=standard,
        base=look.base,
        tags=("boundary",) if check is None else ("negative",),
        doc="" if check is None else f"{check.doc}: {check.message}{more}",
        expect=expect,
        changes=violation.changes,
        params=violation.params,
        note=_NOTE_LARGE if is_large else "",
    )


def derive_order(search: Search, locked: Sequence[DerivedCase], declared: Container[str]) -> Found:
    """For every two checks of different statuses the calls that show which comes first; few calls show many pairs."""
    operator = search.operator
    reachable = [place for place, check in enumerate(operator.checks) if check.subsumed is None]
    status = [check.status for check in operator.checks]
    pairs = [pair for pair in combinations(reachable, 2) if status[pair[0]] != status[pair[1]]]
    wanted = {Demand(*pair, behind=behind) for pair in pairs for behind in (False, True)}
    cases: dict[str, DerivedCase] = {}
    shows: dict[str, set[Demand]] = {}
    for case in locked:
        look = _locked_look(search, case)
        if look is not None and wanted & (shown := set(orders_told_by(operator, look))):
            cases[case.name], shows[case.name] = _order_case(search, look, case.name), shown
            wanted -= shown
    unseen: list[Unseen] = []
    for first, later in pairs:
        both = {Demand(first, later, behind=False), Demand(first, later, behind=True)}
        if not wanted & both:
            continue
        look, reason, calls = find_pair(search, first, later)
        names = operator.checks[first].name, operator.checks[later].name
        if look is not None and wanted & set(orders_told_by(operator, look)):
            look = _extended(search, look, wanted)
            found = set(orders_told_by(operator, look))
            name = _order_name(operator, first, [later, *sorted(one.later for one in found)], declared)
            cases[name], shows[name] = _order_case(search, look, name), found
            wanted -= shows[name]
        if wanted & both:
            what, words = "order" if both <= wanted else "behind", reason or f"none of {calls} calls"
            unseen.append(Unseen(*names, what, words, calls, is_unexplained=not reason))
    return [cases[name] for name in _needed(shows)], unseen


def _order_name(operator: Operator, first: int, later: Sequence[int], declared: Container[str]) -> str:
    """The name after two checks whose order the call shows; of another pair where a declared case has the name."""
    names = [f"{operator.checks[first].name}_before_{operator.checks[place].name}" for place in later]
    return next((name for name in names if name not in declared), names[0])


def _needed(shows: Mapping[str, set[Demand]]) -> list[str]:
    """The names without those whose call shows nothing that no other shows."""
    times = Counter(demand for shown in shows.values() for demand in shown)
    needed = []
    for name, shown in reversed(list(shows.items())):
        if all(times[demand] > 1 for demand in shown):
            times.subtract(shown)
        else:
            needed.append(name)
    return needed[::-1]


def _order_case(search: Search, look: Look, name: str) -> DerivedCase:
    later = {demand.later for demand in orders_told_by(search.operator, look)}
    count = "a later check" if len(later) == 1 else f"{len(later)} later checks of another status"
    return _derived(search, look, ORDER, name, f"; answers before {count}")


def _locked_look(search: Search, case: DerivedCase) -> Look | None:
    """The call of a case in the lock; None where it no longer shows the pair that it is named after."""
    if case.base not in search.bases:
        return None
    look = search.look_at(case.base, (), _applied(search.bases[case.base], case))
    checks = search.operator.checks
    named = (
        f"{checks[one.first].name}_before_{checks[one.later].name}" for one in orders_told_by(search.operator, look)
    )
    return look if case.name in named else None


def _extended(search: Search, look: Look, wanted: set[Demand]) -> Look:
    """The call with violations of further checks, as long as it shows all that it showed before, and more."""
    assert look.answer is not None
    shown = set(orders_told_by(search.operator, look))
    for later in range(look.answer + 1, len(search.operator.checks)):
        for behind in (True, False):
            demand = Demand(look.answer, later, behind)
            if demand in wanted - shown:
                look = _with_demand(search, look, demand) or look
                shown = set(orders_told_by(search.operator, look))
    return look


def _with_demand(search: Search, look: Look, demand: Demand) -> Look | None:
    """The call with a violation of one more check, which shows that demand beside all that it showed before."""
    shown = set(orders_told_by(search.operator, look))
    for other in search.least_of(demand.later).broken:
        if other.base == look.base:
            more = search.look(look.base, _strided_last((*look.kinds, *other.kinds)))
            if more is not None and {demand, *shown} <= set(orders_told_by(search.operator, more)):
                return more
    return None


def _strided_last(kinds: Kinds) -> Kinds:
    """A new length makes a tensor contiguous again."""
    return tuple(
        chain.from_iterable(
            [kind for kind in kinds if (kind.category == STRIDED) is is_strided] for is_strided in (False, True)
        )
    )
