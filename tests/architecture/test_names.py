"""Functions, classes and modules are named for what they do or are: no bare participles, no pictures.

A name is split at underscores and capitals. It breaks the rule

- if one of its words, or a phrase of its words, is a picture (`hunt`, `second_look`);
- if it is a participle of the list, or begins or ends with one: `_told`, `kept_files`, `HeldResult`.

A participle at the end may complete a clause: `is_kept`, `CrashesWhileAsked`. Test functions and test classes are
sentences and may use any word. Names that users, result files or rules depend on stay, each with its reason.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mluops_gtest.base.native.library import LIBRARY
from mluops_gtest.catalog.operators import load_operators
from mluops_gtest.core.operator_parts import C_API
from tests.support.source_trees import ROOT, modules, sources_of_tests

PARTICIPLES = {
    "told", "kept", "made", "asked", "found", "given", "taken", "wanted", "held", "shown", "named", "drawn",
}  # fmt: skip
PICTURES = {
    "hunt", "hunts", "hunted", "lane", "lanes", "house", "room", "rooms", "second_look", "worn", "turn", "turns",
    "misfit", "misfits", "in_the_call", "around_the_call",
}  # fmt: skip
CLAUSE = {"is", "are", "was", "were", "be", "been", "has", "as", "when", "while", "if", "where", "not"}
# The name with its class, and why it stays.
PUBLIC = {
    "TableEnum.named": "reachable from mluops_gtest and mluops_gtest.authoring by DType, Layout and Outcome",
    "Stream.lanes": "reachable from mluops_gtest.authoring: the 32-bit lanes of a counter-based generator",
    "Drawn": "mluops_gtest.authoring.space, which generators import",
    "first_length_kept": "mluops_gtest.authoring.mistakes, and the name of a mutant",
    "first_param_kept": "mluops_gtest.authoring.mistakes, and the name of a mutant",
}


def words_of(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def offending_word(name: str) -> str | None:
    """The picture or the participle that a name must not have."""
    words = words_of(name)
    phrase = f"_{'_'.join(words)}_"
    for picture in sorted(PICTURES):
        if f"_{picture}_" in phrase:
            return picture
    if words and words[0] in PARTICIPLES:
        return words[0]
    if len(words) > 1 and words[-1] in PARTICIPLES and words[-2] not in CLAUSE:
        return words[-1]
    return None


def definitions(tree: ast.AST, inside: str = "") -> Iterator[tuple[int, str, str]]:
    """Line, qualified name and name of every function and class but for test functions and test classes."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from definitions(node, inside)
            continue
        if not node.name.startswith(("test_", "Test")):
            yield node.lineno, f"{inside}{node.name}", node.name
        yield from definitions(node, f"{inside}{node.name}." if isinstance(node, ast.ClassDef) else "")


def offences(path: Path, tree: ast.Module) -> Iterator[str]:
    """File, line, name and word of each name that breaks the rule, the module's own included."""
    name = path.parent.name if path.stem == "__init__" else path.stem.removeprefix("test_")
    for line, qualified, short in [(1, name, name), *definitions(tree)]:
        word = offending_word(short)
        if word is not None and qualified not in PUBLIC:
            yield f"{path.relative_to(ROOT).as_posix()}:{line} {qualified}: {word}"


@pytest.mark.slow
def test_no_name_is_a_bare_participle_or_a_picture() -> None:
    wrong = [line for path, tree in (modules() | sources_of_tests()).items() for line in offences(path, tree)]
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.slow
def test_every_exception_is_needed() -> None:
    known = {qualified for tree in modules().values() for _, qualified, _ in definitions(tree)}
    assert {name for name in PUBLIC if name not in known or offending_word(name.rpartition(".")[2]) is None} == set()


def test_the_rule_tells_right_from_wrong() -> None:
    assert [offending_word(name) for name in ("_told", "__made__", "HeldResult")] == ["told", "made", "held"]
    assert [offending_word(name) for name in ("kept_files", "files_kept")] == ["kept"] * 2
    pictures = {"Hunt": "hunt", "SecondLook": "second_look", "explanation_room": "room"}
    assert {name: offending_word(name) for name in pictures} == pictures
    assert offending_word("cause_in_the_call") == "in_the_call"
    right = ("is_kept", "CrashesWhileAsked", "returns_none", "keep_files", "broom", "HTMLPage", "_")
    assert [name for name in right if offending_word(name) is not None] == []


OPERATORS = load_operators(ROOT)
PACKAGE = ROOT / "mluops_gtest"
# What `new` writes for a user to start from is an example from end to end.
EXAMPLES = PACKAGE / "cli" / "templates"


def names() -> set[str]:
    """Names, released names, C functions with those of their descriptors, and mluOp<Operator>.

    An operator that is called by a word of the language, as abs, is looked for by its C function.
    """
    found = {name for operator in OPERATORS.values() for name in operator.names if "_" in name}
    for operator in OPERATORS:
        found.update(symbol for signature in OPERATORS.part(operator, C_API) or () for symbol in signature.symbols)
        found.add("mluOp" + operator.title().replace("_", ""))
    return found


NAMES = re.compile("|".join(sorted(names(), key=len, reverse=True)), re.IGNORECASE)


def shows_a_command(path: Path, line: str) -> bool:
    """A help text of the command line or of the pytest plugin that shows how a command or an option is typed."""
    of_a_door = PACKAGE / "cli" in path.parents or path in (
        PACKAGE / "pytest_plugin.py",
        PACKAGE / "running" / "options.py",
    )
    return of_a_door and any(word in line for word in ("mluops-test ", "e.g. --", "@pytest.mark."))


def places_of_names(path: Path) -> Iterator[str]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if NAMES.search(line) and not shows_a_command(path, line):
            yield f"{path.relative_to(ROOT)}:{number}: {line.strip()}"


@pytest.mark.slow
def test_the_package_names_no_operator() -> None:
    files = [
        p
        for p in PACKAGE.rglob("*")
        if p.is_file() and "__pycache__" not in p.parts and EXAMPLES not in p.parents and p != LIBRARY
    ]
    assert len(files) > 150
    assert [place for path in files for place in places_of_names(path)] == []


@pytest.mark.parametrize(
    ("file", "line", "found"),
    [
        ("backends/c_memory.py", '"mluOpGetIndicePairs": (),', True),
        ("backends/c_memory.py", "mluOpCreateSparseConvolutionDescriptor", True),
        ("reports/page.py", "# as in masked_im2col_forward", True),
        ("reports/page.py", "mluops-test run masked_im2col_forward", True),
        ("cli/commands/run.py", 'if operator == "dynamic_point_to_voxel_backward":', True),
        ("cli/commands/run.py", "  mluops-test run masked_im2col_forward -x", False),
        ("cli/options.py", 'help="Only this operator, e.g. --op get_indice_pairs."', False),
        ("backends/c_memory.py", '"mluOpCreateTensorDescriptor": (),', False),
    ],
)
def test_the_rule_for_operators_tells_right_from_wrong(file: str, line: str, found: bool) -> None:
    assert bool(NAMES.search(line) and not shows_a_command(PACKAGE / file, line)) is found
