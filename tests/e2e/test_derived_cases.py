"""Cases that an operator's checks imply: `generate` derives them, every other command reads what it wrote."""

import pytest

from mluops_gtest.catalog import derive
from tests.support.pick_root import GENERATOR, write_pick_root

IDS = ("list", "--all", "--format", "ids")


@pytest.fixture
def root(tmp_path):
    return write_pick_root(tmp_path / "root")


@pytest.fixture
def generated(root, cli):
    """The root with its cases made; the place of its lock of derived cases."""
    result = cli("generate", "--all", "--root", root)
    assert result.code == 0, result.err
    return root / "prototxt" / "pick" / "derived.lock"


def test_generate_derives_and_everything_else_reads(generated, root, cli, monkeypatch):
    monkeypatch.setattr(derive, "derive", None)
    listed = cli(*IDS, "--root", root).lines
    assert {"pick/table_rank_more", "pick/factor_9", "pick/handle_null_before_table_strided"} <= set(listed)
    result = cli("run", "--root", root)
    assert result.code == 0, result.out
    assert f"{len(listed)} passed" in result.out
    # What it was derived from is as it was.
    assert cli("generate", "--op", "pick", "--root", root).code == 0


def test_check_derives_anew_and_compares(generated, root, cli):
    result = cli("generate", "--all", "--check", "--root", root)
    assert (result.code, result.lines[-1].partition(", ")[2]) == (0, "0 differences")
    *lines, _ = generated.read_text().splitlines()
    generated.write_text("\n".join(lines) + "\n")
    result = cli("generate", "--all", "--check", "--root", root)
    assert (result.code, result.lines[0]) == (3, f"pick: {generated} differs from what is derived")


def test_a_missing_lock_is_said_with_the_command_that_writes_it(root, cli):
    result = cli("list", "--root", root)
    where = root / "cases" / "pick.yaml"
    assert result.code == 3
    assert f"{where}:10: the derived cases of pick are not in the lock file." in result.err
    assert "Run `mluops-test generate --op pick` and look at the difference." in result.err
    check = cli("generate", "--all", "--check", "--root", root)
    assert check.code == 3
    assert not (root / "prototxt" / "pick").exists()


@pytest.mark.parametrize("what", ["declarations", "code"])
def test_a_stale_lock_is_derived_again(generated, root, cli, what):
    before = set(cli(*IDS, "--root", root).lines)
    if what == "code":
        path = root / "generators" / "pick.py"
        path.write_text(GENERATOR.replace("<= 8", "<= 9").replace("1 … 8", "1 … 9"))
    else:
        path = root / "cases" / "pick.yaml"
        path.write_text(path.read_text().replace("picks: 4}}\n- {name: alike", "picks: 7}}\n- {name: alike"))
    result = cli("run", "--root", root)
    assert result.code == 3
    assert "the derived cases of pick have changed since they were derived" in result.err
    assert cli("generate", "--all", "--root", root).code == 0
    after = set(cli(*IDS, "--root", root).lines)
    assert cli("run", "--root", root).code == 0
    changed = {"pick/factor_9", "pick/factor_10"} if what == "code" else set()
    assert before ^ after >= changed
    assert {"pick/table_rank_more", "pick/handle_null_before_table_strided"} <= before & after


def test_another_lock_counts_at_once(generated, root, cli):
    """What declarations expand to is cached, with the lock among its sources."""
    before = cli(*IDS, "--root", root).lines
    generated.write_text(
        "".join(line + "\n" for line in generated.read_text().splitlines() if '"factor_9"' not in line)
    )
    after = cli(*IDS, "--root", root).lines
    assert set(before) - set(after) == {"pick/factor_9"}


def test_a_lock_that_nothing_asks_for_is_told_and_removed(generated, root, cli):
    path = root / "cases" / "pick.yaml"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if "standard:" not in line))
    result = cli("generate", "--op", "pick", "--check", "--root", root)
    assert (result.code, result.lines[0]) == (3, f"pick: {generated} is there, but nothing asks for derived cases")
    assert cli("generate", "--op", "pick", "--root", root).code == 0
    assert not generated.exists()
    assert cli("generate", "--op", "pick", "--check", "--root", root).code == 0


def test_a_kernel_shapes_no_case(generated, root, cli):
    folder = root / "generators" / "pick"
    folder.mkdir()
    (root / "generators" / "pick.py").rename(folder / "__init__.py")
    assert cli("generate", "--op", "pick", "--root", root).code == 0
    (folder / "kernel.py").write_text("# in pieces of 64\n")
    assert cli("run", "--root", root).code == 0
