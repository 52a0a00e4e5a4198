"""Sets of elements as programmers write them, in any language: data_col[:, 64:]."""

from collections.abc import Iterable, Iterator, Mapping

from mluops_gtest.model.readings import AxisReading, WhereReading


def flat_words(words: Mapping[str, str], output: str, reading: WhereReading) -> str:
    """Elements in their order in memory, by the pattern of their kind."""
    (axis,) = reading.axes
    pattern = words.get(axis.kind, words["between"])
    return pattern.format(*axis.numbers, output=output, last=axis.numbers[-1] - 1)


def merged_axes(spans: Iterable[int]) -> Iterator[tuple[int, int]]:
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
