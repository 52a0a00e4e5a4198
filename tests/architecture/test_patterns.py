"""Regular expressions: none that an older Python computes wrongly, and none that a long text can make slow.

CPython before 3.11.5 gets possessive quantifiers and atomic groups wrong, without an error.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path
from re import _parser as parser

import pytest

from tests.support.source_trees import generators, modules

ROOT = Path(__file__).parents[2]
WRONG_BEFORE_3_11_5 = {"POSSESSIVE_REPEAT", "ATOMIC_GROUP"}

# Every pattern that is compiled when all modules are imported, as (module, repr of the pattern).
COMPILED = """
import importlib, pkgutil, re, sys
import mluops_gtest
true_compile = re.compile
def compile(pattern, flags=0):
    module = sys._getframe(1).f_globals["__name__"]
    if module.startswith("mluops_gtest") and not isinstance(pattern, re.Pattern):
        print(module, repr(pattern), sep="\\t")
    return true_compile(pattern, flags)
re.compile = compile
for module in pkgutil.walk_packages(mluops_gtest.__path__, "mluops_gtest."):
    if not module.name.endswith("__main__") and "._content" not in module.name:
        importlib.import_module(module.name)
"""


def nodes(tree):
    """Every (operation, argument) of a parsed pattern."""
    for operation, argument in tree:
        yield operation, argument
        for part in argument if isinstance(argument, (tuple, list)) else (argument,):
            if isinstance(part, parser.SubPattern):
                yield from nodes(part)
            elif isinstance(part, list) and part and isinstance(part[0], parser.SubPattern):
                for branch in part:
                    yield from nodes(branch)


def operations(pattern: str | bytes) -> set[str]:
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    return {str(operation) for operation, _ in nodes(parser.parse(text))}


@pytest.fixture(scope="module")
def compiled() -> list[tuple[str, str | bytes]]:
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    return [(module, ast.literal_eval(pattern)) for module, pattern in lines]


def test_the_check_sees_them_at_any_depth():
    wrong = (r"a*+", r"(?:a|b){0,3}+", r"x(?:y|(?P<n>z?+))", r"(?>a)", rb"(?=a(?!b++))")
    right = (r"a*\++[*+]", r"(?:a|b)+")
    assert [one for one in (*wrong, *right) if operations(one) & WRONG_BEFORE_3_11_5] == [*wrong]


@pytest.mark.slow
def test_no_compiled_pattern_has_them(compiled):
    assert len({module for module, _ in compiled}) > 5
    assert not [entry for entry in compiled if operations(entry[1]) & WRONG_BEFORE_3_11_5]


@pytest.mark.slow
def test_no_literal_of_a_module_with_patterns_has_them():
    found = []
    for path, tree in (modules() | generators()).items():
        imports = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        if "re" not in imports:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                try:
                    wrong = operations(node.value) & WRONG_BEFORE_3_11_5
                except (re.error, FutureWarning):  # prose, or part of a pattern
                    continue
                found += [(str(path.relative_to(ROOT)), node.lineno, node.value)] * bool(wrong)
    assert not found


@pytest.mark.slow
def test_no_pattern_of_the_text_reader_remembers_without_limit(compiled):
    """A group that is repeated without limit costs some 100 bytes of memory for each time."""
    patterns = [pattern for module, pattern in compiled if module.startswith("mluops_gtest.casefiles.text_")]
    # The tokens of plain text are looked for in 16 KiB at most.
    patterns = [pattern for pattern in patterns if not (isinstance(pattern, bytes) and b"(value_[a-z]+)" in pattern)]
    assert len(patterns) > 10
    for pattern in patterns:
        text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
        for operation, argument in nodes(parser.parse(text)):
            if str(operation) in ("MAX_REPEAT", "MIN_REPEAT") and argument[1] is parser.MAXREPEAT:
                assert len(argument[2]) == 1, pattern
                assert str(argument[2][0][0]) in ("IN", "LITERAL", "NOT_LITERAL", "ANY", "CATEGORY"), pattern
