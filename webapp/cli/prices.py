"""`runtally prices`: sync, list, export, import."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TextIO

import click
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.models.price import PriceEntry
from runtally.money import plain
from runtally.pricing import price_file, registry
from runtally.pricing.book import load_book
from runtally.pricing.catalogue import SyncReport, sync
from runtally.pricing.price_file import Effect, LineEffect
from runtally.pricing.providers import canonical, provider_key
from runtally.pricing.repricing.recost import price_unpriced
from runtally.settings import Settings
from webapp.cli.opening import in_control, with_control
from webapp.cli.output import Record, attributes, echo, echo_json, echo_table, json_option, record

HEADINGS = ("PROVIDER", "MODEL", "ABOVE TOKENS", "INPUT", "OUTPUT", "CACHED", "FROM", "UNTIL", "SOURCE")
RIGHT_ALIGNED = frozenset({"ABOVE TOKENS", "INPUT", "OUTPUT", "CACHED"})


@click.group(epilog="Example: runtally prices list --provider anthropic")
def prices() -> None:
    """Manage prices: sync, list, export and import."""


@prices.command("sync", epilog="Example: runtally prices sync")
def sync_prices() -> None:
    """Take over what is new in the installed price catalogue, and price the runs that waited for it.

    Prices that an admin touched stay as they are. A price that changed is closed and a new one starts now, so the cost
    of runs that have one does not change.
    """

    async def work(settings: Settings, database: Database) -> tuple[SyncReport, int]:
        async with database.connection() as connection:
            now = system_clock()
            report = await sync(connection, now)
            book = await load_book(connection)
            return report, await price_unpriced(connection, book, now, queued=bool(settings.service_sync_sign))

    report, priced = with_control(work)
    echo(
        f"{report.added:,} prices added, {report.changed:,} changed, {report.unchanged:,} unchanged, "
        f"{report.kept:,} left to an admin, {report.vanished:,} no longer in the catalogue and kept."
    )
    echo(f"{priced:,} runs without a cost were priced.")


@prices.command("list")
@click.option("--provider", help="Only this provider, by any of its names.")
@click.option("--model", help="Only models with this text in a name.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Show at most this number of prices."
)
@json_option
def list_prices(provider: str | None, model: str | None, limit: int, *, as_json: bool) -> None:
    """List prices in US dollars per million tokens.

    ABOVE TOKENS: in force only for runs with more input tokens. A `~` before the source: costs are estimates.

    \b
    Examples:
      runtally prices list --provider openai --model gpt-4o
      runtally prices list --model claude --limit 200
    """
    providers = [provider.strip().lower(), provider_key(provider), canonical(provider)] if provider else None

    found = in_control(lambda session: registry.list_named(session, providers, model, limit + 1))
    if as_json:
        echo_json(map(_record, found[:limit]))
    elif not found:
        echo("No price fits; `runtally prices sync` fetches the catalogue's.")
    else:
        echo_table(HEADINGS, map(row_of, found[:limit]), numbers=RIGHT_ALIGNED)
    if len(found) > limit:
        echo(f"There are more than {limit:,}; narrow it with --provider or --model, or raise --limit.", err=as_json)


@prices.command("export", epilog="Example: runtally prices export > prices.csv")
def export_prices() -> None:
    """Print all current and scheduled prices as CSV."""
    click.echo(in_control(price_file.write), nl=False)


@prices.command("import")
@click.argument("file", type=click.File(encoding="utf-8", errors="replace"))
@click.option("--apply", "applies", is_flag=True, help="Make the changes; without this option they are only shown.")
def import_prices(file: TextIO, *, applies: bool) -> None:
    """Say what each line of a CSV FILE changes, and with --apply change it, all of it or nothing.

    A line with an id corrects that price, one without adds a price; prices that the file leaves out stay as they are.

    \b
    Examples:
      runtally prices import prices.csv
      runtally prices import prices.csv --apply
    """
    rows = price_file.read(file.read())

    async def work(session: AsyncSession) -> Sequence[LineEffect]:
        effects = await price_file.dry_run(session, OPERATOR, rows, system_clock())
        if applies and not any(effect.problems for effect in effects):
            await price_file.apply(session, OPERATOR, rows, system_clock())
        return effects

    effects = in_control(work)
    for effect in effects:
        for line in _lines_of(effect):
            echo(line)
    if any(effect.problems for effect in effects):
        raise click.ClickException("Nothing was changed: correct the lines that are refused.")
    changing = sum(effect.effect is not Effect.NOTHING for effect in effects)
    prices = "1 price" if changing == 1 else f"{changing:,} prices"
    echo(f"{prices} changed." if applies else f"{prices} would change; --apply does it.")


def _lines_of(effect: LineEffect) -> Iterator[str]:
    if effect.effect is not Effect.NOTHING:
        yield f"line {effect.line}: {effect.effect} {effect.name}"
        yield from (f"  {problem.path}: {problem.message}" for problem in effect.problems)
        yield from (f"  {name}: {before or '-'} -> {after or '-'}" for name, before, after in effect.fields)


def row_of(price: PriceEntry) -> tuple[str, ...]:
    """The cells of a price, in the order of the headings."""
    return (
        price.provider,
        price.model,
        f"{price.above_input_tokens:,}" if price.above_input_tokens else "",
        _amount(price.input_per_million),
        _amount(price.output_per_million),
        _amount(price.cache_read_per_million),
        _day(price.effective_from),
        _day(price.effective_to),
        f"~{price.source}" if price.estimated else price.source,
    )


def _record(price: PriceEntry) -> Record:
    return record(
        **attributes(price, "provider", "model", "above_input_tokens"),
        **attributes(price, "input_per_million", "output_per_million", "cache_read_per_million"),
        **attributes(price, "effective_from", "effective_to"),
        is_estimate=price.estimated,
        source=price.source,
    )


def _amount(per_million: Decimal | None) -> str:
    return "-" if per_million is None else plain(per_million)


def _day(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d}" if moment else "-"
