"""`mluops-test ops OP --page`: what its readers ask for is on the page of every operator, and it is Markdown."""

import re

import pytest

from mluops_gtest.results.reports.markdown_summary import text

HEADINGS = ["Tensors", "Parameters", "Checks", "Rulings", "Network shapes", "Other cases that compute"]


def cells(line):
    return len(re.findall(r"(?<!\\)\|", line)) - 1


def sections(page):
    head, *parts = re.split(r"^## ", page, flags=re.MULTILINE)
    return {"": head, **dict(part.split("\n", 1) for part in parts)}


@pytest.mark.slow
def test_every_operator_has_its_page(cli, catalogue):
    for name, operator in catalogue.operators.items():
        page = cli("ops", name, "--page").expect_code(0).out
        found = sections(page)
        assert [heading for heading in found if heading not in ("", "The document")] == HEADINGS, name
        assert page.startswith(f"# {name}\n")
        for table in re.findall(r"(?:^\|.*\|\n)+", page, re.MULTILINE):
            assert len({cells(line) for line in table.splitlines()}) == 1, table
        rows = [line.split(" | ") for line in found["Checks"].splitlines() if re.match(r"\| \d", line)]
        assert [row[1] for row in rows] == [f"`{check.name}`" for check in operator.checks]
        assert [row[4] for row in rows] == [text(check.doc) for check in operator.checks]
        networks = [draft.id for draft in catalogue.drafts_of(name).values() if "network" in draft.tags]
        assert networks
        assert all(f"| `{case.partition('/')[2]}` |" in found["Network shapes"] for case in networks)
        # Of twins most stand in the file that they share.
        assert found["Rulings"].count("\n- ") >= 1


def test_a_page_says_what_tensors_promise_and_which_cases_show_a_check(cli):
    found = sections(cli("ops", "voxel_pooling_forward", "--page").expect_code(0).out)
    assert "column 2: positions along `num_voxel_z`, others are skipped" in found["Tensors"]
    assert (
        "| `pos_memo` | out | `[batch_size, num_points, 3]` | int32 | ARRAY | int32: diff3 ≤ 0 | preset to -1 |"
        in (found["Tensors"])
    )
    assert "| `num_voxel_x` | int32 |  | at least 1 |" in found["Parameters"]
    assert "| `handle_null` | BAD_PARAM | the handle must not be null | §3.7 | `handle_null`" in found["Checks"]
    assert "counted from 0; −1 where the point does not count" in found["Rulings"]
    assert "`pos_memo_large` never answers first" in found["Rulings"]


def test_a_document_that_stands_in_the_operator_is_on_its_page(cli, row_sum_root, tmp_path):
    cli("ops", "row_sum", "--page", "--root", row_sum_root, "--out", tmp_path / "page.md").expect_code(0)
    found = sections((tmp_path / "page.md").read_text())
    assert "§4  Sums are made in float or wider" in found["The document"]
    assert "| `network_half` | rows 16384, channels 64, segments 2000 |" in found["Network shapes"]
    assert "`rows_1` and 4 more" in found["Other cases that compute"]


@pytest.mark.parametrize("words", [["--page"], ["ball_query", "--out", "x.md"], ["ball_query", "--page", "--c"]])
def test_a_page_is_that_of_one_operator(cli, words):
    cli("ops", *words).expect_error(2, "Say `ops OPERATOR --page`, with --out FILE")
