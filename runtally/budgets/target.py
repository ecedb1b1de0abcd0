"""Addresses that alerts go to: which are allowed. Pure, but for asking the name's addresses."""

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import httpx

MAX_URL = 2048
# IPv4 behind a translator: which address it leads to stands in its last four bytes.
_TRANSLATED = IPv6Network("64:ff9b::/96")
# Azure's machines ask the host they run on for secrets there, although it is of no private network.
_OF_A_CLOUD = frozenset({IPv4Address("168.63.129.16")})


class NotAllowed(Exception):
    """The name leads to this machine or into a private network."""


def parse_url(text: str) -> httpx.URL | None:
    """A URL that may be posted to: http or https, with a host, without a user in it. None for any other."""
    if len(text) > MAX_URL or not text.isprintable() or " " in text:
        return None
    try:
        url = httpx.URL(text)
        # As who looks the name up does: it may have labels that are empty or too long.
        url.host.encode("idna")
    except (httpx.InvalidURL, UnicodeError):
        return None
    is_fit = url.scheme in {"http", "https"} and bool(url.host) and not url.userinfo
    return url if is_fit else None


def is_address(host: str) -> bool:
    """Whether it is an address and no name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_public(address: str) -> bool:
    """Whether the address is one of the internet: not this machine's, a private network's, or of special use."""
    try:
        return _is_public(ip_address(address.partition("%")[0]))
    except ValueError:
        return False


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if address in _TRANSLATED:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if address.is_site_local or (inner is not None and not _is_public(inner)):
            return False
    return address not in _OF_A_CLOUD and address.is_global and not address.is_multicast and not address.is_reserved


async def resolved(host: str, port: int, *, allow_private: bool) -> str:
    """An address of this host. Raises `NotAllowed` if any of them is private and that is not allowed, and `OSError`.

    Whoever connects to the answer, and not to the name, connects to what was looked at here: a name may lead elsewhere a
    moment later.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(sockaddr[0]) for *_, sockaddr in found]
    if not allow_private and not all(is_public(address) for address in addresses):
        raise NotAllowed
    return addresses[0]
