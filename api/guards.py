"""The access rules in the words of the API's documentation: what to send, and how a request is refused."""

from dataclasses import dataclass

from api.schemas import Schema
from runtally.errors import (
    Forbidden,
    InvalidKey,
    InvalidSignature,
    MissingKey,
    NotConfigured,
    RateLimited,
    RuntallyError,
    StoreBusy,
    StoreUnavailable,
)

SCHEMES: dict[str, Schema] = {
    "ingestKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of `INGEST_API_KEY`, or a project key with the scope runs:write unless "
        "`INGEST_PROJECT_KEYS=0`; the project is then the key's.",
    },
    "ingestKeyHeader": {
        "type": "apiKey",
        "in": "header",
        "name": "x-api-key",
        "description": "The same keys, for clients that cannot send Authorization.",
    },
    "ingestKeyAsPassword": {
        "type": "http",
        "scheme": "basic",
        "description": "The same keys as the password; the user is the project, or nothing.",
    },
    "projectKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key that `runtally keys create` issued; in dev mode none is needed.",
    },
    "signature": {
        "type": "apiKey",
        "in": "header",
        "name": "x-svc-signature",
        "description": "Lower-case hex HMAC-SHA256 of the raw body under `SERVICE_SYNC_SIGN`, also as `sha256=<hex>`.",
    },
}


@dataclass(frozen=True, slots=True)
class Guard:
    """An access rule for the documentation: any one of the schemes grants access."""

    schemes: tuple[str, ...]
    raises: tuple[type[RuntallyError], ...]


GUARDS = {
    "public": Guard((), ()),
    "ingest key": Guard(
        ("ingestKey", "ingestKeyHeader"),
        (MissingKey, InvalidKey, Forbidden, RateLimited, NotConfigured, StoreUnavailable),
    ),
    "otlp key": Guard(
        ("ingestKey", "ingestKeyHeader", "ingestKeyAsPassword"),
        (MissingKey, InvalidKey, Forbidden, RateLimited, NotConfigured, StoreUnavailable),
    ),
    "sync signature": Guard(("signature",), (InvalidSignature, NotConfigured)),
    "project key": Guard(("projectKey",), (MissingKey, InvalidKey, RateLimited, StoreUnavailable, StoreBusy)),
}
"""Guards by the names of the rules. A test refuses a route under /api whose rule is missing here."""
