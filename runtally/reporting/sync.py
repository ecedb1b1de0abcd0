"""Store live run documents in the reporting table."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runtally.clock import Clock
from runtally.db.batcher import Batcher
from runtally.db.database import Database
from runtally.errors import InvalidJson, InvalidPayload, StoreUnavailable
from runtally.models.run import StoredRun
from runtally.privacy import ContentRule
from runtally.reporting import copy_queries
from runtally.reporting.document import MAX_DOCUMENTS, decode, id_of, read_documents

# Decoding a document takes some hundredths of a millisecond, so a batch pauses for other requests.
_DECODED_AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True)
class Synced:
    """The result for a document: `applied` unless a version that is as new was there already."""

    id: str
    applied: bool


@dataclass(frozen=True, slots=True)
class RefusedDocument:
    """A document of a batch that was refused; `id` is None where none can be read."""

    id: str | None
    error: Exception


SyncedBatch = Sequence[Synced | RefusedDocument]
"""The results for the documents of a batch, in the order sent."""


class ReportingSync:
    """Writes the reporting table; one per process."""

    def __init__(self, database: Database, rule: ContentRule, clock: Clock) -> None:
        self.database = database
        self._clock = clock
        self._rule = rule
        self._batcher = Batcher(self._upsert, at_most=MAX_DOCUMENTS)

    async def accept(self, body: bytes) -> Synced | SyncedBatch:
        """Store the run of a document, or those of a batch, if newer than the stored version.

        They are committed when this returns. Each document of a batch is accepted or refused on its own. Raises
        `InvalidJson`, `InvalidPayload`, `StoreUnavailable` and `StoreBusy`; then nothing was changed, or it is unknown
        what was.
        """
        documents = read_documents(body)
        if documents is not None:
            return await self._accept_batch(documents)
        run = decode(body, self._clock(), self._rule)
        return Synced(run.id, await self._batcher.submit(run))

    async def _accept_batch(self, documents: Sequence[bytes]) -> SyncedBatch:
        now = self._clock()
        decoded: list[StoredRun | RefusedDocument] = []
        for number, document in enumerate(documents):
            if number % _DECODED_AT_ONCE == 0:
                await asyncio.sleep(0)
            try:
                decoded.append(decode(document, now, self._rule))
            except (InvalidJson, InvalidPayload) as error:
                decoded.append(RefusedDocument(id_of(document), error))
        answers = iter(await self._batcher.submit_all([run for run in decoded if isinstance(run, StoredRun)]))
        return [one if isinstance(one, RefusedDocument) else _synced(one, next(answers)) for one in decoded]

    async def _upsert(self, runs: Sequence[StoredRun]) -> list[bool]:
        async with self.database.durable() as connection:
            return await copy_queries.upsert_reported(connection, runs, self._clock())


def _synced(run: StoredRun, answer: bool | Exception) -> Synced | RefusedDocument:  # noqa: FBT001  # What was answered.
    """Raise `StoreUnavailable`, which concerns the whole batch."""
    if isinstance(answer, StoreUnavailable):
        raise answer
    return RefusedDocument(run.id, answer) if isinstance(answer, Exception) else Synced(run.id, answer)
