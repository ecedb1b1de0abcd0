"""`make test-faults`: break things while clients post, then look whether every promise was kept."""

import os

from runtally.clock import system_clock
from tests.faults.check import differences
from tests.faults.judge import judge
from tests.faults.ledger import Ledger
from tests.faults.options import Options
from tests.faults.plan import posts
from tests.faults.proxy import Proxy
from tests.faults.service import Service
from tests.faults.storm import strike


def main() -> None:
    """Exit code 1 when a promise was broken; the seed on the first line makes the same storm again."""
    options = Options.of_environment()
    print(f"SEED={options.seed} RUNS={options.runs} FAULTS={options.faults}", flush=True)
    has_cell = os.environ.get("CELLS") == "2"
    judge(lambda folder: _weather(Service(folder, has_cell=has_cell), options))


async def _weather(service: Service, options: Options) -> list[str]:
    proxy, ledger = Proxy(service.port), Ledger()
    async with proxy.running(), service.running():
        await strike(options, service, proxy, posts(options.seed, system_clock()), ledger)
        await service.until_healthy()
        return await differences(service, ledger)


if __name__ == "__main__":
    main()
