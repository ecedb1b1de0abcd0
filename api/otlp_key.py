"""Identify the sender of an OTLP request and its project, from headers that exporters can set.

`OTEL_EXPORTER_OTLP_HEADERS` holds percent-encoded values, which only some SDKs decode; a client that knows only a user
and a password sends the project as the user.
"""

import binascii
from base64 import b64decode
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import unquote

from quart import g

from api.access import AccessRule, access
from api.auth import ingest_holder
from api.current import actor, incoming
from api.request import Request
from runtally.audit import Actor
from runtally.errors import Forbidden
from runtally.otlp.origins import valid_project

PROJECT_HEADER = "x-runtally-project"


class Credentials(NamedTuple):
    """The credentials in the headers: the ways in which a key may have been written, and the user of Basic."""

    keys: tuple[str, ...]
    user: str


def read_credentials(authorization: str, api_key: str) -> Credentials:
    """Read the key of `Authorization`, else of `x-api-key`, percent-encoded or not."""
    keys: dict[str, None] = {}
    user = ""
    for written in (authorization, unquote(authorization)):
        scheme, _, value = written.strip().partition(" ")
        value = value.strip()
        if scheme.casefold() == "basic":
            user, _, value = _decoded(value).partition(":")
        elif scheme.casefold() != "bearer":
            continue
        keys |= dict.fromkeys(key for key in (value.strip(), unquote(value).strip()) if key)
    if not keys:
        keys = dict.fromkeys(key for key in (api_key.strip(), unquote(api_key).strip()) if key)
    return Credentials(tuple(keys), user)


def _decoded(value: str) -> str:
    try:
        return b64decode(value + "=" * (-len(value) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


async def sender(request: Request) -> Actor:
    """Return the holder of an ingest key. Raises what `ingest_holder` does."""
    credentials = read_credentials(request.headers.get("authorization", ""), request.headers.get("x-api-key", ""))
    g.basic_user = credentials.user
    return await ingest_holder(request, credentials.keys)


def named_project(in_path: str | None) -> str | None:
    """Return the project that the key or the request names. Raises `Forbidden` where they name different ones."""
    named = [
        project_id
        for sent in (in_path, _header(PROJECT_HEADER), g.basic_user)
        if (project_id := valid_project(sent)) is not None
    ]
    own = actor().project_id
    if own is not None and any(project_id != own for project_id in named):
        raise Forbidden("This key is another project's; name none, or use a key of that project.")
    return own if own is not None else next(iter(named), None)


def _header(name: str) -> str:
    """Return a header as text: percent-encoded, in UTF-8, or as it is."""
    sent = incoming().headers.get(name, "")
    with suppress(UnicodeError):
        sent = sent.encode("latin-1").decode()
    return unquote(sent)


otlp_key = access(AccessRule("otlp key", sender))
