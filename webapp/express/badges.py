"""Badges, which every reader of a README asks for."""

import re
from collections.abc import Coroutine, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

from werkzeug.http import parse_etags

from api.badge_answer import Asking, Badge, badge_for, takes_gzip
from webapp.assets import gzipped
from webapp.express.exchange import Answer, Request, refused

PREFIX = "/api/badge/experiment/"
# What any two readers of a URL read alike.
_PLAIN_PATH = re.compile(r"[\w.~-]+(?:/[\w.~-]+)*", re.ASCII)
_PLAIN_QUERY = re.compile(rb"[\w.~=&%+-]*", re.ASCII)
_UNUSUAL = frozenset({b"if-match", b"if-unmodified-since", b"range", b"if-range"})
# The same badge is asked for again and again.
_gzipped = lru_cache(256)(gzipped)


def show(request: Request) -> Coroutine[Any, Any, Answer] | None:
    """A badge; None for what is none, or is asked for in an unusual way."""
    if not _UNUSUAL.isdisjoint(request.headers):
        return None
    asking = _asking(request)
    return None if asking is None else _shown(request, asking)


async def _shown(request: Request, asking: Asking) -> Answer:
    try:
        return _answer(request, asking, await badge_for(asking, request.services.verdicts))
    except Exception as error:  # noqa: BLE001  # As Quart's handler of errors does.
        return refused(error, {"Vary": "Accept-Encoding"})


def _asking(request: Request) -> Asking | None:
    if not _PLAIN_PATH.fullmatch(request.path, len(PREFIX)) or not _PLAIN_QUERY.fullmatch(request.query):
        return None
    try:
        args = _args(request.query)
    except UnicodeDecodeError:
        return None
    return Asking(request.path[len(PREFIX) :], args, _text(request, b"accept"), _text(request, b"accept-encoding"))


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
