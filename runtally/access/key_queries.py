"""SQL that looks up API keys. Every API request asks, so one statement reads all that is needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from runtally.db.database import Connection

SELECT_HOLDER = """
SELECT id, prefix, project_id, scopes, last_used_at
  FROM api_keys
 WHERE key_hash = $1
   AND revoked_at IS NULL
   AND (expires_at IS NULL OR expires_at > $2)
"""

SELECT_NAMES = """
SELECT id, coalesce(name, prefix)
  FROM api_keys
 WHERE id = ANY ($1::uuid[])
"""

UPDATE_LAST_USE = """
UPDATE api_keys
   SET last_used_at = $2
 WHERE id = $1
"""


@dataclass(frozen=True, slots=True)
class Holder:
    """The stored values of an active key."""

    id: UUID
    prefix: str
    project_id: str | None
    scopes: list[str]
    last_used_at: datetime | None


async def select_holder(connection: Connection, key_hash: bytes, now: datetime) -> Holder | None:
    """Read the holder of a key; None if it does not exist, expired or was revoked."""
    row = await connection.fetchrow(SELECT_HOLDER, key_hash, now)
    return Holder(**row) if row else None


async def select_names(connection: Connection, key_ids: Sequence[UUID]) -> dict[UUID, str]:
    """Read the display names of keys: the name, or the prefix of a key without one; deleted keys are left out."""
    return {row[0]: row[1] for row in await connection.fetch(SELECT_NAMES, key_ids)}


async def update_last_use(connection: Connection, key_id: UUID, now: datetime) -> None:
    await connection.execute(UPDATE_LAST_USE, key_id, now)
