"""The package stays as small as it is: whoever makes it larger says in docs/decisions.md what was bought."""

import ast
import io
import tokenize

import pytest

from tests.support.source_trees import modules

# Lines that are no blank, comment, docstring or import; files; packages at the top.
MOST_CODE = 31_700
MOST_FILES = 177
PACKAGES = 12
_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(text: str) -> int:
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
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
    assert code_lines(text) == lines


@pytest.mark.slow
def test_the_package_does_not_grow_unnoticed():
    files = list(modules())
    assert len(files) <= MOST_FILES
    assert sum(code_lines(path.read_text(encoding="utf-8")) for path in files) <= MOST_CODE
    top = min(files, key=lambda path: len(path.parts)).parent
    assert len([path for path in top.iterdir() if (path / "__init__.py").exists()]) == PACKAGES
