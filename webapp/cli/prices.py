"""`runtally prices`: sync, list."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

import click

from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.money import plain
from runtally.pricing.book import load_book
from runtally.pricing.catalogue import SyncReport, sync
from runtally.pricing.providers import canonical, provider_key
from runtally.pricing.queries import ListedPrice, select_listed
from runtally.pricing.unpriced import price_unpriced
from runtally.settings import Settings
from webapp.cli.opening import with_database

HEADINGS = ("PROVIDER", "MODEL", "ABOVE TOKENS", "INPUT", "OUTPUT", "CACHED", "FROM", "UNTIL", "SOURCE")
RIGHT_ALIGNED = frozenset({"ABOVE TOKENS", "INPUT", "OUTPUT", "CACHED"})


@click.group()
def prices() -> None:
    """Prices: bring them up to date, list them.

    \b
    Example: runtally prices list --provider anthropic
    """


@prices.command("sync")
def sync_prices() -> None:
    """Take over what is new in the installed price catalogue, and price the runs that waited for it.

    Prices that an admin touched stay as they are. A price that changed is closed and a new one starts now, so the cost
    of runs that have one does not change.

    \b
    Example: runtally prices sync
    """

    async def work(settings: Settings, database: Database) -> tuple[SyncReport, int]:
        async with database.connection() as connection:
            now = system_clock()
            report = await sync(connection, now)
            book = await load_book(connection)
            return report, await price_unpriced(connection, book, now, queued=bool(settings.service_sync_sign))

    report, priced = with_database(work)
    click.echo(
        f"{report.added:,} prices added, {report.changed:,} changed, {report.unchanged:,} unchanged, "
        f"{report.kept:,} left to an admin, {report.vanished:,} no longer in the catalogue and kept."
    )
    click.echo(f"{priced:,} runs without a cost were priced.")


@prices.command("list")
@click.option("--provider", help="Only this provider, under any of its names.")
@click.option("--model", help="Only models with this text in a name.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Show at most so many.")
def list_prices(provider: str | None, model: str | None, limit: int) -> None:
    """List prices in US dollars per million tokens.

    ABOVE TOKENS: in force only for runs with more input tokens. A `~` before the source: costs are estimates.

    \b
    Examples:
      runtally prices list --provider openai --model gpt-4o
      runtally prices list --model claude --limit 200
    """
    providers = [provider.strip().lower(), provider_key(provider), canonical(provider)] if provider else None

    async def work(_settings: Settings, database: Database) -> Sequence[ListedPrice]:
        async with database.connection() as connection:
            return await select_listed(connection, providers=providers, model=model, limit=limit + 1)

    found = with_database(work)
    if not found:
        click.echo("No price fits; `runtally prices sync` fetches the catalogue's.")
        return
    for line in table([row_of(price) for price in found[:limit]]):
        click.echo(line)
    if len(found) > limit:
        click.echo(f"There are more than {limit:,}; narrow it with --provider or --model, or raise --limit.")


def row_of(price: ListedPrice) -> tuple[str, ...]:
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


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with the headings and the rows, each column as wide as its widest cell."""
    cells = [HEADINGS, *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if heading in RIGHT_ALIGNED else cell.ljust(width)
            for heading, cell, width in zip(HEADINGS, row, widths, strict=True)
        ).rstrip()
        for row in cells
    ]


def _amount(per_million: Decimal | None) -> str:
    return "-" if per_million is None else plain(per_million)


def _day(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d}" if moment else "-"
