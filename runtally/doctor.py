"""Examine an installation: its problems, and what to do about them. Nothing is changed."""

import asyncio
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from html import unescape
from http import HTTPStatus
from pathlib import Path

import httpx
from pydantic import SecretStr

from runtally.archive.archive import Archive, refuse_to_drop
from runtally.archive.queries import select_contents
from runtally.clock import Clock
from runtally.db.database import Connection
from runtally.db.schema import (
    CELL,
    REPORTING,
    SELECT_MAY_MAKE_TABLES,
    advice,
    are_current,
    is_current,
    newest,
    select_closed_tables,
    select_server,
    version_of,
)
from runtally.errors import ArchiveError, ArchiveUnavailable, AwaitedCell, StoreUnavailable, WrongCell
from runtally.ingest.name_queries import select_capped
from runtally.models.dimension import MAX_VALUES
from runtally.models.otlp import Client
from runtally.otlp.clients import select_clients
from runtally.otlp.scopes import select_gaps
from runtally.pricing.book import PriceBook, load_book
from runtally.reporting.outbox_queries import RelayStatus, get_relay_status
from runtally.settings import Settings

OLDEST_POSTGRES = 13
# A person waits for it.
ARCHIVE_SECONDS = 20.0
# A run from a clock that is further ahead belongs to a bucket that does not exist yet.
CLOCK_TOLERANCE = timedelta(seconds=2)
# A working relay takes a run within seconds, unless very many arrived at once.
LONG_WAIT = timedelta(minutes=15)
GIB = 1024**3
PAGE_SECONDS = 5.0
_STYLE_SHEET = re.compile(r'<link rel="stylesheet"\s+href="([^"]+)"')
SHOWN = 10
SHOWN_CLIENTS = 5
DAYS_OF_NAMES = 7
WEAK = "so short or simple that it can be guessed"
# 64 bits, if each character is a random hexadecimal digit.
LEAST_SECRET = 16
LEAST_CHARACTERS = 6
LITTLE_SPACE = 2 * GIB
NO_SPACE = GIB // 10


class State(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: `message` describes the state, and what to do about a problem."""

    check: str
    state: State
    message: str


def examine_settings(settings: Settings) -> Iterator[Finding]:
    """Settings that are right by themselves, but leave something out or open, or can be guessed."""
    yield Finding("settings", State.OK, "all settings are valid")
    yield _secret("INGEST_API_KEY", settings.ingest_api_key, without="ingest answers 503")
    yield _secret("SECRET_KEY", settings.secret_key, without="nobody can sign in")
    if len(settings.secret_key) > 1 and not settings.names_secret:
        todo = "set it to the last SECRET_KEY before you remove that; otherwise hashes of people's names change"
        yield Finding("NAMES_SECRET", State.WARN, f"not set; {todo}")
    yield _secret("SERVICE_SYNC_SIGN", settings.service_sync_sign, without="runs do not reach the reporting table")
    if settings.metrics_token:
        yield _secret("METRICS_TOKEN", settings.metrics_token, without="/metrics is closed")
    if bool(settings.smtp_host) != bool(settings.smtp_from):
        yield Finding("mail", State.WARN, "SMTP_HOST and SMTP_FROM need each other; until both are set no mail is sent")
    if settings.service_dev_mode:
        yield Finding(
            "dev mode",
            State.WARN,
            "everyone who can reach the pages is an admin; unset `SERVICE_DEV_MODE` to turn it off",
        )


def examine_disk(data_dir: Path) -> Finding:
    free = shutil.disk_usage(data_dir).free
    state = State.FAIL if free < NO_SPACE else State.WARN if free < LITTLE_SPACE else State.OK
    todo = "" if state is State.OK else "; free some, or move DATA_DIR to a larger disk"
    return Finding("disk", state, f"{free / GIB:.1f} GiB free for {data_dir}{todo}")


def examine_public_url(public_url: str) -> Finding:
    """Open the sign-in page where people do, and its style sheet, which is missing where a proxy serves another path."""
    check, page = "PUBLIC_URL", f"{public_url}/sign-in"
    try:
        with httpx.Client(timeout=PAGE_SECONDS) as client:
            html = client.get(page)
            sheet = _STYLE_SHEET.search(html.text)
            if html.status_code != HTTPStatus.OK or sheet is None:
                todo = "let the proxy pass on everything below PUBLIC_URL, or correct it"
                return Finding(check, State.FAIL, f"{page} is no page of this service ({html.status_code}); {todo}")
            address = html.url.join(unescape(sheet[1]))
            found = client.get(address)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        todo = "open it from where people are, as a network may hide it from this machine"
        return Finding(check, State.WARN, f"{page} does not answer here ({type(error).__name__}); {todo}")
    if found.status_code != HTTPStatus.OK or "text/css" not in found.headers.get("Content-Type", ""):
        todo = "restart the service with this PUBLIC_URL, and let the proxy pass on everything below it"
        return Finding(
            check, State.FAIL, f"pages come without style: {address.path} answers {found.status_code}; {todo}"
        )
    return Finding(check, State.OK, f"pages open at {public_url}")


async def examine_archive(archive: Archive | None, connection: Connection, cell: str = "") -> Finding | None:
    """The archive, with the name of the cell where it is that of a further one, and whether its files are all there; None where runs are not archived. Raises `StoreUnavailable`."""
    check = f"archive {cell}".rstrip()
    try:
        if archive is None:
            await refuse_to_drop(connection)
            return None
        async with asyncio.timeout(ARCHIVE_SECONDS):
            await archive.check()
    except TimeoutError:
        return Finding(check, State.WARN, "its store takes too long to answer; runs stay in the database meanwhile")
    except ArchiveUnavailable as error:
        return Finding(check, State.WARN, f"{error.message} Runs stay in the database meanwhile.")
    except ArchiveError as error:
        return Finding(check, State.FAIL, error.message)
    contents = await select_contents(connection)
    last = f", the last of {contents.last_at:%F}" if contents.last_at else ""
    return Finding(
        check,
        State.OK,
        f"{contents.files:,} files with {contents.runs:,} runs in {contents.size_bytes:,} bytes{last}",
    )


async def examine_cell(
    name: str, cell: AbstractAsyncContextManager[Connection], archive: Archive | None, clock: Clock
) -> list[Finding]:
    """A further cell, over a connection that is opened: its database, and if that can serve, its relay and archive."""
    check = f"cell {name}"
    try:
        async with cell as connection:
            if not await are_current(connection, CELL):
                return [Finding(check, State.FAIL, await advice(connection))]
            server = await select_server(connection)
            relay = _relay(await get_relay_status(connection), clock(), name)
            archived = await examine_archive(archive, connection, name)
            names = await _names(connection, clock())
    except (AwaitedCell, WrongCell) as error:
        return [Finding(check, State.FAIL, error.message)]
    except StoreUnavailable as error:
        return [Finding(check, State.FAIL, f"its projects are out of reach: {error.reason}")]
    found = [Finding(check, State.OK, f"Postgres {server.version} answers"), relay]
    return [*found, *names, archived] if archived else [*found, *names]


async def examine_reporting(connection: Connection) -> Finding:
    """The database of the reporting table, where that is another one. Raises `StoreUnavailable`."""
    if await version_of(connection, REPORTING) != newest(REPORTING):
        return Finding("reporting", State.FAIL, await advice(connection))
    return Finding("reporting", State.OK, "the reporting table is up to date")


async def examine_database(connection: Connection, clock: Clock, book: PriceBook | None = None) -> list[Finding]:
    """Check the database, with the price book that a process already has. Raises `StoreUnavailable`."""
    before = clock()
    server = await select_server(connection)
    after = clock()
    ahead = server.at - (before + (after - before) / 2)
    findings = [_version(server.major, server.version), _clock(ahead)]
    if not await is_current(connection):
        findings.append(Finding("migrations", State.FAIL, await advice(connection)))
        if not await connection.fetchval(SELECT_MAY_MAKE_TABLES):
            message = "the user of the database may not make tables; make it the owner of the database, or grant it CREATE on its schema"
            findings.append(Finding("rights", State.FAIL, message))
        return findings
    findings.append(Finding("migrations", State.OK, "tables are up to date"))
    if closed := await select_closed_tables(connection):
        names = ", ".join(closed[:SHOWN]) + (" and more" if len(closed) > SHOWN else "")
        todo = "make it their owner, or grant it SELECT, INSERT, UPDATE and DELETE on all tables"
        message = f"the user of the database may not read and change {names}; {todo}"
        return [*findings, Finding("rights", State.FAIL, message)]
    return [
        *findings,
        _prices(book or await load_book(connection)),
        _relay(await get_relay_status(connection), after),
        *await _names(connection, after),
        *map(_otlp, await select_clients(connection, None, SHOWN_CLIENTS)),
        *(
            Finding("otlp", State.WARN, f"{project_id}: {gap}")
            for project_id, gap in await select_gaps(connection, after - timedelta(days=DAYS_OF_NAMES))
        ),
    ]


def _secret(name: str, values: Sequence[SecretStr], *, without: str) -> Finding:
    secrets = [value.get_secret_value() for value in values]
    # It can be guessed.
    if any(len(secret) < LEAST_SECRET or len(set(secret)) < LEAST_CHARACTERS for secret in secrets):
        return Finding(name, State.WARN, f"{WEAK}; take a random one, as of `openssl rand -base64 32`")
    if values:
        return Finding(name, State.OK, "set")
    return Finding(name, State.WARN, f"not set, so {without}; set it, or start with `runtally serve --provision`")


def _version(major: int, version: str) -> Finding:
    if major < OLDEST_POSTGRES:
        return Finding("database", State.FAIL, f"Postgres {version} is too old; use {OLDEST_POSTGRES} or newer")
    return Finding("database", State.OK, f"Postgres {version} answers")


def _clock(ahead: timedelta) -> Finding:
    seconds = ahead.total_seconds()
    if abs(ahead) > CLOCK_TOLERANCE:
        todo = "let both machines keep time by NTP"
        return Finding("clock", State.WARN, f"{seconds:+.1f} s between the database and this server; {todo}")
    return Finding("clock", State.OK, f"offset {round(1000 * seconds):+d} ms between the database and this server")


def _prices(book: PriceBook) -> Finding:
    if not book.entries:
        return Finding("prices", State.WARN, "there are none, so costs are unknown; run `runtally prices sync`")
    if invalid := book.invalid:
        numbers = ", ".join(map(str, invalid[:SHOWN])) + (" and more" if len(invalid) > SHOWN else "")
        todo = "run `runtally prices sync`, and correct the remaining ones: their form says how"
        return Finding(
            "prices", State.WARN, f"patterns that cannot be used price nothing, of the entries {numbers}; {todo}"
        )
    return Finding("prices", State.OK, f"{book.entries:,} price entries")


def _relay(status: RelayStatus, now: datetime, cell: str = "") -> Finding:
    check = f"relay {cell}".rstrip()
    if status.parked:
        of_cell = f"--cell {cell} " if cell else ""
        todo = f"`runtally {of_cell}relay --list-parked` says why, and `--retry-parked` queues them again"
        return Finding(check, State.WARN, f"{status.parked:,} runs are parked after failing too often; {todo}")
    if status.oldest_at and now - status.oldest_at > LONG_WAIT:
        todo = "let `serve` or `runtally relay` run, with `SERVICE_SYNC_SIGN`"
        return Finding(
            check,
            State.WARN,
            f"{status.waiting_words} runs wait, the first since {status.oldest_at:%F %R}"
            f"{' or longer' if status.is_more else ''}; {todo}",
        )
    return Finding(check, State.OK, f"{status.waiting_words} runs waiting for the reporting table")


async def _names(connection: Connection, now: datetime) -> list[Finding]:
    """Report the projects that send more names of models or experiments than are told apart."""
    return [
        Finding(
            "names",
            State.WARN,
            f"{project_id}: {MAX_VALUES:,} or more {kind} on {days} of the last {DAYS_OF_NAMES} days, so that further ones "
            + ('count as "(other)"' if kind == "models" else "do not begin")
            + "; let its programs send a name that many runs share, not an id of each request",
        )
        for project_id, kind, days in await select_capped(connection, now, DAYS_OF_NAMES, MAX_VALUES, SHOWN)
    ]


def _otlp(client: Client) -> Finding:
    """Report what one OTLP client sent, and why its runs cannot be seen."""
    parts = ", ".join(f"{number:,} {meaning}" for number, meaning in client.outcomes)
    requests = f"{client.requests:,} {'request' if client.requests == 1 else 'requests'} of {client.signal}"
    came = f"{client.service} by {client.exporter} to {client.project_id}: {requests} since "
    message = f"{came}{client.first_at:%F %R}, the last {client.last_at:%F %R}: {parts or 'nothing in them'}"
    if client.has_runs:
        return Finding("otlp", State.OK, message)
    return Finding("otlp", State.WARN, f"{message}; docs/opentelemetry.md and docs/agents.md say what is a run")
