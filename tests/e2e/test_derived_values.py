"""Cases with other values than their bases: `generate` derives them, every other command reads what it wrote."""

from mluops_gtest.catalog import derive
from tests.support.spread_root import write_spread_root

IDS = ("list", "--all", "--format", "ids")

VALUES = """\
- {standard: sizes, base: row_half, axes: [points]}
- {standard: sizes, base: ends, axes: [copies], around: [8], tiles: {copies: [100]}}
- {standard: dtypes, base: ends}
- {standard: precision, base: row_float}
- {standard: nonfinite, base: odd}
"""


def test_cases_with_other_values_are_derived_once_and_run(tmp_path, cli, monkeypatch):
    root = write_spread_root(tmp_path / "root", VALUES)
    result = cli("generate", "--all", "--root", root)
    assert result.code == 0, result.err
    assert cli("generate", "--all", "--check", "--root", root).lines[-1].endswith("0 differences")
    monkeypatch.setattr(derive, "derive", None)
    listed = cli(*IDS, "--root", root).lines
    names = ("points_257_half", "copies_101", "ends_half", "row_wide_half", "odd_minus_inf_float")
    assert {f"spread/{name}" for name in names} <= set(listed)
    result = cli("run", "--root", root)
    assert result.code == 0, result.out
    assert f"{len(listed)} passed" in result.out


def test_a_changed_entry_asks_for_generate(tmp_path, cli):
    root = write_spread_root(tmp_path / "root", VALUES)
    assert cli("generate", "--all", "--root", root).code == 0
    before = set(cli(*IDS, "--root", root).lines)
    path = root / "cases" / "spread.yaml"
    path.write_text(path.read_text().replace("around: [8]", "around: [16]"))
    result = cli("list", "--root", root)
    assert result.code == 3
    assert "the derived cases of spread have changed since they were derived" in result.err
    assert cli("generate", "--all", "--root", root).code == 0
    after = set(cli(*IDS, "--root", root).lines)
    assert before - after == {f"spread/copies_{length}" for length in (7, 8, 9)}
    assert after - before == {f"spread/copies_{length}" for length in (15, 16, 17)}


def test_words_that_derived_cases_have_from_their_base_are_kept_in_step(tmp_path, cli):
    root = write_spread_root(tmp_path / "root", VALUES)
    assert cli("generate", "--all", "--root", root).code == 0
    path = root / "cases" / "spread.yaml"
    path.write_text(path.read_text().replace("§1: a row", "§2: a line"))
    assert cli("list", "--root", root).code == 3
    assert cli("generate", "--all", "--root", root).code == 0
    assert '"§2: a line; copies 8"' in (root / "prototxt" / "spread" / "derived.lock").read_text()
    assert cli("generate", "--all", "--check", "--root", root).code == 0
