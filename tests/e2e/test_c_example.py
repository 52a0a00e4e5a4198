"""The C example through the C backend: every committed case passes, and every planted bug gets its outcome."""

import os
import re
import subprocess

import pytest

from tests.support.c_example import OPERATORS_IN_C, SOURCES, c_example
from tests.support.native import needs_gcc

pytestmark = [*needs_gcc, pytest.mark.slow]
PLANTED = set(OPERATORS_IN_C)
# Those of them that ask for a workspace.
WITH_WORKSPACE = {name for name in PLANTED if "workspace_size" in SOURCES[name]}


def operators(results):
    return {result["operator"] for result in results}


def of_example(result):
    """The results of the operators that the library has; all others are skipped, because it has no such function."""
    others = [one for one in result.results.values() if one["operator"] not in PLANTED]
    assert all(one["outcome"] == "skipped" and "does not export mluOp" in one["reason"] for one in others)
    return [one for one in result.results.values() if one["operator"] in PLANTED]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    return c_example(tmp_path_factory)


@pytest.fixture(scope="module")
def twins(catalogue):
    """The id of one small case per operator that is shaped like a network's."""
    drafts = [one for one in catalogue.drafts.values() if one.operator in PLANTED and "smoke" in one.tags]
    return list({one.operator: one.id for one in drafts if "twin" in one.id}.values())


# All others are skipped, which is shown below.
IN_C = tuple(word for name in OPERATORS_IN_C for word in ("--op", name))


def without_number(found):
    return "the C API has no number for the type" in found["reason"]


@pytest.mark.slow(seconds=20)
def test_sanitizers_find_nothing(run, example, monkeypatch):
    """In a fifth of the cases of every operator: all of them take minutes."""
    libraries = [
        subprocess.run(["gcc", f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    monkeypatch.setenv("LD_PRELOAD", os.pathsep.join(libraries))
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0:malloc_context_size=0:quarantine_size_mb=16")
    library = f"c:{example / 'build' / 'libmluops_host_sanitized.so'}"
    result = run(*IN_C, "--shard", "1/5", "--backend", library, "--no-elementwise").expect_code(0)
    results = [one for one in of_example(result) if not without_number(one)]
    assert {one["outcome"] for one in results} == {"passed"}
    assert operators(results) == PLANTED


@pytest.mark.slow(seconds=20)
def test_every_case_passes_through_the_c_door(run, example):
    """Negative, arch and strided ones included; what queries answer there is expected, and no notice."""
    library = f"c:{example / 'libmluops_host.so'}"
    result = run(*IN_C, "--backend", library, "--no-isolate", "--no-elementwise").expect_code(0)
    results = [one for one in of_example(result) if not without_number(one)]
    assert len(results) >= len(of_example(result)) - 1
    assert {one["outcome"] for one in results} == {"passed"}
    assert operators(results) == PLANTED
    assert {one["expected_status"] for one in results} == {
        "SUCCESS", "BAD_PARAM", "ARCH_MISMATCH", "NOT_SUPPORTED",
    }  # fmt: skip
    for found in results:
        on_queries = [note for note in found["notes"] if "WorkspaceSize" in note]
        # The workspace is too small for a call that computes.
        assert all("bytes, the call has 0" in note for note in on_queries), found
        assert not on_queries or found["expected_status"] == "SUCCESS", found


def test_the_optimised_library_rounds_within_the_criteria(run, example):
    result = run(
        "--tag", "precision", "--tag", "smoke", "--backend", f"c:{example / 'libmluops_host.so'}", "--no-isolate"
    ).expect_code(0)
    results = of_example(result)
    assert {one["outcome"] for one in results} == {"passed"}
    assert operators(results) == PLANTED


@pytest.mark.parametrize(
    ("bug", "outcome", "words", "everywhere"),
    [
        ("past_end", "memory", "past the end", True),
        ("writes_input", "memory", "changed the input", True),
        ("double_free", "crashed", "SIGABRT", True),
        ("segfault", "crashed", "SIGSEGV", True),
        ("endless_loop", "timed_out", "no answer within", True),
        ("wrong_status", "wrong_status", "expected SUCCESS", True),
        ("uninitialised", "failed", "never written", True),
        ("workspace_overrun", "memory", "of workspace", False),
        ("tile_edge", "failed", "element", True),
    ],
)
def test_every_planted_bug_gets_its_outcome(run, example, twins, bug, outcome, words, everywhere):
    """One small case of every operator is enough to meet each; the tile edges need the sizes around them."""
    selection = ["--tag", "boundary", "-k", "65 and not 655"] if bug == "tile_edge" else twins
    library = example / "build" / f"libmluops_host_{bug}.so"
    # Where every case loops for ever, none is innocent and needs more time.
    isolated = ("--timeout", 0.2 if bug == "endless_loop" else 60)
    process = isolated if outcome in ("memory", "crashed", "timed_out") else ("--no-isolate",)
    result = run(*selection, "--backend", f"c:{library}", *process).expect_code(1)
    bad = [r for r in of_example(result) if r["outcome"] != "passed"]
    assert {r["outcome"] for r in bad} == {outcome}
    assert all(words in r["reason"] for r in bad), [r["reason"] for r in bad][:3]
    # No sample goes to the last row of its twin, which stays as it was: nobody owes its last element.
    unseen = {"moe_dispatch_forward"} if bug == "uninitialised" else set()
    assert operators(bad) == (PLANTED - unseen if everywhere else WITH_WORKSPACE)
    assert len(result.results) == sum(result.report["summary"].values())


# Operators with a workspace query; for each wrong query, negative cases that show it, and the causes that it gets.
ASKED = {name for name, text in SOURCES.items() if "BUGS_QUERY" in text}
WRONG_QUERIES = {
    "query_success": ("null", {"query_status"}),
    "query_descriptor": ("desc_null or everything_null", {"query_status"}),
    "query_order": ("before", {"query_status"}),
    "query_size": ("size_null", {"query_status"}),
    "query_empty": ("no_ or empty", {"query_status", "refusals"}),
}


@pytest.mark.parametrize("bug", WRONG_QUERIES)
def test_every_wrong_workspace_query_is_found_in_every_operator_that_has_one(run, example, bug):
    """By negative cases; the operators themselves are right, and are told so."""
    library, (words, causes) = example / "build" / f"libmluops_host_{bug}.so", WRONG_QUERIES[bug]
    result = run("--tag", "negative", "-k", words, "--backend", f"c:{library}", "--no-isolate").expect_code(1)
    bad = [r for r in of_example(result) if r["outcome"] != "passed"]
    assert {r["outcome"] for r in bad} == {"wrong_status"}
    assert {one["kind"] for r in bad for one in r["causes"]} == causes
    assert all(r["status"] == r["expected_status"] for r in bad)
    assert operators(bad) == ASKED
    assert len(ASKED) == 10
    if bug == "query_size":
        # What breaks nothing but the pointer to the size is enough to find it.
        assert {f"{name}/size_null" for name in ASKED} <= {r["case"] for r in bad}


def test_a_run_records_the_version_and_the_file_of_the_library(run, example):
    result = run("--tag", "smoke", "-k", "bevdepth", "--backend", f"c:{example / 'libmluops_host.so'}")
    labels = result.report["labels"]
    assert labels["backend.version"] == "1.0.0"
    assert re.fullmatch(r"libmluops_host\.so sha256:[0-9a-f]{16}", labels["backend.file"])


def test_the_library_without_its_runtime_stays_within_its_buffers(run, example):
    library = example / "build" / "libmluops_host_bare.so"
    result = run(
        "--tag", "smoke", "--tag", "boundary", "-k", "twin or empty", "--backend", f"c:{library}", "--guard-pages"
    ).expect_code(0)
    assert operators(of_example(result)) == PLANTED


@pytest.mark.parametrize(
    ("bug", "words", "side"),
    [
        ("reads_past_end", r"SIGSEGV, read [24] bytes past the end of \w+, in \w+\+0x\w+ \(\S+\)", "behind"),
        (
            "reads_before_start",
            r"SIGSEGV, read [24] bytes before the start of \w+, in \w+\+0x\w+ \(\S+\)",
            "in front of",
        ),
    ],
)
def test_a_read_outside_a_buffer_is_found_by_guard_pages_alone(run, example, twins, bug, words, side):
    library = f"c:{example / 'build' / f'libmluops_host_{bug}.so'}"
    assert run(*twins, "--backend", library).code == 0
    result = run(*twins, "--backend", library, "--guard-pages").expect_code(1)
    assert operators(of_example(result)) == PLANTED
    for one in result.results.values():
        assert one["outcome"] == "crashed", one
        assert re.fullmatch(words, one["reason"])
        assert f"with an inaccessible page {side} every buffer" in one["notes"]
