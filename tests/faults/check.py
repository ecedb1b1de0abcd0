"""After the storm: compare the stored runs with the clients' ledger, the sums with a recount, reporting with live."""

import subprocess
from collections.abc import AsyncIterator, Mapping
from datetime import datetime

from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.reporting.relay import MAX_PAUSE
from runtally.reporting.remote import LEASE
from runtally.usage.sums.tables import TOTALS
from tests.faults.ledger import Content, Key, Ledger
from tests.faults.service import CELL, Service
from tests.ops.processes import RUNTALLY
from tests.relays import relay_to

SHOWN = 5
# Sums of whole days are kept for ever.
SELECT_SUMS = f"""
SELECT project_id, sum(runs)::bigint, sum(input_tokens)::bigint, sum(output_tokens)::bigint
  FROM {TOTALS.rows_of_projects} AS held
 WHERE grain = 1440 AND project_id <> ''
 GROUP BY project_id
"""
SELECT_DROPPED = "SELECT id, dropped_before FROM projects WHERE dropped_before IS NOT NULL"
SELECT_RUNS = """
SELECT project_id, id, provider, model, input_tokens, output_tokens, latency_ms, status, occurred_at
  FROM runs
"""


def _later() -> datetime:
    """When claims of relays that were killed are due again, and pushes that failed; so that nobody waits for that."""
    return system_clock() + LEASE + MAX_PAUSE


async def differences(service: Service, ledger: Ledger) -> list[str]:
    """Every promise that was broken, in words; none is the goal."""
    if service.cell:
        return await _differences_of_cells(service, ledger)
    async with Database(service.database_url) as database:
        await _drain(service, database)
        found = await _parked(database) + _differing_sums(await _sums(database), ledger)
        await _drop(database, ledger)
        found += ledger.differences([row async for row in _stored(database)])
    for command in (("rollups", "verify"), ("reporting", "verify")):
        found += _complaints(service, *command)
    return found + _bugs(service)


async def _differences_of_cells(service: Service, ledger: Ledger) -> list[str]:
    """The same of two cells, which have no reporting table: each project is in one of them."""
    assert service.cell is not None
    async with Database(service.database_url) as main, Database(service.cell.url) as cell:
        sums = [await _sums(main), await _sums(cell)]
        rows = [row for database in (main, cell) for row in [row async for row in _stored(database)]]
    in_both = sorted(sums[0].keys() & sums[1].keys())
    found = [f"{project_id} is in both cells" for project_id in in_both]
    found += [] if all(sums) else ["a cell has no runs"]
    found += _differing_sums(sums[0] | sums[1], ledger) + ledger.differences(rows)
    for cell_option in ((), ("--cell", CELL)):
        found += _complaints(service, *cell_option, "rollups", "verify")
    return found + _bugs(service)


async def _stored(database: Database) -> AsyncIterator[tuple[Key, Content]]:
    async with database.connection() as connection:
        for project_id, run_id, *content in await connection.fetch(SELECT_RUNS):
            yield (project_id, run_id), tuple(content)


async def _sums(database: Database) -> dict[str, tuple[int, ...]]:
    """Stored sums of each project."""
    async with database.connection() as connection:
        return {row[0]: tuple(row[1:]) for row in await connection.fetch(SELECT_SUMS)}


def _differing_sums(stored: Mapping[str, tuple[int, ...]], ledger: Ledger) -> list[str]:
    """Compare sums with what was acknowledged to the clients; a run that was dropped is still in them."""
    expected = ledger.sums()
    told = {project_id: tuple(sums.values()) for project_id, sums in expected.items()}
    return [
        f"{project_id}: runs and tokens add up to {stored.get(project_id)}, not {sums}"
        for project_id, sums in told.items()
        if stored.get(project_id) != sums
    ]


async def _drop(database: Database, ledger: Ledger) -> None:
    async with database.connection() as connection:
        for project_id, before in await connection.fetch(SELECT_DROPPED):
            print(f"{ledger.drop(project_id, before)} runs of {project_id} were dropped, from before {before:%F}")


async def _drain(service: Service, database: Database) -> None:
    """Push what the service's own relays have not pushed yet."""
    async with relay_to(service.url, database, _later) as relay:
        while (await relay.run_pass()).taken:
            pass


async def _parked(database: Database) -> list[str]:
    async with database.connection() as connection:
        left = await connection.fetchval(
            "SELECT (SELECT count(*) FROM outbox) + (SELECT coalesce(sum(runs), 0) FROM outbox_arrivals)"
        )
    return [f"{left} runs are still queued for the reporting table"] if left else []


def _complaints(service: Service, *command: str) -> list[str]:
    done = subprocess.run(  # noqa: S603  # Our own command.
        [RUNTALLY, *command], env=service.environment, check=False, capture_output=True, text=True
    )
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    print(f"runtally {' '.join(command)}: {' '.join(lines[-2:])}", flush=True)
    return [f"runtally {' '.join(command)}: {line}" for line in lines] if done.returncode else []


def _bugs(service: Service) -> list[str]:
    """What the log has of errors that nobody expected."""
    lines = service.log.read_text(errors="replace").splitlines()
    return [f"log: {line[:300]}" for line in lines if "Traceback" in line or '"request_failed"' in line][:SHOWN]
