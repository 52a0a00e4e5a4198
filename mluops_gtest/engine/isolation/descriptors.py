"""Room for the descriptors of many workers: the soft limit is raised as far as it takes, and no further."""

import resource
from typing import Final

from mluops_gtest.errors import UsageError

# Files of the run itself, and what libraries hold open.
_OWN: Final = 64
# The line, the worker's death, its output, two slabs of tensors, and as many while one worker follows another.
_PER_WORKER: Final = 10


def make_room(workers: int) -> None:
    """Let this process hold what so many workers need; a hard limit below that is told before anything starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _OWN + workers * _PER_WORKER
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        most = max(1, (hard - _OWN) // _PER_WORKER)
        raise UsageError(
            f"{workers} workers need up to {needed} open files, and this system allows {hard}. "
            f"Take at most {most} workers (-j {most}), or raise the limit (ulimit -Hn)."
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
