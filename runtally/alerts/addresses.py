"""Check URLs that alerts may be posted to, and resolve their names."""

import asyncio
import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import httpx

from runtally.errors import Detail, InvalidAlertTarget

MAX_URL = 2048
# The end of a long secret distinguishes two of one host without revealing it.
SHOWN_END = 4
MASKED_FROM = 24
# A NAT64 address holds the IPv4 address that it leads to in its last four bytes.
_TRANSLATED = IPv6Network("64:ff9b::/96")
# Machines of Azure and of Oracle read secrets at these addresses of their host, which are in no private network.
_OF_A_CLOUD = frozenset({IPv4Address("168.63.129.16"), IPv4Address("192.0.0.192")})


class PrivateAddress(Exception):
    """The name resolves to this machine or into a private network."""


def parse_url(text: str) -> httpx.URL | None:
    """Parse a URL of http or https with a host and without a user; return None for any other text."""
    if len(text) > MAX_URL or not text.isprintable() or " " in text:
        return None
    try:
        url = httpx.URL(text)
        # Resolving the name does this too, and fails for labels that are empty or too long.
        url.host.encode("idna")
    except (httpx.InvalidURL, UnicodeError):
        return None
    is_fit = url.scheme in {"http", "https"} and bool(url.host) and not url.userinfo
    return url if is_fit else None


def is_address(host: str) -> bool:
    """Return whether this is an address and not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_public(address: str) -> bool:
    """Return whether this is an address of the internet: not of this machine, a private network or special use."""
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


async def resolve(host: str, port: int, *, allow_private: bool) -> str:
    """Return an address of this host. Raises `PrivateAddress` if any of them is private and that is not allowed, and `OSError`.

    Connect to the returned address, not to the name, which may resolve to another one a moment later.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(sockaddr[0]) for *_, sockaddr in found]
    if not allow_private and not all(is_public(address) for address in addresses):
        raise PrivateAddress
    return addresses[0]


def vendor_url(text: str, is_host: Callable[[str], bool]) -> httpx.URL | None:
    """Parse a URL whose host is one of a vendor's, or return None. Raises `InvalidAlertTarget` where it is not https."""
    url = parse_url(text)
    if url is None or not is_host(url.host):
        return None
    if url.scheme != "https":
        raise refused(f"URLs of {url.host} begin with https://.")
    return url


def mask_url(text: str) -> str:
    """Return scheme and host, and the last characters of what follows where it is long: paths of webhooks are secrets."""
    url = parse_url(text)
    if url is None:
        return "…"
    rest = url.raw_path.decode().rstrip("/")
    end = rest[-SHOWN_END:] if len(rest) >= MASKED_FROM else ""
    return f"{url.scheme}://{url.netloc.decode()}{f'/…{end}' if rest else ''}"


def refused(why: str) -> InvalidAlertTarget:
    return InvalidAlertTarget(why, details=(Detail("address", why),))
