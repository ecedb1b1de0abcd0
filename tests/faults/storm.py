"""Faults, one after the other, each at its moment; the load waits for them, so that none strikes an idle service."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from tests.faults.clients import Clients
from tests.faults.ledger import Ledger
from tests.faults.options import Options
from tests.faults.plan import Fault, Post, Strike, strikes
from tests.faults.proxy import Proxy
from tests.faults.service import POLL_SECONDS, START_SECONDS, Service
from tests.ops.processes import go_on, hang

# So many runs may be begun beyond the moment of the next fault.
SLACK = 300
# Longer than statements may take.
LONGEST_HANG_SECONDS = 12.0


async def strike(options: Options, service: Service, proxy: Proxy, sent: Iterator[Post], ledger: Ledger) -> None:
    """A whole storm: load, and faults that it waits for."""
    started, starts = time.monotonic(), service.starts
    storm = Storm(strikes(options.seed, options.faults, options.runs), options.runs, service, proxy)
    clients = Clients(f"http://127.0.0.1:{proxy.port}", sent, storm, ledger)
    async with asyncio.TaskGroup() as both:
        both.create_task(clients.send())
        both.create_task(storm.rage())
    for fault, times in sorted(storm.struck.items()):
        print(f"{times:5} x {fault}")
    print(
        f"{len(ledger.acknowledged)} runs acknowledged, {len(ledger.refused)} refused, {clients.retries} retries, "
        f"{service.starts - starts} starts of the service, {time.monotonic() - started:.0f} s",
        flush=True,
    )


class Storm:
    """Strikes as planned while clients tell what they begin."""

    def __init__(self, strikes: Sequence[Strike], runs: int, service: Service, proxy: Proxy) -> None:
        self._strikes = strikes
        self._runs = runs
        self._service = service
        self._proxy = proxy
        self._begun = 0
        self._next = 0
        self._changed = asyncio.Condition()
        self.struck: Counter[Fault] = Counter()

    async def begin(self, runs: int) -> None:
        """A client is about to send so many runs; waits while the storm is behind."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._begun <= self._limit)
            self._begun += runs
            self._changed.notify_all()

    @property
    def is_over(self) -> bool:
        """All runs were begun, and every fault has struck: also those that wait for a request to come along."""
        return self._begun >= self._runs and self._next == len(self._strikes) and self._proxy.has_spoiled_all

    @property
    def _limit(self) -> float:
        return self._strikes[self._next].after_runs + SLACK if self._next < len(self._strikes) else float("inf")

    async def rage(self) -> None:
        """Until every fault has struck."""
        for strike in self._strikes:
            # Whatever was struck before must be up again by then.
            async with asyncio.timeout(START_SECONDS):
                await self._reached(strike.after_runs)
                await self._strike(strike)
            self.struck[strike.fault] += 1
            async with self._changed:
                self._next += 1
                self._changed.notify_all()

    async def _reached(self, runs: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._begun >= runs)

    async def _strike(self, strike: Strike) -> None:
        match strike.fault:
            case Fault.HANG:
                await self._hang(strike)
            case Fault.RESTART:
                self._service.replace_workers(await self._one_of(self._service.main_process, strike))
            case Fault.MIGRATE:
                await self._service.migrate()
            case _:
                await self._kill_or_spoil(strike)

    async def _kill_or_spoil(self, strike: Strike) -> None:
        victims = {
            Fault.WORKER: self._service.workers,
            Fault.SERVICE: self._service.main_process,
            Fault.POSTGRES: self._service.postgres,
            Fault.BACKEND: self._service.backends,
        }.get(strike.fault)
        if victims is None:
            self._proxy.spoil(strike)
            return
        os.kill(await self._one_of(victims, strike), signal.SIGKILL)

    async def _one_of(self, victims: Callable[[], list[int]], strike: Strike) -> int:
        # What was killed a moment ago has to be there again first.
        while not (alive := victims()):  # noqa: ASYNC110  # Processes of others set no event.
            await asyncio.sleep(POLL_SECONDS)
        return alive[int(strike.fraction * len(alive))]

    async def _hang(self, strike: Strike) -> None:
        family = hang(await self._one_of(self._service.postgres, strike))
        try:
            await asyncio.sleep(strike.fraction * LONGEST_HANG_SECONDS)
        finally:
            go_on(family)
