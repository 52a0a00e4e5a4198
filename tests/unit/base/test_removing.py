"""Folders that others filled are removed whatever their depth, and nothing outside is touched."""

import os

import pytest

from mluops_gtest.base.files import remove_tree

# Deeper than the recursion limit, and longer than a path may be.
DEPTH = 3000


def make_nested(folder, depth):
    """Folders in each other, made from inside: no path could name the innermost."""
    before = os.getcwd()
    try:
        os.chdir(folder)
        for _ in range(depth):
            os.mkdir("d")
            os.chdir("d")
        open("last", "w").close()
    finally:
        os.chdir(before)


def test_thousands_of_nested_folders_go(tmp_path):
    folder = tmp_path / "deep"
    folder.mkdir()
    make_nested(folder, DEPTH)
    remove_tree(str(folder))
    assert not folder.exists()


def test_files_wide_folders_and_pipes_go(tmp_path):
    folder = tmp_path / "wide"
    for name in ("a/b/c", "a/d", "e"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text("x")
        os.mkfifo(folder / name / "pipe")
    remove_tree(str(folder))
    assert not folder.exists()


def test_a_link_goes_and_what_it_leads_to_stays(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    folder = tmp_path / "links" / "inner"
    folder.mkdir(parents=True)
    (folder / "to_folder").symlink_to(outside)
    (folder.parent / "to_file").symlink_to(outside / "kept")
    remove_tree(str(folder.parent))
    assert not folder.parent.exists()
    assert (outside / "kept").read_text() == "kept"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_locked_folder_goes(tmp_path):
    folder = tmp_path / "locked"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "file").write_text("x")
    (folder / "inner").chmod(0)
    remove_tree(str(folder))
    assert not folder.exists()


def test_a_folder_that_is_not_there_is_no_error(tmp_path):
    remove_tree(str(tmp_path / "nowhere"))
