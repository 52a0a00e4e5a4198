"""How many cases there are, as README.md says it; `python -m tests.support.case_counts` writes it anew."""

import re
from pathlib import Path

from mluops_gtest.catalog.selection import Catalogue, Session

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
# What the sentences of README.md say: declared cases, those that `list --all` shows, negative ones.
_SENTENCES = (r"(\d+) declared cases", r"`mluops-test list --all` shows (\d+)", r"(\d+) negative cases")
# A row that `mluops-test ops` prints: the operator, its name in files, its cases.
_ROW = re.compile(r"^(\w+ +\w+ +)(\d+)(?= +\d+  …$)", re.MULTILINE)


def count_cases(catalogue: Catalogue) -> list[int]:
    """The counts of the sentences, in their order."""
    tags = [set(draft.tags) for draft in catalogue.drafts.values()]
    usual = sum(not {"undefined", "heavy", "subnormal"} & one for one in tags)
    return [len(tags), usual, sum("negative" in one for one in tags)]


def published() -> list[int]:
    """The counts that README.md says."""
    text = " ".join(README.read_text(encoding="utf-8").split())
    return [int(re.search(sentence, text)[1]) for sentence in _SENTENCES]


def main() -> None:
    """Write what is counted, also into the translation."""
    catalogue = Session((str(ROOT),)).catalogue
    numbers = {str(old): str(new) for old, new in zip(published(), count_cases(catalogue), strict=True)}
    said = re.compile(rf"\b(?:{'|'.join(numbers)})\b")
    for readme in (README, README.with_suffix(".zh.md")):
        text = said.sub(lambda match: numbers[match[0]], readme.read_text(encoding="utf-8"))
        readme.write_text(_ROW.sub(lambda row: _with_count(row, catalogue), text), encoding="utf-8")


def _with_count(row: re.Match[str], catalogue: Catalogue) -> str:
    count = len(catalogue.drafts_of(row[1].split()[0]))
    return f"{row[1]}{count}"


if __name__ == "__main__":
    main()
