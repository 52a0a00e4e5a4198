"""`-k EXPR`: words joined by and, or, not and parentheses; a word matches a part of the id or a whole tag."""

import re

from mluops_gtest.errors import UsageError, shown

_TOKEN = re.compile(r"\s*(?:(?P<paren>[()])|(?P<word>[^\s()]+))")
_DEPTH_LIMIT = 50


class Keyword:
    """A parsed expression; `matches` evaluates it for one case."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [match["paren"] or match["word"] for match in _TOKEN.finditer(text)]
        self._position = 0
        self._depth = 0
        self._tree = self._either()
        if self._position != len(self._tokens):
            raise self._error(f"unexpected {shown(self._tokens[self._position])}")

    def matches(self, case_id: str, tags: tuple[str, ...]) -> bool:
        """The expression holds for this case."""
        return _holds(self._tree, case_id.lower(), tags)

    def _error(self, what: str) -> UsageError:
        return UsageError(
            f"-k {shown(self._text)}: {what}. Write words joined by and, or, not, ( and ), e.g. -k 'edge and not half'."
        )

    def _peek(self) -> str | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def _either(self) -> tuple[object, ...]:
        parts = [self._all()]
        while self._peek() == "or":
            self._position += 1
            parts.append(self._all())
        return ("or", *parts)

    def _all(self) -> tuple[object, ...]:
        parts = [self._one()]
        while self._peek() == "and":
            self._position += 1
            parts.append(self._one())
        return ("and", *parts)

    def _one(self) -> tuple[object, ...]:
        token = self._peek()
        if token is None or token in (")", "and", "or"):
            raise self._error(f"a word is missing before {token!r}" if token else "a word is missing at the end")
        self._position += 1
        self._depth += 1
        if self._depth > _DEPTH_LIMIT:
            raise self._error("nested too deeply")
        if token == "not":
            tree: tuple[object, ...] = ("not", self._one())
        elif token == "(":
            tree = self._either()
            if self._peek() != ")":
                raise self._error("a closing parenthesis is missing")
            self._position += 1
        else:
            tree = ("word", token.lower())
        self._depth -= 1
        return tree


def _holds(tree: object, case_id: str, tags: tuple[str, ...]) -> bool:
    match tree:
        case ("word", str() as word):
            return word in case_id or word in tags
        case ("not", part):
            return not _holds(part, case_id, tags)
        case ("and", *parts):
            return all(_holds(part, case_id, tags) for part in parts)
        case ("or", *parts):
            return any(_holds(part, case_id, tags) for part in parts)
    raise AssertionError(tree)
