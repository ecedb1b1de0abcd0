"""`runtally runs`: list, export."""

import asyncio
import re
from collections.abc import Callable
from contextlib import aclosing
from functools import wraps
from typing import Any, BinaryIO

import click

from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.db.replica import Reader
from runtally.errors import InvalidFilter
from runtally.money import plain
from runtally.runs.export import Format, export
from runtally.runs.position import Direction, Position
from runtally.runs.read import RunPage, read_page
from runtally.runs.values import ListedRun
from runtally.settings import Settings
from runtally.usage.dimensions import METADATA
from runtally.usage.filter import NAMES, Outcome, Period, RunFilter
from webapp.cli.opening import with_database
from webapp.cli.output import Record, echo_json, echo_table, json_option, record

HEADINGS = ("TIME (UTC)", "PROJECT", "PROVIDER", "MODEL", "STATUS", "INPUT", "OUTPUT", "MS", "COST USD", "RUN")
NUMBERS = frozenset({"INPUT", "OUTPUT", "MS", "COST USD"})
_HELP = {
    "project_id": "Only runs of this project.",
    "provider": "Only runs of this provider, as it was sent.",
    "model": "Only runs of this model, as it was sent.",
    "status": f"How they ended: {', '.join(Outcome)}; failed is error or timeout.",
    "experiment_id": "Only runs of this experiment.",
    "trace_id": "Only runs of this trace.",
    "error_code": "Only runs that failed with this code.",
    "key_id": "Only runs that the key with this id sent.",
    "session_id": "Only runs of this session.",
    "user_id": "Only runs for this user.",
    "tag": "Only runs with this tag.",
    "search": "The id of a run or of a trace.",
    "min_cost_usd": "Only runs that cost at least this many US dollars.",
    "max_cost_usd": "Only runs that cost at most this many US dollars.",
    "min_latency_ms": "Only runs that took at least so many milliseconds.",
    "max_latency_ms": "Only runs that took at most so many milliseconds.",
    "metadata_key": "Only runs whose metadata has this key.",
    "metadata_value": "Only runs whose --metadata-key has this value.",
    "range": f"How far back: {', '.join(Period)}; without it 7d.",
    "since": "Only runs from this time on, such as 2026-11-18T12:00, in UTC.",
    "until": "Only runs before this time.",
}


def option_of(name: str) -> str:
    """Return the option for a query parameter of the pages: --min-cost for minCost."""
    return "--" + re.sub("[A-Z]", lambda found: f"-{found[0].lower()}", name)


def filter_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the filters of the pages to a command, which is given a `sought`."""

    @wraps(command)
    def with_filter(**options: Any) -> None:  # noqa: ANN401  # Click's own values.
        query = {name: options.pop(field) or "" for field, name in NAMES.items()}
        query |= {f"{METADATA}{key}": value for key, value in options.pop("metadata")}
        try:
            sought = RunFilter.parse(query)
        except InvalidFilter as error:
            wrong = "\n".join(f"  {option_of(detail.path)} {detail.message}" for detail in error.details)
            raise click.UsageError(f"No runs can be looked for in this way.\n{wrong}") from None
        command(sought=sought, **options)

    found: Callable[..., None] = click.option(
        "--metadata", type=Pair(), multiple=True, help="Only runs whose metadata has this value; again for more keys."
    )(with_filter)
    for field, name in reversed(NAMES.items()):
        found = click.option(option_of(name), field, help=_HELP[field])(found)
    return found


class Pair(click.ParamType[tuple[str, str]]):
    """A key of metadata and its value."""

    name = "key=value"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        key, equals, text = str(value).partition("=")
        if not (key and equals and text):
            self.fail("write it as team=search", param, ctx)
        return key, text


@click.group()
def runs() -> None:
    """Runs: list, export; filtered as on the pages.

    \b
    Example: runtally runs list --project support-agent --status failed
    """


@runs.command("list")
@filter_options
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Show at most so many.")
@json_option
def list_runs(sought: RunFilter, limit: int, *, as_json: bool) -> None:
    """List runs, the newest first.

    \b
    Examples:
      runtally runs list --project support-agent --status failed
      runtally runs list --min-cost 0.5 --range 30d --json
    """

    async def work(settings: Settings, database: Database) -> list[ListedRun]:
        async with Reader.opened(database, settings.read_database_url) as reading:
            return await _newest(reading, sought, limit + 1)

    found = with_database(work)
    if as_json:
        echo_json(map(_record, found[:limit]))
    else:
        echo_table(HEADINGS, map(_row, found[:limit]), numbers=NUMBERS)
    if len(found) > limit:
        click.echo(f"There are more than {limit:,}; narrow it, raise --limit, or use `runtally runs export`.", err=True)


@runs.command("export")
@filter_options
@click.option(
    "--format",
    "name",
    type=click.Choice([one.value for one in Format]),
    default=Format.CSV.value,
    show_default=True,
    help="Of the file.",
)
@click.option("--output", type=click.File("wb", lazy=False), default="-", help="The file; without it, standard output.")
def export_runs(sought: RunFilter, name: str, output: BinaryIO) -> None:
    """Write every column of all runs that match, the newest first.

    \b
    Examples:
      runtally runs export --project support-agent --range 30d --output runs.csv
      runtally runs export --format jsonl --status failed | jq .model
    """
    format_ = Format.parse(name)
    count = 0

    def add(more: int) -> None:
        nonlocal count
        count += more

    async def work(settings: Settings, database: Database) -> None:
        async with (
            Reader.opened(database, settings.read_database_url) as reading,
            aclosing(export(reading, sought, system_clock(), format_, add)) as parts,
        ):
            async for part in parts:
                # A pipe may take its time, which is nobody else's here.
                await asyncio.to_thread(output.write, part)

    with_database(work)
    click.echo(f"{count:,} runs.", err=True)


async def _newest(reading: Reader, sought: RunFilter, limit: int) -> list[ListedRun]:
    found: list[ListedRun] = []
    now, position = system_clock(), Position()
    while len(found) < limit:
        async with reading.snapshot() as connection:
            page: RunPage = await read_page(connection, sought, now, position)
        found += page.runs
        if page.older is None:
            break
        position = Position(Direction.OLDER, page.older)
    return found[:limit]


def _record(run: ListedRun) -> Record:
    return record(
        project_id=run.project_id,
        run_id=run.id,
        timestamp=run.occurred_at,
        provider=run.provider,
        model=run.model,
        status=run.status,
        error_code=run.error_code,
        input_tokens=run.input_tokens,
        output_tokens=run.output_tokens,
        cached_input_tokens=run.cached_input_tokens,
        latency_ms=run.latency_ms,
        cost_usd=run.cost_usd,
        cost_estimated=run.cost_estimated,
        experiment_id=run.experiment_id,
        trace_id=run.trace_id,
    )


def _row(run: ListedRun) -> tuple[str, ...]:
    return (
        f"{run.occurred_at:%Y-%m-%d %H:%M:%S}",
        run.project_id,
        run.provider,
        run.model,
        run.status,
        *(("-" if value is None else f"{value:,}") for value in (run.input_tokens, run.output_tokens, run.latency_ms)),
        "-" if run.cost_usd is None else plain(run.cost_usd),
        run.id,
    )
