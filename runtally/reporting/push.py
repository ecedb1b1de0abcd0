"""One signed call that takes one run to the reporting table; what a failure is called."""

from enum import Enum
from types import TracebackType
from typing import NamedTuple, Self

import httpx
import msgspec

from runtally.errors import NotConfigured, SettingsError
from runtally.reporting.document import SIGNATURE_HEADER, sign
from runtally.settings import Settings

PATH = "/api/internal/pg-sync"
ANSWER_SECONDS = 10.0
_OF_THE_DOCUMENT = frozenset({400, 413, 422})


class Fault(Enum):
    """Whose a failed push is."""

    UNREACHED = "nobody answered"
    RECEIVER = "it takes no document at present"
    DOCUMENT = "it does not take this document"


class Refusal(NamedTuple):
    """Why a document was not taken, in few words that never quote anybody."""

    fault: Fault
    reason: str


class _Answer(msgspec.Struct):
    ok: bool


class Pusher:
    """Connections to the server that takes documents; use it as an async context manager."""

    def __init__(self, settings: Settings) -> None:
        """Raises `NotConfigured` without SERVICE_SYNC_SIGN."""
        if not settings.service_sync_sign:
            raise NotConfigured("Set SERVICE_SYNC_SIGN, the secret that signs what the relay pushes.")
        self._secret = settings.service_sync_sign[0].get_secret_value()
        self._url = httpx.URL(sync_url(settings))
        self._client = httpx.AsyncClient(
            timeout=ANSWER_SECONDS,
            limits=httpx.Limits(
                max_connections=settings.relay_concurrency, max_keepalive_connections=settings.relay_concurrency
            ),
            # A proxy of the environment is for other machines.
            trust_env=settings.service_sync_url is not None,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    @property
    def receiver(self) -> str:
        """The URL that is pushed to, without what may be a secret in it."""
        return str(self._url.copy_with(userinfo=b"", query=None))

    async def push(self, document: bytes) -> Refusal | None:
        """None when the document was taken."""
        headers = {"Content-Type": "application/json", SIGNATURE_HEADER: sign(document, self._secret)}
        try:
            response = await self._client.post(self._url, content=document, headers=headers)
        except httpx.TimeoutException:
            return Refusal(Fault.UNREACHED, f"no answer within {ANSWER_SECONDS:g} s")
        except httpx.ConnectError:
            return Refusal(Fault.UNREACHED, "cannot connect")
        except (httpx.HTTPError, httpx.InvalidURL):
            return Refusal(Fault.UNREACHED, "the connection broke")
        if response.status_code != httpx.codes.OK:
            fault = Fault.DOCUMENT if response.status_code in _OF_THE_DOCUMENT else Fault.RECEIVER
            return Refusal(fault, f"HTTP {response.status_code}")
        if not _says_ok(response.content):
            return Refusal(Fault.RECEIVER, "HTTP 200 from something that is no receiver")
        return None


def sync_url(settings: Settings) -> str:
    """Where documents go: SERVICE_SYNC_URL, to which the path is added if it has none, else this service itself.

    Raises `SettingsError` for a URL that is none, without repeating it.
    """
    if settings.service_sync_url:
        try:
            url = httpx.URL(settings.service_sync_url)
        except httpx.InvalidURL:
            raise SettingsError("SERVICE_SYNC_URL is not a URL; write https://receiver.example.") from None
        return str(url.copy_with(path=PATH) if url.path in {"", "/"} else url)
    return f"{settings.own_url()}{PATH}"


def _says_ok(content: bytes) -> bool:
    try:
        return msgspec.json.decode(content, type=_Answer).ok
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
