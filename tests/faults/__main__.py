"""`make test-faults`: break things while clients post, then look whether every promise was kept."""

import asyncio
import shutil
import sys
import tempfile
import time
from pathlib import Path

from runtally.clock import system_clock
from tests.faults.check import differences
from tests.faults.clients import Clients
from tests.faults.options import Options
from tests.faults.plan import posts, strikes
from tests.faults.proxy import Proxy
from tests.faults.service import Service
from tests.faults.storm import Storm


def main() -> None:
    """Exit code 1 when a promise was broken; the seed on the first line makes the same storm again."""
    options = Options.of_environment()
    print(f"SEED={options.seed} RUNS={options.runs} FAULTS={options.faults}", flush=True)
    # Postgres does not run as root, so its user must be able to reach the folder.
    folder = Path(tempfile.mkdtemp(prefix="runtally-storm-"))
    folder.chmod(0o755)
    started = time.monotonic()
    found = asyncio.run(_weather(Service(folder), options))
    print(f"{time.monotonic() - started:.0f} s in all")
    if found:
        print(*found, f"The data is kept in {folder}.", sep="\n")
        sys.exit(1)
    shutil.rmtree(folder, ignore_errors=True)
    print("Every acknowledged run is there once, no refused one is, and all sums are exact.")


async def _weather(service: Service, options: Options) -> list[str]:
    proxy = Proxy(service.port)
    async with proxy.running(), service.running():
        started = time.monotonic()
        storm = Storm(strikes(options.seed, options.faults, options.runs), options.runs, service, proxy)
        sent = posts(options.seed, system_clock())
        clients = Clients(f"http://127.0.0.1:{proxy.port}", sent, storm)
        async with asyncio.TaskGroup() as both:
            both.create_task(clients.send())
            both.create_task(storm.rage())
        for fault, times in sorted(storm.struck.items()):
            print(f"{times:5} x {fault}")
        ledger = clients.ledger
        print(
            f"{len(ledger.acknowledged)} runs acknowledged, {len(ledger.refused)} refused, {clients.retries} retries, "
            f"{service.starts} starts of the service, {time.monotonic() - started:.0f} s",
            flush=True,
        )
        await service.until_healthy()
        return await differences(service, ledger)


if __name__ == "__main__":
    main()
