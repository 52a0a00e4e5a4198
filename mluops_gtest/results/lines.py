"""Results read straight from their lines into their types; what these do not take as it stands goes the long way."""

from operator import attrgetter
from typing import Any, Final, Literal

import msgspec
from msgspec import field
from msgspec.structs import fields

from mluops_gtest.errors import ContentError
from mluops_gtest.files.typed import Source, decode_json
from mluops_gtest.model.result import CaseResult, ElementReading
from mluops_gtest.model.status import Status
from mluops_gtest.results.checks import check_result
from mluops_gtest.results.records import result_from_json


def _twin(kind: type[Any], **other: tuple[Any, Any]) -> Any:
    """The same open to changes; other fields with type and default."""
    known = [(one.name, one.type, field(default=one.default)) for one in fields(kind) if one.name not in other]
    further = [(name, *rest) for name, rest in other.items()]
    return msgspec.defstruct(f"Written{kind.__name__}", [*known, *further], kw_only=True, gc=False)


# As lines have it: statuses go by name, a reason stands beside its causes, and an infinite ratio is a word.
_WrittenElement: Final = _twin(ElementReading, ratio=(float | Literal["inf"], field()))
_Written: Final = _twin(
    CaseResult,
    elements=(tuple[_WrittenElement, ...], ()),  # type: ignore[valid-type]
    status=(str | None, None),
    expected_status=(str | None, None),
    reason=(str, ""),
)
_DECODER: Final = msgspec.json.Decoder(_Written)
_OF_ELEMENT: Final = attrgetter(*ElementReading.__struct_fields__)
_OF_RESULT: Final = attrgetter(*CaseResult.__struct_fields__)
_STATUSES: Final[dict[str | None, Status | None]] = {None: None, **{status.name: status for status in Status}}
# A word for what JSON has no number for, a cause of a later version, or a mistake, which is told on the long way.
_NOT_AS_IT_STANDS: Final = (msgspec.MsgspecError, KeyError, ValueError, RecursionError, ContentError)


class ResultReader:
    """Reads results one after the other."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def read(self, line: bytes) -> CaseResult:
        """The result that the line holds; ContentError names the place of what is none, and the case."""
        try:
            result = _typed(line)
            check_result(result, self._source)
        except _NOT_AS_IT_STANDS:
            return self._the_long_way(line)
        return result

    def read_again(self, line: bytes) -> CaseResult:
        """The result in a line that is known to hold one."""
        try:
            return _typed(line)
        except _NOT_AS_IT_STANDS:
            return self._the_long_way(line)

    def _the_long_way(self, line: bytes) -> CaseResult:
        return result_from_json(decode_json(line, self._source), self._source)


def _typed(line: bytes) -> CaseResult:
    written = _DECODER.decode(line)
    if written.attempts or (written.reason and not written.causes):
        raise KeyError("causes in words")
    written.status = _STATUSES[written.status]
    written.expected_status = _STATUSES[written.expected_status]
    if written.elements:
        written.elements = tuple(map(_element, written.elements))
    return CaseResult(*_OF_RESULT(written))


def _element(written: Any) -> ElementReading:
    written.ratio = float(written.ratio)
    return ElementReading(*_OF_ELEMENT(written))
