"""The source of a request, for limits by address. Pure."""

from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address

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
