"""Sets of elements as programmers write them, in any language: data_col[:, 64:]."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from mluops_gtest.core.readings import AxisReading, WhereReading

# Type → what is said of its values: a pattern of their fields, or a function.
Words = Mapping[type, str | Callable[[Any], str]]


def worded(words: Words, told: object) -> str:
    """What is said of this value."""
    made = words[type(told)]
    return made.format(told) if isinstance(made, str) else made(told)


def subject_words(words: Mapping[str, str], output: str, reading: WhereReading) -> str:
    """The elements that are meant, by the pattern of their kind."""
    named = sliced(output, reading.axes)
    kind = reading.value or ("outside" if reading.outside else "all" if reading.is_all else "")
    if kind:
        return words[kind].format(output=output, named=named)
    if len(reading.spans) == 1:
        # In their order in memory.
        (axis,) = reading.axes
        pattern = words.get(axis.kind, words["between"])
        return pattern.format(*axis.numbers, output=output, last=axis.numbers[-1] - 1)
    if reading.spans:
        merged = words["and"].join(words["axes"].format(*ends) for ends in _merged_axes(reading.spans))
        return words["merged"].format(named=named, merged=merged)
    narrow = [(axis, one) for axis, one in enumerate(reading.axes) if one.kind != "all"]
    if len(narrow) == 1 and narrow[0][1].kind == "behind":
        return words["behind along"].format(*narrow[0][1].numbers, output=output, axis=narrow[0][0])
    return named


def _merged_axes(spans: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of the axes that are taken as one."""
    axis = 0
    for span in spans:
        if span > 1:
            yield axis, axis + span - 1
        axis += span


def sliced(output: str, axes: Iterable[AxisReading]) -> str:
    """The output with an index or a slice per axis; trailing axes that are whole are left out."""
    marks = [_mark(axis) for axis in axes]
    while marks and marks[-1] == ":":
        marks.pop()
    return f"{output}[{', '.join(marks)}]" if marks else output


def _mark(axis: AxisReading) -> str:
    numbers = axis.numbers
    match axis.kind:
        case "from":
            return f"{numbers[0]}:"
        case "last":
            return "-1" if numbers[0] == 1 else f"-{numbers[0]}:"
        case "below":
            return f":{numbers[0]}"
        case "but last":
            return f":-{numbers[0]}"
        case "at":
            return str(numbers[0])
        case "between":
            return f"{numbers[0]}:{numbers[1]}"
        case "behind":
            return f"n // {numbers[0]} * {numbers[0]}:"
        case "every":
            return f"{numbers[1] or ''}:{numbers[3] if len(numbers) > 3 else ''}:{numbers[0]}"
        case "blocks":
            end = f" < {numbers[3]}" if len(numbers) > 3 else ""
            return f"{numbers[1]}:{numbers[1] + numbers[2]} + k * {numbers[0]}{end}"
        case "listed":
            return f"[{', '.join(map(str, numbers))}]"
    return ":"


def place(output: str, index: Iterable[int]) -> str:
    """One element."""
    return f"{output}[{', '.join(map(str, index))}]"
