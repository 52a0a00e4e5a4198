"""Which shared files count as an operator's own."""

from mluops_gtest.catalog.operators import imported_files


def test_imported_files_are_those_that_an_operator_reaches(tmp_path):
    shared = tmp_path / "_shared"
    (shared / "folder").mkdir(parents=True)
    (tmp_path / "mine.py").write_text("from ._shared.near import (\n    one,\n    two,\n)\n")
    (shared / "near.py").write_text("def f():\n    from . import far\n    from .folder import inner\n")
    for name in ("far.py", "other.py", "folder/inner.py", "folder/__init__.py"):
        (shared / name).write_text("# from .other import x\n")
    found = imported_files(tmp_path, "mine")
    assert {str(one.relative_to(tmp_path)) for one in found} == {
        *("mine.py", "_shared/near.py", "_shared/far.py", "_shared/folder/inner.py", "_shared/folder/__init__.py")
    }
