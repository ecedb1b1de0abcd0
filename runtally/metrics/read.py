"""Metrics for a window, and what pages say of it. Sums are exact; percentiles are within 1 %."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from runtally.db.database import Connection
from runtally.errors import NotFound
from runtally.metrics import project_queries, queries
from runtally.metrics.looking import Looking
from runtally.metrics.narrowed import latency_of
from runtally.metrics.only import EVERY_RUN, Only
from runtally.metrics.past import Before, Past
from runtally.metrics.past_experiments import read_experiments
from runtally.metrics.past_narrowed import read_narrowed
from runtally.metrics.past_runs import sketch_of, tallies_by_model
from runtally.metrics.report import STALE_AFTER, ProjectReport, Ranking, Report
from runtally.metrics.sketch import Sketch, merged
from runtally.metrics.values import NO_LATENCY, NOTHING, Cell, Latency, Metrics, Tally, ranked
from runtally.metrics.window import Between, Cover, Reach, Window
from runtally.models.rollup import GRAINS, TOTAL_GRAINS


async def read_metrics(
    connection: Connection,
    window: Window,
    project_id: str | None,
    only: Only = EVERY_RUN,
    past: Past | None = None,
) -> Metrics:
    """The metrics of a project, or of all projects with `project_id` None; every bucket of the window is there.

    Of a project, `only` some runs can be looked at; their percentiles, and sums by more than models, are read from the runs.
    Of all projects, only those of a model or provider, and they have no percentiles: no index leads to their runs.
    """
    past = past or Past()
    if only:
        if project_id is None:
            return await read_sums(connection, window, None, only)
        # As a page reads them, which has bars as well.
        bar = max(window.interval, window.range.chart_interval)
        return (await read_narrowed(connection, window, project_id, only, past, bar=bar)).metrics(window)
    latencies = await _read_latencies(connection, window, project_id)
    whole = await _whole_latency(connection, window, project_id, past)
    return Metrics.of_sums(
        window, *await queries.select_sums(connection, window, project_id), latencies | {None: whole}
    )


async def read_buckets(connection: Connection, window: Window, project_id: str | None) -> Metrics:
    """The same without the percentiles of the whole window, which are most of the work."""
    latencies = await _read_latencies(connection, window, project_id)
    return Metrics.of_sums(window, *await queries.select_sums(connection, window, project_id), latencies)


async def read_sums(
    connection: Connection,
    window: Window,
    project_id: str | None,
    only: Only = EVERY_RUN,
    past: Past | None = None,
) -> Metrics:
    """The same without percentiles, which cost more than all the rest: every latency is zero."""
    if only:
        return await read_cells(connection, window, project_id, only, past)
    return Metrics.of_sums(window, *await queries.select_sums(connection, window, project_id), {})


async def read_cells(
    connection: Connection,
    window: Window,
    project_id: str | None,
    only: Only = EVERY_RUN,
    past: Past | None = None,
) -> Metrics:
    """The same with what each model cost in each bucket."""
    if only:
        if project_id is None:
            return Metrics.of_cells(window, await _cells_of_models(connection, window, only), {})
        found = await read_narrowed(connection, window, project_id, only, past or Past(), has_latencies=False)
        return replace(found.in_bars(window, window.interval), latency=NO_LATENCY)
    buckets, models, costs = await queries.select_costs(connection, window, project_id)
    return Metrics.of_sums(window, buckets, models, {}, costs)


async def read_rankings(
    connection: Connection, project_id: str | None, now: datetime, past: Past | None = None
) -> tuple[Ranking, Ranking]:
    """Of models and of providers; what a process remembers of the `past` need not be added up again."""
    costs = await (past or Past()).costs.read(connection, project_id, now)
    return Ranking.of((cost.model, cost) for cost in costs), Ranking.of((cost.provider, cost) for cost in costs)


async def is_comparable(connection: Connection, before: Window, project_id: str | None, only: Only = EVERY_RUN) -> bool:
    """Whether there were runs from the first bucket of that period on: else a comparison with it is not fair.

    Some of a project's runs are compared with the time before only where that has all of them as well.
    """
    if project_id is None:
        return await project_queries.do_any_reach_back(connection, before.comparable_from)
    projects = await project_queries.select_projects(connection, project_id)
    return any((one.kept_span if only else one.span).reaches_back_to(before) for one in projects)


async def readable(connection: Connection, reach: Reach, project_id: str | None, now: datetime) -> Reach:
    """What can be shown of it, compared with the time before: in longer buckets where shorter ones are not stored any more.

    Of a project these are counted from its runs, unless some were dropped since. Of all projects nobody could wait for that.
    """
    if not isinstance(reach, Between):
        return reach
    dropped_before = await queries.select_dropped_before(connection, project_id)
    if dropped_before and reach.compared_since < dropped_before:
        return reach.in_stored_buckets(GRAINS[-1])
    return reach if project_id is not None else reach.in_stored_buckets(reach.stored_in(now))


async def project_report(  # noqa: PLR0913  # What is looked at, and what is remembered of it.
    connection: Connection,
    range_: Reach,
    now: datetime,
    project_id: str,
    only: Only = EVERY_RUN,
    *,
    past: Past | None = None,
) -> ProjectReport:
    """The range beside the period before, of one project or of some of its runs. Raises `NotFound`.

    What is remembered of the past is not read again.
    """
    projects = await project_queries.select_projects(connection, project_id)
    if not projects:
        raise NotFound(
            "There is no such project. A project appears with its first run; check the projectId it is sent."
        )
    project = projects[0]
    window = Window.of(range_, now, range_.chart_interval)
    is_fair = (project.kept_span if only else project.span).reaches_back_to(window.previous(now))
    looking = Looking(connection, window, past or Past())
    report = await _report(looking, project_id, only, project.last_run_at, is_fair=is_fair)
    if only.experiment_id is None:
        experiments = await read_experiments(looking, project_id, only)
    else:
        total = report.metrics.total
        experiments = {only.experiment_id: total} if total.runs else {}
    return ProjectReport(project, replace(report, experiments=ranked(experiments.items())))


async def overview(
    looking: Looking, project_id: str | None, only: Only = EVERY_RUN, *, has_lines: bool = True
) -> Report:
    """Of all projects, or the one that a reader may see; of all runs, or those of a model or a provider.

    Without lines it has no buckets that are shorter than those of bars: to read their latencies is half of the work.
    """
    is_fair = await is_comparable(looking.connection, looking.before, project_id)
    last_run_at = await _last_run_at(looking, project_id)
    return await _report(looking, project_id, only, last_run_at, is_fair=is_fair, has_lines=has_lines)


async def _last_run_at(looking: Looking, project_id: str | None) -> datetime | None:
    """What tells the days of all projects tells it as well, where it is recent."""
    recent = looking.now - STALE_AFTER
    last_bucket = await looking.last_bucket() if project_id is None else None
    if last_bucket is not None and last_bucket >= recent:
        return last_bucket
    return await project_queries.select_last_run_at(looking.connection, project_id, recent)


async def _report(  # noqa: PLR0913  # What is looked at, and what is known of it.
    looking: Looking,
    project_id: str | None,
    only: Only,
    last_run_at: datetime | None,
    *,
    is_fair: bool,
    has_lines: bool = True,
) -> Report:
    connection, window, past = looking.connection, looking.window, looking.past
    if only and project_id is not None:
        lines, bar = window.in_buckets_of(window.range.interval), window.interval
        found = await read_narrowed(connection, lines, project_id, only, past, bar=bar)
        bars, fine = found.in_bars(lines, bar), found.metrics(lines)
    else:
        bars = await read_cells(connection, window, project_id, only)
        if has_lines:
            fine = await _in_short_buckets(connection, bars, project_id, only, past)
            bars = replace(bars, latency=fine.latency)
        else:
            whole = NO_LATENCY if only else await _whole_latency(connection, window, project_id, past)
            fine = bars = replace(bars, latency=whole)
    models, providers = await read_rankings(connection, project_id, window.now, past)
    return Report(
        metrics=bars,
        fine=fine,
        previous=await _read_before(looking, project_id, only) if is_fair else None,
        models=models,
        providers=providers,
        last_run_at=last_run_at,
    )


async def _in_short_buckets(
    connection: Connection, bars: Metrics, project_id: str | None, only: Only, past: Past
) -> Metrics:
    """The same runs in the buckets of a line, with percentiles; read in the same moment."""
    window = bars.window.in_buckets_of(bars.window.range.interval)
    if only:
        return await read_metrics(connection, window, project_id, only, past)
    buckets = await queries.select_buckets(connection, window, project_id)
    latencies = await _read_latencies(connection, window, project_id)
    latencies[None] = await _whole_latency(connection, window, project_id, past)
    return Metrics.of_sums(window, buckets, bars.models, latencies)


async def _read_latencies(connection: Connection, window: Window, project_id: str | None) -> dict[int | None, Latency]:
    """Of each bucket that has any."""
    known, sketches = await queries.select_latencies(connection, window, project_id)
    return _latencies(sketches) | known


async def _read_before(looking: Looking, project_id: str | None, only: Only) -> Metrics:
    """Of its buckets no percentiles: these are compared over the whole period alone."""
    connection, before = looking.connection, looking.before
    if only and project_id is not None:
        found = await read_narrowed(connection, before, project_id, only, looking.past)
        return found.in_bars(before, before.interval)
    cover = before.fewest_parts()
    rest_since = cover[1]
    ends_within = rest_since < before.until and rest_since == before.stored_parts(TOTAL_GRAINS)[1]
    runs = await looking.met(before, rest_since) if project_id is None and ends_within else None
    if runs is not None:
        of_stored = await _stored_before(looking, cover, only)
        runs = [run for run in runs if only.has(run.provider, run.model)] if only else runs
        more, last = tallies_by_model(runs), (rest_since - before.start) // before.interval
        buckets = {**of_stored.buckets}
        buckets[last] = Tally.sum((buckets.get(last, NOTHING), *more.values()))
        models = {**of_stored.models}
        models |= {model: models.get(model, NOTHING) + tally for model, tally in more.items()}
        sketches = [] if only else [of_stored.latencies, sketch_of(runs)]
    elif project_id is None and ends_within and not only:
        # The rest is looked up once for both.
        buckets, models, rest = await queries.select_sums_and_latencies(connection, before, None)
        kept = await queries.select_sketches(connection, replace(before, until=rest_since), None, cover)
        sketches = [*_parts_of(kept), rest]
    else:
        sums = await read_sums(connection, before, project_id, only)
        if only:
            return sums
        return replace(sums, latency=await _whole_latency(connection, before, project_id, looking.past))
    return Metrics.of_sums(before, buckets, models, {None: latency_of([one for one in sketches if one[0]])})


async def _stored_before(looking: Looking, cover: Cover, only: Only) -> Before:
    """All of the time before that is stored, which is the same for a quarter of an hour."""
    before = replace(looking.before, until=cover[1])
    key = before.start, before.until, before.interval, only
    version = await looking.version(before.start, before.until)
    known = looking.past.before.get(key, version, looking.now)
    if known is None:
        if only:
            sums = await read_sums(looking.connection, before, None, only)
            buckets, models = {number: point.tally for number, point in enumerate(sums.points)}, sums.models
        else:
            buckets, models = await queries.select_sums(looking.connection, before, None)
        sketches = {} if only else await queries.select_sketches(looking.connection, before, None, cover)
        known = Before(buckets, models, merged(_parts_of(sketches)))
        looking.past.before.keep(key, version, looking.now, known)
    return known


async def _whole_latency(connection: Connection, window: Window, project_id: str | None, past: Past) -> Latency:
    return latency_of(await past.latencies.read(connection, window, project_id))


def _parts_of(sketches: Mapping[int, Sequence[Sketch]]) -> list[Sketch]:
    return [part for parts in sketches.values() for part in parts]


def _latencies(sketches: Mapping[int, Sequence[Sketch]]) -> dict[int | None, Latency]:
    return {bucket: latency_of(parts) for bucket, parts in sketches.items()}


async def _cells_of_models(connection: Connection, window: Window, only: Only) -> tuple[Cell, ...]:
    """Of all projects together."""
    cells = await queries.select_cells(connection, window, None)
    return tuple(cell for cell in cells if only.has(cell.provider, cell.model))
