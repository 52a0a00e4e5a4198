"""Safe YAML loading that remembers the line of every mapping and key, for messages."""

from pathlib import Path
from typing import Any

import yaml

from mluops_gtest.errors import DeclarationError

# libyaml where PyYAML was built with it: ten times faster on long files.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Lines(dict[str, Any]):
    """A mapping that knows the line it starts on and the line of each key."""

    line: int
    key_lines: dict[str, int]

    def line_of(self, key: str) -> int:
        """The line of that key, else of the mapping."""
        return self.key_lines.get(key, self.line)


class _Loader(_Base):  # type: ignore[misc]
    pass


def _mapping(loader: Any, node: yaml.MappingNode) -> Lines:
    seen: set[str] = set()
    for key_node, _ in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise yaml.constructor.ConstructorError(None, None, "a key must be a word", key_node.start_mark)
        if key_node.value in seen and key_node.tag != "tag:yaml.org,2002:merge":
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key_node.value!r} stands twice", key_node.start_mark
            )
        seen.add(key_node.value)
    loader.flatten_mapping(node)
    # Keys are the words as written: our own key `null` would otherwise be read as nothing.
    result = Lines({str(key.value): loader.construct_object(value, deep=True) for key, value in node.value})
    result.line = node.start_mark.line + 1
    result.key_lines = {str(key.value): key.start_mark.line + 1 for key, _ in node.value}
    return result


def _day(loader: Any, node: yaml.ScalarNode) -> Any:
    try:
        return loader.construct_yaml_timestamp(node)
    except ValueError as error:
        raise yaml.constructor.ConstructorError(
            None, None, f"{node.value} is no day: {error}", node.start_mark
        ) from error


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _day)


def load_yaml(path: Path) -> Any:
    """The document in `path`; a syntax error names file, line and column."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise DeclarationError(f"{where}: not valid YAML: {error.problem}.") from error
    except (yaml.YAMLError, ValueError) as error:  # an integer of ten thousand digits is a ValueError
        raise DeclarationError(f"{path}: not valid YAML: {error}.") from error
