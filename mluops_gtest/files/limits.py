"""How much a declaration may ask for; what exceeds a limit is refused before any work is done."""

from typing import Final

# Of one YAML file.
MAX_FILE_BYTES: Final = 4 << 20
# Lists and mappings inside each other.
MAX_NESTING: Final = 50
# Of a YAML file whose aliases are written out.
MAX_WRITTEN_OUT: Final = 16 << 20
# No number in a declaration, and no result of an expression, is further from 0.
LARGEST_NUMBER: Final = 2**63 - 1
# Characters between `{` and `}`.
LONGEST_EXPRESSION: Final = 200
# Characters that a variable puts into a text.
LONGEST_INSERTION: Final = 200
LARGEST_EXPONENT: Final = 64
# Of one file.
MAX_CASES: Final = 100_000
# Characters of a declaration times the number of cases it makes.
MAX_DECLARED: Final = 1 << 28
# A recipe's argument: the lengths of axes are among them.
LARGEST_ARGUMENT: Final = 2**32
