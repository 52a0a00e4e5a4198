"""Where a function of an operator is written."""

import functools

import pytest

from mluops_gtest.core.operator import source_of


def plain(): ...


class Method:
    def run(self): ...

    def __call__(self): ...


@functools.wraps(plain)
def wrapper(): ...


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (plain, 10),
        (functools.partial(functools.partial(plain, 1), 2), 10),
        (wrapper, 10),
        (Method().run, 14),
        (Method.run, 14),
        (Method(), 16),
    ],
)
def test_file_and_line_are_told(function, line):
    assert source_of(function) == f"{__file__}:{line}"


@pytest.mark.parametrize("function", [len, 7])
def test_what_has_no_source_is_told_as_it_is(function):
    assert source_of(function) == repr(function)
