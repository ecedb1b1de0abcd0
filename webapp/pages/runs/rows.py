"""Rows of a list of runs, formatted."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from runtally.models.run import Status
from runtally.runs.values import ListedRun
from webapp import formats
from webapp.pages.runs.views import NUMBERS, Column, run_url
from webapp.zone import local

TONES = {Status.SUCCESS: "good", Status.ERROR: "bad", Status.TIMEOUT: "warn"}
SHORT_ID = 12
Texts = Mapping[Column, Callable[[ListedRun], str]]


class Cell(Struct, frozen=True):
    """The value of a column for a run."""

    column: Column
    text: str
    is_number: bool
    full: str | None = None
    """The whole of what is shown in short."""


class Row(Struct, frozen=True):
    """A run; `summary` stands for the columns that a narrow screen has no room for."""

    url: str
    at: datetime
    time: str
    model: str
    tone: str
    cells: tuple[Cell, ...]
    summary: str


def rows_of(runs: Sequence[ListedRun], columns: tuple[Column, ...], now: datetime) -> tuple[Row, ...]:
    """Return the rows of one table, so that the numbers of a column have the same decimals."""
    money = formats.column_run_money(run.cost_usd for run in runs)
    duration = formats.column_duration(run.latency_ms for run in runs)
    first_token = formats.column_duration(run.time_to_first_token_ms for run in runs)
    texts = {
        **_TEXTS,
        Column.LATENCY: lambda run: duration(run.latency_ms),
        Column.FIRST_PART: lambda run: first_token(run.time_to_first_token_ms),
        Column.COST: lambda run: _cost(run, money),
    }
    return tuple(_row(run, columns, texts, now) for run in runs)


def _cost(run: ListedRun, write: formats.Write) -> str:
    if run.cost_usd is None:
        return "no price"
    return "no usage" if run.without_usage else write(run.cost_usd)


def _row(run: ListedRun, columns: tuple[Column, ...], texts: Texts, now: datetime) -> Row:
    at = run.occurred_at
    return Row(
        url=run_url(run.project_id, run.id, at if run.is_archived else None),
        at=at,
        time=moment(at, now),
        model=run.model,
        tone=TONES[run.status],
        cells=tuple(
            Cell(column, short(text) if column in _IDS else text, column in NUMBERS, text if column in _IDS else None)
            for column in columns
            for text in [texts[column](run)]
        ),
        summary=_summary(run, now),
    )


def moment(at: datetime, now: datetime) -> str:
    """21 Nov, 12:03:09; with the year where it is another."""
    at = local(at)
    year = "" if at.year == local(now).year else f" {at.year}"
    return f"{formats.date(at)}{year}, {at:%H:%M:%S}"


def status_of(status: Status, error_code: str | None) -> str:
    return f"{status.value}: {error_code}" if error_code and error_code != status.value else status.value


def count(number: int | None) -> str:
    return formats.NOTHING if number is None else formats.count(number)


def short(text: str) -> str:
    """The end of a long id: what made it unique is mostly there."""
    return text if len(text) <= SHORT_ID + 1 else f"…{text[-SHORT_ID:]}"


_IDS = frozenset({Column.RUN, Column.TRACE, Column.SESSION})


def _summary(run: ListedRun, now: datetime) -> str:
    parts = [moment(run.occurred_at, now)]
    if run.latency_ms is not None:
        parts.append(formats.duration(run.latency_ms))
    if run.status is not Status.SUCCESS:
        parts.append(status_of(run.status, run.error_code))
    return " · ".join(parts)


_TEXTS: Texts = {
    Column.PROJECT: lambda run: run.project_id,
    Column.PROVIDER: lambda run: run.provider,
    Column.MODEL: lambda run: run.model,
    Column.STATUS: lambda run: status_of(run.status, run.error_code),
    Column.TOKENS_IN: lambda run: count(run.input_tokens),
    Column.TOKENS_OUT: lambda run: count(run.output_tokens),
    Column.CACHED: lambda run: count(run.cached_input_tokens),
    Column.EXPERIMENT: lambda run: run.experiment_id or formats.NOTHING,
    Column.SESSION: lambda run: run.session_id or formats.NOTHING,
    Column.USER: lambda run: run.user_id or formats.NOTHING,
    Column.TRACE: lambda run: run.trace_id or formats.NOTHING,
    Column.RUN: lambda run: run.id,
}
