"""Wrong keys are counted by the source that sends them: after too many, it is refused before a key is compared."""

from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address

from runtally.errors import InvalidKey, RateLimited
from runtally.limits.limiter import Limiter
from runtally.limits.rate import Decision, Rate, per_minute
from runtally.settings import Settings


class WrongKeys:
    """The wrong keys of one address. A key is checked in a block of it, which counts a wrong one.

    Raises `RateLimited` before the block and in place of its `InvalidKey`, where there were too many.
    """

    __slots__ = ("_key", "_limiter", "_rate")

    def __init__(self, limiter: Limiter, settings: Settings, address: str | None) -> None:
        self._limiter = limiter
        self._rate: Rate = per_minute(settings.wrong_key_limit_per_minute)
        self._key = f"wrong-key-{self._rate.count}-address:{source_of(address)}"

    def refusal(self) -> Decision | None:
        """Return the decision that refuses the address; None while it may send a key."""
        return self._limiter.refusal(self._key, self._rate)

    async def __aenter__(self) -> None:
        if refused := self.refusal():
            self.refuse(refused)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, InvalidKey):
            decision = await self._limiter.take(self._key, self._rate)
            if not decision.granted:
                self.refuse(decision)

    def refuse(self, decision: Decision) -> None:
        """Refuse the address by this decision. Raises `RateLimited`."""
        raise RateLimited(
            "Too many wrong keys came from this address: wait for as many seconds as the header Retry-After says, and "
            "correct the key.",
            retry_after_seconds=decision.retry_after_seconds,
        ) from None


UNKNOWN = "unknown"
# A client with one IPv6 address has at least its /64, and could send every request from another address.
_NETWORK_BITS = 64


@lru_cache(maxsize=4096)
def source_of(address: str | None) -> str:
    """Return the address for IPv4, its /64 network for IPv6. All unknown addresses count as one source."""
    try:
        parsed = ip_address((address or "").partition("%")[0])
    except ValueError:
        return UNKNOWN
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(IPv6Network((parsed, _NETWORK_BITS), strict=False))
    return str(parsed)
