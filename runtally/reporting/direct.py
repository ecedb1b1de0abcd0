"""The relay for a reporting table that this service keeps itself: it copies runs in batches, without HTTP.

A batch leaves the queue in the transaction that copies it, so that nothing can be lost between the two. If one run of a
batch cannot be copied, the batch is rolled back and its runs are tried one by one.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import structlog

from runtally.clock import Clock
from runtally.db.batcher import UsuallyNew
from runtally.db.database import Connection, Database
from runtally.errors import StoreUnavailable
from runtally.models.run import StoredRun
from runtally.privacy import ContentRule
from runtally.reporting import copy_queries, outbox_queries
from runtally.reporting.copy_queries import Keys, upsert_reported
from runtally.reporting.outbox_queries import Claim, Failure
from runtally.reporting.relay import Relay, RelayResult

# Large enough that the fixed cost of a statement does not matter, small enough that nothing waits long for its locks.
BATCH: Final = 2_000
# Runs of a failed batch that one pass tries; each is a transaction.
SINGLY: Final = 100
LEASE: Final = timedelta(seconds=60)
# After so many failures without a success, the reporting table is at fault rather than the runs.
MOST_FAILURES: Final = 16

log = structlog.get_logger()


class DirectRelay(Relay):
    """Copies queued runs into the reporting table, in the same database or in another."""

    receiver = "the reporting table"

    def __init__(self, database: Database, reporting: Database, rule: ContentRule, clock: Clock) -> None:
        super().__init__(database, clock)
        self._reporting = reporting
        self._rule = rule
        self._new = UsuallyNew()

    async def run_pass(self, stop: asyncio.Event | None = None) -> RelayResult:
        now = self._clock()
        try:
            return await self._new.store(partial(self._copy_batch, now))
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  # Any error may be caused by a single run.
            # Log only the class: a database's message may quote a value.
            log.warning("batch_not_copied", cause=type(error).__qualname__)
            return await self._copy_singly(now, stop or asyncio.Event())

    async def _copy_batch(self, now: datetime, *, are_new: bool) -> RelayResult:
        async with self._database.transaction() as connection:
            taken = await copy_queries.take(connection, now, BATCH)
            if taken.keys.run_ids:
                await self._copy(connection, taken.keys, now, are_new=are_new and taken.are_new)
        return RelayResult(delivered=len(taken.keys.run_ids), more=taken.more)

    async def _copy_singly(self, now: datetime, stop: asyncio.Event) -> RelayResult:
        async with self._database.connection() as connection:
            claims = await outbox_queries.claim(connection, now, now + LEASE, SINGLY)
        delivered: list[Claim] = []
        failed: list[Failure] = []
        for claim in claims:
            if stop.is_set() or _is_receiver_down(delivered, failed):
                break
            try:
                async with self._database.transaction() as connection:
                    await self._copy(connection, Keys.of([claim]), now)
            except StoreUnavailable:
                break
            except Exception as error:  # noqa: BLE001  # As above.
                failed.append(self._failure(claim, f"the reporting table does not take it: {type(error).__qualname__}"))
            else:
                delivered.append(claim)
        released = claims[len(delivered) + len(failed) :]
        await self._record_results(delivered=delivered, failed=failed, released=released)
        return RelayResult(
            delivered=len(delivered),
            failed=failed,
            released=len(released),
            receiver_failures=len(failed) if _is_receiver_down(delivered, failed) else 0,
            more=bool(delivered),
        )

    async def _copy(self, connection: Connection, keys: Keys, now: datetime, *, are_new: bool = False) -> None:
        if self._reporting.is_same(self._database):
            await copy_queries.copy_runs(connection, keys, now, with_previews=self._rule.keeps_preview, are_new=are_new)
            return
        runs = await copy_queries.select_runs(connection, keys)
        async with self._reporting.durable() as there:
            await upsert_reported(there, [self._thinned(run) for run in runs], now)

    def _thinned(self, run: StoredRun) -> StoredRun:
        """Apply today's content rule to the run."""
        if not self._rule.keeps_preview:
            run.prompt_preview = None
        if run.metadata is not None:
            run.metadata = self._rule.scrub(run.metadata).metadata
        return run


def _is_receiver_down(delivered: Sequence[Claim], failed: Sequence[Failure]) -> bool:
    return not delivered and len(failed) >= MOST_FAILURES
