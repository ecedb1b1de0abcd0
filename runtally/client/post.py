"""Post batches to the ingest API with a few requests in flight, retry while a retry can help, and count the results.

Every run carries a `runId`, so a batch that arrived although its answer was lost is harmless to send again.
"""

import asyncio
import random
from bisect import insort
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from email.utils import parsedate_to_datetime
from functools import partial
from types import TracebackType
from typing import Final, Protocol, Self

import httpx
import msgspec

from runtally import COMMAND_AGENT
from runtally.client.fields import FIELDS, squashed
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


FIGURES: Final = (
    "inputTokens",
    "outputTokens",
    "cachedInputTokens",
    "cacheWriteTokens",
    "reasoningTokens",
    "costUSD",
)


class Figures:
    """Sums by the names of a run's fields. `costUSD` is what the file says, and None while it has said nothing."""

    def __init__(self) -> None:
        self.sums: dict[str, int | Decimal | None] = dict.fromkeys(FIGURES, 0) | {"costUSD": None}

    def add(self, value_of: Callable[[str], object], sign: int = 1) -> None:
        """Add the values that a row or a run has under these names, or take them off with the sign -1."""
        for name in FIGURES:
            value = value_of(name)
            if isinstance(value, int | Decimal):
                self.sums[name] = (self.sums[name] or 0) + sign * value

    def __str__(self) -> str:
        return ", ".join(
            f"{value:,} {name}" if name != "costUSD" else f"${value:,}" for name, value in self.sums.items() if value
        )


IN_FLIGHT: Final = 4
"""Enough to keep a server busy while the next batch is made, and few enough to leave room for others."""
SHOWN_REJECTIONS: Final = 20


def _value(run: OutgoingRun, wire: str) -> object:
    return getattr(run, FIELDS[squashed(wire)].name)


@dataclass(frozen=True, slots=True)
class Batch:
    """Runs of one project, each with its place in the source if it has one (the line of a file)."""

    project_id: str
    runs: Sequence[OutgoingRun]
    lines: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Rejection:
    """A row that was not stored. The reason never holds a value of the row."""

    line: int
    reason: str


@dataclass(slots=True)
class Totals:
    """The results so far: `processed` runs were accepted by the server, `duplicates` of them were stored before."""

    processed: int = 0
    figures: Figures = field(default_factory=Figures)
    """The sums of the runs that the server took."""
    duplicates: int = 0
    rejected: int = 0
    by_project: dict[str, int] = field(default_factory=dict)
    rejections: list[Rejection] = field(default_factory=list)
    """The first `SHOWN_REJECTIONS` of them, in order of their lines."""

    @property
    def added(self) -> int:
        return self.processed - self.duplicates

    def count(self, batch: Batch, receipt: Receipt) -> None:
        self.processed += receipt.processed
        refused = {run.index for run in receipt.rejected}
        for place, sent in enumerate(batch.runs):
            if place not in refused:
                self.figures.add(partial(_value, sent))
        self.duplicates += receipt.duplicates
        so_far = self.by_project.get(batch.project_id, 0)
        self.by_project[batch.project_id] = so_far + receipt.processed
        for run in receipt.rejected:
            self.reject(Rejection(batch.lines[run.index] if batch.lines else 0, run.reason))

    def reject(self, rejection: Rejection) -> None:
        self.rejected += 1
        # Batches are answered out of order, and the first lines of the file are the ones to show.
        insort(self.rejections, rejection, key=lambda item: item.line)
        del self.rejections[SHOWN_REJECTIONS:]


class Posts(Protocol):
    """The sender of batches: a `Poster`."""

    async def post(self, project_id: str, runs: Sequence[OutgoingRun]) -> Receipt: ...


async def send_all(
    poster: Posts, batches: Iterable[Batch], totals: Totals, on_answer: Callable[[Batch], None] = lambda _batch: None
) -> None:
    """Post every batch, in order but for the few in flight, and count the answers into `totals`.

    The first batch goes alone: a wrong key or project is then said once, before anything else is sent. The first error
    ends it all.
    """
    waiting = iter(batches)

    async def post_next(limit: int | None = None) -> None:
        done = 0
        while limit is None or done < limit:
            batch = next(waiting, None)
            if batch is None:
                return
            receipt = await poster.post(batch.project_id, batch.runs)
            totals.count(batch, receipt)
            on_answer(batch)
            done += 1

    await post_next(limit=1)
    tasks = [asyncio.create_task(post_next()) for _ in range(IN_FLIGHT)]
    try:
        await asyncio.gather(*tasks)
    finally:
        # `gather` leaves the others running when one fails; nothing may be sent after the error was reported.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
