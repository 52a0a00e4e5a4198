"""Settings as they would be typed in the current folder; shards of the real content: balanced, disjoint, complete."""

import pytest

from mluops_gtest.casefiles.lock import LockEntry
from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.call import Status
from mluops_gtest.core.case import Expect, Query
from mluops_gtest.running.options import RunOptions
from mluops_gtest.running.plan import (
    BYTE_NS,
    CASE_NS,
    RecordedTimes,
    Shard,
    costs_of,
    moved_bytes,
    plan_run,
    shard_of,
    smallest_first,
)
from mluops_gtest.running.settings import nearest_settings, read_settings
from tests.conftest import ROOT


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with files; the current folder is below it."""
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    for name in ("mine.py", "libk.so", "prog", "data.bin"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path / "sub")
    return tmp_path


def defaults(folder, text):
    (folder / "mluops-test.toml").write_text(text)
    return read_settings(folder / "mluops-test.toml").defaults()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("numpy", "numpy"),
        ("mlu", "mlu"),
        ("torch:cuda", "torch:cuda"),
        ("package.kernels:backend", "package.kernels:backend"),
        ("mine.py", "../mine.py"),
        ("./mine.py:Kernels", "../mine.py:Kernels"),
        ("gone/mine.py:Kernels", "../gone/mine.py:Kernels"),
        ("/opt/mine.py:Kernels", "/opt/mine.py:Kernels"),
        ("c:./libk.so", "c:../libk.so"),
        ("c:libk.so", "c:../libk.so"),
        ("c:libinstalled.so", "c:libinstalled.so"),
        ("c:/opt/libk.so", "c:/opt/libk.so"),
        ("exec:./prog --table data.bin 'a b'", "exec:../prog --table ../data.bin 'a b'"),
        ("exec:python3 mine.py", "exec:python3 ../mine.py"),
        ("exec:'./prog", "exec:'./prog"),
        ("sub/mine.py", "./mine.py"),
    ],
)
def test_files_of_a_backend_stand_beside_the_settings(project, written, meant):
    assert defaults(project, f'backend = "{written}"')["backend"] == meant


def test_in_the_current_folder_everything_is_as_it_is_written(project, monkeypatch):
    monkeypatch.chdir(project)
    found = defaults(project, 'backend = "exec:./prog  x"\nroots = ["mine", "builtin"]\nwaivers = "w.yaml"\n')
    assert (found["backend"], found["roots"], found["waivers"]) == ("exec:./prog  x", ("mine", "builtin"), "w.yaml")


def test_a_folder_is_never_taken_for_the_built_in_content(project):
    found = defaults(project, 'roots = ["builtin", "./builtin", "sub/builtin"]\n')
    assert found["roots"] == ("builtin", "../builtin", "./builtin")


def test_labels_are_words_and_what_is_not_set_is_not_there(project):
    assert defaults(project, '[labels]\nteam = "a=b"\n') == {"labels": ("team=a=b",)}
    assert defaults(project, "jobs = 2\ntimeout = 3\n") == {"jobs": 2, "timeout": 3.0}


def test_the_nearest_file_counts(project, monkeypatch):
    monkeypatch.chdir(project / "sub" / "deep")
    assert nearest_settings() not in (project / "mluops-test.toml", project / "sub" / "mluops-test.toml")
    (project / "mluops-test.toml").touch()
    assert nearest_settings() == project / "mluops-test.toml"
    (project / "sub" / "mluops-test.toml").touch()
    assert nearest_settings() == project / "sub" / "mluops-test.toml"
    # A folder of that name is no file.
    (project / "sub" / "deep" / "mluops-test.toml").mkdir()
    assert nearest_settings() == project / "sub" / "mluops-test.toml"


def test_a_removed_current_folder_has_no_settings(project, monkeypatch):
    monkeypatch.chdir(project / "sub" / "deep")
    (project / "sub" / "deep").rmdir()
    assert nearest_settings() is None


@pytest.mark.parametrize(
    ("key", "text", "line"),
    [
        ("jobs", "jobs = 1\n", 1),
        ("jobs", '\n"jobs" = 1\n', 2),
        ("jobs", "timeout = 1 # jobs = 2\n  jobs=1\n", 2),
        ("labels", "jobs = 1\n[labels]\na = 'x'\n", 2),
        ("labels", "jobs = 1\nlabels.a = 'x'\n", 2),
        ("labels", "jobs = 1\nlabels = {a = 'x'}\n", 2),
    ],
)
def test_a_key_or_a_table_is_found_on_its_line(project, key, text, line):
    path = project / "mluops-test.toml"
    path.write_text(text)
    assert read_settings(path).place(key) == f"{path}:{line}"


OPERATORS = sorted(path.parent.name for path in ROOT.glob("generators/[a-z]*/__init__.py"))
SELECTIONS = {
    "default": Query(),
    "--all": Query(everything=True),
    **{name: Query(operators=(name,)) for name in OPERATORS},
}


@pytest.fixture(scope="module")
def session():
    return Session()


@pytest.mark.slow
@pytest.mark.parametrize("selection", SELECTIONS.values(), ids=SELECTIONS.keys())
def test_no_shard_costs_much_more_than_the_others(session, selection):
    cases = session.select(selection).cases
    lock = session.source(cases).lock
    sizes = {case.id: moved_bytes(lock[case.id], case.draft.expect) for case in cases}
    costs = costs_of(sizes, RecordedTimes())
    dearest = max(costs.values())
    for count in range(2, 9):
        parts = [shard_of(list(costs), costs, Shard(index, count)) for index in range(1, count + 1)]
        assert sorted(case for part in parts for case in part) == sorted(costs)
        loads = [sum(costs[case] for case in part) for part in parts]
        assert max(loads) <= max(1.3 * sum(loads) / count, dearest), (count, loads)


@pytest.mark.slow
def test_four_shards_of_everything_have_about_as_many_cases(session):
    """Once they had 4, 667, 663 and 4: descriptors of nearly 2^31 elements counted as load."""
    requests = [RunOptions(SELECTIONS["--all"], ("builtin",), "numpy", shard=f"{index}/4") for index in range(1, 5)]
    parts = [[case.id for case in plan_run(request, session, pytest.fail).cases] for request in requests]
    assert min(map(len, parts)) > 150
    assert parts == [[case.id for case in plan_run(request, Session(), pytest.fail).cases] for request in requests]


def entry(*dims):
    tensors = [{"id": f"t{i}", "dtype": "float", "layout": "ARRAY", "dims": list(d)} for i, d in enumerate(dims)]
    return LockEntry("op/a", "", "", "", "", {"inputs": tensors[:1], "outputs": tensors[1:]}, {})


def test_a_descriptor_alone_moves_no_byte():
    large, small = (2**31 - 1,), (10, 10)
    refused = Expect(Status.BAD_PARAM, check="limit")
    assert moved_bytes(entry(large, small), refused) == 400
    assert moved_bytes(entry((2**31,), small), Expect()) == 400
    assert moved_bytes(entry((1 << 20,), small), Expect()) == (4 << 20) + 400


def test_times_that_are_known_count_and_others_are_scaled():
    costs = costs_of({"a": 0, "b": 1000, "c": 0}, RecordedTimes({"a": 0.016, "elsewhere": 99.0}))
    # "a" took twice what was guessed; so will the others.
    assert costs == {"a": CASE_NS + 16_000_000, "b": 3 * (CASE_NS + 1000 * BYTE_NS), "c": 3 * CASE_NS}
    assert costs_of({"a": 0}, RecordedTimes({"a": 0.0})) == {"a": CASE_NS}


def test_the_smallest_come_first_and_equals_keep_their_order():
    assert smallest_first(["c", "a", "b"], {"a": 2, "b": 1, "c": 2}) == ["b", "c", "a"]
