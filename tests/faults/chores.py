"""What admins and readers do meanwhile: new prices, repricing, a shorter retention, files of runs."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal
from http import HTTPStatus
from typing import TypeVar

import httpx
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access import keys, projects
from runtally.access.scopes import Scope as KeyScope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.errors import StoreUnavailable
from runtally.models.price import PriceEntry, RepricingState
from runtally.pricing import entries
from runtally.pricing.draft import Draft
from runtally.pricing.repricing import repricer
from runtally.pricing.repricing.repricer import Scope
from tests.faults.ledger import Ledger
from tests.faults.plan import PROJECTS

T = TypeVar("T")
# Without a price at the beginning.
PROVIDER, MODEL = "nobody", "unpriced"
# A worker looks for new prices every second, and every five after an outage.
PRICES_KNOWN_SECONDS = 12.0
RETRY_SECONDS = 0.5
# Between two files, so that reading is not most of the load.
PAUSE_SECONDS = 2.0
READ_PROVIDER = "anthropic"
RETAINED = "storm-c"
RETAINED_DAYS = 31


class Chores:
    """Through the tables as commands do it, and through the pages; whatever a fault breaks is done again."""

    def __init__(self, database: Database, url: str, ledger: Ledger) -> None:
        self._database = database
        self._url = url
        self._ledger = ledger
        self.files = 0
        self.broken_files = 0
        self.refused_files = 0
        self.rows = 0

    async def _done(self, work: Callable[[AsyncSession], Awaitable[T]]) -> T:
        while True:
            try:
                async with self._database.session() as session:
                    return await work(session)
            except StoreUnavailable:
                await asyncio.sleep(RETRY_SECONDS)

    async def set_price(self, number: int) -> None:
        """The first price, or a correction of the one before; returns when every worker knows it."""
        draft = Draft(
            provider=PROVIDER,
            model=MODEL,
            input_per_million=Decimal(number),
            output_per_million=Decimal(2 * number),
            effective_from=datetime(2020, 1, 1, tzinfo=UTC),
        )

        async def work(session: AsyncSession) -> None:
            known = select(PriceEntry).where(
                col(PriceEntry.provider) == PROVIDER, col(PriceEntry.withdrawn_at).is_(None)
            )
            before = (await session.exec(known)).first()
            if before is None:
                await entries.add(session, OPERATOR, draft, system_clock())
            else:
                await entries.change(session, OPERATOR, before, draft, system_clock())

        await self._done(work)
        await asyncio.sleep(PRICES_KNOWN_SECONDS)

    async def reprice(self) -> None:
        """Compare, then change the costs of all runs of the model."""
        repricing_id = await self._planned()
        await self._reached(repricing_id, RepricingState.COMPARED)

        async def start(session: AsyncSession) -> None:
            # A start whose answer was lost is no second one.
            if (await repricer.get(session, repricing_id)).state == RepricingState.COMPARED:
                await repricer.move(session, OPERATOR, repricing_id, RepricingState.RUNNING, system_clock())

        await self._done(start)
        await self._reached(repricing_id, RepricingState.DONE)

    async def wrong_costs(self) -> list[str]:
        """What a repricing would change, which is nothing: each run has the cost of today's price."""
        repricing_id = await self._planned()
        await self._reached(repricing_id, RepricingState.COMPARED)
        found = await self._done(lambda session: repricer.get(session, repricing_id))
        return [f"{one.runs} runs of {one.project_id} have an old cost" for one in repricer.groups_of(found)]

    async def _planned(self) -> int:
        async def work(session: AsyncSession) -> int:
            made = await repricer.plan(session, OPERATOR, Scope(provider=PROVIDER), 0, system_clock())
            return int(made.id or 0)

        return await self._done(work)

    async def _reached(self, repricing_id: int, state: RepricingState) -> None:
        while (await self._done(lambda session: repricer.get(session, repricing_id))).state != state:  # noqa: ASYNC110  # The service sets no event of ours.
            await asyncio.sleep(RETRY_SECONDS)

    async def shorten_retention(self) -> None:
        await self._done(lambda session: projects.retain(session, OPERATOR, RETAINED, RETAINED_DAYS))

    async def read_files(self, stop: asyncio.Event, *, is_calm: bool) -> list[str]:
        """Read files until then, one after the other, and return what is wrong, in words.

        In a calm each file is whole, or refused with 503, as a busy machine may; at least one is read.
        """
        found: list[str] = []
        files = self.files
        secret = await self._done(_admin_key)
        async with httpx.AsyncClient(base_url=self._url, timeout=60, trust_env=False) as client:
            while not stop.is_set():
                for project_id in PROJECTS:
                    known = self._known(project_id)
                    try:
                        # Also after a cookie was lost with its answer.
                        if not client.cookies:
                            await client.post("/sign-in", data={"key": secret})
                        ids = await _file(client, project_id)
                    except (httpx.TransportError, httpx.HTTPStatusError) as error:
                        self.broken_files += 1
                        found += [f"a file of {project_id} broke off: {error!r}"] if is_calm else []
                    else:
                        if ids is None:
                            self.refused_files += 1
                        else:
                            self.files += 1
                            self.rows += len(ids)
                            found += _wrong_file(project_id, known, ids)
                    await asyncio.sleep(PAUSE_SECONDS)
        return [*found, "no file was read in a calm"] if is_calm and self.files == files else found

    def _known(self, project_id: str) -> set[str]:
        """Runs that a file must have. One that drops runs may lack some at any moment."""
        if project_id == RETAINED:
            return set()
        return {
            run_id
            for (project, run_id), (provider, *_) in self._ledger.acknowledged.items()
            if (project, provider) == (project_id, READ_PROVIDER)
        }


def _wrong_file(project_id: str, known: set[str], ids: list[str]) -> list[str]:
    lacking = known - set(ids)
    found = [f"a file of {project_id} has runs twice"] if len(set(ids)) < len(ids) else []
    return found + ([f"a file of {project_id} lacks {len(lacking)} runs"] if lacking else [])


async def _admin_key(session: AsyncSession) -> str:
    return keys.issue(session, system_clock(), OPERATOR, project_id=None, scopes=[KeyScope.ADMIN]).secret


async def _file(client: httpx.AsyncClient, project_id: str) -> list[str] | None:
    """The ids in a file of all runs of a provider in a project; None if the service refuses it for now."""
    query = {"project": project_id, "provider": READ_PROVIDER, "range": "all"}
    async with client.stream("GET", "/runs/export.jsonl", params=query) as answer:
        if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            return None
        answer.raise_for_status()
        return [json.loads(line)["id"] async for line in answer.aiter_lines()]
