"""`runtally mcp`."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click

from runtally.access.keys import verify
from runtally.audit import OPERATOR, Actor
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.errors import SettingsError
from runtally.extras import Extra
from runtally.limits.limiter import Limiter
from runtally.names import LiveNames
from runtally.pricing.book import LivePrices
from runtally.settings import Settings, load_settings
from webapp.cli.opening import with_control

if TYPE_CHECKING:
    from mcp.server import MCPServer

DEFAULT_PORT = 8001


@click.command()
@click.option("--http", "over_http", is_flag=True, help="Serve over HTTP, at /mcp, to clients with a key of a project.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: the address to listen on.")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=DEFAULT_PORT, show_default=True, help="With --http: the port."
)
def mcp(*, over_http: bool, host: str, port: int) -> None:
    """Serve the Model Context Protocol, with which agents ask for usage, sessions, errors, prices and budgets.

    Over standard input and output, unless --http is given. All tools only read. RUNTALLY_KEY is a key whose project and
    scopes they keep to; without it they read everything, as every command does that reaches the database. Over HTTP each
    request has a key. Needs the extra `mcp`.

    \b
    Examples:
      claude mcp add runtally -- runtally mcp
      runtally mcp --http --port 8001
    """
    Extra.MCP.require("runtally mcp")
    from webapp.mcp.server import asking  # noqa: PLC0415  # The library is an extra, and takes a while.

    async def over_pipes(settings: Settings, database: Database) -> None:
        asking.set(await _holder(database))
        async with _served(settings, database) as server:
            await server.run_stdio_async()

    async def over_network(settings: Settings, database: Database) -> None:
        import uvicorn  # noqa: PLC0415  # As above.

        from webapp.mcp.http import http_app  # noqa: PLC0415  # As above.

        async with _served(settings, database) as server, Limiter.opened(database) as limiter:
            app = http_app(server, database, limiter, settings, system_clock)
            config = uvicorn.Config(app, host=host, port=port, log_config=None, access_log=False, server_header=False)
            click.echo(f"Serving the Model Context Protocol on http://{host}:{port}/mcp; Ctrl-C ends it.", err=True)
            await uvicorn.Server(config).serve()

    if load_settings().cell_urls:
        raise SettingsError("`runtally mcp` reads one database, and CELL_URLS has more; ask the API instead.")
    with_control(over_network if over_http else over_pipes)


async def _holder(database: Database) -> Actor:
    key = os.environ.get("RUNTALLY_KEY")
    if not key:
        return OPERATOR
    async with database.connection() as connection:
        return await verify(connection, system_clock(), key)


@asynccontextmanager
async def _served(settings: Settings, database: Database) -> "AsyncIterator[MCPServer[Any]]":
    from webapp.mcp.answers import Answers  # noqa: PLC0415  # As above.
    from webapp.mcp.server import create_server  # noqa: PLC0415  # As above.

    yield create_server(Answers(database, LivePrices(database), system_clock, LiveNames.of(settings, database)))
