"""Numbers of things in English."""


def counted(number: int, noun: str) -> str:
    """`1 case`, `2 cases`."""
    return f"{number} {noun}{'s' * (number != 1)}"
