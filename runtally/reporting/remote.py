"""The relay to another service's reporting table.

It pushes runs to SERVICE_SYNC_URL by signed requests, each at least once, many in one. The relay that is opened is this one if
that is set, else the direct one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from enum import Enum
from http import HTTPStatus
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar
from urllib.parse import SplitResult, urlsplit

import msgspec

from runtally import RELAY_AGENT
from runtally.clock import Clock
from runtally.db.database import Database
from runtally.errors import NotConfigured, SettingsError
from runtally.models.run import StoredRun
from runtally.privacy import ContentRule
from runtally.reporting import outbox_queries as queries
from runtally.reporting.direct import DirectRelay
from runtally.reporting.document import MAX_DOCUMENTS, SIGNATURE_HEADER, batch_of, encode, sign
from runtally.reporting.outbox_queries import Claim, Failure
from runtally.reporting.relay import Relay, RelayResult
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


BATCH: Final = 1_000
"""The most runs in one pass."""
# Documents in one request; their bytes stay below a server's default limit of a body.
DOCUMENTS: Final = min(250, MAX_DOCUMENTS)
BATCH_BYTES: Final = 1024 * 1024
# No push begins later than this after its claim, so that every answer arrives before the lease ends.
START_SECONDS: Final = 40.0
LEASE: Final = timedelta(seconds=START_SECONDS + 2 * ANSWER_SECONDS)

_Found = dict[tuple[str, str], tuple[StoredRun, str | None]]


class RemoteRelay(Relay):
    """Pushes queued runs to another service."""

    def __init__(
        self, database: Database, pusher: Pusher, clock: Clock, concurrency: int, *, batch: int = BATCH
    ) -> None:
        super().__init__(database, clock)
        self._batch = batch
        self._pusher = pusher
        self._concurrency = concurrency

    @property
    def receiver(self) -> str:
        return self._pusher.receiver

    async def run_pass(self, stop: asyncio.Event | None = None) -> RelayResult:
        """Claim runs, push them, and record the results. No transaction is open during a push."""
        now = self._clock()
        async with self._database.connection() as connection:
            claims = await queries.claim(connection, now, now + LEASE, self._batch)
            found = await queries.select_claimed(connection, claims) if claims else {}
        pushing = _Pushing(self._pusher, self._concurrency, stop or asyncio.Event(), self._failure)
        await pushing.push_all(claims, found)
        if claims:
            await self._record_results(delivered=pushing.delivered, failed=pushing.failed, released=pushing.released)
        return RelayResult(
            delivered=len(pushing.delivered),
            failed=pushing.failed,
            released=len(pushing.released),
            receiver_failures=pushing.receiver_failures,
            more=len(claims) >= self._batch or bool(pushing.released),
        )


class _Pushing:
    """The pushes of one pass and their results."""

    def __init__(
        self, pusher: Pusher, concurrency: int, stop: asyncio.Event, failure: Callable[[Claim, str], Failure]
    ) -> None:
        self.delivered: list[Claim] = []
        self.failed: list[Failure] = []
        self.released: list[Claim] = []
        self.receiver_failures = 0
        self._pusher = pusher
        self._concurrency = concurrency
        self._single = asyncio.Semaphore(concurrency)
        self._stop = stop
        self._failure = failure
        self._latest_start = asyncio.get_running_loop().time() + START_SECONDS

    async def push_all(self, claims: Sequence[Claim], found: _Found) -> None:
        # The workers share one iterator, so that a slow answer delays only itself.
        waiting = iter(claims)
        await self._together(self._push_some(waiting, found) for _ in claims[::DOCUMENTS])

    async def _push_some(self, waiting: Iterator[Claim], found: _Found) -> None:
        while claims := list(islice(waiting, DOCUMENTS)):
            live = [claim for claim in claims if claim[:2] in found]
            # A run that was deleted need not be pushed.
            self.delivered += (claim for claim in claims if claim[:2] not in found)
            if self._is_over:
                self.released += live
                continue
            documents = [(claim, encode(*found[claim[:2]])) for claim in live]
            for batch in _batches(documents):
                await self._push_batch(batch)

    async def _push_batch(self, documents: Sequence[tuple[Claim, bytes]]) -> None:
        """Push a batch in one request if the receiver takes batches, else one by one.

        One by one finds the document that breaks a batch.
        """
        if len(documents) > 1 and self._pusher.takes_batches and not self._is_over:
            refusals = await self._pusher.push_batch([document for _, document in documents])
            if refusals is not None:
                for (claim, _), refusal in zip(documents, refusals, strict=True):
                    self._record(claim, refusal)
                return
        waiting = iter(documents)
        await self._together(self._push_singly(waiting) for _ in documents)

    async def _together(self, workers: Iterable[Coroutine[Any, Any, None]]) -> None:
        await asyncio.gather(*islice(workers, self._concurrency))

    async def _push_singly(self, waiting: Iterator[tuple[Claim, bytes]]) -> None:
        for claim, document in waiting:
            async with self._single:
                if self._is_over:
                    self.released.append(claim)
                else:
                    self._record(claim, await self._pusher.push(document))

    def _record(self, claim: Claim, refusal: Refusal | None) -> None:
        if refusal is None:
            self.delivered.append(claim)
            return
        self.failed.append(self._failure(claim, refusal.reason))
        self.receiver_failures += refusal.fault is not Fault.DOCUMENT

    @property
    def _is_over(self) -> bool:
        """Return whether to stop: time is up, or the receiver is down, in which case a failure would count against the run."""
        receiver_down = self.receiver_failures >= self._concurrency and not self.delivered
        return receiver_down or self._stop.is_set() or asyncio.get_running_loop().time() > self._latest_start


def _batches(documents: Iterable[tuple[Claim, bytes]]) -> Iterator[list[tuple[Claim, bytes]]]:
    """Group documents into batches of limited bytes."""
    batch: list[tuple[Claim, bytes]] = []
    size = 0
    for claim, document in documents:
        if batch and size + len(document) > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append((claim, document))
        size += len(document)
    if batch:
        yield batch


@asynccontextmanager
async def opened_relay(
    settings: Settings, database: Database, reporting: Database, clock: Clock
) -> AsyncIterator[Relay]:
    """Open a relay of the runs in `database`; `reporting` has the reporting table of this service.

    Raises `NotConfigured` without SERVICE_SYNC_SIGN, as nothing is queued then.
    """
    if not settings.service_sync_sign:
        raise NotConfigured("Set SERVICE_SYNC_SIGN; without it no runs are queued for the reporting table.")
    if settings.service_sync_url:
        async with Pusher(settings) as pusher:
            yield RemoteRelay(database, pusher, clock, settings.relay_concurrency)
        return
    rule = ContentRule.of(settings.privacy_mode, settings.content_keys)
    yield DirectRelay(database, reporting, rule, clock)
