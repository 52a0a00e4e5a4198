"""Cases that an operator's checks imply: `generate` derives them, every other command reads what it wrote."""

import json

import pytest

from mluops_gtest.casefiles.lock import write_lock
from mluops_gtest.catalog import derive
from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.case import Query
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


REFUSED = "table_rank_more"


def lock_lines(path):
    lines = map(json.loads, path.read_text().splitlines())
    return {line[0] if isinstance(line, list) else line["id"].partition("/")[2]: line for line in lines}


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines.values()))


def test_the_lock_leaves_out_what_follows_from_the_base(generated, root, cli):
    lock = generated.with_name("baselines.lock")
    before = lock.read_bytes()
    lines = lock_lines(lock)
    assert isinstance(lines[REFUSED], list)
    assert isinstance(lines["valid"], dict)
    listed = cli("list", "--all", "--format", "json", "--root", root).out
    # As earlier releases wrote it: all lines whole.
    session = Session((str(root),))
    source = session.source(session.select(Query()).cases)
    write_lock(lock, [source.entry_of(session.catalogue.drafts[case_id]) for case_id in source.lock])
    assert {type(line) for line in lock_lines(lock).values()} == {dict}
    assert cli("list", "--all", "--format", "json", "--root", root).out == listed
    assert cli("run", "--root", root).code == 0
    assert cli("generate", "--all", "--check", "--root", root).code == 0
    assert cli("generate", "--all", "--root", root).code == 0
    assert lock.read_bytes() == before


def spoil_digest(lines):
    lines[REFUSED][2] = "0" * 32


def spoil_params(lines):
    lines[REFUSED].append({"factor": 7})


def spoil_base(lines):
    lines["valid"]["tensors"]["inputs"][0]["layout"] = "NCHW"


def remove_base(lines):
    del lines["valid"]


def fold_base(lines):
    lines["valid"] = ["valid", lines["valid"]["declared"], lines["valid"]["stored"]]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (spoil_digest, f"the file of pick/{REFUSED} differs from the lock"),
        (spoil_params, f"the line of pick/{REFUSED} differs from its file in params"),
        (spoil_base, f"the line of pick/{REFUSED} differs from its file in tensors"),
        (remove_base, f"the line of pick/{REFUSED} differs from its file in inputs, baseline, tensors, params"),
        (fold_base, "the line of pick/valid differs from its file in inputs, baseline, tensors, params"),
    ],
)
def test_a_spoiled_line_is_an_error_of_its_case(generated, root, cli, spoil, words):
    lock = generated.with_name("baselines.lock")
    lines = lock_lines(lock)
    spoil(lines)
    write_lines(lock, lines)
    result = cli("run", "pick/valid" if spoil is fold_base else f"pick/{REFUSED}", "--root", root)
    assert result.code == 3
    assert words in result.err + result.out
    assert cli("generate", "--all", "--check", "--root", root).code == 3


def test_the_file_of_a_derived_case_is_held_to_its_digest(generated, root, cli):
    path = generated.with_name(f"{REFUSED}.prototxt")
    path.write_bytes(path.read_bytes() + b"# edited\n")
    result = cli("run", f"pick/{REFUSED}", "--root", root)
    assert result.code == 3
    assert f"the file of pick/{REFUSED} differs from the lock" in result.err + result.out


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
