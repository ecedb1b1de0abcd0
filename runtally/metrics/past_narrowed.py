"""Some of a project's runs in a window: those of an experiment, a status, a model, a provider.

Sums by provider and model tell a part of it; the rest is read from the runs, once. A month of an experiment may be tens of
thousands, so a process remembers what days that are over came to, and reads today's runs alone.
"""

from array import array
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeAlias

from runtally.clock import start_of_day
from runtally.db.database import Connection
from runtally.metrics import latency_queries, queries
from runtally.metrics.narrowed import Narrowed
from runtally.metrics.narrowed_queries import select_runs
from runtally.metrics.only import Only
from runtally.metrics.past import Past
from runtally.metrics.sketch import Sketch, merged, without
from runtally.metrics.values import NOTHING, Cell
from runtally.metrics.window import Window
from runtally.models.run import Status
from runtally.rollups.version_queries import select_versions_of_kept

# What has more is read each time: a tally is 700 bytes, a latency with its runs 12.
MAX_TALLIES = 2_000
MAX_LATENCIES = 20_000
# To read so many takes 20 ms; of more, an index may lead to those that are looked for in less.
FEW_RUNS = 20_000

_Read: TypeAlias = tuple[tuple[Cell, ...], Mapping[int, Sketch]]


async def read_narrowed(  # noqa: PLR0913  # What is looked at, and how closely.
    connection: Connection,
    window: Window,
    project_id: str,
    only: Only,
    past: Past,
    *,
    bar: timedelta | None = None,
    has_latencies: bool = True,
) -> Narrowed:
    """In the window's buckets, and costs in bars, which hold whole ones; the connection must be that of a snapshot."""
    bar = bar or window.interval

    async def read(since: datetime, until: datetime) -> Narrowed:
        part = window.part(since, until)
        cells, sketches = await _read(connection, part, project_id, only, has_latencies=has_latencies)
        before = (since - window.start) // window.interval
        return Narrowed.of(window, bar, cells, {before + number: one for number, one in sketches.items()})

    over = min(start_of_day(window.now), window.until)
    border = over - (over - window.start) % window.interval
    if border <= window.start:
        return await read(window.start, window.until)
    days = window.part(window.start, border)
    version = await _version(connection, days, project_id, only, has_latencies=has_latencies)
    key = (project_id, only, days.start, border, window.interval, bar, has_latencies)
    known = past.narrowed.get(key, version, window.now)
    if known is None:
        known = await read(days.start, border)
        if _is_small(known):
            known = replace(known, whole=tuple((array("i", one), array("q", counts)) for one, counts in known.whole))
            past.narrowed.keep(key, version, window.now, known)
    return known + await read(border, window.until) if border < window.until else known


def _is_small(known: Narrowed) -> bool:
    tallies = len(known.buckets) + len(known.models) + len(known.costs)
    return tallies <= MAX_TALLIES and sum(len(latencies) for latencies, _ in known.whole) <= MAX_LATENCIES


async def _version(
    connection: Connection, days: Window, project_id: str, only: Only, *, has_latencies: bool
) -> Hashable:
    version = (await select_versions_of_kept(connection, [project_id], days.start, days.until)).get(project_id)
    if version is None or not has_latencies or only != Only(status=Status.SUCCESS):
        return version
    # Of latencies that are folded into sketches, some are put into bins.
    stored, _ = days.stored_parts()
    return version, await latency_queries.select_version(connection, project_id, stored) if stored else None


async def _read(connection: Connection, window: Window, project_id: str, only: Only, *, has_latencies: bool) -> _Read:
    if only.is_of_models:
        of_project = await queries.select_cells(connection, window, project_id)
        cells = _only(of_project, only)
        if not has_latencies:
            return cells, {}
        are_few = sum(cell.tally.runs for cell in of_project) <= FEW_RUNS
        return cells, (await select_runs(connection, window, project_id, only, by_time=are_few))[1]
    if not only.is_all_but_failed or not await _has_all_runs(connection, window, project_id):
        return await select_runs(connection, window, project_id, only)
    # Few fail, and an index leads to them: what is left of the sums is read many times as fast as all that succeeded.
    failed, failed_latencies = await select_runs(connection, window, project_id, only.failed)
    tallies = {(cell.bucket, cell.provider, cell.model): cell.tally for cell in failed}
    left = [
        replace(cell, tally=cell.tally - tallies.get((cell.bucket, cell.provider, cell.model), NOTHING))
        for cell in _only(await queries.select_cells(connection, window, project_id), only)
    ]
    cells = tuple(cell for cell in left if cell.tally.runs)
    if not has_latencies:
        return cells, {}
    if only != Only(status=Status.SUCCESS):
        return cells, (await select_runs(connection, window, project_id, only))[1]
    every = await queries.select_sketches(connection, window, project_id)
    sketches = {
        bucket: without(merged(parts), failed_latencies.get(bucket, ([], []))) for bucket, parts in every.items()
    }
    return cells, {bucket: sketch for bucket, sketch in sketches.items() if sketch[0]}


def _only(cells: Iterable[Cell], only: Only) -> tuple[Cell, ...]:
    """Runs of these models and of any status, as the sums know them."""
    return tuple(cell for cell in cells if only.has(cell.provider, cell.model))


async def _has_all_runs(connection: Connection, window: Window, project_id: str) -> bool:
    """Whether none was dropped: sums are of those as well, and which of them failed is not known any more."""
    dropped_before = await queries.select_dropped_before(connection, project_id)
    return dropped_before is None or dropped_before <= window.start
