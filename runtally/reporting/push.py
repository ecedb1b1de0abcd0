"""One signed call that takes one run to the reporting table; what a failure is called."""

from enum import Enum
from http import HTTPStatus
from types import TracebackType
from typing import Final, NamedTuple, Self
from urllib.parse import SplitResult, urlsplit

import aiohttp
import msgspec

from runtally.errors import NotConfigured, SettingsError
from runtally.reporting.document import SIGNATURE_HEADER, sign
from runtally.settings import Settings

PATH = "/api/internal/pg-sync"
ANSWER_SECONDS = 10.0
# What takes documents answers with a line.
_ANSWER_BYTES: Final = 64 * 1024
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
        self._url = sync_url(settings)
        self._concurrency = settings.relay_concurrency
        # A proxy of the environment is for other machines.
        self._trusts_environment = settings.service_sync_url is not None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._concurrency),
            timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=self._trusts_environment,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    @property
    def receiver(self) -> str:
        """The URL that is pushed to, without what may be a secret in it."""
        url = urlsplit(self._url)
        return url._replace(netloc=url.netloc.rpartition("@")[2], query="", fragment="").geturl()

    async def push(self, document: bytes) -> Refusal | None:
        """None when the document was taken."""
        headers = {"Content-Type": "application/json", SIGNATURE_HEADER: sign(document, self._secret)}
        try:
            async with self._session.post(self._url, data=document, headers=headers, allow_redirects=False) as response:
                if response.status != HTTPStatus.OK:
                    fault = Fault.DOCUMENT if response.status in _OF_THE_DOCUMENT else Fault.RECEIVER
                    return Refusal(fault, f"HTTP {response.status}")
                answer = await _start_of(response.content)
        except TimeoutError:
            return Refusal(Fault.UNREACHED, f"no answer within {ANSWER_SECONDS:g} s")
        except aiohttp.ClientConnectorError:
            return Refusal(Fault.UNREACHED, "cannot connect")
        except aiohttp.ClientError:
            return Refusal(Fault.UNREACHED, "the connection broke")
        if not _says_ok(answer):
            return Refusal(Fault.RECEIVER, "HTTP 200 from something that is no receiver")
        return None


def sync_url(settings: Settings) -> str:
    """Where documents go: SERVICE_SYNC_URL, to which the path is added if it has none, else this service itself.

    Raises `SettingsError` for a URL that is none, without repeating it.
    """
    if settings.service_sync_url:
        url = _http_url(settings.service_sync_url)
        return url._replace(path=PATH).geturl() if url.path in {"", "/"} else url.geturl()
    return f"{settings.own_url()}{PATH}"


def _http_url(text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        # A port that is no number is found out when it is asked for.
        if url.scheme in {"http", "https"} and url.hostname and url.port != 0:
            return url
    except ValueError:
        pass
    raise SettingsError("SERVICE_SYNC_URL is not a URL; write https://receiver.example.")


async def _start_of(content: aiohttp.StreamReader) -> bytes:
    answer = b""
    while len(answer) < _ANSWER_BYTES and (part := await content.read(_ANSWER_BYTES)):
        answer += part
    return answer


def _says_ok(content: bytes) -> bool:
    try:
        return msgspec.json.decode(content, type=_Answer).ok
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
