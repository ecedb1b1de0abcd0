"""`runtally demo`."""

import asyncio
import signal
from contextlib import suppress
from typing import Final

import click

from runtally.client.demo.play import post_history, post_live
from runtally.client.post import Poster, Target, Totals
from webapp.cli.opening import Server, server_options
from webapp.cli.output import Counter, Progress

_LIVE_LINE: Final = 250
"""About a minute of live traffic."""


@click.command()
@server_options
@click.option(
    "--days",
    type=click.IntRange(1, 365),
    default=65,
    show_default=True,
    help="The number of days before now at which the history starts.",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="A different seed adds another history to the first."
)
@click.option("--live", is_flag=True, help="Continue to send a few runs a second until Ctrl-C.")
def demo(*, server: Server, days: int, seed: int, live: bool) -> None:
    """Fill a running server with two believable months.

    Four projects, ten models, users with their sessions, an outage, a slow day, a prompt that grew too long, a release
    that broke a cache, and two experiments, of which one fails. All of it goes through POST /api/ingest, like the runs of any client. Running it again adds only what has
    happened since.

    \b
    Examples:
      runtally demo
      runtally demo --live
      runtally demo --url https://runtally.example.com --key "$KEY" --days 7
    """
    asyncio.run(_demo(server.target(), days=days, seed=seed, live=live))


async def _demo(target: Target, *, days: int, seed: int, live: bool) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with Poster(target) as poster:
        await poster.check()
        with Progress("Posting the demo") as progress:
            totals = await post_history(poster, days=days, seed=seed, on_progress=progress.show)
        _report(totals, loop.time() - started)
        click.echo(f"Open {target.url}")
        if live:
            await _live(poster)


def _report(totals: Totals, seconds: float) -> None:
    for project_id, runs in totals.by_project.items():
        click.echo(f"{project_id:20} {runs:>8,} runs")
    click.echo(f"{totals.added:,} runs added and {totals.duplicates:,} there already, in {seconds:.1f} s.")
    if totals.rejections:
        raise click.ClickException(
            f"The server refused {totals.rejected:,} runs, the first because {totals.rejections[0].reason}; "
            "use the demo of the server's own version."
        )


async def _live(poster: Poster) -> None:
    totals, counter = Totals(), Counter("Live runs", every=_LIVE_LINE)
    posting = asyncio.create_task(post_live(poster, totals, lambda so_far: counter.show(so_far.processed)))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, posting.cancel)
    click.echo("Posting live traffic; Ctrl-C stops it.")
    with suppress(asyncio.CancelledError):
        await posting
    counter.end()
    click.echo(f"Stopped after {totals.processed:,} live runs.")
