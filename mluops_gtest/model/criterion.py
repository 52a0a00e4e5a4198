"""What an output is held to: a kind of difference and the threshold it must not exceed."""

from mluops_gtest.model.table_enum import TableEnum
from mluops_gtest.value import Value


class CriterionKind(TableEnum):
    """The criteria of the case schema; `value` is the word in results, `schema_number` the enumerator."""

    MAPE = ("mape", 1)
    SMAPE = ("smape", 2)
    MAXAPE = ("maxape", 3)
    SMAXAPE = ("smaxape", 4)
    NRMSE = ("nrmse", 5)
    DIFF1 = ("diff1", 6)
    DIFF2 = ("diff2", 7)
    DIFF3 = ("diff3", 8)
    DIFF3_2 = ("diff3_2", 9)
    DIFF4 = ("diff4", 10)
    DIFF_KL = ("diff_kl", 11)

    def __init__(self, _word: str, schema_number: int) -> None:
        self.schema_number = schema_number

    @property
    def canonical(self) -> "CriterionKind":
        """The kind that has the formula: MAPE is diff1, MAXAPE is diff3."""
        return _SYNONYMS.get(self, self)

    @property
    def has_formula(self) -> bool:
        """SMAPE, SMAXAPE and NRMSE are names without a formula; a case naming one is an error."""
        return self not in (CriterionKind.SMAPE, CriterionKind.SMAXAPE, CriterionKind.NRMSE)


_SYNONYMS = {CriterionKind.MAPE: CriterionKind.DIFF1, CriterionKind.MAXAPE: CriterionKind.DIFF3}


class Criterion(Value):
    """`kind` must be at most `threshold`; equality passes."""

    kind: CriterionKind
    threshold: float


def exact() -> tuple[Criterion, ...]:
    """diff3 = 0."""
    return (Criterion(CriterionKind.DIFF3, 0.0),)


def diff1_and_diff2(threshold: float) -> tuple[Criterion, ...]:
    """diff1 and diff2 at most `threshold`."""
    return (Criterion(CriterionKind.DIFF1, threshold), Criterion(CriterionKind.DIFF2, threshold))
