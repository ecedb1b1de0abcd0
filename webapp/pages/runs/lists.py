"""Short lists of runs on other pages: newest, slowest, most expensive."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from runtally.runs.values import Extremes, ListedRun
from webapp import formats
from webapp.pages.runs.rows import table_of_runs
from webapp.pages.runs.views import Column
from webapp.report import Table
from webapp.zone import local

NEWEST = 10
HIGHEST = 5
_NEWEST = (
    Column.PROJECT,
    Column.MODEL,
    Column.STATUS,
    Column.TOKENS_IN,
    Column.TOKENS_OUT,
    Column.LATENCY,
    Column.COST,
)
_HIGHEST = (Column.MODEL, Column.STATUS, Column.LATENCY, Column.COST)


class RunList(Struct, frozen=True):
    """A short table of runs."""

    id: str
    heading: str
    note: str | None
    """The runs out of which the list was taken, if these are not all."""
    table: Table


def newest_of(runs: Sequence[ListedRun], now: datetime) -> RunList:
    """Return the newest runs of all projects."""
    return _list("recent-runs", "Recent runs", None, _NEWEST, runs, now)


def highest_of(extremes: Extremes, now: datetime) -> tuple[RunList, ...]:
    """Return the slowest and the most expensive runs of a project."""
    reached = extremes.reached
    since = None if reached is None else f"since {formats.minute(local(reached))}"
    lists = (
        _list("slowest", "Slowest runs", since or "without timeouts", _HIGHEST, extremes.slowest, now),
        _list("costliest", "Costliest runs", since, _HIGHEST, extremes.costliest, now),
    )
    return tuple(one for one in lists if one.table.rows)


def failed_of(runs: Sequence[ListedRun], now: datetime) -> RunList:
    """Return the newest failed runs of a project."""
    return _list("latest-failures", "Latest failures", None, _HIGHEST, runs, now)


def _list(  # noqa: PLR0913, PLR0917  # The fields of the list.
    id_: str, heading: str, note: str | None, columns: tuple[Column, ...], runs: Sequence[ListedRun], now: datetime
) -> RunList:
    return RunList(id_, heading, note, table_of_runs(runs, columns, now))
