"""Badges, which every reader of a README asks for."""

import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import parse_qsl

from werkzeug.http import parse_etags

from api.badge import RULE
from api.badge_answer import Asking, Badge, badge_for, takes_gzip
from webapp.assets import gzipped
from webapp.express.exchange import Answer, Request, refused
from webapp.tracing import Send

PREFIX = "/api/badge/experiment/"
# What any two readers of a URL read alike.
_PLAIN_PATH = re.compile(r"[\w.~-]+(?:/[\w.~-]+)*", re.ASCII)
_PLAIN_QUERY = re.compile(rb"[\w.~=&%+-]*", re.ASCII)
# The same badge is asked for again and again.
_gzipped = lru_cache(256)(gzipped)


async def show(request: Request, send: Send) -> bool:
    """Answer with a badge; False for what is none, or is asked for in an unusual way."""
    asking = _asking(request)
    if asking is None:
        return False
    try:
        answer = _answer(request, asking, await badge_for(asking, request.services.verdicts))
    except Exception as error:  # noqa: BLE001  # As Quart's handler of errors does.
        answer = refused(error, {"Vary": "Accept-Encoding"})
    await answer.send_to(request, send, route=RULE)
    return True


def _asking(request: Request) -> Asking | None:
    path, query = request.scope["path"], request.scope["query_string"]
    if not path.startswith(PREFIX) or not _PLAIN_PATH.fullmatch(path, len(PREFIX)) or not _PLAIN_QUERY.fullmatch(query):
        return None
    try:
        args = _args(query)
    except UnicodeDecodeError:
        return None
    return Asking(path[len(PREFIX) :], args, _text(request, b"accept"), _text(request, b"accept-encoding"))


def _args(query: bytes) -> Mapping[str, str]:
    """The first value of each parameter."""
    return dict(reversed(parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict"))) if query else {}


def _text(request: Request, header: bytes) -> str | None:
    value = request.headers.get(header)
    return None if value is None else value.decode("latin-1")


def _answer(request: Request, asking: Asking, badge: Badge) -> Answer:
    """With a body only for a client that has not got it yet."""
    headers = {"Content-Type": badge.content_type, **badge.headers, "ETag": f'"{badge.etag}"'}
    if parse_etags(_text(request, b"if-none-match")).contains_weak(badge.etag):
        return Answer(304, b"", headers)
    packed = _gzipped(badge.body) if takes_gzip(asking.accept_encoding) else None
    if packed is not None:
        headers["Content-Encoding"] = "gzip"
    return Answer(200, packed or badge.body, headers)
