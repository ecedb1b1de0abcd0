"""Ingest, step by step: decode, normalise, price, store. Content is dropped first; the database comes last."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from runtally.access.keys import key_id_of
from runtally.audit import Actor
from runtally.clock import Clock
from runtally.errors import Detail, Forbidden, InvalidPayload, MissingProjectId
from runtally.ingest.decode import BadRun, DecodedRun, IngestRequest, SentRequest, decode
from runtally.ingest.normalize import NormalRun, complete, normalize
from runtally.ingest.writer import Writer
from runtally.models.run import StoredRun
from runtally.names import LiveNames
from runtally.pricing.book import LivePrices
from runtally.pricing.cost import resolve_cost
from runtally.pricing.match import FREE
from runtally.privacy import ContentRule
from runtally.retention import LiveRetention
from runtally.settings import Settings
from runtally.telemetry import count_runs
from runtally.waiter import Then, Waiter

LARGE_BYTES = 256 * 1024
"""A larger body takes tens of milliseconds to process, so other requests are answered between its runs."""


class OnError(StrEnum):
    """How a bad run affects its batch."""

    REFUSE = "refuse"
    SKIP = "skip"

    @classmethod
    def parse(cls, text: str | None) -> "OnError":
        try:
            return cls(text) if text is not None else cls.REFUSE
        except ValueError:
            raise InvalidPayload(details=(Detail("onError", "must be refuse or skip"),)) from None


@dataclass(frozen=True, slots=True)
class RejectedRun:
    """A run that was skipped: its index in the batch, and what is wrong with it, by path within the run."""

    index: int
    details: tuple[Detail, ...]


class Receipt(NamedTuple):
    """The answer to an ingest request. `ids` are the runs' ids in the order sent, duplicates included."""

    ids: tuple[str, ...]
    duplicates: int
    warnings: tuple[str, ...]
    rejected: tuple[RejectedRun, ...] | None
    """The runs of a batch that were skipped; None unless the client asked to skip bad runs."""
    is_batch: bool


class Prepared(NamedTuple):
    """The runs of one project that can be stored, normalised, and the runs that are rejected."""

    accepted: Sequence[NormalRun]
    rejected: tuple[RejectedRun, ...]


class Stored(NamedTuple):
    """The committed runs: their ids in the order sent, and how many of them were stored before."""

    ids: tuple[str, ...]
    duplicates: int


class Intake(Protocol):
    """What stores the runs of any project."""

    async def prepare(self, project_id: str, runs: Sequence[DecodedRun], *, takes_turns: bool) -> Prepared:
        """Normalise the decoded runs of a project. With `takes_turns`, other requests are answered between two runs."""

    async def store(self, accepted: Sequence[NormalRun], *, by: Actor) -> Stored:
        """Price the runs of one project and store them, all or none; when this returns they are committed."""

    async def accept(self, sent: SentRequest, *, by: Actor, on_error: OnError = OnError.REFUSE) -> Receipt:
        """Store the runs of a JSON request; when this returns they are committed."""


class Ingest:
    """Accept runs in any format; one per process and cell.

    A format is a decoder: pass the runs it decodes to `prepare`, then to `store`.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # The parts that it puts together.
        self,
        writer: Writer,
        prices: LivePrices,
        retention: LiveRetention,
        names: LiveNames,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._writer = writer
        self._prices = prices
        self._retention = retention
        self._names = names
        self._clock = clock
        self._rule = ContentRule.of(settings.privacy_mode, settings.content_keys)
        self._direct_providers = frozenset(name.casefold() for name in settings.direct_cost_providers)
        self._max_runs = settings.max_batch_runs

    async def accept(self, sent: SentRequest, *, by: Actor, on_error: OnError = OnError.REFUSE) -> Receipt:
        """Store the runs of a JSON request; when this returns they are committed.

        Raises `InvalidJson`, `MissingProjectId`, `Forbidden`, `BatchTooLarge`, `InvalidPayload`, `StoreUnavailable` and
        `StoreBusy`; nothing is stored then.
        """
        receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        if len(sent.body) <= LARGE_BYTES:
            self.begin(sent, by=by, on_error=on_error, receipt=receipt)
        else:
            request = decode(sent, project_of(sent, by), self._max_runs)
            prepared = await self.prepare(request.project_id, request.runs, takes_turns=True)
            self._finish(request, prepared, by, on_error, receipt)
        return await receipt

    def begin(self, sent: SentRequest, *, by: Actor, on_error: OnError, receipt: Waiter[Receipt]) -> None:
        """Begin to store the runs of a JSON request that is not large: what `accept` does, without a task that waits.

        Raises what `accept` raises before the runs go to the database; `receipt` receives all else.
        """
        request = decode(sent, project_of(sent, by), self._max_runs)
        normal = self._normalizer(request.project_id)
        self._finish(request, _sorted(map(normal, request.runs)), by, on_error, receipt)

    def _finish(
        self, request: IngestRequest, prepared: Prepared, by: Actor, on_error: OnError, receipt: Waiter[Receipt]
    ) -> None:
        if prepared.rejected and (on_error is OnError.REFUSE or not request.is_batch):
            raise InvalidPayload(details=_located(prepared.rejected, is_batch=request.is_batch))

        def committed(stored: Stored) -> None:
            warnings = dict.fromkeys(warning for normal in prepared.accepted for warning in normal.warnings)
            rejected = prepared.rejected if request.is_batch and on_error is OnError.SKIP else None
            receipt.set_result(
                Receipt(stored.ids, stored.duplicates, tuple(warnings), rejected, is_batch=request.is_batch)
            )

        self._put(prepared.accepted, by, Then(committed, receipt))

    async def prepare(self, project_id: str, runs: Sequence[DecodedRun], *, takes_turns: bool) -> Prepared:
        """Normalise the decoded runs of a project. With `takes_turns`, other requests are answered between two runs."""
        normal = self._normalizer(project_id)
        made = []
        for sent in runs:
            if takes_turns:
                await asyncio.sleep(0)
            made.append(normal(sent))
        return _sorted(made)

    def _normalizer(self, project_id: str) -> Callable[[DecodedRun], NormalRun | tuple[Detail, ...]]:
        """Return what makes of each decoded run one that can be stored, or says what is wrong with it."""
        now = self._clock()
        since = self._retention.accepted_since(project_id, now)

        def normal(sent: DecodedRun) -> NormalRun | tuple[Detail, ...]:
            wrong, whole = (sent.details, sent.rest) if isinstance(sent, BadRun) else ((), sent)
            if whole is None:
                return wrong
            try:
                if isinstance(whole, StoredRun):
                    normal = complete(whole, now, self._rule)
                else:
                    normal = normalize(whole, project_id, now, self._rule)
            except InvalidPayload as error:
                return wrong + error.details
            # Before anything reads the run further: no name that is hashed or dropped goes any way from here.
            self._names.apply(normal.run)
            if since and normal.run.occurred_at < since:
                wrong += (Detail("timestamp", f"must not be before {since:%Y-%m-%d}: the project keeps no older runs"),)
            return wrong or normal

        return normal

    async def store(self, accepted: Sequence[NormalRun], *, by: Actor) -> Stored:
        """Price the runs of one project and store them, all or none; when this returns they are committed.

        Each run keeps the id of the key that sent it. Raises `StoreUnavailable` and `StoreBusy`.
        """
        stored: asyncio.Future[Stored] = asyncio.get_running_loop().create_future()
        self._put(accepted, by, stored)
        return await stored

    def _put(self, accepted: Sequence[NormalRun], by: Actor, stored: Waiter[Stored]) -> None:
        runs = [self._priced(normal) for normal in accepted]
        key_id = key_id_of(by)
        for run in runs:
            run.key_id = key_id

        def committed(new: int) -> None:
            stored.set_result(Stored(tuple(run.id for run in runs), len(runs) - new))

        self._writer.put(runs, Then(committed, stored))

    def _priced(self, normal: NormalRun) -> StoredRun:
        run = normal.run
        cost = resolve_cost(
            run,
            price=self._prices.book.price_of(run, run.project_id),
            reported=run.reported_cost_usd,
            upstream_reported=normal.upstream_usd,
            direct=run.provider.casefold() in self._direct_providers,
            free=run.model.endswith(FREE),
        )
        run.cost_usd, run.cost_source = cost.total_usd, cost.source
        run.cost_estimated, run.price_entry_id = cost.estimated, cost.entry_id
        run.cache_savings_usd, run.cost_is_minimum = cost.cache_savings_usd, cost.is_minimum
        run.without_usage = cost.without_usage
        return run


def project_of(sent: SentRequest, by: Actor) -> str:
    """Return the project of a project key, which the request may also name, or else the project that the request names."""
    if by.project_id is not None and sent.project_id not in {None, by.project_id}:
        raise Forbidden("This key is another project's; leave projectId out, or use a key of that project.")
    project_id = by.project_id or sent.project_id
    if project_id is None:
        raise MissingProjectId
    return project_id


def _sorted(runs: Iterable[NormalRun | tuple[Detail, ...]]) -> Prepared:
    accepted: list[NormalRun] = []
    rejected: list[RejectedRun] = []
    for index, run in enumerate(runs):
        if isinstance(run, NormalRun):
            accepted.append(run)
        else:
            rejected.append(RejectedRun(index, run))
    if rejected:
        count_runs(rejected=len(rejected))
    return Prepared(accepted, tuple(rejected))


def _located(rejected: Sequence[RejectedRun], *, is_batch: bool) -> tuple[Detail, ...]:
    """Return the details with paths from the root of the body."""
    if not is_batch:
        return tuple(detail for run in rejected for detail in run.details)
    return tuple(
        Detail(f"runs[{run.index}].{detail.path}".removesuffix("."), detail.message)
        for run in rejected
        for detail in run.details
    )
