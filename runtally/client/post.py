"""Post batches to the ingest API, and retry while a retry can help.

Every run carries a `runId`, so a batch that arrived although its answer was lost is harmless to send again.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Final, Self

import httpx
import msgspec

from runtally import COMMAND_AGENT
from runtally.client.run import GaveUp, OutgoingRun, RequestRefused, ServerUnreachable, gzipped_batch, wire_name
from runtally.clock import Clock, system_clock
from runtally.errors import Detail
from runtally.files import START_COMMAND

MAX_TRIES: Final = 8
MAX_DELAY_S: Final = 60.0
"""A rate limit counts by the minute, so waiting longer than that never helps."""
_FIRST_DELAY_S: Final = 0.5
# 502 and 504 are what a proxy says while the server behind it restarts.
_TRY_AGAIN: Final = frozenset({429, 502, 503, 504})
# A 503 that waiting does not cure.
_FINAL: Final = frozenset({"not_configured"})
_TOO_LARGE: Final = frozenset({"body_too_large", "batch_too_large"})
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_SHOWN_DETAILS: Final = 5

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Target:
    """The server to post to, and the key it takes."""

    url: str
    key: str = field(repr=False)


class RejectedRun(msgspec.Struct):
    """A run of a batch that the server did not store."""

    index: int
    details: list[Detail] = []

    @property
    def reason(self) -> str:
        return _reason(self.details) or "refused by the server"


class Receipt(msgspec.Struct, rename=wire_name):
    """The answer to a batch: `processed` counts the duplicates too, and never what was rejected."""

    processed: int = 0
    duplicates: int = 0
    rejected: list[RejectedRun] = []


class _Error(msgspec.Struct):
    message: str = ""
    code: str = ""
    details: list[Detail] = []


class _Failure(msgspec.Struct):
    error: _Error


class Poster:
    """An open connection to the server; use it as an async context manager."""

    def __init__(
        self,
        target: Target,
        *,
        sleep: Sleep = asyncio.sleep,
        clock: Clock = system_clock,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._target = target
        self._sleep = sleep
        self._clock = clock
        self._rng = random.Random()  # noqa: S311  # Jitter is no secret.
        self._http = httpx.AsyncClient(
            base_url=target.url.rstrip("/"),
            headers={"User-Agent": COMMAND_AGENT},
            # A commit of 1000 runs takes milliseconds; a minute of silence is a server that is gone.
            timeout=httpx.Timeout(60, connect=5),
            # A proxy of the environment cannot reach this machine's own server.
            trust_env=httpx.URL(target.url).host not in _LOOPBACK,
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def check(self) -> None:
        """Raises `ServerUnreachable` at once, without retries, unless a Runtally server answers."""
        try:
            response = await self._http.get("/api/health/live")
        except (httpx.TransportError, httpx.InvalidURL):
            raise ServerUnreachable(
                f"No server answers at {self._target.url}; start it with `{START_COMMAND}`, or say where it is with --url."
            ) from None
        if response.status_code == httpx.codes.NOT_FOUND:
            raise ServerUnreachable(f"What answers at {self._target.url} is not Runtally; say where it is with --url.")

    async def post(self, project_id: str, runs: Sequence[OutgoingRun]) -> Receipt:
        """Store the runs, leaving out the bad ones, which the receipt lists by index.

        A batch that is too large for the server goes in halves. Raises `RequestRefused` if the server will not have
        the batch, and `GaveUp` after `MAX_TRIES` tries.
        """
        response = await self._answer(await asyncio.to_thread(gzipped_batch, project_id, runs))
        if len(runs) > 1 and _error(response).code in _TOO_LARGE:
            half = len(runs) // 2
            first, second = await self.post(project_id, runs[:half]), await self.post(project_id, runs[half:])
            return _joined(first, second, half)
        return _receipt(response)

    async def _answer(self, body: bytes) -> httpx.Response:
        """The first answer that is not a request to try again."""
        trouble, retry_after = "", None
        for attempt in range(MAX_TRIES):
            if attempt:
                await self._sleep(self._delay(attempt, retry_after))
            try:
                response = await self._send(body)
            except httpx.TransportError as error:
                trouble, retry_after = f"the connection failed ({type(error).__name__})", None
                continue
            if response.status_code not in _TRY_AGAIN or _error(response).code in _FINAL:
                return response
            trouble, retry_after = _said(response), _header(response, "Retry-After")
        raise GaveUp(
            f"Gave up after {MAX_TRIES} tries: {trouble.rstrip('.')}. "
            "Run the same command again when the server is well; what it has stored is skipped."
        )

    async def _send(self, body: bytes) -> httpx.Response:
        return await self._http.post(
            "/api/ingest",
            params={"onError": "skip"},
            content=body,
            headers={
                "Authorization": f"Bearer {self._target.key}",
                "Content-Type": "application/json",
                "Content-Encoding": "gzip",
            },
        )

    def _delay(self, attempt: int, retry_after: str | None) -> float:
        """Seconds before the next try: what the server asked for, else exponential; jittered, never over a minute."""
        asked = self._seconds(retry_after)
        if asked is not None:
            return min(asked + self._rng.uniform(0, 0.5), MAX_DELAY_S)
        return self._rng.uniform(0.5, 1) * min(_FIRST_DELAY_S * 2.0**attempt, MAX_DELAY_S)

    def _seconds(self, retry_after: str | None) -> float | None:
        """`Retry-After` in seconds; the header may be a number of seconds or a date."""
        if retry_after is None:
            return None
        try:
            return max(0.0, float(retry_after))
        except ValueError:
            pass
        try:
            return max(0.0, (parsedate_to_datetime(retry_after) - self._clock()).total_seconds())
        except (ValueError, TypeError):
            return None


def _receipt(response: httpx.Response) -> Receipt:
    if not response.is_success:
        raise RequestRefused(f"The server refused the runs: {_said(response)}")
    try:
        return msgspec.json.decode(response.content, type=Receipt)
    except msgspec.DecodeError:
        raise RequestRefused("The answer is not that of a Runtally server; check --url.") from None


def _joined(first: Receipt, second: Receipt, offset: int) -> Receipt:
    """The receipt of two parts of a batch; the second began at `offset`."""
    return Receipt(
        processed=first.processed + second.processed,
        duplicates=first.duplicates + second.duplicates,
        rejected=first.rejected + [RejectedRun(run.index + offset, run.details) for run in second.rejected],
    )


def _error(response: httpx.Response) -> _Error:
    """The error of the answer; an empty one for a success, and for what is no answer of this service."""
    if response.is_success:
        return _Error()
    try:
        return msgspec.json.decode(response.content, type=_Failure).error
    except msgspec.DecodeError:
        return _Error()


def _said(response: httpx.Response) -> str:
    """Return the message of an error with its first details; never a whole body, which may be a proxy's page."""
    error = _error(response)
    details = _reason(error.details)
    message = error.message or f"HTTP {response.status_code}"
    return f"{message} ({details})" if details else message


def _reason(details: Sequence[Detail]) -> str:
    return "; ".join(f"{detail.path} {detail.message}".strip() for detail in details[:_SHOWN_DETAILS])


def _header(response: httpx.Response, name: str) -> str | None:
    value: str | None = response.headers.get(name)
    return value
