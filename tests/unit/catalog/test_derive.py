"""Cases that follow from an operator's checks: what is broken, what each call shows, and what no call can show."""

from collections import Counter
from dataclasses import replace as with_fields

import pytest
from msgspec.structs import replace

from mluops_gtest.authoring import Check, EnumSpec, Layout, Status
from mluops_gtest.authoring.checks import layout, require
from mluops_gtest.base.errors import ContentError, DeclarationError
from mluops_gtest.catalog.declarations import draft_of, load_written
from mluops_gtest.catalog.derive import Demand, derive, orders_told_by, update_lock
from mluops_gtest.catalog.derived_lock import VERSION, Derivation, DerivedCase, Standard, derived_bytes, read_derived
from mluops_gtest.catalog.make import make_case
from mluops_gtest.catalog.root import Root
from mluops_gtest.catalog.selection import Catalogue
from mluops_gtest.catalog.violation_kinds import kinds_of
from mluops_gtest.catalog.violation_search import Search, call_key
from mluops_gtest.catalog.violations import broken_checks, violation_between
from mluops_gtest.core.call import Choice, Space
from mluops_gtest.core.case import Case, CaseDraft, Change, Expect
from mluops_gtest.core.operator import Operator
from tests.support.pick_root import CASES, WRITTEN, write_pick_root

STANDARDS = [Standard("checks", ("valid",), "pick.yaml:1"), Standard("order", ("valid",), "pick.yaml:2")]


class Pick:
    """The operator, what its file declares, and the call that all others are made of."""

    def __init__(self, folder) -> None:
        root = write_pick_root(folder)
        self.operator: Operator = Catalogue(Root(root)).operators["pick"]
        self.drafts: dict[str, CaseDraft] = load_written(root / "cases" / "pick.yaml", self.operator)[0]
        self.base: Case = make_case(self.drafts["valid"], self.operator)
        self.cases, self.unseen = self.derive()

    def derive(self, operator=None, space=None, locked=None, drafts=None):
        return derive(operator or self.operator, drafts or self.drafts, STANDARDS, space, locked)

    def find(self, name) -> DerivedCase:
        return next(case for case in self.cases if case.name == name)

    def make(self, case, operator=None) -> Case:
        return make_case(draft_of(self.drafts[case.base], case, "pick.yaml"), operator or self.operator)


@pytest.fixture(scope="module")
def pick(tmp_path_factory):
    return Pick(tmp_path_factory.mktemp("pick"))


def slugs(operator, base, target):
    return {kind.what for kind in kinds_of(operator, base) if kind.target == target}


def with_checks(operator, checks):
    return with_fields(operator, checks=tuple(checks))


def test_a_tensor_is_broken_in_every_way(pick):
    assert slugs(pick.operator, pick.base, "table") == {
        *("desc_null", "ptr_null", "rank_more", "rank_less", "dim0_dim1_exchanged"),
        *("dtype_half", "dtype_int32", "dtype_double", "dtype_int64"),
        *("strided_gap", "strided_turned", "strided_step", "strided_copies"),
    }
    assert {"less", "more", "0", "2147483648"} <= slugs(pick.operator, pick.base, "index_dim0")


def test_tensors_of_one_type_change_together(pick):
    kind = next(kind for kind in kinds_of(pick.operator, pick.base) if kind.slug == "table_and_out_dtype_double")
    assert [check.name for check in broken_checks(pick.operator, kind.apply(pick.base))] == ["table_dtype"]


def test_a_symbol_changes_wherever_it_stands(pick):
    kind = next(kind for kind in kinds_of(pick.operator, pick.base) if kind.slug == "all_c_more")
    dims = {tensor.id: tensor.desc.dims for tensor in kind.apply(pick.base).tensors}
    assert dims == {"table": (5, 4), "index": (4,), "out": (4, 4)}


@pytest.mark.parametrize(
    ("target", "beyond", "limit"),
    [("all_N", "1001", "1000_limit"), ("factor", "9", "8_limit"), ("factor", "0", "1_limit"),
     ("all_M", "715827883", "715827882_limit")],
)  # fmt: skip
def test_limits_are_found_where_checks_stop_to_hold(pick, target, beyond, limit):
    found = slugs(pick.operator, pick.base, target)
    assert {beyond, limit} <= found or {"less", limit} <= found


def test_an_enum_gets_no_number_that_no_file_can_hold(pick):
    factor, scale = pick.operator.params.fields
    listed = replace(factor, type="enum", enum=EnumSpec("Factor", {"ONE": 1, "TWO": 2, "FOUR": 4}))
    operator = with_fields(pick.operator, params=replace(pick.operator.params, fields=(listed, scale)))
    cases = [kind.apply(pick.base) for kind in kinds_of(operator, pick.base) if kind.target == "factor"]
    assert {case.params["factor"] for case in cases if case is not None} == {1, 4}


def test_layouts_that_no_check_looks_at_are_never_changed(pick):
    def layouts(operator):
        return {kind.slug for kind in kinds_of(operator, pick.base) if kind.category == "layout"}

    assert layouts(pick.operator) == set()
    looked_at = with_checks(pick.operator, (*pick.operator.checks, layout("table", (Layout.ARRAY,), "§2")))
    assert layouts(looked_at) == {"table_layout_nchw", "table_layout_nhwc"}


def test_strides_are_too_large_where_no_check_refuses_those_of_the_tensor(pick):
    def far(checks):
        return "strided_far" in slugs(with_checks(pick.operator, checks), pick.base, "table")

    legal = [check for check in pick.operator.checks if check.name != "table_strided"]
    alike = require("strides_alike", lambda call: not call.tensor("table").desc.is_strided, "alike", "§2")
    assert far(legal)
    assert far([*legal, alike])
    assert not far(pick.operator.checks)


def test_a_violation_says_what_the_call_has_instead(pick):
    cases = {kind.slug: kind.apply(pick.base) for kind in kinds_of(pick.operator, pick.base)}
    found = {slug: violation_between(pick.base, case, slug) for slug, case in cases.items() if case is not None}
    assert found["table_rank_less"].changes == {"table": Change(dims=(15,))}
    assert found["out_strided_gap"].changes == {"out": Change(strides=(4, 1))}
    assert str(found["scale_minus_0_limit"].params["scale"]) == "-0.0"
    assert found["workspace_null"].caller == Expect(null_pointer=("workspace",), workspace_size=16)
    for kind in kinds_of(pick.operator, pick.base):
        case = kind.apply(pick.base) or pick.base
        assert call_key(violation_between(pick.base, case, "").apply(pick.base)) == call_key(case)


def test_a_check_that_cannot_look_does_not_end_the_search(pick):
    case = replace(pick.base, expect=Expect(null_descriptor=("table",), null_pointer=("index",)))
    assert [check.name for check in broken_checks(pick.operator, case)] == ["table_desc_null", "index_ptr_null"]


def test_every_check_has_cases_and_every_case_can_be_made(pick):
    for case in pick.cases:
        assert pick.make(case).expect == case.expect
    answered = Counter(case.expect.check for case in pick.cases if case.standard == "checks")
    assert set(answered) >= {check.name for check in pick.operator.checks if check.name != "handle_null"}
    assert pick.find("table_dtype_double").doc == "§2: table must be float or half"
    assert pick.find("out_dim1_less").changes == {"out": Change(dims=(4, 2))}


def test_just_valid_calls_compute_or_are_answered_by_a_later_check(pick):
    computed = pick.find("factor_8_limit")
    assert (computed.tags, computed.expect) == (("boundary",), Expect())
    answered = pick.find("picks_all_n_1000_limit")
    assert (answered.tags, answered.expect.status) == (("negative",), Status.BAD_PARAM)
    assert answered.expect.null_pointer == ("table",)
    assert pick.find("scale_minus_0_limit").params == {"scale": -0.0}


def test_a_just_valid_call_leaves_no_output_to_clear_that_has_no_memory(pick, monkeypatch):
    monkeypatch.setattr("mluops_gtest.catalog.derive.BUFFER_LIMIT", 8000)  # out has 12000 bytes
    checks = (replace(one, may_clear=("out",) * (one.name == "table_ptr_null")) for one in pick.operator.checks)
    cases, _ = pick.derive(with_checks(pick.operator, checks))
    limit = next(case for case in cases if case.name == "picks_all_n_1000_limit")
    assert limit.expect.null_pointer == ("index",)


def test_a_constant_answer_carries_its_reason(pick):
    constant = with_fields(pick.operator, reference=lambda call: _ones(pick.operator.reference(call)))
    cases, _ = pick.derive(constant, drafts=dict(pick.drafts, valid=_degenerate(pick.drafts["valid"])))
    limit = next(case for case in cases if case.name == "factor_8_limit")
    assert limit.expect.degenerate


def _ones(baseline):
    return replace(baseline, outputs={name: array * 0 + 1 for name, array in baseline.outputs.items()})


def _degenerate(draft):
    return replace(draft, expect=replace(draft.expect, degenerate="all ones"))


def test_a_declared_call_is_not_derived_again(pick):
    assert "handle_null" not in {case.name for case in pick.cases}
    drafts = {name: draft for name, draft in pick.drafts.items() if name != "no_handle"}
    assert "handle_null" in {case.name for case in pick.derive(drafts=drafts)[0]}


def test_a_declared_case_stands_for_a_derived_one_of_its_name_and_check(pick):
    namesake = replace(pick.drafts["no_handle"], changed_params={"factor": 2})
    names = [case.name for case in pick.derive(drafts=dict(pick.drafts, handle_null=namesake))[0]]
    assert "handle_null" not in names
    other = replace(pick.drafts["no_handle"], expect=Expect(Status.BAD_PARAM, "factor"), changed_params={"factor": 77})
    drafts = {name: draft for name, draft in pick.drafts.items() if name != "no_handle"}
    assert "handle_null" in [case.name for case in pick.derive(drafts=dict(drafts, handle_null=other))[0]]


def test_a_call_that_shows_an_order_is_named_after_a_pair_whose_name_is_free(pick):
    drafts = dict(pick.drafts, handle_null_before_table_strided=pick.drafts["no_handle"])
    cases = {case.name: case for case in pick.derive(drafts=drafts)[0]}
    assert "handle_null_before_table_strided" not in cases
    changes = pick.find("handle_null_before_table_strided").changes
    assert [name for name, case in cases.items() if name.startswith("handle_null_before_") and case.changes == changes]


def _looks(pick, operator):
    search = Search(operator, {"valid": pick.base}, None)
    return [search.look_at("valid", (), pick.make(case)) for case in pick.cases]


def test_few_calls_show_the_order_of_all_checks(pick):
    checks = pick.operator.checks
    shown = {demand for look in _looks(pick, pick.operator) for demand in orders_told_by(pick.operator, look)}
    places = {check.name: place for place, check in enumerate(checks)}
    excused = {
        Demand(places[one.first], places[one.later], behind)
        for one in pick.unseen
        if one.later
        for behind in ((False, True) if one.what == "order" else (True,))
    }
    pairs = [
        (a, b) for a in range(len(checks)) for b in range(a + 1, len(checks)) if checks[a].status != checks[b].status
    ]
    assert {Demand(a, b, behind) for a, b in pairs for behind in (False, True)} == shown | excused
    assert not shown & excused
    assert sum(case.standard == "order" for case in pick.cases) <= 2 * len(checks)


def test_a_check_that_is_asked_elsewhere_is_seen(pick):
    """Each check moved behind each later one of another status, and in front of each earlier one."""
    unseen = {(one.first, one.later) for one in pick.unseen if one.later}
    looks = _looks(pick, pick.operator)
    checks = pick.operator.checks
    for first in range(len(checks)):
        for later in range(first + 1, len(checks)):
            pair = checks[first].name, checks[later].name
            if checks[first].status == checks[later].status or pair in unseen:
                continue
            behind = [*range(first), *range(first + 1, later + 1), first, *range(later + 1, len(checks))]
            before = [*range(first), later, *range(first, later), *range(later + 1, len(checks))]
            for order in (behind, before):
                assert any(_status(look, checks, order) != _status(look, checks, range(len(checks))) for look in looks)


def _status(look, checks, order):
    """What comes back: of a check that cannot look, nothing that anybody knows."""
    first = next((place for place in order if look.holds[place] is not True), None)
    return None if first is None or look.holds[first] is None else checks[first].status


def test_reasons_of_pairs_that_no_call_shows(pick):
    reasons = {(one.first, one.later): one.reason for one in pick.unseen if one.later}
    assert reasons["table_desc_null", "table_strided"] == "no descriptor to look at"
    assert reasons["index_strided", "index_empty"] == "empty excludes strided or large"
    assert reasons["picks", "index_empty"] == "same symbol"


def test_calls_that_are_none_are_not_derived(pick):
    def defined(call):
        index = call.inputs["index"]
        return index is None or (bool(index.dims) and index.dims[0] != 0)

    space = Space(axes={"x": Choice((1,))}, draw=lambda _: None, elements=lambda _: 1, defined=defined)
    cases, unseen = pick.derive(space=space)
    assert not [case for case in cases if case.changes.get("index", Change()).dims == (0,)]
    assert ("handle_null", "index_empty", "the call is undefined") in {(u.first, u.later, u.reason) for u in unseen}
    assert ("index_empty", "reached") in {(one.first, one.what) for one in unseen}


def test_pairs_with_a_check_of_the_same_status_between_are_told(pick):
    """Whoever asks `narrow` behind `table_strided` is not seen: `factor` refuses the same calls."""
    place = next(n for n, check in enumerate(pick.operator.checks) if check.name == "factor")
    narrow = Check("narrow", Status.BAD_PARAM, lambda call: call.param("factor") <= 8, "at most 8", "§3")
    checks = [*pick.operator.checks[:place], narrow, *pick.operator.checks[place:]]
    _, unseen = pick.derive(with_checks(pick.operator, checks))
    found = {(one.later, one.what): one.reason for one in unseen if one.first == "narrow"}
    assert found["table_strided", "behind"] == "a check of the first one's status between them answers, too"


def test_further_changes_mend_what_hides_a_pair(pick):
    """Whoever changes `factor` alone breaks `twin`, too; with another number of rows that holds."""
    place = next(n for n, check in enumerate(pick.operator.checks) if check.name == "factor")

    def holds(call):
        return (call.param("factor") == 2) == (call.tensor("table").dims[0] == 5)

    twin = Check("twin", Status.BAD_PARAM, holds, "", "§3")
    checks = [*pick.operator.checks[: place + 1], twin, *pick.operator.checks[place + 1 :]]
    cases, unseen = pick.derive(with_checks(pick.operator, checks))
    assert not [one for one in unseen if (one.first, one.later) == ("factor", "table_strided")]
    shown = next(case for case in cases if case.name == "factor_before_table_strided")
    assert shown.params["factor"] not in range(1, 9)
    assert shown.changes["table"].dims[0] != 5


def test_a_subsumed_check_that_a_call_reaches_is_recorded(pick):
    checks = [replace(check, subsumed="never") if check.name == "picks" else check for check in pick.operator.checks]
    cases, unseen = pick.derive(with_checks(pick.operator, checks))
    assert ("picks", "a call reaches it, although it is subsumed") in {(one.first, one.reason) for one in unseen}
    assert not [case for case in cases if case.expect.check == "picks"]


def test_one_more_check_changes_no_case_that_holds(pick):
    locked = Derivation("", pick.cases, pick.unseen)
    assert pick.derive(locked=locked) == (pick.cases, pick.unseen)
    rows = Check("rows", Status.NOT_SUPPORTED, lambda c: c.tensor("table").dims[0] <= 2000, "at most 2000 rows", "§5")
    after, _ = pick.derive(with_checks(pick.operator, (*pick.operator.checks, rows)), locked=locked)
    by_name = {case.name: replace(case, doc="") for case in after}
    assert all(by_name[case.name] == replace(case, doc="") for case in pick.cases)
    assert {"rows_all_m_2001", "arch_before_rows"} <= by_name.keys() - {case.name for case in pick.cases}


def test_a_locked_case_that_no_longer_holds_is_derived_anew(pick):
    wrong = replace(pick.find("handle_null_before_table_strided"), name="gone_before_index_empty")
    cases, _ = pick.derive(locked=Derivation("", (wrong,)))
    assert wrong.name not in {case.name for case in cases}


@pytest.mark.parametrize(
    ("base", "words"),
    [
        ("alike", "has M = N = 4; let the sizes of a base be different"),
        ("one_row", "has M = 1; let every size of a base"),
    ],
)
def test_a_base_must_have_different_sizes(pick, base, words):
    with pytest.raises(DeclarationError, match=words):
        derive(pick.operator, pick.drafts, [Standard("checks", (base,), "")], None, None)


def test_sizes_that_checks_force_may_be_equal(pick):
    square = Check(
        "square", Status.BAD_PARAM, lambda c: c.tensor("table").dims[0] == c.tensor("index").dims[0], "", "§2"
    )
    operator = with_checks(pick.operator, (*pick.operator.checks, square))
    assert derive(operator, pick.drafts, [Standard("checks", ("alike",), "")], None, None)[0]


def test_the_lock_keeps_every_case(pick, tmp_path):
    path = tmp_path / "derived.lock"
    path.write_bytes(derived_bytes(Derivation("abc", pick.cases, pick.unseen)))
    found = read_derived(path)
    assert found is not None
    assert path.read_bytes() == derived_bytes(found)
    assert any(str(case.params.get("scale")) == "nan" for case in found.cases)
    assert found.unseen == pick.unseen


@pytest.mark.parametrize(
    ("line", "words"),
    [('{"name": 1}', "expected an object"), ('{"name": "a", "expect": {"status": "GOOD"}}', "unknown status 'GOOD'"),
     ("{", "not valid JSON"), ('{"first": "a"}', "'later' is missing")],
)  # fmt: skip
def test_a_broken_lock_is_refused(tmp_path, line, words):
    path = tmp_path / "derived.lock"
    path.write_text(f'{{"version":{VERSION},"source":"abc"}}\n{line}\n')
    with pytest.raises(ContentError, match=words) as caught:
        read_derived(path)
    assert f"{path}:2" in str(caught.value)


@pytest.mark.parametrize("text", ["", '{"version":0}\n', "[]\n"])
def test_a_lock_of_another_version_is_none(tmp_path, text):
    path = tmp_path / "derived.lock"
    path.write_text(text)
    assert read_derived(path) is None


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{standard: checks, base: valid, tags: [negative]}", "standard 'checks': unknown key 'tags'"),
        ("{standard: chekcs, base: valid}", "standard 'chekcs': there is none of that name. Did you mean 'checks'?"),
        ("{standard: checks}", "base must be the name of a case"),
        ("{standard: checks, base: [valid, 3]}", "base must be the name of a case"),
        ("{standard: checks, base: vallid}", "no case of this file is named 'vallid'. Did you mean 'valid'?"),
        ("{standard: checks, base: no_handle}", "the base 'no_handle' must be a valid call"),
        ("{standard: checks, base: valid}\n- {standard: checks, base: alike}", "the file has it already"),
    ],
)
def test_entries_that_ask_for_derived_cases_are_checked(tmp_path, entry, words):
    root = write_pick_root(tmp_path, f"{WRITTEN}- {entry}\n")
    with pytest.raises(DeclarationError, match=words) as caught:
        _ = Catalogue(Root(root)).drafts
    assert f"pick.yaml:{WRITTEN.count(chr(10)) + 1 + entry.count(chr(10))}" in str(caught.value)


def test_a_name_that_a_declared_case_has_is_refused(pick, tmp_path):
    """The call of that name is another one, so both would be stored."""
    declared = (
        "- {name: index_ptr_null, tags: [boundary], doc: '§1', data: {recipe: ramp, rows: 5, columns: 3, picks: 4}}\n"
    )
    root = write_pick_root(tmp_path, declared + CASES)
    catalogue = Catalogue(Root(root))
    update_lock(root / "cases" / "pick.yaml", catalogue.operators, "pick", check=False)
    with pytest.raises(DeclarationError, match="pick/index_ptr_null is declared already"):
        _ = catalogue.drafts


def test_a_tensor_that_is_asked_for_late_leaves_nothing_to_an_earlier_check(pick):
    checks = {check.name: check for check in pick.operator.checks}
    strided = checks["out_strided"]
    where_given = replace(strided, holds=lambda call: call.outputs["out"] is None or strided.holds(call))
    others = [check for name, check in checks.items() if "out" not in name]
    _, unseen = pick.derive(with_checks(pick.operator, (*others, where_given, checks["out_desc_null"])))
    reasons = {(one.first, one.later): one.reason for one in unseen}
    assert reasons["out_strided", "out_desc_null"] == "no descriptor to look at"
