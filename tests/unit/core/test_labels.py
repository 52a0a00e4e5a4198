"""Labels of several parts of one run, and labels in words."""

import pytest

from mluops_gtest.base.text import commit_words, label_words, merged_labels

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "f" * 40


def test_what_all_parts_agree_on_stays():
    assert merged_labels([{"a": "1", "b": "x"}, {"a": "1", "b": "x"}]) == {"a": "1", "b": "x"}


def test_what_differs_is_told_once_each_also_where_one_part_has_nothing():
    merged = merged_labels([{"a": "1", "b": "x"}, {"a": "2"}, {"a": "1"}])
    assert merged == {"a": "differs: 1 | 2", "b": "differs: x | –"}


def test_merging_again_does_not_nest():
    once = merged_labels([{"a": "1"}, {"a": "2"}])
    assert merged_labels([once, {"a": "3"}, once]) == {"a": "differs: 1 | 2 | 3"}


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({}, ""),
        ({"git.commit": COMMIT, "git.state": "clean"}, "0123456789"),
        ({"git.commit": COMMIT}, "0123456789"),
        ({"git.commit": COMMIT, "git.state": "changed"}, "0123456789+"),
        ({"git.commit": f"differs: {COMMIT} | {OTHER}", "git.state": "clean"}, "differs: 0123456789 | ffffffffff"),
        ({"git.state": "changed"}, ""),
    ],
)
def test_the_commit_in_short(labels, words):
    assert commit_words(labels) == words


def test_the_other_labels_in_one_line():
    labels = {"git.commit": COMMIT, "git.state": "clean", "git.branch": "main", "device": "x"}
    assert label_words(labels) == "git.branch=main, device=x"
