"""Wrong keys are counted by the source that sends them. After too many, it is refused before a key is compared."""

from runtally.errors import RateLimited
from runtally.limits.limiter import Limiter
from runtally.limits.rate import Decision, Rate, per_minute
from runtally.limits.source import source_of
from runtally.settings import Settings


class WrongKeys:
    """The wrong keys of one address. Before a key is checked, ask `refusal`; after a wrong one, call `count`."""

    __slots__ = ("_key", "_limiter", "_rate")

    def __init__(self, limiter: Limiter, settings: Settings, address: str | None) -> None:
        self._limiter = limiter
        self._rate: Rate = per_minute(settings.wrong_key_limit_per_minute)
        self._key = f"wrong-key-{self._rate.count}-address:{source_of(address)}"

    def refusal(self) -> Decision | None:
        """Return the decision that refuses the address; None while it may send a key."""
        return self._limiter.refusal(self._key, self._rate)

    async def count(self) -> Decision | None:
        """Count one wrong key, and return what `refusal` does. Raises `StoreUnavailable`."""
        decision = await self._limiter.take(self._key, self._rate)
        return None if decision.granted else decision


def too_many(decision: Decision) -> RateLimited:
    """Return the error for an address that sent too many wrong keys."""
    return RateLimited(
        "Too many wrong keys came from this address: wait for as many seconds as the header Retry-After says, and "
        "correct the key.",
        retry_after_seconds=decision.retry_after_seconds,
    )
