"""A command that names operators reads theirs alone: it is quick, and no mistake elsewhere disturbs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import replace_in
from tests.support.toy_root import write_other_root

ROOT = Path(__file__).parents[2]
NAME = "masked_im2col_forward"
CASE = f"{NAME}/retinanet_1x1_twin_float"
# Runs commands; prints the exit code of each and which operators' files it opened, and what code was loaded at last.
WATCH = """\
import io, json, sys, contextlib
from pathlib import Path
from mluops_gtest.cli.main import run_main

root, found = Path(sys.argv[1]), {}
opened = set()

def note(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and arguments[0].startswith(str(root)):
        opened.add(arguments[0])

sys.addaudithook(note)
for words in json.loads(sys.argv[2]):
    opened.clear()
    with contextlib.redirect_stdout(io.StringIO()):
        code = run_main(words)
    inside = [Path(path).relative_to(root).parts for path in opened]
    content = {parts[:2] for parts in inside if len(parts) > 1 and parts[0] in ("cases", "generators", "prototxt")}
    found[" ".join(words)] = [code, sorted("/".join(parts) for parts in content)]
loaded = {str(module.__file__) for module in list(sys.modules.values()) if getattr(module, "OPERATOR", None)}
print(json.dumps([found, sorted(loaded)]))
"""


@pytest.mark.slow
def test_only_the_files_of_the_named_operator_are_opened(tmp_path):
    commands = [
        ["run", CASE, "--out", "results"],
        ["run", "--op", NAME, "--tag", "smoke", "--isolate", "--out", "isolated"],
        ["list", "--op", NAME],
        ["list", f"{NAME}/retinanet_*"],
        ["show", CASE],
        ["verify", CASE],
        ["generate", CASE, "--check"],
        ["ops", NAME],
    ]
    command = [sys.executable, "-B", "-c", WATCH, str(ROOT), json.dumps(commands)]
    watched = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    own = {f"cases/{NAME}.yaml", f"generators/{NAME}", f"prototxt/{NAME}", "generators/_shared"}
    found, loaded = json.loads(watched.stdout)
    for words, (code, opened) in found.items():
        assert code == 0, (words, watched.stderr)
        assert set(opened) <= own, words
        assert words.startswith("ops") or f"cases/{NAME}.yaml" in opened, words
    assert loaded == [str(ROOT / "generators" / NAME / "__init__.py")]


@pytest.fixture
def two(toy, cli, tmp_path):
    """A root with the operators scale_by and shift_by."""
    other = write_other_root(tmp_path / "other")
    for name in ("generators/shift_by.py", "cases/shift_by.yaml"):
        (other / name).rename(toy / name)
    assert cli("generate", "--op", "shift_by", "--root", toy).code == 0
    return toy


MISTAKES = {
    "cases/shift_by.yaml": ("- name: [", "shift_by.yaml:2:1: not valid YAML"),
    "generators/shift_by.py": ("import no_such_module\n", "shift_by.py:1: the file does not load"),
}


@pytest.mark.parametrize("file", MISTAKES)
def test_a_mistake_in_another_operator_is_told_by_commands_that_look_at_all(cli, run, two, file):
    text, message = MISTAKES[file]
    (two / file).write_text(text)
    assert run("--op", "scale_by", "--root", two).code == 0
    assert run("scale_by/ramp_2", "--isolate", "--root", two).code == 0
    assert cli("audit", "operators", "--op", "scale_by", "--seeds", "0", "--root", two).code in (0, 1)
    for command in (["list"], ["run"], ["verify", "--tag", "boundary"], ["generate", "--all"], ["audit", "operators"]):
        cli(*command, "--root", two).expect_error(3, message)
    # It is also told where it could be what was meant.
    assert message in cli("run", "scale_bee/ramp_2", "--root", two).err


def test_a_broken_lock_of_another_operator_is_told_by_its_own_cases(run, two):
    (two / "prototxt" / "shift_by" / "baselines.lock").write_text("{")
    assert run("--op", "scale_by", "--root", two).code == 0
    assert run("shift_by/ramp_2", "--root", two).code == 3


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("scale_by/ramp_22",), "Did you mean 'scale_by/ramp_2'"),
        (("shift_bye/ramp_3",), "Did you mean 'shift_by/ramp_3'"),
        (("shift_bye",), "Did you mean 'shift_by'"),
        (("--op", "shift_bye"), "Did you mean 'shift_by'"),
    ],
)
def test_an_unknown_name_is_compared_with_all_that_exist(cli, two, words, hint):
    for command in ("run", "list"):
        assert hint in cli(command, *words, "--root", two).err


def test_released_names_are_known_too(cli, two):
    assert cli("list", "shift/ramp_2", "--format", "ids", "--root", two).lines == ["shift_by/ramp_2"]
    by_operator = cli("list", "--op", "shift", "--format", "ids", "--root", two).lines
    assert by_operator == cli("list", "shift_by/*", "--format", "ids", "--root", two).lines


def test_generate_removes_what_is_no_longer_declared_of_the_operators_it_is_about(cli, two):
    for name in ("scale_by", "shift_by"):
        replace_in(two / "cases" / f"{name}.yaml", "to: 4", "to: 3")
    checked = cli("generate", "--op", "scale_by", "--check", "--root", two)
    assert [line for line in checked.lines if "not declared" in line] == [
        "scale_by/ramp_4: stored or locked, but not declared"
    ]
    made = cli("generate", "scale_by/ramp_2", "--root", two)
    assert [line for line in made.lines if "removed" in line] == ["removed scale_by/ramp_4: no longer declared"]
    assert "removed shift_by/ramp_4: no longer declared" in cli("generate", "--all", "--root", two).lines
