"""What the layout promises: who may import whom, one place for a fact, a start without heavy imports, a size."""

import ast
import io
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.source_trees import generators, modules

ROOT = Path(__file__).parents[2]
MAX_LINES = 500
# A page holds all of an operator but its recipes and wrong implementations.
MAX_LINES_OF_PAGE = 600
# What --help, --version and a bare import must not pay for.
HEAVY = ("numpy", "rich", "yaml", "google.protobuf", "zstandard", "msgspec")


def place(path: Path, line: int = 1) -> str:
    return f"{path.relative_to(ROOT).as_posix()}:{line}"


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of every import anywhere in a file; relative ones keep their dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")


def wrong_imports(trees: dict[Path, ast.Module], is_wrong: Callable[[str, int, ast.Module], bool]) -> list[str]:
    """Place and module of each import for which the rule, asked with the module, the line and the file, says so."""
    return [
        f"{place(path, line)} imports {module}"
        for path, tree in trees.items()
        for line, module in imports(tree)
        if is_wrong(module, line, tree)
    ]


def heavy_modules_after(code: str) -> list[str]:
    """Which of the heavy packages a fresh interpreter holds after running the code."""
    report = f"import sys; print(*(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr.split()


@pytest.mark.slow
def test_there_is_something_to_look_at() -> None:
    assert ROOT / "mluops_gtest" / "judging" / "criteria.py" in modules()
    assert ROOT / "generators" / "masked_im2col_forward" / "__init__.py" in generators()


def may_be_in_a_generator(module: str) -> bool:
    """numpy, the standard library, authoring, a file of its own folder or of `_shared`; torch for its kernel."""
    if module.startswith("."):
        # Anything else above would be another operator.
        return not module.startswith("..") or f"{module}.".startswith(".._shared.")
    top = module.partition(".")[0]
    if top == "mluops_gtest":
        return f"{module}.".startswith("mluops_gtest.authoring.")
    return top in ("numpy", "torch") or top in sys.stdlib_module_names


@pytest.mark.slow
def test_generators_import_authoring_alone() -> None:
    assert wrong_imports(generators(), lambda module, *_: not may_be_in_a_generator(module)) == []


@pytest.mark.slow
def test_nobody_imports_mutants_and_torch_only_where_it_computes() -> None:
    """Wrong implementations are loaded by name; a run without torch never comes near it."""

    def is_wrong(module: str, line: int, tree: ast.Module) -> bool:
        is_at_top = any(node.lineno == line for node in tree.body)
        return module == ".mutants" or (module.partition(".")[0] == "torch" and is_at_top)

    assert wrong_imports(modules() | generators(), is_wrong) == []


def test_the_rule_for_generators_tells_right_from_wrong() -> None:
    authoring, shared = "mluops_gtest.authoring", ".._shared"
    right = (authoring, f"{authoring}.checks", ".recipes", "torch.nn", shared, f"{shared}.clouds", "numpy.lib")
    wrong = (f"{authoring}_secrets", "mluops_gtest.core.tensor", "mluops_gtest", f"{shared}_secrets", f".{shared}")
    others = ("..get_indice_pairs", "generators.get_indice_pairs", "scipy")
    assert [module for module in (*right, *wrong, *others) if may_be_in_a_generator(module)] == [*right]


@pytest.mark.slow
def test_the_engine_imports_no_generator() -> None:
    assert wrong_imports(modules(), lambda module, *_: module.partition(".")[0] == "generators") == []


# What goes by one door, and the modules that are the door. A call folder is temporary, and a worker prints to its pipe.
WRITERS = {
    "write_text": {"casefiles/writer.py"},
    "write_bytes": set(),
    "tofile": {"casefiles/writer.py"},
    "echo": {"cli/echo.py"},
    "print_exc": set(),
}


def calls_of(tree: ast.Module, names: set[str]) -> Iterator[tuple[int, str]]:
    """Line and name of every call `something.name(…)` of one of the names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names:
            yield node.lineno, node.func.attr


@pytest.mark.slow
def test_files_and_terminals_are_written_by_one_door() -> None:
    """base/files.py (whole or not at all), cli/echo.py and reports/markup.py (text from outside stays text)."""
    wrong = [
        f"{place(path, line)} calls {name}"
        for path, tree in modules().items()
        for line, name in calls_of(tree, set(WRITERS))
        if path.relative_to(ROOT / "mluops_gtest").as_posix() not in WRITERS[name]
    ]
    assert wrong == []
    assert wrong_imports(modules(), lambda module, *_: module == "rich.markup") == []


def lone_calls(tree: ast.Module) -> list[int]:
    """Lines of top-level expressions that can only stand there for an effect outside the module.

    Completing a private class of the module's own (`_Loader.add_constructor(…)`) has none.
    """
    own = {node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name.startswith("_")}
    expressions = [
        node for node in tree.body if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    ]
    return [node.lineno for node in expressions if ast.unparse(node).partition(".")[0] not in own]


@pytest.mark.slow
def test_importing_a_module_registers_nothing() -> None:
    scripts = {ROOT / "mluops_gtest" / "__main__.py"}
    wrong = [
        place(path, line)
        for path, tree in (modules() | generators()).items()
        if path not in scripts
        for line in lone_calls(tree)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("code", "lines"),
    [("register(X)", [1]), ("'''doc'''", []), ("class _A: ...\n_A.add(1)", []), ("class A: ...\nA.add(1)", [2])],
)
def test_the_rule_for_registration_tells_right_from_wrong(code: str, lines: list[int]) -> None:
    assert lone_calls(ast.parse(code)) == lines


@pytest.mark.slow
def test_no_module_reads_the_environment_when_imported() -> None:
    lazy = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    wrong = [
        place(path, node.lineno)
        for path, tree in modules().items()
        for node in tree.body
        if not isinstance(node, lazy)
        for child in ast.walk(node)
        if isinstance(child, ast.Attribute) and child.attr in ("environ", "getenv")
    ]
    assert wrong == []


@pytest.mark.slow
def test_every_module_begins_with_its_promise() -> None:
    assert [place(path) for path, tree in (modules() | generators()).items() if not ast.get_docstring(tree)] == []


@pytest.mark.slow
def test_no_module_is_long() -> None:
    most = {**dict.fromkeys(modules(), MAX_LINES), **dict.fromkeys(generators(), MAX_LINES_OF_PAGE)}
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in most}
    assert {place(path): length for path, length in lengths.items() if length > most[path]} == {}


def test_the_package_imports_nothing_heavy() -> None:
    assert heavy_modules_after("import mluops_gtest; mluops_gtest.__version__") == []


@pytest.mark.slow
def test_what_the_package_offers_is_there_when_asked_for() -> None:
    assert heavy_modules_after("from mluops_gtest import OpCall") == ["msgspec"]


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_import_nothing_heavy(option: str) -> None:
    ask = f"from mluops_gtest.cli.main import run_main\nassert run_main([{option!r}]) == 0"
    assert heavy_modules_after(ask) == []


@pytest.mark.slow
def test_nobody_reads_words() -> None:
    """Reasons are made for people: code asks for the type of a cause, not for what its words say."""

    def is_reason(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr == "reason"

    def reads(node: ast.AST) -> bool:
        if isinstance(node, ast.Compare):
            return any(map(is_reason, (node.left, *node.comparators)))
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        searched = node.func.attr in {"search", "match", "fullmatch", "sub", "findall", "finditer", "split"}
        asked = node.func.attr in {"startswith", "endswith", "find", "index", "removeprefix", "removesuffix"}
        return (searched and any(map(is_reason, node.args))) or (asked and is_reason(node.func.value))

    assert reads(ast.parse("'workspace' in result.reason", mode="eval").body)
    assert reads(ast.parse("_SIGNAL.search(result.reason)", mode="eval").body)
    assert reads(ast.parse("result.reason.startswith('declined')", mode="eval").body)
    found = [place(path, node.lineno) for path, tree in modules().items() for node in ast.walk(tree) if reads(node)]
    assert found == []


# The literal, and the module that has it.
FACTS = {
    ".prototxt": "base/files.py",
    ".pb": "base/files.py",
    "baselines.lock": "casefiles/lock.py",
    "MLUOPS_TEST_CACHE": "base/files.py",
    "MLUOPS_TEST_DEVICE": "core/case.py",
    "MLUOPS_TEST_HISTORY": "results/history.py",
    "MLUOPS_TEST_KEEP_CALLS": "backends/exec_backend.py",
    "MLUOPS_TEST_NATIVE": "base/native/library.py",
    "MLUOPS_TEST_SETTINGS": "cli/main.py",
    0x5C: "core/buffers.py",
    70: "base/errors.py",
    74: "base/errors.py",
    130: "base/errors.py",
}


@pytest.mark.slow
def test_a_fact_stands_in_one_module() -> None:
    found: dict[object, list[str]] = {fact: [] for fact in FACTS}
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and type(node.value) in (str, int) and node.value in found:
                found[node.value].append(path.relative_to(ROOT / "mluops_gtest").as_posix())
    assert found == {fact: [module] for fact, module in FACTS.items()}


@pytest.mark.slow
def test_a_class_has_a_name_of_its_own() -> None:
    """One name, one meaning; causes are always written `cause.Declined` and may be called like what they tell of.

    What Python programs get may extend the class of the same name: it is one, and means the same.
    """
    places: dict[str, list[str]] = {}
    for path, tree in modules().items():
        for node in tree.body:
            if (
                not isinstance(node, ast.ClassDef)
                or node.name.startswith("_")
                or path.name in ("cause.py", "infrastructure.py")
            ):
                continue
            extends = any(isinstance(base, ast.Attribute) and base.attr == node.name for base in node.bases)
            if not (extends and path.name == "api.py"):
                places.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    assert len(places) > 200
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


# Lines that are no blank, comment, docstring or import; files; packages at the top.
MOST_CODE = 33_780
MOST_FILES = 198
PACKAGES = 12
_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(text: str, tree: ast.Module) -> int:
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            skipped.update(range(node.lineno, node.end_lineno + 1))
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            skipped.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - skipped)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('"""Doc."""\n\nimport os\n\n\ndef f():\n    """Doc."""\n    # why\n    return os.sep\n', 2),
        ("x = (\n    1,\n)\n", 3),
        ("", 0),
    ],
)
def test_what_counts(text, lines):
    assert code_lines(text, ast.parse(text)) == lines


@pytest.mark.slow
def test_the_package_does_not_grow_unnoticed():
    files = modules()
    assert len(files) <= MOST_FILES
    assert sum(code_lines(path.read_text(encoding="utf-8"), tree) for path, tree in files.items()) <= MOST_CODE
    top = min(files, key=lambda path: len(path.parts)).parent
    assert len([path for path in top.iterdir() if (path / "__init__.py").exists()]) == PACKAGES
