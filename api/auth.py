"""Identify the actor of a request by the keys in its headers, as section 5 of the interface document says."""

import hmac
from collections.abc import Sequence
from contextlib import suppress

from pydantic import SecretStr

from api.access import AccessRule, access
from api.limits import wrong_keys_limited
from api.request import Request
from runtally.access.keys import verify
from runtally.access.scopes import Scope, demand
from runtally.audit import Actor, ActorKind
from runtally.errors import InvalidKey, InvalidSignature, MissingKey, NotConfigured
from runtally.limits.wrong_keys import WrongKeys
from runtally.reporting.document import SIGNATURE_HEADER, is_signed
from runtally.services import Services
from runtally.settings import Settings

CHALLENGE = 'Bearer realm="runtally"'
DEVELOPER = Actor(ActorKind.DEVELOPER, "developer", frozenset({Scope.ADMIN}))
_RELAY = Actor(ActorKind.SYSTEM, "relay", frozenset())
INGEST = Actor(ActorKind.INGEST, "ingest", frozenset({Scope.RUNS_WRITE}))


async def ingest_actor(request: Request) -> Actor:
    """Return the holder of the shared ingest key or, if project keys are allowed, of one with the scope runs:write.

    Raises `NotConfigured`, `MissingKey`, `InvalidKey`, `RateLimited`, and `Forbidden` for a key of another scope.
    """
    key = request.bearer_key or request.headers.get("x-api-key", "").strip()
    return await ingest_holder(request, [key] if key else [])


async def ingest_holder(request: Request, keys: Sequence[str]) -> Actor:
    """Return the holder of a key that may have been written in any of these ways. Raises what `ingest_actor` does."""
    settings = request.services.settings
    if not settings.ingest_api_key and not settings.ingest_project_keys:
        raise NotConfigured("The server has no INGEST_API_KEY; ask its operator to set it.")
    if not keys:
        raise MissingKey(f"Send {_ingest_keys(settings)} in the header Authorization: Bearer <key>, or x-api-key.")
    async with wrong_keys_limited(request):
        # Compare all of them, so that the time reveals nothing.
        if True in [is_any_of(key, settings.ingest_api_key) for key in keys]:
            return INGEST
        holder = await _first_holder(request.services, keys) if settings.ingest_project_keys else None
        if holder is None:
            raise InvalidKey(f"This key is wrong, expired or revoked; send {_ingest_keys(settings)}.")
    demand(holder, Scope.RUNS_WRITE, holder.project_id)
    return holder


def ingest_actor_at_hand(request: Request) -> Actor | None:
    """Return what `ingest_actor` does where that is known without waiting; None where it is to be asked."""
    settings = request.services.settings
    key = request.bearer_key or request.headers.get("x-api-key", "").strip()
    if not key or WrongKeys(request.services.limiter, settings, request.address).refusal() is not None:
        return None
    if is_any_of(key, settings.ingest_api_key):
        return INGEST
    holder = request.services.keys.remembered(key) if settings.ingest_project_keys else None
    return holder if holder is not None and Scope.RUNS_WRITE in holder.scopes else None


async def _first_holder(services: Services, keys: Sequence[str]) -> Actor | None:
    for key in keys:
        with suppress(InvalidKey):
            return await services.keys.holder_of(key)
    return None


def _ingest_keys(settings: Settings) -> str:
    """Describe the kinds of keys that this server accepts for ingest."""
    kinds = []
    if settings.ingest_api_key:
        kinds.append("the server's INGEST_API_KEY")
    if settings.ingest_project_keys:
        kinds.append("a project key with the scope runs:write")
    return " or ".join(kinds)


async def key_actor(request: Request) -> Actor:
    """Return the holder of a project key; in dev mode every caller is an admin.

    Raises `MissingKey`, `InvalidKey`, `RateLimited`.
    """
    if request.services.settings.service_dev_mode:
        return DEVELOPER
    sent = request.bearer_key
    if sent is None:
        raise MissingKey("Send a project key in the header Authorization: Bearer <key>.")
    services = request.services
    async with wrong_keys_limited(request), services.control.intake.connection() as connection:
        return await verify(connection, services.clock(), sent)


def is_any_of(sent: str, allowed: Sequence[SecretStr]) -> bool:
    """Return whether the key is one of these. All are compared, so that the time does not tell which one matched."""
    matches = [hmac.compare_digest(sent.encode(), key.get_secret_value().encode()) for key in allowed]
    return any(matches)


async def signature_actor(request: Request) -> Actor:
    """Return the sender who signed the body with a secret of SERVICE_SYNC_SIGN.

    Raises `NotConfigured`, `InvalidSignature`. The body is not parsed before its signature is verified.
    """
    secrets = [secret.get_secret_value() for secret in request.services.settings.service_sync_sign]
    if not secrets:
        raise NotConfigured("The server has no SERVICE_SYNC_SIGN; ask its operator to set it.")
    signature = request.headers.get(SIGNATURE_HEADER.lower(), "").strip()
    if not signature or not is_signed(await request.body(), signature, secrets):
        raise InvalidSignature
    return _RELAY


ingest_key = access(AccessRule("ingest key", ingest_actor))
project_key = access(AccessRule("project key", key_actor))
sync_signature = access(AccessRule("sync signature", signature_actor))
