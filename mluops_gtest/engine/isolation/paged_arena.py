"""The controller's side of guard pages: buffers that share no page with anything else."""

from collections.abc import Sequence

from mluops_gtest.engine.buffers import Buffer, Side, Wanted
from mluops_gtest.engine.isolation.page_layout import Placed, file_bytes, place
from mluops_gtest.engine.isolation.shared import SharedArena


class PagedArena(SharedArena):
    """An arena whose buffers another process maps one by one; what is left of their pages is their guard zone."""

    def __init__(self) -> None:
        super().__init__()
        self.placed: tuple[Placed, ...] = ()

    def lay_out(self, wanted: Sequence[Wanted], side: Side | None = None) -> dict[str, Buffer]:
        """Buffers flush with the end of their pages that `side` names, the rest of the pages guarded by pattern."""
        assert side is not None, "pages guard one side at a time"
        self.placed = place(wanted, side)
        self._reserve(file_bytes(self.placed))
        buffers = {}
        for one in self.placed:
            pages = self._slab[one.file_offset : one.file_offset + one.pages]
            data = slice(one.lead, one.lead + one.size)
            buffers[one.name] = Buffer(pages[: data.start], pages[data], pages[data.stop :])
            buffers[one.name].guard()
        return buffers
