"""Post JSON to URLs that users enter: never into private networks, and never for longer than a time limit."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from types import TracebackType
from typing import NamedTuple, Self

import httpx

from runtally.alerts.addresses import PrivateAddress, parse_url, resolve

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
