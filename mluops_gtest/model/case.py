"""A case: inputs, parameters, expected answer. A draft is the same before its values exist."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import field
from msgspec.structs import replace

from mluops_gtest.model.call import Params
from mluops_gtest.model.criterion import Criterion
from mluops_gtest.model.status import Status
from mluops_gtest.model.tensor import Tensor
from mluops_gtest.value import Value

# A seed that a person can type and every report format holds.
LARGEST_RESEED = 2**32 - 1


class Reseed(Value):
    """The values of `run --reseed number`; where they do not meet a case's conditions, those of the next attempt."""

    number: int
    attempt: int = 0

    def seed(self, declared: int) -> int:
        """The seed in the place of a declared one: the first 8 bytes of a SHA-256, little-endian."""
        text = f"mluops-test/reseed/1/{self.number}/{self.attempt}/{declared}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


class Reseeded(Value):
    """What `--reseed number` made of a case."""

    number: int
    # Attempts before this one whose values did not meet the case's conditions.
    redraws: int = 0
    # Inputs and parameters are those that the case has without --reseed.
    fixed: bool = False


# What the documents leave open: the answer, or whether subnormal numbers count for 0.
OPEN_TAGS = ("undefined", "subnormal")
# Selected by their tag or their id alone; heavy takes gigabytes or minutes.
NAMED_TAGS = ("heavy", *OPEN_TAGS)
TAGS = ("network", "boundary", "negative", "random", "precision", "nonfinite", "smoke", "race", *NAMED_TAGS)

# In a case that expects a status, a tensor without values gets a buffer only up to this size: the large
# ones are descriptors alone, so no giant buffer is ever allocated.
BUFFER_LIMIT = 1 << 20


class Expect(Value):
    """The expected status, the check that must give it, and the special caller that the case needs."""

    status: Status = Status.SUCCESS
    check: str | None = None
    arch: int | None = None
    nram_bytes: int | None = None
    null_descriptor: tuple[str, ...] = ()
    null_pointer: tuple[str, ...] = ()
    null_handle: bool = False
    workspace_size: int | None = None
    # Why the baseline is constant by design: the declaration and the lock say so; a committed file does not.
    degenerate: str | None = None

    @property
    def is_plain(self) -> bool:
        """Nothing special: the file needs no extension field."""
        return replace(self, degenerate=None) == Expect()


class Case(Value):
    """One stored case, complete: what to call with and what must come back."""

    id: str
    operator: str  # canonical name; for an operator that nobody knows, the file's op_name
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    params: Params
    # Per output, in order; None: not compared (threshold_use: 0). Empty tuple: the operator's own criteria.
    criteria: tuple[tuple[Criterion, ...] | None, ...]
    expect: Expect = Expect()
    # False: the file asks to recompute the baseline with the reference (device CPU).
    baseline_stored: bool = True
    tags: tuple[str, ...] = ()
    doc: str = ""
    path: Path | None = None
    # What the reader noticed and accepted (missing enums, padded inputs, unknown fields).
    notes: tuple[str, ...] = ()
    # Figures for performance reports that the file carries (theory_io_size, theory_compute_ops, …).
    theory: Mapping[str, float] = field(default_factory=dict)
    # Under --reseed: what that made of the case.
    reseeded: Reseeded | None = None
    # Declared in a content root, so that its reference answers for the baseline; else a file of the user's.
    declared: bool = False

    @property
    def is_open(self) -> bool:
        """The document leaves open what comes back."""
        return any(tag in self.tags for tag in OPEN_TAGS)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    def tensor(self, name: str) -> Tensor:
        """The input or output of that id."""
        return next(tensor for tensor in self.tensors if tensor.id == name)

    @property
    def elements(self) -> int:
        """All elements of all tensors, also of those without values."""
        return sum(tensor.desc.count for tensor in self.tensors)

    @property
    def nbytes(self) -> int:
        """The bytes of all values."""
        return sum(tensor.data.nbytes for tensor in self.tensors if tensor.data is not None)


class Change(Value):
    """How a negative case's descriptor differs from the recipe's."""

    dims: tuple[int, ...] | None = None
    dtype: str | None = None
    layout: str | None = None
    strides: tuple[int, ...] | None = None


class CaseDraft(Value):
    """One declared case after expansion, before any value is drawn."""

    id: str
    operator: str
    tags: tuple[str, ...]
    doc: str
    recipe: str
    args: Mapping[str, Any]
    params: Mapping[str, Any]
    dtype: str
    seed: int
    expect: Expect
    changes: Mapping[str, Change]
    changed_params: Mapping[str, Any]
    # Of the outputs that are held to something else than the operator says.
    criteria: Mapping[str, tuple[Criterion, ...]]
    # True where the declaration itself writes the expected status: generate compares it with the checks.
    expect_declared: bool
    note: str
    where: str  # file:line, for messages
    digest: str  # of everything above that shapes the case; the lock and the cache are keyed by it
    # Quantity → the size that the case is there for; the data decide it, so the digest does not know it.
    sizes: Mapping[str, int] = field(default_factory=dict)


class CaseSource(Protocol):
    """Where the engine gets a planned case from; generate implements it, cli hands it over."""

    def load(self, case_id: str) -> Case:
        """The complete case, made on first use when it is not stored."""
