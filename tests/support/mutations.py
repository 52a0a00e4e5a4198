"""Files that are almost right: bytes flipped, values replaced by others, keys dropped."""

import copy
import json

from hypothesis import strategies as st

# One of every kind that JSON has, and what tends to be forgotten.
VALUES = (
    None,
    True,
    False,
    0,
    -1,
    2**63,
    10**30,
    0.5,
    -0.0,
    1e308,
    -1e-300,
    "",
    "nan",
    "-inf",
    "passed",
    "1/999999999999",
    "a\0b",
    "\u202e\x1b]0;x\x07",
    "x" * 300,
    [],
    [[]],
    [None],
    ["a", 1],
    [-1, 2.5],
    {},
    {"": {}},
    {"a": [[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]},
)


@st.composite
def flipped(draw, data: bytes, pieces=(b'"', b"{", b"[" * 50, b",", b"\xff", b"0" * 30, b"\n")) -> bytes:
    """The bytes with a few of them changed, removed, doubled or cut off, and such pieces among them."""
    broken = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(0, len(broken) - 1)))
        match draw(st.sampled_from(["bit", "byte", "remove", "insert", "double", "cut"])):
            case "bit" if broken:
                broken[place] ^= 1 << draw(st.integers(0, 7))
            case "byte" if broken:
                broken[place] = draw(st.integers(0, 255))
            case "remove":
                del broken[place : place + draw(st.integers(1, 20))]
            case "insert":
                broken[place:place] = draw(st.sampled_from(pieces))
            case "double":
                broken[place:place] = broken[place : place + draw(st.integers(1, 60))]
            case "cut":
                del broken[len(broken) - draw(st.integers(0, 20)) :]
    return bytes(broken)


@st.composite
def replaced(draw, document):
    """The JSON document with one to three values replaced, dropped or doubled."""
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(changed))
        if not places:
            break
        parent, key = draw(st.sampled_from(places))
        match draw(st.sampled_from(["replace", "replace", "drop", "double"])):
            case "replace":
                parent[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
            case "drop":
                del parent[key]
            case "double" if isinstance(parent, list):
                parent.append(copy.deepcopy(parent[key]))
            case "double":
                parent[f"{key}_"] = copy.deepcopy(parent[key])
    return changed


def _places(value):
    """Every (container, key) below the value."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield value, key
            yield from _places(item)


def broken_json(text: str):
    """JSON text with either kind of damage, as bytes."""
    whole = replaced(json.loads(text)).map(lambda document: json.dumps(document).encode())
    return st.one_of(flipped(text.encode()), whole)


def result_or_message(action, *refusals):
    """What the action returns, and how it was refused: one of both, for any other exception is a bug."""
    try:
        return action(), ""
    except refusals as error:
        return None, str(error)
