"""Check URLs that users enter, and post JSON to them: never into private networks, and never for longer than a time limit."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from types import TracebackType
from typing import NamedTuple, Self

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


ANSWER_SECONDS = 15.0
ANSWER_BYTES = 4096
"""Longer answers are cut; receivers explain a refusal in less."""
BODY_SECONDS = 2.0
_PORTS = {"http": 80, "https": 443}


class PostError(Exception):
    """A post that got no response; the message gives the reason in a few words and quotes nothing."""


class Answer(NamedTuple):
    """The answer of a receiver. Its body is cut, and only for comparing."""

    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        return httpx.codes.is_success(self.status)


class Poster:
    """Posts to public addresses; use it as an async context manager."""

    def __init__(self, *, allow_private: bool) -> None:
        self.allow_private = allow_private
        self._is_open = False

    @cached_property
    def _client(self) -> httpx.AsyncClient:
        """Return the client, created with the first alert: reading all certificates takes a twentieth of a start."""
        self._is_open = True
        return httpx.AsyncClient(
            timeout=ANSWER_SECONDS,
            # A connection is for one name; the next one may be another's at the same address.
            limits=httpx.Limits(max_keepalive_connections=0),
            # A proxy would look the name up itself, and could be led anywhere.
            trust_env=False,
            # What the environment says of certificates counts nevertheless: SSL_CERT_FILE.
            verify=httpx.create_ssl_context(),
            # Bodies are cut as they come, and not unpacked, however small they are packed.
            headers={"User-Agent": "runtally", "Accept-Encoding": "identity"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_open:
            await self._client.aclose()

    async def post(self, address: str, body: bytes, headers: Mapping[str, str] | None = None) -> Answer:
        """Post JSON and return the answer; redirects are not followed. Raises `PostError`."""
        url = parse_url(address)
        if url is None:
            raise PostError("not a URL to post to")
        try:
            # The client's own time-out is for each read: a receiver that sends a byte now and then would never be done.
            async with asyncio.timeout(ANSWER_SECONDS):
                response = await self._post(url, body, headers or {})
            return Answer(response.status_code, await _start_of(response))
        except PrivateAddress:
            why = "the host is in a private network, which is not allowed"
        except (TimeoutError, httpx.TimeoutException):
            why = f"no answer within {ANSWER_SECONDS:g} s"
        except (httpx.ConnectError, OSError):
            why = "cannot connect"
        except (httpx.HTTPError, httpx.InvalidURL):
            why = "the connection broke"
        # Without its cause, whose message may hold the URL.
        raise PostError(why) from None

    async def _post(self, url: httpx.URL, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        port = url.port or _PORTS[url.scheme]
        address = await resolve(url.host, port, allow_private=self.allow_private)
        request = self._client.build_request(
            "POST",
            url.copy_with(host=address),
            content=body,
            headers={"Content-Type": "application/json", "Host": url.netloc.decode(), **headers},
            # The certificate must be the name's.
            extensions={"sni_hostname": url.host},
        )
        return await self._client.send(request, stream=True)


async def _start_of(response: httpx.Response) -> bytes:
    """Return the first bytes of the body, which may have no end. The status has come already, and is what counts."""
    found = b""
    try:
        with suppress(TimeoutError, httpx.HTTPError):
            async with asyncio.timeout(BODY_SECONDS):
                async for chunk in response.aiter_raw():
                    found += chunk
                    if len(found) >= ANSWER_BYTES:
                        break
    finally:
        await response.aclose()
    return found[:ANSWER_BYTES]
