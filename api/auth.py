"""Keys from headers to an actor, as section 5 of the interface document has it."""

import hmac
from collections.abc import Sequence
from typing import cast

from pydantic import SecretStr
from quart import request

from api.access import AccessRule, access
from api.current import services
from api.limits import wrong_keys_limited
from runtally.access.keys import verify
from runtally.access.scopes import Scope, demand
from runtally.audit import Actor, ActorKind
from runtally.errors import InvalidKey, InvalidSignature, MissingKey, NotConfigured
from runtally.reporting.document import SIGNATURE_HEADER, is_signed

CHALLENGE = 'Bearer realm="runtally"'
DEVELOPER = Actor(ActorKind.DEVELOPER, "developer", frozenset({Scope.ADMIN}))
_RELAY = Actor(ActorKind.SYSTEM, "relay", frozenset())
INGEST = Actor(ActorKind.INGEST, "ingest", frozenset({Scope.RUNS_WRITE}))


def bearer() -> str | None:
    """The key in the header `Authorization: Bearer`; None for another scheme."""
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    return key.strip() or None if scheme.casefold() == "bearer" else None


async def ingest_actor() -> Actor:
    """Whoever holds the shared ingest key or, where these are allowed, a project key with the scope runs:write.

    Raises `NotConfigured`, `MissingKey`, `InvalidKey`, `RateLimited`, and `Forbidden` for a key of another scope.
    """
    settings = services().settings
    if not settings.ingest_api_key and not settings.ingest_project_keys:
        raise NotConfigured("The server has no INGEST_API_KEY; ask its operator to set it.")
    sent = bearer() or request.headers.get("x-api-key", "").strip()
    if not sent:
        raise MissingKey("Send the ingest key in the header Authorization: Bearer <key>, or x-api-key.")
    async with wrong_keys_limited():
        if is_any_of(sent, settings.ingest_api_key):
            return INGEST
        if not settings.ingest_project_keys:
            raise InvalidKey
        holder = await _holder(sent)
    demand(holder, Scope.RUNS_WRITE, holder.project_id)
    return holder


async def key_actor() -> Actor:
    """Whoever holds a project key; in dev mode everybody is an admin.

    Raises `MissingKey`, `InvalidKey`, `RateLimited`.
    """
    if services().settings.service_dev_mode:
        return DEVELOPER
    sent = bearer()
    if sent is None:
        raise MissingKey("Send a project key in the header Authorization: Bearer <key>.")
    async with wrong_keys_limited():
        return await _holder(sent)


def is_any_of(sent: str, allowed: Sequence[SecretStr]) -> bool:
    """All are compared, so that the time tells not even which one matched."""
    matches = [hmac.compare_digest(sent.encode(), key.get_secret_value().encode()) for key in allowed]
    return any(matches)


async def _holder(key: str) -> Actor:
    async with services().database.connection() as connection:
        return await verify(connection, services().clock(), key)


async def signature_actor() -> Actor:
    """Whoever signed the body with a secret of SERVICE_SYNC_SIGN. Raises `NotConfigured`, `InvalidSignature`.

    The body is only bytes here: nothing of it is parsed before it is known to be ours.
    """
    settings = services().settings
    if not settings.service_sync_sign:
        raise NotConfigured("The server has no SERVICE_SYNC_SIGN; ask its operator to set it.")
    refuse_unless_signed(
        cast(bytes, await request.get_data()), request.headers.get(SIGNATURE_HEADER, ""), settings.service_sync_sign
    )
    return _RELAY


def refuse_unless_signed(body: bytes, signature: str, secrets: Sequence[SecretStr]) -> None:
    """Raises `InvalidSignature`."""
    signature = signature.strip()
    if not signature or not is_signed(body, signature, [secret.get_secret_value() for secret in secrets]):
        raise InvalidSignature


ingest_key = access(AccessRule("ingest key", ingest_actor))
project_key = access(AccessRule("project key", key_actor))
sync_signature = access(AccessRule("sync signature", signature_actor))
