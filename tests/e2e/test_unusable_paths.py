"""A path that no file system takes is the user's mistake, told in one sentence, wherever it stands."""

from pathlib import Path

import pytest

LONG = "a" * 300


@pytest.mark.parametrize(
    "arguments",
    [
        ("history", "show", "--db", f"{LONG}/history.sqlite"),
        ("generate", "--tag", "smoke", "--out", LONG),
        ("new", "backend", LONG),
        ("run", f"{LONG}/case.pb", "--out", "results"),
        ("run", "--tag", "smoke", "--out", LONG),
    ],
)
def test_a_name_that_is_too_long(cli, arguments):
    result = cli(*arguments)
    assert result.code in (2, 5, 74)
    (line,) = result.err.splitlines()
    assert line.startswith("error: ")
    assert list(Path().iterdir()) == []
