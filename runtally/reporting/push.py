"""Push runs by signed HTTP requests to another service's reporting table, one by one or in batches."""

import asyncio
from collections.abc import Sequence
from enum import Enum
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeVar
from urllib.parse import SplitResult, urlsplit

import msgspec

from runtally import RELAY_AGENT
from runtally.errors import NotConfigured, SettingsError
from runtally.reporting.document import SIGNATURE_HEADER, batch_of, sign
from runtally.settings import Settings

if TYPE_CHECKING:
    # Only a relay to another service needs it, and importing it takes a twentieth of a start.
    import aiohttp

PATH = "/api/internal/pg-sync"
ANSWER_SECONDS = 10.0
# The answer to a document is one line, to a batch one line for each document.
_ANSWER_BYTES: Final = 2 * 1024 * 1024
_OF_THE_DOCUMENT = frozenset({400, 413, 422})
# Batches are tried again after this time, as the receiver may have been updated.
_ASK_AGAIN_SECONDS: Final = 300.0


class Fault(Enum):
    """The side that is at fault for a failed push."""

    UNREACHED = "nobody answered"
    RECEIVER = "it takes no document at present"
    DOCUMENT = "it does not take this document"


class Refusal(NamedTuple):
    """The reason why a document was not accepted, in a few words that never quote the answer."""

    fault: Fault
    reason: str


class _Answer(msgspec.Struct):
    ok: bool


class _Result(msgspec.Struct):
    id: str | None
    applied: bool | None = None


class _BatchAnswer(msgspec.Struct):
    ok: bool
    results: list[_Result]


_Decoded = TypeVar("_Decoded", _Answer, _BatchAnswer)
_NO_RECEIVER: Final = Refusal(Fault.RECEIVER, "HTTP 200 from something that is no receiver")
_REFUSED_IN_BATCH: Final = Refusal(Fault.DOCUMENT, "refused as a document of a batch")


class Pusher:
    """Connections to the receiver of documents; use it as an async context manager."""

    def __init__(self, settings: Settings) -> None:
        """Raises `NotConfigured` without SERVICE_SYNC_URL or SERVICE_SYNC_SIGN."""
        if not settings.service_sync_url:
            raise NotConfigured("Set SERVICE_SYNC_URL, the server that takes the runs.")
        if not settings.service_sync_sign:
            raise NotConfigured("Set SERVICE_SYNC_SIGN, the secret that signs what the relay pushes.")
        self._secret = settings.service_sync_sign[0].get_secret_value()
        self._url = sync_url(settings.service_sync_url)
        self._concurrency = settings.relay_concurrency
        self._singly_until = 0.0

    async def __aenter__(self) -> Self:
        import aiohttp  # noqa: PLC0415  # As above.

        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._concurrency),
            timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": RELAY_AGENT},
            trust_env=True,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    @property
    def receiver(self) -> str:
        """The receiver's URL, without the parts that may be secret."""
        url = urlsplit(self._url)
        return url._replace(netloc=url.netloc.rpartition("@")[2], query="", fragment="").geturl()

    @property
    def takes_batches(self) -> bool:
        """Whether to send batches: False for some minutes after the receiver refused one."""
        return asyncio.get_running_loop().time() >= self._singly_until

    async def push(self, document: bytes) -> Refusal | None:
        """Push one document. Returns None when it was accepted."""
        answer = await self._post(document)
        if isinstance(answer, Refusal):
            return answer
        decoded = _decoded(answer, _Answer)
        return None if decoded and decoded.ok else _NO_RECEIVER

    async def push_batch(self, documents: Sequence[bytes]) -> list[Refusal | None] | None:
        """Push a batch. Returns for each document what `push` would; None when the whole batch was not accepted.

        A receiver that does not know batches is sent none for some minutes.
        """
        answer = await self._post(batch_of(documents))
        if isinstance(answer, Refusal):
            if answer.fault is Fault.DOCUMENT:
                self._push_singly()
            return None
        decoded = _decoded(answer, _BatchAnswer)
        if not decoded or not decoded.ok or len(decoded.results) != len(documents):
            # A receiver may answer anything with 200.
            self._push_singly()
            return None
        return [None if result.applied is not None else _REFUSED_IN_BATCH for result in decoded.results]

    def _push_singly(self) -> None:
        self._singly_until = asyncio.get_running_loop().time() + _ASK_AGAIN_SECONDS

    async def _post(self, body: bytes) -> bytes | Refusal:
        """Post the body, and return the content of a 200 answer."""
        import aiohttp  # noqa: PLC0415  # As above.

        headers = {"Content-Type": "application/json", SIGNATURE_HEADER: sign(body, self._secret)}
        try:
            async with self._session.post(self._url, data=body, headers=headers, allow_redirects=False) as response:
                if response.status != HTTPStatus.OK:
                    fault = Fault.DOCUMENT if response.status in _OF_THE_DOCUMENT else Fault.RECEIVER
                    return Refusal(fault, f"HTTP {response.status}")
                return await _start_of(response.content)
        except TimeoutError:
            return Refusal(Fault.UNREACHED, f"no answer within {ANSWER_SECONDS:g} s")
        except aiohttp.ClientConnectorError:
            return Refusal(Fault.UNREACHED, "cannot connect")
        except aiohttp.ClientError:
            return Refusal(Fault.UNREACHED, "the connection broke")


def sync_url(text: str) -> str:
    """Return the URL for documents: SERVICE_SYNC_URL, with the path if it has none.

    Raises `SettingsError` for an invalid URL, without repeating it.
    """
    url = _http_url(text)
    return url._replace(path=PATH).geturl() if url.path in {"", "/"} else url.geturl()


def _http_url(text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        # The port is parsed only when it is read.
        if url.scheme in {"http", "https"} and url.hostname and url.port != 0:
            return url
    except ValueError:
        pass
    raise SettingsError("SERVICE_SYNC_URL is not a URL; write https://receiver.example.")


async def _start_of(content: "aiohttp.StreamReader") -> bytes:
    answer = b""
    while len(answer) < _ANSWER_BYTES and (part := await content.read(_ANSWER_BYTES)):
        answer += part
    return answer


def _decoded(content: bytes, kind: type[_Decoded]) -> _Decoded | None:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
