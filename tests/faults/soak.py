"""`make soak`: storms and calms in turns for an hour, with prices, retention and files; then everything is equal, and flat."""

import asyncio
import subprocess
import time
from collections.abc import Iterator

from runtally import log
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.settings import LogFormat, LogLevel
from tests.faults.attacks import Attacks
from tests.faults.check import differences
from tests.faults.chores import Chores
from tests.faults.clients import Clients
from tests.faults.judge import judge
from tests.faults.ledger import Ledger
from tests.faults.levels import Levels
from tests.faults.options import Options, number, seed_of_environment
from tests.faults.plan import Post, posts
from tests.faults.proxy import Proxy
from tests.faults.service import Service
from tests.faults.storm import strike
from tests.ops.processes import RUNTALLY

ROUNDS = 3
# A third of each round is a storm, as in `make test-faults`: so many seconds and runs to a fault.
STORM = 1 / 3
SECONDS_OF_A_FAULT = 4.5
RUNS_OF_A_FAULT = 500
# In a calm, so that an hour fits on a laptop's disk.
RUNS_PER_SECOND = 150
MEASURE_SECONDS = 2.0
# The first round sends runs that a shorter retention will drop, the later ones none that it refuses.
OLD_DAYS, YOUNG_DAYS = 60, 25


class Calm:
    """So many runs a second, until its time is over."""

    def __init__(self, seconds: float) -> None:
        self._started = time.monotonic()
        self._seconds = seconds
        self._begun = 0

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self._started >= self._seconds

    async def begin(self, runs: int) -> None:
        due = min(self._begun / RUNS_PER_SECOND, self._seconds) - (time.monotonic() - self._started)
        self._begun += runs
        await asyncio.sleep(max(0.0, due))


def main() -> None:
    """Exit code 1 when a promise was broken, or something grew; the seed makes the same storms again."""
    minutes, seed = number("MINUTES", 60), seed_of_environment()
    print(f"SEED={seed} MINUTES={minutes}", flush=True)
    # Of this process: that the database is away now and then is the point.
    log.set_up(LogFormat.CONSOLE, LogLevel.ERROR)
    judge(lambda folder: Soak(Service(folder, has_relay=True), seed, minutes * 60 / ROUNDS).run())


class Soak:
    """All that happens to one service."""

    def __init__(self, service: Service, seed: int, round_seconds: float) -> None:
        self._service = service
        self._seed = seed
        self._seconds = round_seconds
        self._proxy = Proxy(service.port)
        self._ledger = Ledger()
        self._found: list[str] = []

    async def run(self) -> list[str]:
        """What was wrong, in words."""
        async with (
            self._proxy.running(),
            self._service.running(),
            Database(self._service.database_url, connections=2) as database,
        ):
            chores, over, attacks = (
                Chores(database, self._service.url, self._ledger),
                asyncio.Event(),
                Attacks(self._service.port),
            )
            attacking = asyncio.create_task(attacks.go_on(over))
            sent = posts(self._seed, system_clock(), OLD_DAYS, "old")
            for number_ in range(ROUNDS):
                # From the second round on there is a price, and in the third it is another one.
                if number_:
                    await chores.set_price(number_)
                await self._storm(number_, sent, chores)
                await self._service.until_healthy()
                await self._service.until_replaced()
                await self._calm(sent, chores, database)
                if not number_:
                    sent = posts(self._seed + 1, system_clock(), YOUNG_DAYS, "young")
                    await chores.shorten_retention()
            over.set()
            self._found += await attacking + await chores.wrong_costs()
            print(f"{attacks.without_calls} requests without calls were answered, {attacks.slow} connections were slow")
            print(
                f"{chores.files} files with {chores.rows} runs were read, {chores.refused_files} were refused, "
                f"{chores.broken_files} broke off in storms"
            )
            self._drop()
            return self._found + await differences(self._service, self._ledger)

    async def _storm(self, number_: int, sent: Iterator[Post], chores: Chores) -> None:
        faults = max(1, round(self._seconds * STORM / SECONDS_OF_A_FAULT))
        options = Options(faults * RUNS_OF_A_FAULT, faults, self._seed + number_)
        print(f"Storm {number_ + 1}: {faults} faults", flush=True)
        over = asyncio.Event()
        async with asyncio.TaskGroup() as meanwhile:
            meanwhile.create_task(chores.reprice())
            reading = meanwhile.create_task(chores.read_files(over, is_calm=False))
            await strike(options, self._service, self._proxy, sent, self._ledger)
            over.set()
        self._found += reading.result()

    async def _calm(self, sent: Iterator[Post], chores: Chores, database: Database) -> None:
        calm, over = Calm(self._seconds * (1 - STORM)), asyncio.Event()
        clients = Clients(f"http://127.0.0.1:{self._proxy.port}", sent, calm, self._ledger)
        levels = Levels(self._service, database)
        async with asyncio.TaskGroup() as meanwhile:
            reading = meanwhile.create_task(chores.read_files(over, is_calm=True))
            sending = meanwhile.create_task(clients.send())
            while not sending.done():
                await levels.measure()
                await asyncio.sleep(MEASURE_SECONDS)
            over.set()
        print(f"Calm: {len(self._ledger.acknowledged)} runs acknowledged, {clients.retries} retries", flush=True)
        self._found += reading.result() + levels.findings()

    def _drop(self) -> None:
        """What the service does every few minutes: an hour's soak sees it, a short one may not."""
        command = [RUNTALLY, "retention", "drop"]
        done = subprocess.run(command, env=self._service.environment, check=False, capture_output=True, text=True)  # noqa: S603
        print(*done.stdout.splitlines()[1:], sep="\n", flush=True)
        if done.returncode:
            self._found.append(f"runtally retention drop: {done.stderr}")


if __name__ == "__main__":
    main()
