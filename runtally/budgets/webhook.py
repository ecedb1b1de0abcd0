"""One signed post of an alert, as Standard Webhooks have it (https://www.standardwebhooks.com); what came of it."""

import asyncio
import base64
import hashlib
import hmac
import secrets
from datetime import datetime
from types import TracebackType
from typing import NamedTuple, Self

import httpx

from runtally.budgets.target import NotAllowed, parse_url, resolved

SECRET_START = "whsec_"  # noqa: S105  # How every such secret begins.
SECRET_BYTES = 32
ANSWER_SECONDS = 15.0
_PORTS = {"http": 80, "https": 443}


class Outcome(NamedTuple):
    """Whether an alert was taken, and why or why not in few words that never quote anybody."""

    is_taken: bool
    answer: str

    @classmethod
    def failed(cls, why: str) -> Self:
        return cls(is_taken=False, answer=why)


def new_secret() -> str:
    return SECRET_START + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature`: HMAC-SHA256 of id, timestamp and body, with full stops between."""
    key = base64.b64decode(secret.removeprefix(SECRET_START))
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    return f"v1,{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}"


class Webhooks:
    """Posts alerts; use it as an async context manager."""

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._client = httpx.AsyncClient(
            timeout=ANSWER_SECONDS,
            # A connection is for one name; the next one may be another's at the same address.
            limits=httpx.Limits(max_keepalive_connections=0),
            # A proxy would look the name up itself, and could be led anywhere.
            trust_env=False,
            # What the environment says of certificates counts nevertheless: SSL_CERT_FILE.
            verify=httpx.create_ssl_context(),
            headers={"User-Agent": "runtally"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def post(self, address: str, secret: str, message_id: str, body: bytes, now: datetime) -> Outcome:
        """Taken is what is answered with 2xx; redirects are not followed."""
        url = parse_url(address)
        if url is None:
            return Outcome.failed("not a URL to post to")
        timestamp = int(now.timestamp())
        headers = {
            "Content-Type": "application/json",
            "Host": url.netloc.decode(),
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(secret, message_id, timestamp, body),
        }
        try:
            # The client's own time-out is for each read: who sends a byte now and then would never be done.
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._send(url, headers, body)
        except NotAllowed:
            answer = "the host is in a private network, which is not allowed"
        except (TimeoutError, httpx.TimeoutException):
            answer = f"no answer within {ANSWER_SECONDS:g} s"
        except (httpx.ConnectError, OSError):
            answer = "cannot connect"
        except (httpx.HTTPError, httpx.InvalidURL):
            answer = "the connection broke"
        return Outcome.failed(answer)

    async def _send(self, url: httpx.URL, headers: dict[str, str], body: bytes) -> Outcome:
        port = url.port or _PORTS[url.scheme]
        address = await resolved(url.host, port, allow_private=self._allow_private)
        request = self._client.build_request(
            "POST",
            url.copy_with(host=address),
            content=body,
            headers=headers,
            # The certificate must be the name's.
            extensions={"sni_hostname": url.host},
        )
        # The answer's body is nobody's business, and may have no end.
        response = await self._client.send(request, stream=True)
        await response.aclose()
        return Outcome(response.is_success, f"HTTP {response.status_code}")
