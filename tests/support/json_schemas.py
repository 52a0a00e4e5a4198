"""The schemas in docs/reference/schemas: made from the shapes of documents, and a small judge of documents.

`python -m tests.support.json_schemas` writes them anew.
"""

import inspect
import json
import re
from pathlib import Path

import msgspec

from mluops_gtest import documents
from mluops_gtest.results.gate_findings import GATE
from mluops_gtest.results.records import ResultLine
from mluops_gtest.results.run_comparison import COMPARISON
from mluops_gtest.results.shapes import ResultRecord, Text

FOLDER = Path(__file__).parents[2] / "docs" / "reference" / "schemas"
COMMON = "common"
_NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}]}
_RESULT = "CaseResult"


def shapes():
    """Every document by its kind."""
    own = [one for one in vars(documents).values() if isinstance(one, type) and one.__name__.endswith("Document")]
    return {one.__struct_config__.tag: one for one in (*own, GATE, COMPARISON)}


def schemas_of_shapes():
    """Name of the file → schema; what documents share is in one of its own."""

    def foreign(kind):
        return {"type": "string"} if kind is Text else {"$ref": f"{COMMON}.json#/$defs/{_RESULT}"}

    assert issubclass(ResultRecord, dict)
    kinds = shapes()
    _, parts = msgspec.json.schema_components(
        [*kinds.values(), ResultLine], ref_template=f"{COMMON}.json#/$defs/{{name}}", schema_hook=foreign
    )
    parts = json.loads(json.dumps(parts).replace(ResultLine.__name__, _RESULT))
    # From Python 3.13 on docstrings come without their indentation.
    words = {
        name: {"description": inspect.cleandoc(part["description"])}
        for name, part in parts.items()
        if "description" in part
    }
    parts = {name: with_word_numbers(part) | words.get(name, {}) for name, part in parts.items()}
    whole = {kind: parts.pop(shape.__name__) for kind, shape in kinds.items()}
    error = {"kind": {"enum": ["error"]}, "format": {"enum": [1]}, "error": {"type": "string"}}
    error["exit_code"] = {"$ref": f"{COMMON}.json#/$defs/ExitCode"}
    whole["error"] = {"title": "ErrorDocument", "type": "object", "properties": error, "required": [*error]}
    heads = {kind: {"$schema": "https://json-schema.org/draft/2020-12/schema"} | one for kind, one in whole.items()}
    return heads | {COMMON: {"$schema": heads["run"]["$schema"], "$defs": dict(sorted(parts.items()))}}


def with_word_numbers(schema):
    """What JSON has no number for is a word, wherever a number may stand."""
    if schema == {"type": "number"}:
        return _NUMBER
    if isinstance(schema, list):
        return [with_word_numbers(one) for one in schema]
    return {key: with_word_numbers(one) for key, one in schema.items()} if isinstance(schema, dict) else schema


def written_schemas():
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.json"))}


_TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
# Words that hold whatever the document has.
_REMARKS = {"title", "description", "default", "format", "$schema", "$defs", "discriminator"}


def problems(document, schema, schemas, at="$"):  # noqa: C901 - a branch per word of schemas
    """Yields what the schema does not allow; also keys that it does not name, which readers would not know."""
    for word, rule in schema.items():
        match word:
            case "$ref":
                file, _, name = rule.partition(".json#/$defs/")
                yield from problems(document, schemas[file]["$defs"][name], schemas, at)
            case "type":
                if not isinstance(document, _TYPES[rule]) or (isinstance(document, bool) and rule != "boolean"):
                    yield f"{at}: {document!r} is no {rule}"
                    return
            case "enum":
                if document not in rule:
                    yield f"{at}: {document!r} is none of {rule}"
            case "anyOf":
                found = [list(problems(document, one, schemas, at)) for one in rule]
                if all(found):
                    yield min(found, key=len)[0]
            case "properties":
                yield from (f"{at}: {key} is not described" for key in document.keys() - rule.keys())
                for key in document.keys() & rule.keys():
                    yield from problems(document[key], rule[key], schemas, f"{at}.{key}")
            case "required":
                yield from (f"{at}: {key} is missing" for key in rule if key not in document)
            case "additionalProperties":
                for key, value in document.items():
                    yield from problems(value, rule, schemas, f"{at}.{key}")
            case "items":
                for place, value in enumerate(document if rule is not False else ()):
                    yield from problems(value, rule, schemas, f"{at}[{place}]")
            case "prefixItems":
                for place, (value, one) in enumerate(zip(document, rule, strict=True)):
                    yield from problems(value, one, schemas, f"{at}[{place}]")
            case "minItems":
                yield from [f"{at}: too short"] * (len(document) < rule)
            case "maxItems":
                yield from [f"{at}: too long"] * (len(document) > rule)
            case "minimum":
                yield from [f"{at}: below {rule}"] * (document < rule)
            case "maximum":
                yield from [f"{at}: above {rule}"] * (document > rule)
            case "pattern":
                yield from [f"{at}: {document!r} is not like {rule}"] * (not re.search(rule, document))
            case _:
                assert word in _REMARKS, f"nobody knows the word {word} of a schema"


def refuse_wrong(document):
    """Assert that the document is as the schema of its kind says; returns it."""
    schemas = written_schemas()
    assert list(problems(document, schemas[document["kind"]], schemas)) == []
    return document


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, schema in schemas_of_shapes().items():
        (FOLDER / f"{name}.json").write_text(json.dumps(schema, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
