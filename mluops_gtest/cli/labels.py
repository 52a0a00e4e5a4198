"""The labels that the user types."""

from collections.abc import Sequence

from mluops_gtest.errors import UsageError, shown
from mluops_gtest.model.labels import GIVEN_NAME, MAX_LETTERS
from mluops_gtest.model.plain_text import plain_line


def given_labels(words: Sequence[str]) -> dict[str, str]:
    """The labels in `--label NAME=VALUE`, checked."""
    labels: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not GIVEN_NAME.fullmatch(name):
            raise UsageError(
                f"--label {shown(word)}: write NAME=VALUE, e.g. --label device=mlu370; a name begins with a letter and "
                "has at most 64 letters, digits, - and _."
            )
        if not value.strip() or len(value) > MAX_LETTERS or plain_line(value) != value:
            raise UsageError(f"--label {shown(word)}: the value must be one line of 1 to {MAX_LETTERS} characters.")
        if name in labels:
            raise UsageError(f"--label {name} is given twice, as {labels[name]!r} and as {value!r}; give it once.")
        labels[name] = value
    return labels
