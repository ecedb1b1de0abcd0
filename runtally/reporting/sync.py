"""Takes live run documents into the reporting table."""

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
from runtally.reporting import queries
from runtally.reporting.document import MAX_DOCUMENTS, decode, id_of, read_documents

# A batch takes turns with other requests, as decoding one document takes some hundredths of a millisecond.
_DECODED_AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True)
class Synced:
    """What became of a document: `applied` unless a version as new was there already."""

    id: str
    applied: bool


@dataclass(frozen=True, slots=True)
class RefusedDocument:
    """A document of a batch that was not taken; `id` is None where it has none that can be read."""

    id: str | None
    error: Exception


SyncedBatch = Sequence[Synced | RefusedDocument]
"""What became of the documents of a batch, in the order sent."""


class ReportingSync:
    """Writes the reporting table, wherever that is; one per process."""

    def __init__(self, database: Database, rule: ContentRule, clock: Clock) -> None:
        self.database = database
        self._clock = clock
        self._rule = rule
        self._batcher = Batcher(self._upsert, at_most=MAX_DOCUMENTS)

    async def accept(self, body: bytes) -> Synced | SyncedBatch:
        """Keep the run of a document, or those of a batch, if newer than what is there; committed when this returns.

        Of a batch each document is taken or refused by itself. Raises `InvalidJson`, `InvalidPayload`, `StoreUnavailable`
        and `StoreBusy`; nothing is changed then, or nobody knows what was.
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
            return await queries.upsert_reported(connection, runs, self._clock())


def _synced(run: StoredRun, answer: bool | Exception) -> Synced | RefusedDocument:  # noqa: FBT001  # What was answered.
    """Raises `StoreUnavailable`, which is an answer to the whole batch."""
    if isinstance(answer, StoreUnavailable):
        raise answer
    return RefusedDocument(run.id, answer) if isinstance(answer, Exception) else Synced(run.id, answer)
