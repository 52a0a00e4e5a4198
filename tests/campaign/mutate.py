"""Wrong files from right ones: bytes, words and structures changed as accidents and malice do."""

import copy
import json
import random
from typing import Any

PIECES = (
    *b"{ } [ ] < > \" ' \\ # : , ; - 1e400 -1e-400 nan inf 0x 08 -0 1. .5 1e true null ~".split(),
    *b"&a *a !!python/object:os.system !!binary --- ... %TAG".split(),
    *(
        b"\n",
        b"\r",
        b"\t",
        b"\x00",
        b"\x1b[31m",
        b"\xff",
        b"\xc3\x28",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xae",
    ),
    *(b"9" * 25, b"9" * 5000, b"0x" + b"f" * 40, b"<<: *a", b"? ", b"- ", b"\xff" * 8 + b"\x7f", b"\xff" * 10),
    *(b"\x80" * 12, b"{" * 200, b"[" * 200, b"[" * 20000, b'{"a":' * 5000, b"value_f: 1e39 ", b"dims: -1 "),
    *(b"dims: 4611686018427387904 ", b"dtype: 99 ", b"layout: 99 ", b'path: "/etc/passwd" ', b'path: "../../x" '),
    *(b"random_data { seed: 1 } ", b"dim_stride: 0 ", b"unknown { a: 1 } "),
)


def mutated_bytes(data: bytes, other: bytes, draw: random.Random) -> bytes:
    """One to five changes anywhere."""
    for _ in range(draw.randint(1, 5)):
        data = _changed(data, other, draw)
    return data


def _changed(data: bytes, other: bytes, draw: random.Random) -> bytes:
    at = draw.randint(0, len(data))
    length = draw.choice((1, 1, 2, 4, 8, 40, 400))
    match draw.randrange(10):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[at + length :]
        case 2:
            return data[:at] + data[at : at + length] * draw.choice((2, 3, 50)) + data[at + length :]
        case 3 | 4:
            return data[:at] + draw.choice(PIECES) + data[at:]
        case 5:
            return data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
        case 6 if at < len(data):
            return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
        case 7:
            start = draw.randint(0, len(other))
            return data[:at] + other[start : start + length] + data[at:]
        case 8:
            return data[:at] + draw.randbytes(length) + data[at + length :]
        case _:
            end = draw.randint(0, len(data))
            low, high = min(at, end), max(at, end)
            return data[:low] + data[high:] + data[low:high]


# What stands where something else is expected.
ODD_VALUES = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400),
    *(0.5, -0.0, 1e308, 5e-324, float("nan"), float("inf"), float("-inf")),
    *("", " ", "x", "nan", "passed", "xpassed", "\ud800", "\x00", "\x1b[2J", "\u202e", "a" * 100_000),
    *("../../etc/passwd", "/dev/full", "2026-02-30", "99999999999999999999-01-01"),
    *([], [None], [[]], [0] * 10_000, {}, {"": None}, {"format": 99}, ["passed", False]),
    {str(i): i for i in range(2000)},
)


def odd_value(draw: random.Random) -> Any:
    """One of them, for the tree that it stands in alone."""
    return copy.deepcopy(draw.choice(ODD_VALUES))


def mutated_tree(tree: Any, draw: random.Random) -> Any:
    """A copy in which one to three places hold something else, are gone, or are there twice."""
    tree = json.loads(json.dumps(tree))
    for _ in range(draw.randint(1, 3)):
        places = list(_places(tree))
        if not places:
            return odd_value(draw)
        container, key = draw.choice(places)
        match draw.randrange(6):
            case 0 if isinstance(container, (dict, list)):
                del container[key]
            case 1 if isinstance(container, list):
                container.append(container[key])
            case 2 if isinstance(container, dict):
                container[draw.choice(("", "odd", "case", "format", "\ud800"))] = container[key]
            case 3 if isinstance(container[key], str):
                container[key] = container[key][: draw.randint(0, 8)] + draw.choice(("", "\x00", "*", "é", "\ud800"))
            case 4 if isinstance(container[key], int):
                container[key] = container[key] * draw.choice((-1, 10**20, 10**300))
            case _:
                container[key] = odd_value(draw)
    return tree


def _places(tree: Any) -> Any:
    """Every place in the tree, as its container and the key there."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield tree, key
            yield from _places(value)
    elif isinstance(tree, list):
        for i, value in enumerate(tree):
            yield tree, i
            yield from _places(value)
