"""Open connections to the server of a URL, or, if the URL names several, to the one that accepts writes.

The driver and SQLAlchemy know URLs with several servers as well, but try one after the other, all within one time-out: a
first server that hangs would use it up.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import asyncpg

from runtally.db.dsn import Dsn

OpenConnection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

# A server answers in much less; one that hangs delays by so much.
HEAD_START_SECONDS = 0.5


async def connect(dsn: Dsn, options: Mapping[str, Any], *, likely: int = 0) -> tuple[OpenConnection, int]:
    """Open a connection to a server that lets us in and is what the URL asks for, and return the server's number as well.

    The `likely` one is tried first, and each has a head start of the next. Raises what the driver raises: of several servers,
    what is wrong with one that is not merely a standby.
    """
    numbers = sorted(range(len(dsn.urls)), key=lambda number: number != likely)
    tries: list[asyncio.Task[OpenConnection]] = []
    found = None
    try:
        for number in numbers:
            tries.append(asyncio.create_task(asyncpg.connect(dsn.texts[number], **options)))
            is_last = len(tries) == len(numbers)
            found = await _first_open(tries, None if is_last else HEAD_START_SECONDS)
            if found is not None:
                return found.result(), numbers[tries.index(found)]
    finally:
        for one in tries:
            if one is not found:
                one.cancel()
                one.add_done_callback(_end)
    errors = [error for one in tries if (error := one.exception())]
    raise next((each for each in errors if not isinstance(each, asyncpg.TargetServerAttributeNotMatched)), errors[0])


def engine_options(
    dsn: Dsn,
    options: Mapping[str, Any],
    connect_to_one: Callable[..., Awaitable[OpenConnection]],
    *,
    is_checked: bool = False,
) -> dict[str, Any]:
    """Return the options with which SQLAlchemy connects, which prepares statements of its own.

    It connects itself, unless there are several servers or connections are checked.
    """
    several = {"async_creator_fn": connect_to_one} if is_checked or len(dsn.urls) > 1 else {}
    unnamed = {"prepared_statement_cache_size": 0, "prepared_statement_name_func": str} if dsn.is_pooled else {}
    return {"connect_args": {**options, **several, **unnamed}}


async def _first_open(
    tries: Sequence[asyncio.Task[OpenConnection]], seconds: float | None
) -> asyncio.Task[OpenConnection] | None:
    """Return the first try that is a success within a time; None if there is none, or as soon as all have failed."""
    waiting = set(tries)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    if one.exception() is None:
                        return one
    return None


def _end(one: asyncio.Task[OpenConnection]) -> None:
    """Close a connection that is not needed any more."""
    if not one.cancelled() and one.exception() is None:
        one.result().terminate()
