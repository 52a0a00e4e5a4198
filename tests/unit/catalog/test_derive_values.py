"""Cases with other values than their bases: lengths along axes, types, kinds of values."""

import pytest

from mluops_gtest.base.errors import DeclarationError
from mluops_gtest.catalog.declarations import load_written
from mluops_gtest.catalog.derive import update_lock
from mluops_gtest.catalog.derived_lock import derived_bytes, derived_path, read_derived
from mluops_gtest.catalog.make import make_case
from mluops_gtest.catalog.root import Root
from mluops_gtest.catalog.selection import Catalogue
from tests.support.spread_root import GENERATOR, WRITTEN, write_spread_root

LENGTHS = (1, 2, 3, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257)


@pytest.fixture
def derived(tmp_path):
    """The drafts of derived cases by name, of a root with these entries, and why others are left out."""

    def derive(entries, **parts):
        root = write_spread_root(tmp_path, entries, **parts)
        catalogue, path = Catalogue(Root(root)), root / "cases" / "spread.yaml"
        update_lock(path, catalogue.operators, "spread", check=False)
        found = read_derived(derived_path(path))
        assert found is not None
        drafts = {id_.partition("/")[2]: draft for id_, draft in catalogue.drafts.items()}
        for draft in drafts.values():
            make_case(draft, catalogue.operators["spread"])
        own = {case.name: drafts[case.name] for case in found.cases}
        return own, {one.first: one.reason for one in found.unseen}

    return derive


def test_every_axis_gets_every_length(derived):
    cases, left_out = derived("- {standard: sizes, base: row_float, budget: 9999 KB}\n")
    assert left_out == {"points_33_float": "the recipe refuses it: 33 is unlucky"}
    assert [*cases] == [
        f"{axis}_{length}_float"
        for axis in ("points", "copies")
        for length in LENGTHS
        if (axis, length) != ("points", 33)
    ]
    one = cases["points_64_float"]
    assert (one.args, one.params, one.sizes) == ({"points": 64}, {}, {"points": 64})
    assert (one.tags, one.doc) == (("boundary",), "§1: a row; points 64")
    # A symbol that is a parameter grows there.
    assert (cases["copies_64_float"].args, cases["copies_64_float"].params) == ({"points": 4}, {"copies": 64})


def test_a_constant_answer_carries_its_reason(derived):
    cases, _ = derived("- {standard: sizes, base: row_float, axes: [points]}\n")
    assert {name for name, draft in cases.items() if draft.expect.degenerate} == {"points_1_float"}


def test_tiles_and_lengths_may_be_chosen(derived):
    cases, _ = derived("- {standard: sizes, base: row_half, axes: [points], around: [8], tiles: {points: [100]}}\n")
    assert [*cases] == [f"points_{length}_half" for length in (7, 8, 9, 99, 100, 101)]


def test_the_same_words_by_hand_are_the_same_declaration(derived, tmp_path):
    """Identifier, seed and digest are those of a case that is written out."""
    entry = '- {standard: sizes, base: ends, axes: [points], data: {points: "{n}", at: [0, "{n - 1}"]}}\n'
    cases, _ = derived(entry)
    path = tmp_path / "cases" / "spread.yaml"
    path.write_text(
        '- {name: points_64, tags: [smoke], doc: "§1: by hand", data: {recipe: drawn, points: 64, at: [0, 63]}}\n'
    )
    by_hand = load_written(path, Catalogue(Root(tmp_path)).operators["spread"])[0]["points_64"]
    assert (cases["points_64"].digest, cases["points_64"].seed) == (by_hand.digest, by_hand.seed)
    assert cases["points_63"].seed != cases["points_64"].seed


def test_a_seed_that_was_chosen_stays(derived):
    cases, _ = derived("- {standard: sizes, base: chosen, axes: [points]}\n")
    assert {draft.seed for draft in cases.values()} == {7}


def test_what_exceeds_the_budget_is_left_out_with_its_reason(derived):
    cases, left_out = derived("- {standard: sizes, base: row_float, axes: [points], budget: 2 KB}\n")
    # 12 bytes a point.
    assert sum(12 * draft.sizes["points"] for draft in cases.values()) <= 2048
    assert {"points_31_float", "points_32_float"} <= cases.keys()
    assert left_out["points_257_float"] == "beyond the budget of 2 KB"
    assert len(cases) + len(left_out) == len(LENGTHS)


def test_a_base_in_two_types_gives_both(derived):
    cases, _ = derived("- {standard: sizes, base: [row_float, row_half], axes: [points]}\n")
    assert cases["points_2_half"].dtype == "half"
    assert len(cases) == 2 * (len(LENGTHS) - 1)


def test_types_kinds_of_values_and_what_is_not_finite(derived):
    cases, left_out = derived(
        "- {standard: dtypes, base: ends}\n- {standard: precision, base: ends}\n- {standard: nonfinite, base: odd}\n"
    )
    assert not left_out
    assert {name: (draft.dtype, draft.tags) for name, draft in cases.items()} == {
        "ends_half": ("half", ("boundary",)),
        "ends_wide_float": ("float", ("precision",)),
        "ends_ramp_half": ("half", ("precision",)),
        "ends_wide_half": ("half", ("precision",)),
        "odd_minus_inf_float": ("float", ("nonfinite",)),
        "odd_nan_half": ("half", ("nonfinite",)),
        "odd_minus_inf_half": ("half", ("nonfinite",)),
    }
    assert cases["odd_minus_inf_half"].args == {"points": 5, "kind": "minus inf"}


def test_another_argument_may_list_the_kinds(derived):
    cases, _ = derived("- {standard: nonfinite, base: ends, by: values}\n")
    assert cases["ends_wide_half"].tags == ("nonfinite",)


def test_the_lock_keeps_every_case(derived, tmp_path):
    derived('- {standard: sizes, base: ends, axes: [points], data: {points: "{n}", at: [0, "{n - 1}"]}}\n')
    path = derived_path(tmp_path / "cases" / "spread.yaml")
    found = read_derived(path)
    assert found is not None
    assert derived_bytes(found) == path.read_bytes()
    assert found.cases[-1].data == {"points": 257, "at": (0, 256)}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("standard: sizes, base: plain, axes: [points]",
         "takes no argument 'points'. Known: none. Let it take `points: int` and grow what depends on it, list in"),
        ("standard: sizes, base: row_float, axes: [pionts]", "unknown axis 'pionts'. Did you mean 'points'?"),
        ("standard: sizes, base: row_float, tiles: {rows: [4096]}", "unknown axis 'rows'. Known: copies, points."),
        ("standard: sizes, base: row_float, axes: points", r"axes must be a list such as \[rows\]"),
        ("standard: sizes, base: row_float, around: [1]", "lengths are integers ≥ 2, around"),
        ("standard: sizes, base: row_float, tiles: [4096]", "lengths are integers ≥ 2, around"),
        ("standard: sizes, base: row_float, budget: 3 MB", "budget must be like 300 KB, not '3 MB'"),
        ("standard: sizes, base: row_float, data: {points: '{n}'}", "in an entry with one axis in axes"),
        ("standard: sizes, base: row_float, axes: [points], data: {points: '{m}'}", "data: {m} is not a variable"),
        ("standard: sizes, base: [row_float, chosen, ends], axes: [points]",
         "two bases give a case the name 'points_1'; name one"),
        ("standard: sizes, base: row_float, tile: [4]", "unknown key 'tile'. Did you mean 'tiles'?"),
        ("standard: dtypes, base: row_float, by: values", "unknown key 'by'. Known: base, standard."),
        ("standard: precision, base: odd", "'special' lists no kinds; let it take `values: Literal"),
        ("standard: nonfinite, base: ends", "'drawn' lists no kinds; let it take `kind: Literal"),
    ],
)  # fmt: skip
def test_entries_are_refused_with_what_to_write(derived, entry, words):
    with pytest.raises(DeclarationError, match=words) as caught:
        derived(f"- {{{entry}}}\n")
    assert f"spread.yaml:{WRITTEN.count(chr(10)) + 1}: standard " in str(caught.value)


def test_an_entry_that_derives_nothing_is_refused(derived):
    generator = GENERATOR.replace("FLOATS = (DType.FLOAT, DType.HALF)", "FLOATS = (DType.FLOAT,)")
    written = "- {name: ends, tags: [boundary], doc: '§1', data: {recipe: drawn, points: 9}}\n"
    with pytest.raises(DeclarationError, match="nothing differs from ends; remove the entry"):
        derived("- {standard: dtypes, base: ends}\n", generator=generator, written=written)


def test_a_name_that_a_declared_case_has_is_refused(derived):
    with pytest.raises(DeclarationError, match="spread/points_64_float is declared already"):
        derived(
            "- {name: points_64_float, tags: [boundary], doc: '§1', data: {recipe: drawn, points: 64}}\n"
            "- {standard: sizes, base: row_float, axes: [points]}\n"
        )
