"""Notice that SECRET_KEY is another one: the database knows a fingerprint of each key that the service was started with."""

import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime

from pydantic import SecretStr

from runtally.access.sessions import LIFETIME
from runtally.db.database import Connection

CHANGED = (
    "SECRET_KEY is not the one of before: who was signed in has to sign in again, links that confirm mail addresses are "
    "refused, and without NAMES_SECRET new hashes of people's names differ from those that are stored. If that was not meant, "
    "put the old one back, or start with both, SECRET_KEY=new,old."
)
_MESSAGE = b"runtally: fingerprint of SECRET_KEY"
_SELECT = "SELECT fingerprint, first_at FROM secret_key_fingerprints"
_INSERT = """
INSERT INTO secret_key_fingerprints (fingerprint, first_at)
SELECT unnest($1::bytea[]), $2
    ON CONFLICT (fingerprint) DO NOTHING
"""


def fingerprint(key: SecretStr) -> bytes:
    """Return what tells a key from others, and tells nothing else of it."""
    return hmac.digest(key.get_secret_value().encode(), _MESSAGE, hashlib.sha256)[:16]


async def remember(connection: Connection, keys: Sequence[SecretStr], now: datetime) -> bool:
    """Record the keys of a start, and return whether none of them is known while others are. Raises `StoreUnavailable`."""
    known = {row["fingerprint"] for row in await connection.fetch(_SELECT)}
    ours = [fingerprint(key) for key in keys]
    await connection.execute(_INSERT, ours, now)
    return bool(ours) and bool(known) and known.isdisjoint(ours)


async def is_replaced(connection: Connection, keys: Sequence[SecretStr], now: datetime) -> bool:
    """Return whether a key of before is missing whose sessions may go on. Raises `StoreUnavailable`."""
    known = {row["fingerprint"]: row["first_at"] for row in await connection.fetch(_SELECT)}
    ours = {fingerprint(key) for key in keys}
    # With a key that is older than any session, all of them have been begun with the keys that there are.
    is_old = any(known.get(one, now) <= now - LIFETIME for one in ours)
    return bool(ours) and not is_old and not known.keys() <= ours
