"""Whom a limit by address holds responsible. Pure."""

from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address

UNKNOWN = "unknown"
# Whoever has one IPv6 address has at least its /64, and could send every request from another one.
_NETWORK_BITS = 64


@lru_cache(maxsize=4096)
def source_of(address: str | None) -> str:
    """The address for IPv4, its network for IPv6; all whose address is unknown are one."""
    try:
        parsed = ip_address((address or "").partition("%")[0])
    except ValueError:
        return UNKNOWN
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(IPv6Network((parsed, _NETWORK_BITS), strict=False))
    return str(parsed)
