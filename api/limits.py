"""How often: ingest requests by project, wrong keys by address. Both are counted by the limiter that all workers share.

quart-rate-limiter gives the decorator and the hooks around a request; deciding is not left to it, because what it does,
reading a time from a store and then writing it back, lets two workers pass two requests on one slot.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from quart import Quart, Response, g, request
from quart_rate_limiter import RateLimit, RateLimiter, rate_limit
from werkzeug.exceptions import HTTPException

from api.current import actor, services
from api.ingest_body import sent_request
from runtally.errors import InvalidKey, RateLimited, RuntallyError
from runtally.limits.rate import MINUTE, Decision, Rate
from runtally.limits.source import source_of


def register(app: Quart) -> None:
    """Enforce the limits that views declare; after the access hook, so that only who may call is counted."""
    _SharedRateLimiter(app)


class _SharedRateLimiter(RateLimiter):
    """The library's limiter, with the two steps that must be one replaced by one."""

    async def _raise_on_rejection(self, endpoint: str, rate_limits: Iterable[RateLimit]) -> None:
        for limit in rate_limits:
            key = await self._create_key(endpoint, limit)
            decision = await services().limiter.take(key, Rate(limit.count, limit.period))
            g.rate_limit = decision
            if not decision.granted:
                raise RateLimited(retry_after_seconds=decision.retry_after_seconds)

    async def _update_limits(self, endpoint: str, rate_limits: Iterable[RateLimit]) -> None:
        """Nothing is left to update: who passed is counted."""

    async def _after_request(self, response: Response) -> Response:
        """The library's headers, on answers to requests that were counted and on no others."""
        decision: Decision | None = g.get("rate_limit")
        if decision is not None:
            response.headers["RateLimit-Limit"] = str(decision.rate.count)
            response.headers["RateLimit-Remaining"] = str(decision.remaining)
            response.headers["RateLimit-Reset"] = str(decision.reset_seconds)
        return response


class _IngestLimit(RateLimit):
    """SVC_RATE_LIMIT_PER_MINUTE of the application that serves the request: when a view is decorated there is none yet."""

    def __init__(self) -> None:
        self.period, self.key_function, self.skip_function = MINUTE, _project_or_address, None

    @property
    def count(self) -> int:  # type: ignore[override]  # The library only ever reads it.
        return services().settings.svc_rate_limit_per_minute


async def _project_or_address() -> str:
    """Whom an ingest request is counted for: its project, or its address if it names none."""
    try:
        project_id = actor().project_id or (await sent_request()).project_id
    except (RuntallyError, HTTPException):
        # What is wrong with the body is said by the view, if the limit lets the request through to it.
        project_id = None
    return f"project:{project_id}" if project_id else f"address:{source_of(request.remote_addr)}"


ingest_limit = rate_limit(limits=[_IngestLimit()])
"""Below the access rule of a view that takes ingest requests."""


@asynccontextmanager
async def wrong_keys_limited() -> AsyncIterator[None]:
    """Around looking at a key: an address that sent too many wrong ones is refused before anything is compared.

    Raises `RateLimited`, and passes `InvalidKey` of the block on after counting it.
    """
    rate = Rate(services().settings.wrong_key_limit_per_minute)
    key = f"wrong-key-{rate.count}-address:{source_of(request.remote_addr)}"
    _refuse_unless_granted(services().limiter.refusal(key, rate))
    try:
        yield
    except InvalidKey:
        _refuse_unless_granted(await services().limiter.take(key, rate))
        raise


def _refuse_unless_granted(decision: Decision | None) -> None:
    if decision is not None and not decision.granted:
        g.rate_limit = decision
        raise RateLimited(
            "Too many wrong keys came from this address: wait for as many seconds as the header Retry-After says, and "
            "correct the key.",
            retry_after_seconds=decision.retry_after_seconds,
        ) from None
