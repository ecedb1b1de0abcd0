"""How often: ingest requests by project, wrong keys by address. Both are counted by the limiter that all workers share.

quart-rate-limiter gives the decorator and the hooks around a request; deciding is not left to it, because what it does,
reading a time from a store and then writing it back, lets two workers pass two requests on one slot.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import cast

from quart import Quart, Response, g, request
from quart_rate_limiter import KeyCallable, RateLimit, RateLimiter, rate_limit
from werkzeug.exceptions import HTTPException

from api.current import actor, services
from api.ingest_body import sent_request
from runtally.errors import InvalidKey, RateLimited, RuntallyError
from runtally.limits.rate import MINUTE, Decision, Rate, per_minute
from runtally.limits.source import source_of
from runtally.settings import Settings


def register(app: Quart) -> None:
    """Enforce the limits that views declare; after the access hook, so that only who may call is counted."""
    _SharedRateLimiter(app)


class _SharedRateLimiter(RateLimiter):
    """The library's limiter, with the two steps that must be one replaced by one."""

    async def _raise_on_rejection(self, _endpoint: str, rate_limits: Iterable[RateLimit]) -> None:
        for limit in rate_limits:
            key_function = cast(KeyCallable, limit.key_function)
            g.rate_limit = await services().limiter.take(await key_function(), Rate(limit.count, limit.period))
            refuse_unless_granted(g.rate_limit)

    async def _update_limits(self, endpoint: str, rate_limits: Iterable[RateLimit]) -> None:
        """Nothing is left to update: who passed is counted."""

    async def _after_request(self, response: Response) -> Response:
        """The library's headers, on answers to requests that were counted and on no others."""
        decision: Decision | None = g.get("rate_limit")
        if decision is not None:
            response.headers.update(limit_headers(decision))
        return response


def limit_headers(decision: Decision) -> dict[str, str]:
    """What a client is told about its limit."""
    return {
        "RateLimit-Limit": str(decision.rate.count),
        "RateLimit-Remaining": str(decision.remaining),
        "RateLimit-Reset": str(decision.reset_seconds),
    }


def refuse_unless_granted(decision: Decision) -> None:
    """Raises `RateLimited`."""
    if not decision.granted:
        raise RateLimited(retry_after_seconds=decision.retry_after_seconds)


def ingest_rate(settings: Settings) -> Rate:
    return per_minute(settings.svc_rate_limit_per_minute)


def ingest_key_for(project_id: str | None, address: str | None, rate: Rate) -> str:
    """Whom an ingest request is counted for: its project, or its address if it names none."""
    return f"ingest-{rate.count}-" + (f"project:{project_id}" if project_id else f"address:{source_of(address)}")


def wrong_keys_of(address: str | None, settings: Settings) -> tuple[str, Rate]:
    """Where the wrong keys of an address are counted, and how many it may send."""
    rate = per_minute(settings.wrong_key_limit_per_minute)
    return f"wrong-key-{rate.count}-address:{source_of(address)}", rate


class _IngestLimit(RateLimit):
    """SVC_RATE_LIMIT_PER_MINUTE of the application that serves the request: when a view is decorated there is none yet."""

    def __init__(self) -> None:
        self.period, self.key_function, self.skip_function = MINUTE, _ingest_key, None

    @property
    def count(self) -> int:  # type: ignore[override]  # The library only ever reads it.
        return ingest_rate(services().settings).count


async def _ingest_key() -> str:
    try:
        project_id = actor().project_id or (await sent_request()).project_id
    except (RuntallyError, HTTPException):
        # What is wrong with the body is said by the view, if the limit lets the request through to it.
        project_id = None
    return ingest_key_for(project_id, request.remote_addr, ingest_rate(services().settings))


ingest_limit = rate_limit(limits=[_IngestLimit()])
"""Below the access rule of a view that takes ingest requests."""


@asynccontextmanager
async def wrong_keys_limited() -> AsyncIterator[None]:
    """Around looking at a key: an address that sent too many wrong ones is refused before anything is compared.

    Raises `RateLimited`, and passes `InvalidKey` of the block on after counting it.
    """
    key, rate = wrong_keys_of(request.remote_addr, services().settings)
    _refuse_wrong_keys(services().limiter.refusal(key, rate))
    try:
        yield
    except InvalidKey:
        _refuse_wrong_keys(await services().limiter.take(key, rate))
        raise


def _refuse_wrong_keys(decision: Decision | None) -> None:
    if decision is not None and not decision.granted:
        g.rate_limit = decision
        raise RateLimited(
            "Too many wrong keys came from this address: wait for as many seconds as the header Retry-After says, and "
            "correct the key.",
            retry_after_seconds=decision.retry_after_seconds,
        ) from None
