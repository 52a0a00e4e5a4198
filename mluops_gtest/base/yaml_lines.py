"""Safe YAML loading that remembers the line of every mapping and key, for messages, and refuses what is excessive."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from mluops_gtest.base.errors import DeclarationError, repr_short
from mluops_gtest.base.files import LARGEST_NUMBER, MAX_FILE_BYTES, MAX_NESTING, MAX_WRITTEN_OUT
from mluops_gtest.base.typed_files import plain_file_bytes

# libyaml where PyYAML was built with it: ten times faster on long files.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_MERGE, _STR, _INT = f"{_TAG}merge", f"{_TAG}str", f"{_TAG}int"
_SHORT_DECIMAL = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)


class Lines(dict[str, Any]):
    """A mapping that knows the line it starts on and the line of each key."""

    line: int
    key_lines: dict[str, int]

    def line_of(self, key: str) -> int:
        """The line of that key, else of the mapping."""
        return self.key_lines.get(key, self.line)


class _Loader(_Base):  # type: ignore[misc]
    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._tags: dict[Any, str] = {}

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        """The tag of a node without one; few scalars of a file are different."""
        if kind is not yaml.ScalarNode:
            return str(super().resolve(kind, value, implicit))
        key = value, implicit
        if key not in self._tags:
            self._tags[key] = super().resolve(kind, value, implicit)
        return self._tags[key]


def _refused(what: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, what, mark)


def _mapping(loader: Any, node: yaml.MappingNode) -> Lines:
    seen: set[str] = set()
    for key_node, _ in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise _refused("a key must be a word", key_node.start_mark)
        if key_node.value in seen and key_node.tag != _MERGE:
            raise _refused(f"the key {repr_short(key_node.value)} occurs twice", key_node.start_mark)
        seen.add(key_node.value)
    if any(key.tag == _MERGE for key, _ in node.value):
        loader.flatten_mapping(node)
    # Keys are the words as written: our own key `null` would otherwise be read as nothing.
    result = Lines({str(key.value): _value(loader, value) for key, value in node.value})
    result.line = node.start_mark.line + 1
    result.key_lines = {str(key.value): key.start_mark.line + 1 for key, _ in node.value}
    return result


def _sequence(loader: Any, node: yaml.SequenceNode) -> list[Any]:
    if not isinstance(node, yaml.SequenceNode):
        return list(loader.construct_sequence(node))  # which refuses it
    return [_value(loader, item) for item in node.value]


def _value(loader: Any, node: yaml.Node) -> Any:
    """What YAML makes of the node; most are texts and short decimal numbers, which need none of PyYAML's machinery."""
    if isinstance(node, yaml.ScalarNode):
        text = node.value
        if node.tag == _STR:
            return text
        if node.tag == _INT and _SHORT_DECIMAL.fullmatch(text):
            return int(text)
    return loader.construct_object(node, deep=True)


def _scalar(word: str, kind: str) -> Callable[[Any, yaml.ScalarNode], Any]:
    """What YAML makes of a scalar of that kind; PyYAML raises anything where a tag promises what the text is not."""

    def construct(loader: Any, node: yaml.ScalarNode) -> Any:
        try:
            value = getattr(loader, f"construct_yaml_{kind}")(node)
        except (ValueError, LookupError, AttributeError, TypeError, OverflowError) as error:
            # For a date such as 2026-02-30 the reason helps.
            reason = f": {error}" if kind == "timestamp" and isinstance(error, ValueError) else ""
            raise _refused(f"{repr_short(node.value)} is not a valid {word}{reason}", node.start_mark) from error
        if kind == "int" and abs(value) > LARGEST_NUMBER:
            raise _refused(f"{repr_short(node.value)} is beyond ±{LARGEST_NUMBER}", node.start_mark)
        return value

    return construct


_Loader.add_constructor(f"{_TAG}map", _mapping)
_Loader.add_constructor(f"{_TAG}seq", _sequence)
_Loader.add_constructor(f"{_TAG}timestamp", _scalar("date", "timestamp"))
_Loader.add_constructor(f"{_TAG}int", _scalar("integer", "int"))
_Loader.add_constructor(f"{_TAG}float", _scalar("number", "float"))
_Loader.add_constructor(f"{_TAG}bool", _scalar("truth value", "bool"))


def load_yaml(path: Path) -> Any:
    """The document in `path`; a syntax error and what is excessive name file, line and column."""
    try:
        text = plain_file_bytes(path, MAX_FILE_BYTES).decode()
        _refuse_excess(text)
        return yaml.load(text, Loader=_Loader)
    except OSError as error:
        raise DeclarationError(f"{path}: cannot be read: {error.strerror or error}.") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise DeclarationError(f"{where}: not valid YAML: {error.problem}.") from error
    except (yaml.YAMLError, ValueError) as error:
        raise DeclarationError(f"{path}: not valid YAML: {' '.join(str(error).split())}.") from error


def _refuse_excess(text: str) -> None:
    """Before anything is built: how deep the document is, and how long once its aliases are written out."""
    # Sizes of every anchor and of every open collection.
    sizes: dict[str | None, int] = {}
    anchors: list[str | None] = []
    lengths = [0]
    for event in yaml.parse(text, Loader=_Loader):
        anchor, size = None, 0
        if isinstance(event, yaml.ScalarEvent):
            anchor, size = event.anchor, 1 + len(event.value)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            anchors.append(event.anchor)
            lengths.append(1)
            if len(anchors) > MAX_NESTING:
                raise _refused(f"nested more than {MAX_NESTING} levels deep", event.start_mark)
            continue
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            anchor, size = anchors.pop(), lengths.pop()
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor in anchors:
                raise _refused(f"*{event.anchor} is used inside &{event.anchor}", event.start_mark)
            size = sizes.get(event.anchor, 0)
        lengths[-1] += size
        if anchor is not None:
            sizes[anchor] = size
        if lengths[-1] > MAX_WRITTEN_OUT:
            raise _refused(
                f"with its aliases written out the file has more than {MAX_WRITTEN_OUT} characters", event.start_mark
            )
