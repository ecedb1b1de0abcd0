"""Rate limits: ingest requests by project, wrong keys by address. All workers share one limiter.

quart-rate-limiter gives the decorator and the hooks around a request, but does not decide: it reads a time from a store
and then writes it back, so that two workers could let two requests pass on one slot.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import cast

from quart import Quart, Response
from quart_rate_limiter import QUART_RATE_LIMITER_LIMITS_ATTRIBUTE, RateLimit, RateLimiter, rate_limit

from api.current import decision, incoming, services
from api.request import Request, sent_request
from runtally.errors import RateLimited, RuntallyError
from runtally.limits.rate import MINUTE, Decision, Rate, per_minute
from runtally.limits.wrong_keys import WrongKeys, source_of
from runtally.settings import Settings


def register(app: Quart) -> None:
    """Enforce the limits that views declare, after the access hook, so that only allowed requests are counted."""
    _SharedRateLimiter(app)


class _SharedRateLimiter(RateLimiter):
    """The library's limiter with one atomic step in place of its two."""

    async def _raise_on_rejection(self, _endpoint: str, rate_limits: Iterable[RateLimit]) -> None:
        await count(incoming(), cast(Iterable[Limit], rate_limits))

    async def _update_limits(self, endpoint: str, rate_limits: Iterable[RateLimit]) -> None:
        """Do nothing: the request was counted when it passed."""

    async def _after_request(self, response: Response) -> Response:
        """Add the library's headers to answers of requests that were counted, and to no others."""
        said = decision()
        if said is not None:
            response.headers.update(limit_headers(said))
        return response


class Limit(RateLimit):
    """A limit for the library, whose number of requests comes from the settings of the application."""

    def __init__(self, rate: Callable[[Settings], Rate], key: Callable[[Request, Rate], Awaitable[str]]) -> None:
        self.rate, self.key_of = rate, key
        self.period, self.key_function, self.skip_function = MINUTE, None, None

    @property
    def count(self) -> int:  # type: ignore[override]  # The library only ever reads it.
        return self.rate(services().settings).count


def declared_limits(view: object) -> Sequence[Limit]:
    return tuple(getattr(view, QUART_RATE_LIMITER_LIMITS_ATTRIBUTE, ()))


async def count(request: Request, limits: Iterable[Limit]) -> None:
    """Count the request against each of these limits. Raises `RateLimited`."""
    for limit in limits:
        rate = limit.rate(request.services.settings)
        request.decision = await request.services.limiter.take(await limit.key_of(request, rate), rate)
        refuse_unless_granted(request.decision)


def refuse_unless_granted(decision: Decision) -> None:
    """Raise `RateLimited` if the request was not granted."""
    if not decision.granted:
        raise RateLimited(retry_after_seconds=decision.retry_after_seconds)


def limit_headers(decision: Decision) -> dict[str, str]:
    """Return the headers that tell a client its limit."""
    return {
        "RateLimit-Limit": str(decision.rate.count),
        "RateLimit-Remaining": str(decision.remaining),
        "RateLimit-Reset": str(decision.reset_seconds),
    }


def ingest_rate(settings: Settings) -> Rate:
    return per_minute(settings.svc_rate_limit_per_minute)


def ingest_key_for(project_id: str | None, address: str | None, rate: Rate) -> str:
    """Return the key that an ingest request is counted for: its project, or its address if it names none."""
    return f"ingest-{rate.count}-" + (f"project:{project_id}" if project_id else f"address:{source_of(address)}")


async def _ingest_key(request: Request, rate: Rate) -> str:
    try:
        project_id = request.actor.project_id or (await request.once(sent_request)).project_id
    except RuntallyError:
        # The view reports what is wrong with the body, if the limit lets the request pass.
        project_id = None
    return ingest_key_for(project_id, request.address, rate)


ingest_limit = rate_limit(limits=[Limit(ingest_rate, _ingest_key)])
"""The limit of ingest requests; place it below the access rule of a view."""


class wrong_keys_limited(WrongKeys):  # noqa: N801  # A context manager; as a generator it would take each run three times as long.
    """Count wrong keys of a request's address, which has the decision of a refusal."""

    __slots__ = ("_request",)

    def __init__(self, request: Request) -> None:
        super().__init__(request.services.limiter, request.services.settings, request.address)
        self._request = request

    def refuse(self, decision: Decision) -> None:
        self._request.decision = decision
        super().refuse(decision)
