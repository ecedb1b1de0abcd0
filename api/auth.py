"""Keys from headers to an actor, as section 5 of the interface document has it."""

import hmac

from quart import request
from werkzeug.datastructures import WWWAuthenticate

from api.access import AccessRule, access
from api.current import services
from runtally.access.keys import verify
from runtally.access.scopes import Scope
from runtally.audit import Actor, ActorKind
from runtally.errors import InvalidKey, MissingKey, NotConfigured

CHALLENGE = WWWAuthenticate("bearer", {"realm": "runtally"})
DEVELOPER = Actor(ActorKind.DEVELOPER, "developer", frozenset({Scope.ADMIN}))
_INGEST = Actor(ActorKind.INGEST, "ingest", frozenset({Scope.RUNS_WRITE}))


def bearer() -> str | None:
    """The key in the header `Authorization: Bearer`; None for another scheme."""
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    return key.strip() or None if scheme.casefold() == "bearer" else None


async def ingest_actor() -> Actor:
    """Whoever holds the shared ingest key. Raises `NotConfigured`, `MissingKey`, `InvalidKey`."""
    allowed = services().settings.ingest_api_key
    if not allowed:
        raise NotConfigured("The server has no INGEST_API_KEY; ask its operator to set it.")
    sent = bearer() or request.headers.get("x-api-key", "").strip()
    if not sent:
        raise MissingKey("Send the ingest key in the header Authorization: Bearer <key>, or x-api-key.")
    # All are compared, so that the time tells not even which one matched.
    matches = [hmac.compare_digest(sent.encode(), key.get_secret_value().encode()) for key in allowed]
    if not any(matches):
        raise InvalidKey
    return _INGEST


async def key_actor() -> Actor:
    """Whoever holds a project key; in dev mode everybody is an admin. Raises `MissingKey`, `InvalidKey`."""
    if services().settings.service_dev_mode:
        return DEVELOPER
    sent = bearer()
    if sent is None:
        raise MissingKey("Send a project key in the header Authorization: Bearer <key>.")
    async with services().database.session() as session:
        return await verify(session, services().clock(), sent)


ingest_key = access(AccessRule("ingest key", ingest_actor))
project_key = access(AccessRule("project key", key_actor))
