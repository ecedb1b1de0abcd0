"""Limiter: query the store as rarely as possible, with the same decisions as if each request queried it.

Requests that arrive during a query are put together in the next one, so that a busy worker sends one query for many. A
key that is used up until a certain moment is refused locally until then: a TAT never moves back. The store is a table in
Postgres that all workers share, where one statement decides.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from time import monotonic_ns
from typing import NamedTuple, Self

import structlog

from runtally.db.batcher import StallBreaker
from runtally.db.database import Connection, Database
from runtally.errors import RuntallyError, StoreUnavailable
from runtally.limits.rate import Decision, Grant, Rate
from runtally.waiter import Waiter


class LimitStore:
    """Counts for all workers at once, in an unlogged Postgres table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, rate: Rate, wanted: Mapping[str, int]) -> Mapping[str, Grant]:
        """Grant as many of the wanted requests of each key as the rate allows, in one atomic step.

        Raises `StoreUnavailable`.
        """
        async with self._database.connection() as connection:
            arguments = list(wanted), list(wanted.values()), rate.count, rate.interval_ns
            rows = await connection.fetch(TAKE, *arguments, timeout=STATEMENT_SECONDS)
        return {row["key"]: Grant(row["granted"], row["busy_ns"]) for row in rows}


# Use the database's clock, so that servers need not agree on the time. It is read once, after the row was locked, so
# that the later of two workers sees what the earlier one wrote. Keys are sorted, so that two batches cannot deadlock.
# Nothing is taken further ahead than the limit allows, except by a clock that was ahead and has been put back.
TAKE = """
INSERT INTO rate_limits AS held (key, tat_ns, granted)
     SELECT sent.key, (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint + first.granted * $4, first.granted
       FROM unnest($1::text[], $2::bigint[]) AS sent (key, wanted),
    LATERAL (SELECT least(sent.wanted, $3::bigint) AS granted) AS first
   ORDER BY sent.key
ON CONFLICT (key) DO UPDATE
        SET (tat_ns, granted) = (
            SELECT fits.starts_ns + fits.granted * $4, fits.granted
              FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint AS now_ns) AS clock,
           LATERAL (SELECT greatest(least(held.tat_ns, clock.now_ns + $3 * $4::bigint), clock.now_ns) AS starts_ns) AS tat,
           LATERAL (SELECT tat.starts_ns,
                           least(excluded.granted,
                                 greatest((clock.now_ns + $3 * $4::bigint - tat.starts_ns) / $4, 0)) AS granted) AS fits
            )
  RETURNING key, granted, tat_ns - (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint AS busy_ns
"""

# Every request waits for this statement, so it must not take long.
STATEMENT_SECONDS = 5.0

# Rows that are in use right now are skipped: they are not idle, and this statement should not wait.
DELETE_IDLE = """
DELETE FROM rate_limits
      WHERE key IN (SELECT key
                      FROM rate_limits
                     WHERE tat_ns < (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint
                FOR UPDATE SKIP LOCKED)
"""


async def delete_idle_keys(connection: Connection) -> None:
    """Delete the keys whose limit is completely free again."""
    await connection.execute(DELETE_IDLE)


MAX_REMEMBERED = 10_000

log = structlog.get_logger()


class _Waiting(NamedTuple):
    key: str
    answer: Waiter[Decision]


class Limiter:
    """Decides whether requests pass their limits; one per process."""

    def __init__(self, store: LimitStore, clock_ns: Callable[[], int] = monotonic_ns) -> None:
        self._store = store
        self._clock_ns = clock_ns
        self._waiting: defaultdict[Rate, list[_Waiting]] = defaultdict(list)
        self._used_up: dict[str, tuple[int, int]] = {}
        self._task: asyncio.Task[None] | None = None
        self._breaker = StallBreaker()

    @classmethod
    @asynccontextmanager
    async def opened(cls, database: Database) -> AsyncIterator[Self]:
        """Open a limiter over the database; in the end it waits for the last answer."""
        limiter = cls(LimitStore(database))
        try:
            yield limiter
        finally:
            if limiter._task is not None:
                await limiter._task

    async def take(self, key: str, rate: Rate) -> Decision:
        """Count one request against the key's limit; a refused request is not counted.

        A key must always be used with the same rate. Raises `StoreUnavailable`, and what `ask` raises.
        """
        known = self.refusal(key, rate)
        if known is not None:
            return known
        answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self.ask(key, rate, answer)
        return await answer

    def ask(self, key: str, rate: Rate, answer: Waiter[Decision]) -> None:
        """Begin to count one request that `refusal` lets pass. Raises `StoreBusy` at once while the store does not answer."""
        self._breaker.refuse_if_stuck()
        self._waiting[rate].append(_Waiting(key, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._ask())

    def refusal(self, key: str, rate: Rate) -> Decision | None:
        """Return the refusal if it is certain without the store; None when only the store knows."""
        known = self._used_up.get(key)
        if known is None:
            return None
        (until_ns, tat_ns), now_ns = known, self._clock_ns()
        if now_ns < until_ns:
            return Decision(rate, granted=False, busy_ns=tat_ns - now_ns)
        del self._used_up[key]
        return None

    async def _ask(self) -> None:
        try:
            while self._waiting:
                await self._ask_store(*self._waiting.popitem())
        finally:
            self._task = None

    async def _ask_store(self, rate: Rate, waiting: Sequence[_Waiting]) -> None:
        wanted = Counter(request.key for request in waiting)
        try:
            with self._breaker.calling():
                grants = await self._store.take(rate, wanted)
        except Exception as error:  # noqa: BLE001  # Any error is passed to the requests that wait for the answer.
            _fail(waiting, error)
            return
        for key, grant in grants.items():
            self._remember(key, rate, grant)
        # The next question goes first, so that the store works meanwhile.
        asyncio.get_running_loop().call_soon(_tell, rate, waiting, grants)

    def _remember(self, key: str, rate: Rate, grant: Grant) -> None:
        wait_ns = rate.wait_ns(grant.busy_ns)
        if not wait_ns:
            return
        now_ns = self._clock_ns()
        if len(self._used_up) >= MAX_REMEMBERED:
            self._used_up = {key: known for key, known in self._used_up.items() if known[0] > now_ns}
        if len(self._used_up) < MAX_REMEMBERED:
            self._used_up[key] = (now_ns + wait_ns, now_ns + grant.busy_ns)


def _tell(rate: Rate, waiting: Sequence[_Waiting], grants: Mapping[str, Grant]) -> None:
    turns: Counter[str] = Counter()
    for request in waiting:
        turns[request.key] += 1
        if not request.answer.done():
            request.answer.set_result(_decision(rate, grants[request.key], turns[request.key]))


def _fail(waiting: Sequence[_Waiting], error: Exception) -> None:
    """Fail every waiting request with an exception of its own; a bug is logged here once."""
    known = isinstance(error, StoreUnavailable)
    if not known:
        log.error("limits_failed", error=type(error).__name__, exc_info=error)
    for request in waiting:
        if not request.answer.done():
            request.answer.set_exception(StoreUnavailable(str(error)) if known else RuntallyError())


def _decision(rate: Rate, grant: Grant, turn: int) -> Decision:
    """Return the decision for the request with this turn: of several requests of a key the first ones pass.

    Each decision says what was left after its own turn.
    """
    after_turn = max(grant.granted - turn, 0)
    return Decision(rate, granted=turn <= grant.granted, busy_ns=grant.busy_ns - after_turn * rate.interval_ns)
