"""README and docs/ as their readers use them: every command runs as printed, every number is the real one."""

import re

import pytest
import yaml

from mluops_gtest.cli.main import cli as commands
from tests.support.built_once import built_once
from tests.support.case_counts import count_cases, published
from tests.support.dask_needed import needs_dask
from tests.support.documents import (
    REMARKS,
    ROOT,
    Block,
    Command,
    Reader,
    blocks,
    matches,
    pages,
    parse,
    reports,
    write_checkout,
)

PAGES = {page: blocks(page) for page in pages()}


def runs(block: Block) -> bool:
    return block.remark("not run") is None and (block.is_command or block.remark("pipeline") is not None)


# A translation has the blocks of its original (tests/unit/documents/test_translations.py).
FOLLOWED = [
    pytest.param(page, marks=needs_dask if any("--cluster" in block.text for block in found if runs(block)) else ())
    for page, found in PAGES.items()
    if any(map(runs, found)) and not page.endswith(".zh.md")
]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """What every page starts from."""
    return built_once(tmp_path_factory, "readers-checkout", write_checkout)


@pytest.mark.slow
@pytest.mark.parametrize("page", FOLLOWED)
def test_every_command_of_a_page_works_as_printed(page, tmp_path, checkout):
    reader = Reader(tmp_path, checkout)
    for block in PAGES[page]:
        if block.remark("not run") is None:
            reader.follow(block)


@pytest.mark.parametrize("page", PAGES)
def test_remarks_are_known_and_blocks_that_are_not_run_say_why(page):
    for block in PAGES[page]:
        assert {key for key, _ in block.remarks} <= REMARKS, block.place
        assert block.language, f"{block.place}: say the language of the block (sh, console, text, …)"
        reason = block.remark("not run")
        assert reason is None or len(reason.split()) >= 3, f"{block.place}: <!-- not run: REASON -->"


def commands_in(text):
    """(command, arguments) of everything in code that begins with `mluops-test`."""
    for name, rest in re.findall(
        r"(?:`|^\$ |^|&& |do |- |run: )mluops-test ([a-z][a-z-]*)([^`\n]*)", text, re.MULTILINE
    ):
        yield name, re.findall(r"(?<![\w-])--?[a-z][a-z-]*", re.split(r" #| \|\| |; ", rest)[0])


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_option_that_a_page_names_exists(page):
    for name, options in commands_in((ROOT / page).read_text(encoding="utf-8")):
        command = commands.get_command(None, name)
        assert command is not None, f"{page}: mluops-test {name}"
        # A group's options are those of its commands.
        several = (command, *getattr(command, "commands", {}).values())
        known = {option for one in several for param in one.params for option in (*param.opts, *param.secondary_opts)}
        assert set(options) <= known | {"-h", "--help"}, f"{page}: mluops-test {name}"


def test_every_gitlab_pipeline_hands_over_junit():
    originals = [page for name, page in PAGES.items() if not name.endswith(".zh.md")]
    found = [block for page in originals for block in page if block.remark("pipeline") is not None]
    gitlab = [pipeline for pipeline in (yaml.safe_load(block.text) for block in found) if "jobs" not in pipeline]
    assert len(gitlab) == 2
    assert all("junit" in reports(pipeline) for pipeline in gitlab)


# Rows of README's table that take long or need what the reader has.
NOT_HERE = {
    "mluops-test run --backend c:./libmykernels.so -j 2 --timeout 20": "tests/e2e/test_c_example.py",
    "mluops-test run --backend exec:./my_program": "tests/e2e/test_exec_examples.py",
    "mluops-test run --tag network": "seconds; .ci/run",
    "mluops-test run --elementwise": "the default set; tests/e2e/test_run.py",
    "mluops-test run --reseed random": "the default set; tests/e2e/test_reseed.py",
    "mluops-test verify --all": "seconds; .ci/run",
    "mluops-test generate --all --check": "seconds; .ci/run",
}
PLACEHOLDERS = re.compile(r"…|\b(?:CASE|RESULTS|DIR|COMMAND)\b|path/to/")


def table_of(page):
    rows = re.findall(r"^\| .* \|$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    return [code for row in rows for code in re.findall(r"`(mluops-test [^`]+)`", row)]


@pytest.mark.slow
def test_commands_of_the_readmes_table_work_as_printed(tmp_path, checkout):
    reader = Reader(tmp_path, checkout)
    rows = table_of("README.md")
    assert set(NOT_HERE) <= set(rows)
    ready = [row for row in rows if row not in NOT_HERE and not PLACEHOLDERS.search(row)]
    assert len(ready) >= 4
    for row in ready:
        reader.call(Command(row), "README.md")


@pytest.mark.slow
def test_counts_of_cases_are_the_real_ones(catalogue):
    """`python -m tests.support.case_counts` writes them."""
    assert published() == count_cases(catalogue)


def test_output_is_compared_but_for_times_and_what_is_left_out():
    shown = ("cases 2  0.10", "…", "2 failed in 0.1 s on …")
    assert matches(shown, "cases   2 0.07\nany\nlines\n2 failed in 12.5 s on mine\n")
    assert matches(shown, "cases   2 0.07\n2 failed in 12.5 s on mine\n")
    assert not matches(shown, "cases   3 0.07\n2 failed in 12.5 s on mine\n")
    assert not matches(shown, "cases   2 0.07\n2 failed in 12.5 s on mine\nmore\n")


def test_a_block_has_its_remarks_prompts_and_outputs():
    text = "<!-- prepare: touch a -->\n<!-- exit: 1 -->\n```console\n$ ls\na\n$ false\n```\n```sh\nx=1\necho $x\n```\n"
    first, second = parse("page.md", text)
    assert first.remarks == (("prepare", "touch a"), ("exit", "1"))
    assert first.commands == (Command("ls", ("a",)), Command("false", code=1))
    assert second.commands == (Command("x=1\necho $x\n"),)
    assert (second.place, second.remarks) == ("page.md:8", ())


def test_a_remark_without_a_block_is_an_error():
    with pytest.raises(ValueError, match=r"page\.md:2: the remarks .* belong to no block"):
        parse("page.md", "<!-- not run: because of rain -->\n\n```sh\nls\n```\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("```sh\nmluops-test list --no-such-option\n```\n", "exit code 2"),
        ("```text\n$ mluops-test list --op voxel_pooling_forward --tag smoke\n3 cases\n```\n", "2 cases"),
    ],
)
def test_a_page_that_does_not_work_as_printed_is_found(tmp_path, checkout, text, told):
    (block,) = parse("page.md", text)
    with pytest.raises(AssertionError, match=r"page\.md:1") as found:
        Reader(tmp_path, checkout).follow(block)
    assert told in str(found.value)
