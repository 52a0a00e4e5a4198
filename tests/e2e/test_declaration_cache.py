"""What declarations expand to is cached: a list that is read from disk is the list that would be made."""

import subprocess
import sys

import pytest

from mluops_gtest.base.files import DECLARATIONS
from mluops_gtest.catalog import declaration_cache, declarations, operators
from mluops_gtest.catalog.root import Root
from mluops_gtest.catalog.selection import Catalogue
from tests.conftest import ROOT
from tests.e2e.conftest import replace_in
from tests.support.toy_root import write_other_root

IDS = ("list", "--all", "--format", "ids")


@pytest.fixture
def cache(generated_toy, tmp_path, monkeypatch):
    """The folder of the cache, empty at first: the toy was generated with another one."""
    generated_toy()
    monkeypatch.setenv("MLUOPS_TEST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / DECLARATIONS


def note_calls(monkeypatch, module, name):
    """The first arguments of all calls of that function from now on."""
    calls, function = [], getattr(module, name)

    def note(first, *others):
        calls.append(first)
        return function(first, *others)

    monkeypatch.setattr(module, name, note)
    return calls


@pytest.fixture
def expanded(monkeypatch):
    """How often declarations were expanded."""
    return note_calls(monkeypatch, declarations, "load_declarations")


@pytest.fixture
def listed(cache, toy, expanded, cli):
    """What `list` prints, and how often it had to expand declarations; they are cached by now."""

    def call():
        expanded.clear()
        result = cli(*IDS, "--root", toy).expect_code(0)
        return result.lines, len(expanded)

    call()
    return call


def test_a_second_command_expands_nothing(listed, cache):
    first = listed()
    assert first[1] == 0
    assert "scale_by/ramp_4" in first[0]
    assert [path.name.partition("-")[0] for path in cache.iterdir()] == ["scale_by"]


def test_a_change_of_the_declarations_counts_at_once(listed, toy, cli):
    before, _ = listed()
    path = replace_in(toy / "cases" / "scale_by.yaml", "to: 4", "to: 5")
    after, expansions = listed()
    assert expansions == 1
    assert set(after) - set(before) == {"scale_by/ramp_5"}
    path.write_text("- name: [")
    assert cli(*IDS, "--root", toy).code == 3


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ('recipes={"ramp": ramp', 'recipes={"ramps": ramp', "unknown recipe 'ramp'"),
        ("*, count: int, start", "*, count: str, start", "argument 'count' of recipe 'ramp' must be a word"),
        ("*, count: int, start", "*, counts: int, start", "takes no argument 'count'"),
        ('checks.rank("x", 1', 'checks.rank("y", 1', "unknown check 'x_rank'"),
        ('TensorSpec("x", ', 'TensorSpec("z", ', "unknown tensor 'x'"),
    ],
)
def test_a_change_of_the_operator_counts_at_once(listed, toy, cli, right, wrong, told):
    listed()
    replace_in(toy / "generators" / "scale_by.py", right, wrong)
    cli(*IDS, "--root", toy).expect_error(3, told)


def test_an_operator_whose_code_stays_as_it_is_is_not_loaded(listed, monkeypatch):
    loaded = note_calls(monkeypatch, operators, "load_operator")
    assert "scale_by/ramp_4" in listed()[0]
    assert loaded == []


@pytest.mark.parametrize("file", ["scale_by.py", "_shared/tools.py", "_shared/deeper/tools.py"])
def test_a_change_of_any_of_its_files_expands_once(listed, toy, file):
    path = toy / "generators" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + "# a remark\n")
    assert [listed()[1] for _ in range(2)] == [1, 0]
    path.write_text(path.read_text().replace("a remark", "A remark"))
    assert [listed()[1] for _ in range(2)] == [1, 0]


def test_the_code_of_another_operator_is_no_part_of_the_key(listed, toy):
    other = toy / "generators" / "shift_by.py"
    other.write_text(write_other_root(toy.parent / "other").joinpath("generators", "shift_by.py").read_text())
    assert listed()[1] == 0


def test_a_change_of_our_code_counts_at_once(listed, monkeypatch):
    monkeypatch.setattr(declaration_cache, "_release", lambda: b"another release")
    assert [listed()[1] for _ in range(2)] == [1, 0]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:40],
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
        lambda data: bytes(len(data)),
    ],
    ids=["empty", "half a head", "torn", "longer", "one bit", "zeros"],
)
def test_what_is_damaged_is_made_again(listed, cache, damage):
    before, _ = listed()
    (file,) = cache.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert listed() == (before, 1)
    assert listed() == (before, 0)


def test_a_body_that_does_not_fit_is_made_again(listed, cache):
    """Whole, with the right key, but of another kind: nothing in it is believed."""
    before, _ = listed()
    (file,) = cache.iterdir()
    head, body = file.read_bytes()[:32], b"\x91\x01"
    file.write_bytes(head + declaration_cache._digest([body]) + body)
    assert listed() == (before, 1)


def test_a_cache_that_cannot_be_used_costs_time_alone(listed, cache, tmp_path, monkeypatch):
    before, _ = listed()
    (file,) = cache.iterdir()
    file.unlink()
    file.mkdir()
    assert [listed() for _ in range(2)] == [(before, 1)] * 2
    (tmp_path / "a file").touch()
    monkeypatch.setenv("MLUOPS_TEST_CACHE", str(tmp_path / "a file"))
    assert [listed() for _ in range(2)] == [(before, 1)] * 2


def test_declarations_that_change_while_they_are_read_are_not_cached(listed, toy, monkeypatch):
    path = toy / "cases" / "scale_by.yaml"
    load = declarations.load_declarations

    def edit(file, operator):
        found = load(file, operator)
        path.write_text(path.read_text().replace("to: 5", "to: 6"))
        return found

    path.write_text(path.read_text().replace("to: 4", "to: 5"))
    with monkeypatch.context() as patch:
        patch.setattr(declarations, "load_declarations", edit)
        listed()
    assert "scale_by/ramp_6" in listed()[0]


def test_declarations_are_not_cached_for_an_operator_that_was_loaded_before_an_edit(listed, cache, toy):
    catalogue = Catalogue(Root(toy))
    assert catalogue.operators["scale_by"].recipes
    path = toy / "generators" / "scale_by.py"
    path.write_text(path.read_text() + "\n# edited\n")
    before = {file: file.read_bytes() for file in cache.iterdir()}
    assert catalogue.drafts
    assert {file: file.read_bytes() for file in cache.iterdir()} == before
    assert listed()[1] == 1


def test_cache_shows_and_prunes_them(listed, cache, cli):
    (file,) = cache.iterdir()
    (cache / "notes.txt").touch()
    shown = cli("cache").lines
    assert any(line.startswith("expanded declarations: 1 file, ") for line in shown)
    pruned = cli("cache", "prune", "--older-than", "0")
    assert "notes.txt" in pruned.err
    assert not file.exists()
    assert [path.name for path in cache.iterdir()] == ["notes.txt"]
    assert listed()[1] == 1


@pytest.mark.slow
def test_all_our_cases_are_cached_as_they_are(cache, operators):
    for operator in operators.values():
        path = Root(ROOT).cases / f"{operator.name}.yaml"
        made = declarations.load_declarations(path, operator)
        declaration_cache.load_declarations(path, operators, operator.name)
        key = declaration_cache._key(path, operators, operator.name)
        cached = declaration_cache._read(next(cache.glob(f"{operator.name}-*")), key)
        assert repr(tuple(cached.drafts.values())) == repr(made)


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
def test_a_list_of_cached_declarations_needs_no_numpy(toy):
    program = (
        "import sys; from mluops_gtest.cli.main import run_main; code = run_main(sys.argv[1:]); "
        "print('numpy' in sys.modules, file=sys.stderr); sys.exit(code)"
    )
    command = [sys.executable, "-c", program, *IDS, "--root", str(toy)]
    first, second = (subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(2))
    assert (first.stderr, second.stderr) == ("True\n", "False\n")
    assert "scale_by/ramp_4" in second.stdout
    assert first.stdout == second.stdout
