"""Which cases a run has, and in which order: selected, cut into shards, the smallest first where that helps."""

from pathlib import Path

from msgspec.structs import replace

from mluops_gtest.api.session import Session
from mluops_gtest.cli.lines import complain, say
from mluops_gtest.content.selection import Selected
from mluops_gtest.engine.costs import RecordedTimes, case_sizes, costs_of
from mluops_gtest.engine.plan import Shard, ordered
from mluops_gtest.engine.request import RunRequest
from mluops_gtest.errors import ExitCode, NothingSelectedError
from mluops_gtest.model.query import Query
from mluops_gtest.results.files import read_report


def only_failed(session: Session, query: Query, path: Path) -> Query:
    """The query narrowed down to what did not pass in the results at `path`; it names every such case."""
    failed = [result.case for result in read_report(path).results if result.outcome.blocks]
    if not failed:
        raise NothingSelectedError(f"--failed {path}: nothing failed there, so there is nothing to run again.")
    gone = [case for case in failed if session.catalogue.draft(case) is None and not Path(case).is_file()]
    if gone:
        complain(f"warning: --failed {path}: {len(gone)} case(s) no longer exist and are left out, e.g. {gone[0]}.")
    wanted = set(failed).difference(gone)
    if query.select:
        wanted &= {case.id for case in session.select(query).cases}
    if not wanted:
        raise NothingSelectedError(f"--failed {path}: none of the {len(failed)} cases that failed there is selected.")
    return replace(query, select=tuple(case for case in failed if case in wanted))


def plan_new(
    session: Session, request: RunRequest, times: RecordedTimes | None = None, *, by_size: bool = False
) -> tuple[tuple[Selected, ...], int]:
    """The selected cases of this shard, and how many declared cases were not selected."""
    chosen = session.select(request.selection)
    cases = {case.id: case for case in chosen.cases}
    if request.shard is None and not by_size:
        return chosen.cases, chosen.left_out
    if times is not None and not times.seconds.keys() & cases:
        complain(
            "warning: --times has none of the selected cases; shards are balanced by the size of the cases instead."
        )
    lock = session.source(chosen.cases).lock
    costs = costs_of(case_sizes(lock, chosen.cases), times or RecordedTimes())
    shard = None if request.shard is None else Shard.parse(request.shard)
    return tuple(cases[case_id] for case_id in ordered(list(cases), costs, shard, by_size=by_size)), chosen.left_out


def plan_again(session: Session, ids: list[str]) -> tuple[Selected, ...]:
    """The cases of a run that is resumed, by the ids it recorded."""
    return session.select(Query(tuple(ids))).cases if ids else ()


def empty_shard(allowed: bool) -> ExitCode:
    """A shard without cases is an error unless the user expects it."""
    if allowed:
        say("This shard has no cases.")
        return ExitCode.OK
    raise NothingSelectedError("This shard has no cases; use fewer shards, or add --allow-empty-shard.")
