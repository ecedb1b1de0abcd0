"""Runs that a client sends, and documents that the relay pushes."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from api import ingest, pg_sync
from api.auth import INGEST, is_any_of, refuse_unless_signed
from api.limits import ingest_key_for, ingest_rate, limit_headers, refuse_unless_granted, wrong_keys_of
from api.reply import HEADERS, encoded
from runtally.errors import RuntallyError
from runtally.ingest.decode import read_envelope
from runtally.reporting.document import SIGNATURE_HEADER
from runtally.reporting.push import PATH as SYNC
from runtally.services import Services
from webapp.express.exchange import Answer, Request, refused

_PLAIN_JSON = frozenset({b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8"})
_SIGNATURE = SIGNATURE_HEADER.lower().encode()


class _Lane(NamedTuple):
    """For whom it is, and what is done with a request; what is to be said in headers goes into the mapping."""

    is_for: Callable[[Request], bool]
    take: Callable[[Request, dict[str, str]], Awaitable[bytes]]


def take(request: Request) -> Coroutine[Any, Any, Answer] | None:
    """The answer; None for a request that is out of the ordinary."""
    lane = LANES[request.path]
    return _answer(lane, request) if _is_plain(request) and lane.is_for(request) else None


def _is_plain(request: Request) -> bool:
    """Whether there is nothing to a request but its body: nothing packed, and no larger than any may be."""
    headers = request.headers
    return (
        headers.get(b"content-type", b"").lower() in _PLAIN_JSON
        and b"content-encoding" not in headers
        and b"content-length" in headers
        and len(request.body) <= request.services.settings.max_body_bytes
    )


async def _answer(lane: _Lane, request: Request) -> Answer:
    headers: dict[str, str] = {}
    try:
        answer = await lane.take(request, headers)
    except Exception as error:  # noqa: BLE001  # As Quart's handler of errors does.
        return refused(error, headers)
    return Answer(200, answer, {**HEADERS, **headers})


def _has_shared_key(request: Request) -> bool:
    """A shared key that is right, from an address that may still send keys."""
    settings, key = request.services.settings, request.key
    wrong_keys, rate = wrong_keys_of(request.address, settings)
    return bool(
        key and request.services.limiter.refusal(wrong_keys, rate) is None and is_any_of(key, settings.ingest_api_key)
    )


async def _take_runs(request: Request, headers: dict[str, str]) -> bytes:
    """What is wrong with a body is said after it was counted."""
    services, rate = request.services, ingest_rate(request.services.settings)
    try:
        sent = read_envelope(request.body)
    except RuntallyError as error:
        await _count(ingest_key_for(None, request.address, rate), services, headers)
        raise error from None
    await _count(ingest_key_for(sent.project_id, request.address, rate), services, headers)
    return encoded(ingest.answer_to(await services.ingest.accept(sent, by=INGEST)))


async def _count(key: str, services: Services, headers: dict[str, str]) -> None:
    decision = await services.limiter.take(key, ingest_rate(services.settings))
    headers |= limit_headers(decision)
    refuse_unless_granted(decision)


def _is_signed(request: Request) -> bool:
    return _SIGNATURE in request.headers and bool(request.services.settings.service_sync_sign)


async def _take_document(request: Request, _headers: dict[str, str]) -> bytes:
    signature = request.headers[_SIGNATURE].decode("latin-1")
    refuse_unless_signed(request.body, signature, request.services.settings.service_sync_sign)
    return encoded(pg_sync.answer_to(await request.services.reporting.accept(request.body)))


LANES: Mapping[str, _Lane] = {
    "/api/ingest": _Lane(_has_shared_key, _take_runs),
    SYNC: _Lane(_is_signed, _take_document),
}
