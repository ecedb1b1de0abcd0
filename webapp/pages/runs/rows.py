"""Runs as rows of a table: of the explorer, and of short lists on other pages, such as the newest or the slowest."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from runtally.models.run import Status
from runtally.runs.values import Extremes, ListedRun
from webapp import formats
from webapp.pages.runs.views import COLUMNS, run_url
from webapp.report import Cell, Column, Head, SortHeading, Table, table_of
from webapp.zone import local

TONES = {Status.SUCCESS: "good", Status.ERROR: "bad", Status.TIMEOUT: "warn"}
SHORT_ID = 12
Texts = Mapping[str, Callable[[ListedRun], str]]


class RunHead(Head, frozen=True, kw_only=True):
    """The time of a run, which is what it is called in a list; its summary stands for further columns."""

    at: datetime
    model: str


def table_of_runs(
    runs: Sequence[ListedRun], shown: Sequence[str], now: datetime, headings: Iterable[SortHeading] = ()
) -> Table:
    """Return runs as rows with these columns, of which some sort the table."""
    money = formats.column_run_money(run.cost_usd for run in runs)
    duration = formats.column_duration(run.latency_ms for run in runs)
    first_token = formats.column_duration(run.time_to_first_token_ms for run in runs)
    sorts = {heading.id: heading for heading in headings}
    texts: Texts = {
        **_TEXTS,
        "latency": lambda run: duration(run.latency_ms),
        "firstToken": lambda run: first_token(run.time_to_first_token_ms),
        "cost": lambda run: _cost(run, money),
    }

    def head(run: ListedRun) -> RunHead:
        at = run.occurred_at
        url = run_url(run.project_id, run.id, at if run.is_archived else None)
        return RunHead(name=moment(at, now), at=at, model=run.model, summary=_summary(run, now), url=url)

    def column(shown: str) -> Column[ListedRun]:
        style = ("number " if COLUMNS[shown].is_number else "") + ("fold" if shown != "cost" else "")
        write = _CELLS.get(shown) or texts[shown]
        return Column(sorts.get(shown) or COLUMNS[shown].title, write, style, f"run-{shown}")

    return table_of(sorts.get("time", "Time"), head, [*map(column, shown)], runs)


def _cost(run: ListedRun, write: formats.Write) -> str:
    if run.cost_usd is None:
        return "no price"
    return "no usage" if run.without_usage else write(run.cost_usd)


def moment(at: datetime, now: datetime) -> str:
    """21 Nov, 12:03:09; with the year where it is another."""
    at = local(at)
    year = "" if at.year == local(now).year else f" {at.year}"
    return f"{formats.date(at)}{year}, {at:%H:%M:%S}"


def status_of(status: Status, error_code: str | None) -> str:
    return f"{status.value}: {error_code}" if error_code and error_code != status.value else status.value


def short(text: str) -> str:
    """The end of a long id: what made it unique is mostly there."""
    return text if len(text) <= SHORT_ID + 1 else f"…{text[-SHORT_ID:]}"


def _summary(run: ListedRun, now: datetime) -> str:
    parts = [moment(run.occurred_at, now)]
    if run.latency_ms is not None:
        parts.append(formats.duration(run.latency_ms))
    if run.status is not Status.SUCCESS:
        parts.append(status_of(run.status, run.error_code))
    return " · ".join(parts)


_TEXTS: Texts = {
    "project": lambda run: run.project_id,
    "provider": lambda run: run.provider,
    "model": lambda run: run.model,
    "tokensIn": lambda run: formats.count(run.input_tokens),
    "tokensOut": lambda run: formats.count(run.output_tokens),
    "cached": lambda run: formats.count(run.cached_input_tokens),
    "experiment": lambda run: run.experiment_id or formats.NOTHING,
    "session": lambda run: run.session_id or formats.NOTHING,
    "user": lambda run: run.user_id or formats.NOTHING,
    "trace": lambda run: run.trace_id or formats.NOTHING,
    "run": lambda run: run.id,
}


def _status(run: ListedRun) -> Cell:
    text = status_of(run.status, run.error_code)
    return Cell(text=text, tone="quiet") if run.status is Status.SUCCESS else Cell(text=text, dot=TONES[run.status])


def _short(text: Callable[[ListedRun], str]) -> Callable[[ListedRun], Cell]:
    return lambda run: Cell(text=short(text(run)), title=text(run))


_CELLS: Mapping[str, Callable[[ListedRun], Cell]] = {
    "status": _status,
    **{column: _short(_TEXTS[column]) for column in ("run", "trace", "session")},
}


NEWEST = 10
HIGHEST = 5
_NEWEST = (
    "project",
    "model",
    "status",
    "tokensIn",
    "tokensOut",
    "latency",
    "cost",
)
_HIGHEST = ("model", "status", "latency", "cost")


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
    id_: str, heading: str, note: str | None, columns: tuple[str, ...], runs: Sequence[ListedRun], now: datetime
) -> RunList:
    return RunList(id_, heading, note, table_of_runs(runs, columns, now))
